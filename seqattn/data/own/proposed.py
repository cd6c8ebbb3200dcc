"""Window lengths for a file of long series, from the season of its training part."""

from __future__ import annotations

import re

from seqattn.config import OwnFile
from seqattn.data.files import Piece
from seqattn.data.own.in_sample import target_series
from seqattn.data.own.missing import treat_missing
from seqattn.data.own.series import series_of, spacing_of
from seqattn.data.proposal import ProposedWindow, propose_window
from seqattn.errors import DataError

WINDOW = re.compile(r"^  window: .*$", re.MULTILINE)


def proposed_window(piece: Piece) -> ProposedWindow | None:
    """See `propose_window`; rows that are missing between evenly spaced ones count as steps."""
    spacing = spacing_of(piece)
    if spacing is not None and not spacing.is_known.all():
        spacing = None
    series = series_of(piece, range(len(piece)), "the file", spacing)
    config = OwnFile(path="-", missing="interpolate")
    shortest = int(piece.points.lengths.min())
    try:
        treat_missing(series, config)
    except DataError:  # uneven steps, or an empty column: rows are taken as they come
        series = series_of(piece, range(len(piece)), "the file", None)
        spacing = None
    frequency = None if spacing is None else spacing.common()
    return propose_window(target_series(series, config), frequency, shortest)


def with_proposed_window(section: str, piece: Piece) -> str:
    """A `data:` section with a window from the season, where it has a window and there is a season.

    Args:
        section: in YAML, as `seqattn data check` prints it.
    """
    if not WINDOW.search(section):
        return section
    proposed = proposed_window(piece)
    if proposed is None:
        return section
    lines = (
        f"  # {proposed.why}\n"
        f"  window: {{source: {proposed.source}, target: {proposed.target}}}  # points given and"
        " said, from the season: your choice"
    )
    return WINDOW.sub(lambda _: lines, section)
