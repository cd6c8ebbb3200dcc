"""What a file most likely is: a guess to begin with, for people to look at."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqattn.config import Split, as_value
from seqattn.data.files.piece import Form, Piece
from seqattn.data.spacing import Spacing, with_dashes

SEQUENCES = ("sequence", "sequence_id", "seq", "id", "series", "trajectory", "track", "name")
ORDERS = ("step", "t", "time", "timestamp", "date", "datetime", "index", "frame", "order")
TABLES = ("csv", "tsv", "parquet", "arrow")


def guessed(
    path: Path, sequence: str | None, order: str | None, delimiter: str | None, decimal: str
) -> Form:
    """How a file seems to want to be read.

    Args:
        sequence, order, delimiter, decimal: what the user said; None: to be guessed.
    """
    from seqattn.data.files import format_of

    kind = format_of(path)
    if kind not in TABLES:
        return Form(format=kind)
    header = _header(path, kind, delimiter)
    named = {name.lower(): name for name in header}
    found = sequence or next((named[name] for name in SEQUENCES if name in named), None)
    counts = order or next((named[n] for n in ORDERS if n in named and named[n] != found), None)
    return Form(format=kind, sequence=found, order=counts, delimiter=delimiter, decimal=decimal)


def _header(path: Path, kind: str, delimiter: str | None) -> list[str]:
    from seqattn.data.files.cells import arrow
    from seqattn.data.files.text import header_of
    from seqattn.data.files.typed import open_typed

    if kind in ("csv", "tsv"):
        with path.open("rb") as file:
            return header_of(file, str(path), delimiter or ("\t" if kind == "tsv" else ","))
    pa = arrow()
    try:
        schema, _ = open_typed(pa, path, kind == "parquet")
    except (pa.ArrowException, OSError, ValueError):
        return []  # the reader says what is wrong
    return list(schema.names)


def layout(kind: str, form: Form, piece: Piece) -> str:
    """How a file is laid out, in words."""
    if kind not in TABLES:
        apart = ", source and target apart" if piece.target is not None else ""
        return f"{kind}{apart}"
    if piece.is_wide:
        return f"{kind}, a sequence a row"
    if len(piece) == 1 and form.sequence is None:
        return f"{kind}, a point a row, all of one sequence"
    return f"{kind}, a point a row, sequences told apart by {form.sequence!r}"


def copied(piece: Piece) -> int:
    """How many sequences hold the same points as one before: in two parts of a split they would
    make a model look better than it is."""
    seen = set[bytes]()
    for k in range(len(piece)):
        digest = hashlib.blake2b(piece.points.of(k).tobytes(), digest_size=16)
        if piece.target is not None:
            digest.update(piece.target.of(k).tobytes())
        seen.add(digest.digest())
    return len(piece) - len(seen)


@dataclass(frozen=True)
class StepSummary:
    """How the steps of a file are spaced.

    Attributes:
        spacing: in words, for a reader.
        missing: rows missing between others.
        is_even: whether all distances are whole multiples of the spacing.
    """

    spacing: str
    missing: int
    is_even: bool


def step_summary(piece: Piece) -> StepSummary | None:
    """How the steps of a piece are spaced; None: it has no order."""
    if piece.order is None:
        return None
    found = Spacing.found(piece.order, piece.points.offsets)
    steps = found.distances(piece.order, piece.points.offsets)
    with np.errstate(invalid="ignore"):
        is_even = bool(((steps >= 1) & (steps == np.round(steps))).all())
    if (steps != 1).any() and with_dashes(piece.order) is not None:
        is_even = False
    missing = int(steps.sum()) - len(steps) if is_even else 0
    words = " or ".join(f"{frequency} apart" for frequency in list(found.frequencies())[:3])
    return StepSummary(words if is_even and words else "not evenly spaced", missing, is_even)


def section(path: Path, form: Form, piece: Piece) -> str:
    """The `data:` section of a config that trains on a file."""
    steps = step_summary(piece)
    lines = ["data:", "  kind: file", f"  path: {as_value(str(path))}"]
    if form.format in TABLES:
        if form.sequence != "sequence":
            lines.append(f"  sequence: {as_value(form.sequence)}")
        if steps is not None and not steps.is_even:
            lines.append(
                "  order: null  # steps are not evenly spaced: rows are taken as they come"
            )
        elif piece.order is not None and form.order != "step":
            lines.append(f"  order: {as_value(form.order)}")
        elif piece.is_wide:
            lines.append("  layout: wide")
        elif piece.order is None and form.order is None:
            lines.append("  order: null")
        if form.delimiter is not None:
            lines.append(f"  delimiter: {as_value(form.delimiter)}")
        if form.decimal != ".":
            lines.append(f"  decimal: {as_value(form.decimal)}")
    lengths = piece.points.lengths
    shortest = int(lengths.min())
    empty = np.isnan(piece.points.values).all(axis=0)
    kept = [n for n, none in zip(piece.points.features, empty, strict=True) if not none]
    if empty.any() and not empty.all() and piece.target is None:
        lines.append(f"  features: {as_value(kept)}  # the others are empty")
    elif steps is not None and not steps.is_even:
        lines.append(f"  features: {as_value(kept)}")
    if piece.target is None:
        if len(piece) < 7:
            third = max(1, shortest // 40)
            part = round(shortest * min(Split().validation, Split().test))
            if part < 4 * third:
                lines.append(
                    f"  # too few points: of {shortest} the smallest part would have {part}. Give"
                    " longer\n  # series, or files of their own: validation_path and test_path"
                )
            lines.append(
                f"  window: {{source: {3 * third}, target: {third}}}  # points given and said: your"
                " choice"
            )
            lines.append("  split: {by: time}")
        else:
            if shortest < 2:
                lines.append(
                    "  # Leave out the sequences of one point: nothing is left to be said."
                )
            lines.append(
                f"  source_length: {max(1, shortest // 2)}  # points given, the rest is said: your"
                " choice"
            )
    known = [
        piece.points.values[:, ~empty],
        *([] if piece.target is None else [piece.target.values]),
    ]
    lacks_rows = steps is not None and steps.missing > 0
    if lacks_rows or any(np.isnan(values).any() for values in known):
        lines.append("  missing: interpolate  # or drop_sequence")
    return "\n".join(lines)
