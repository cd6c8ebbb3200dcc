"""Proposed window lengths for series from files."""

from __future__ import annotations

from dataclasses import dataclass

from seqattn.data.seasonality import SeriesCollection, find_season
from seqattn.data.spacing import Frequency

SMALLEST_SHARE = 0.15
"""Fraction of all rows that the smallest part contains, as in the defaults of `data.split`."""


@dataclass(frozen=True)
class ProposedWindow:
    """Window lengths that fit into every part of a split by time.

    Attributes:
        season: season length of the training part, in steps.
        source: source length in steps.
        target: target length in steps.
        why: the reason for the proposal, as a comment for the config.
    """

    season: int
    source: int
    target: int
    why: str


def propose_window(
    series_values: SeriesCollection, frequency: Frequency | None
) -> ProposedWindow | None:
    """Propose window lengths that fit into the smallest part of a split by time.

    The first choice is a source of three seasons and a target of one season. The last and shortest
    choice is a source of two seasons and a target of half a season. If no choice fits, the
    search is repeated for a shorter season. Return None if no season is found or no choice fits.

    Args:
        series_values: series (L, F) with evenly spaced rows; an empty cell is NaN.
        frequency: step interval for the comment, or None to count in steps.
    """
    series = [series_values[k] for k in range(len(series_values))]
    lengths = [len(one) for one in series]
    if not lengths:
        return None
    train = [
        one[: L - 2 * round(L * SMALLEST_SHARE)] for one, L in zip(series, lengths, strict=True)
    ]
    fits = round(min(lengths) * SMALLEST_SHARE)
    # A season that is too long may contain a shorter season. For example, a week of hourly data
    # contains days.
    for longest in (None, 2 * fits // 5):
        found = find_season(train, longest)
        if found is None:
            return None
        m, half = found.steps, -(-found.steps // 2)
        for source, target in ((3 * m, m), (3 * m, half), (2 * m, m), (2 * m, half)):
            if source + target <= fits:
                span = f"{m} steps"
                if frequency is not None and frequency.unit != "number":
                    span += f" ({Frequency(frequency.unit, m * frequency.step)})"
                why = f"a season of {span} was found in the training part"
                return ProposedWindow(m, source, target, why)
    return None
