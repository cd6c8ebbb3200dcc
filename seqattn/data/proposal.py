"""Window lengths for series that nobody has chosen any for yet."""

from __future__ import annotations

from dataclasses import dataclass

from seqattn.data.seasonality import SeriesCollection, find_season
from seqattn.data.spacing import Frequency

SMALLEST_SHARE = 0.15
"""Share of a series in its smallest part, as data.split has it."""


@dataclass(frozen=True)
class ProposedWindow:
    """A window that fits into every part of a split in time.

    Attributes:
        season: steps, found in the training part.
        source, target: points of each.
        why: the reason, for a comment in the config.
    """

    season: int
    source: int
    target: int
    why: str


def propose_window(
    series_values: SeriesCollection, frequency: Frequency | None
) -> ProposedWindow | None:
    """A window of three seasons and a target of one; where the smallest part is too short for it,
    shorter ones down to two seasons and half a season. None: no season is found in the training
    part, or even these do not fit.

    Args:
        series_values: (L, F) each, rows evenly spaced; NaN where a cell is empty.
        frequency: how far apart the steps are, for the words; None: they are counted.
    """
    series = [series_values[k] for k in range(len(series_values))]
    lengths = [len(one) for one in series]
    if not lengths:
        return None
    train = [
        one[: L - 2 * round(L * SMALLEST_SHARE)] for one, L in zip(series, lengths, strict=True)
    ]
    fits = round(min(lengths) * SMALLEST_SHARE)
    # A season that does not fit may have a shorter one in it: the day of hours that have a week.
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
