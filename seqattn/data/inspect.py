"""What a file holds, what was inferred about it, and the `data:` section that trains on it."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from seqattn.config import Split, as_value
from seqattn.data.files import (
    NESTED,
    TABLES,
    Piece,
    ReadOptions,
    check_file,
    format_of,
    kind_of,
    read_all,
)
from seqattn.data.files.piece import joined
from seqattn.data.own.proposed import with_proposed_window
from seqattn.data.spacing import Spacing
from seqattn.data.tables import Understood, opened, pieces, understand
from seqattn.data.tables.casting import Column
from seqattn.errors import AmbiguousData, DataError

InspectOptions = ReadOptions
"""What the user says of a file; the rest is inferred."""


@dataclass(frozen=True)
class InferredRoles:
    """
    Attributes:
        series: columns that name the sequence of a row.
        time: columns that say when, joined by a comma where they are several; None: none does.
        features: of a point.
        ignored: columns that are left out, with the reason.
        reasons: why, a sentence each.
    """

    series: tuple[str, ...] = ()
    time: str | None = None
    features: tuple[str, ...] = ()
    ignored: dict[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Report:
    """
    Attributes:
        kind: format of the file.
        layout: in words.
        roles: what each column was taken for.
        piece: all sequences.
        frequency: how far apart steps are, in words; None: there is no time.
        missing_rows: rows missing between others, where steps are even.
        notes: what the user should know.
        section: the `data:` section of a config that trains on the file.
    """

    kind: str
    layout: str
    roles: InferredRoles
    piece: Piece
    frequency: str | None
    missing_rows: int
    notes: tuple[str, ...]
    section: str

    @property
    def sequences(self) -> int:
        return len(self.piece)

    @property
    def rows(self) -> int:
        return len(self.piece.points.values)


def inspect_file(file: Path, options: InspectOptions | None = None) -> Report:
    """Read a whole file, infer what it holds, and say how to train on it.

    Raises:
        DataError: the file cannot be used as it is; the message says what would do.
        AmbiguousData: it can be read in two ways, which differ.
    """
    options = options or InspectOptions()
    check_file(file)
    kind = kind_of(file, format_of(file, options.format))
    if kind not in TABLES:
        if kind == "npy" and options.layout == "auto":
            _ask_about_two_axes(file)
        piece = read_all(file, options)
        roles = InferredRoles(features=piece.points.features)
        apart = ", source and target apart" if piece.target is not None else ""
        words = kind.removeprefix(NESTED)
        section = _section(file, options, piece, None, {}, None)
        return Report(words, f"{words}{apart}", roles, piece, None, 0, piece.notes, section)
    with opened(file, kind, options) as table:
        understood = understand(table, options)
        piece = joined(list(pieces(table, understood, options, whole=True)))
        if int(piece.points.lengths.max()) < 2:
            raise DataError(
                f"{file}: has one row in each sequence, which is too few: a source and a target"
                " need one point each."
            )
        columns = {} if understood.roles is None else understood.roles.columns
        roles = _roles(understood, piece)
        steps = _steps(piece)
        section = _section(file, options, piece, understood, columns, steps)
    notes = (*piece.notes, *_step_notes(steps), *_length_notes(piece))
    return Report(
        kind, _layout(kind, understood), roles, piece, None if steps is None else steps.frequency,
        0 if steps is None else steps.missing, notes, section,
    )  # fmt: skip


def _ask_about_two_axes(file: Path) -> None:
    """
    Raises:
        AmbiguousData: an array of two axes holds sequences of one feature, or one of several.
    """
    shape: tuple[int, ...] = ()
    with contextlib.suppress(Exception):  # the reader says what is wrong
        shape = np.load(file, mmap_mode="r", allow_pickle=False).shape
    if len(shape) == 2:
        n, m = shape
        raise AmbiguousData(
            f"{file}: an array of shape {shape} can be {n} sequences of {m} points (data.layout:"
            f" wide; in data check: --layout wide) or one sequence of {n} points with {m}"
            " features (--layout long).",
            ({"layout": "wide"}, {"layout": "long"}),
        )


def _step_notes(steps: _Steps | None) -> list[str]:
    if steps is None:
        return []
    if not steps.is_even:
        return ["times are not evenly spaced, so rows are taken as they come"]
    notes = []
    if steps.missing:
        rows = "row is" if steps.missing == 1 else "rows are"
        notes.append(f"{steps.missing:,} {rows} missing between others, {steps.frequency} apart")
    if " or " in steps.frequency:
        notes.append(f"series have different spacings: {steps.frequency}")
    return notes


def _length_notes(piece: Piece) -> list[str]:
    lengths = piece.points.lengths
    short = np.flatnonzero(lengths < _shortest(piece))
    if not short.size:
        return []
    shown = ", ".join(repr(piece.ids[int(k)]) for k in short[:3])
    more = ", ..." if short.size > 3 else ""
    return [
        f"{short.size} of the {len(piece)} sequences are too short for this section, and are left"
        f" out: {shown}{more}"
    ]


def _shortest(piece: Piece) -> int:
    """Points of the shortest sequence that is not far shorter than most."""
    lengths = piece.points.lengths
    return int(lengths[lengths >= min(np.median(lengths) / 3, 10)].min())


def _roles(understood: Understood, piece: Piece) -> InferredRoles:
    if understood.wide is not None:
        series = () if understood.wide.series is None else (understood.wide.series,)
        return InferredRoles(series, None, piece.points.features)
    roles = understood.roles
    assert roles is not None
    time = None if roles.time is None else ",".join(roles.time.names)
    return InferredRoles(roles.series, time, piece.points.features, roles.ignored, roles.reasons)


def _layout(kind: str, understood: Understood) -> str:
    if understood.wide is not None:
        return f"{kind}, a sequence a row"
    assert understood.roles is not None
    if not understood.roles.series:
        return f"{kind}, a point a row, all of one sequence"
    names = " and ".join(map(repr, understood.roles.series))
    return f"{kind}, a point a row, sequences told apart by {names}"


def count_copies(piece: Piece) -> int:
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
class _Steps:
    """How the steps of a file are spaced.

    Attributes:
        frequency: in words.
        missing: rows missing between others.
        is_even: whether all distances are whole multiples of the spacing.
    """

    frequency: str
    missing: int
    is_even: bool


def _steps(piece: Piece) -> _Steps | None:
    if piece.order is None:
        return None
    found = Spacing.found(piece.order, piece.points.offsets)
    steps = found.distances(piece.order, piece.points.offsets)
    with np.errstate(invalid="ignore"):
        is_even = bool(((steps >= 1) & (steps == np.round(steps))).all())
    missing = int(steps.sum()) - len(steps) if is_even else 0
    is_even = is_even and missing <= len(steps)  # else few rows lie on a grid that most do not fill
    words = " or ".join(map(str, list(found.frequencies())[:3]))
    is_even = is_even and bool(words)
    return _Steps(words if is_even else "irregular", missing if is_even else 0, is_even)


def _section(
    file: Path, options: ReadOptions, piece: Piece, understood: Understood | None,
    columns: dict[str, Column], steps: _Steps | None,
) -> str:  # fmt: skip
    """The `data:` section of a config that trains on a file."""
    lines = ["data:", "  kind: file", f"  path: {as_value(str(file))}"]
    if understood is None:
        given = {key: getattr(options, key) for key in ("format", "layout")}
        lines += [f"  {key}: {value}" for key, value in given.items() if value != "auto"]
    else:
        lines += _table_lines(options, understood, columns, steps)
    if piece.target is None:
        lines += _window_lines(piece)
    values = [piece.points.values, *([] if piece.target is None else [piece.target.values])]
    lacks_rows = steps is not None and steps.is_even and steps.missing > 0
    if lacks_rows or any(np.isnan(numbers).any() for numbers in values):
        lines.append("  missing: interpolate  # or drop_sequence")
    section = "\n".join(lines)
    return section if piece.target is not None else with_proposed_window(section, piece)


def _table_lines(
    options: ReadOptions, understood: Understood, columns: dict[str, Column], steps: _Steps | None
) -> list[str]:
    lines = []
    if understood.wide is not None:
        lines.append("  layout: wide")
        if understood.wide.series is not None:
            lines.append(f"  series: {as_value(understood.wide.series)}")
    else:
        roles = understood.roles
        assert roles is not None
        lines.append("  layout: long")
        series = None if not roles.series else _names(roles.series)
        lines.append(f"  series: {series or 'null'}")
        if steps is not None and not steps.is_even:
            lines.append("  time: null  # steps are not evenly spaced: rows are taken as they come")
        else:
            lines.append(f"  time: {'null' if roles.time is None else _names(roles.time.names)}")
        lines.append(f"  features: {as_value(list(roles.features))}")
        if options.one_hot:
            lines.append(f"  one_hot: {as_value(list(options.one_hot))}")
        formats = {
            columns[name].formats[0]
            for name in (roles.time.names if roles.time else ())
            if columns[name].formats and "%" in columns[name].formats[0]
        }
        lines += [f"  time_format: {as_value(form)}" for form in formats]
        signs = {
            (c.decimal, c.thousands) for n in roles.features if (c := columns[n]).kind == "number"
        }
        if any(decimal == "," for decimal, _ in signs):
            lines.append('  decimal: ","')
        elif any(thousands for _, thousands in signs):
            (sign,) = {thousands for _, thousands in signs if thousands}
            lines.append(f"  thousands: {as_value(sign)}")
    if options.na_values is not None:
        lines.append(f"  na_values: {as_value(list(options.na_values))}")
    for key in ("delimiter", "comment", "encoding"):
        if getattr(options, key) is not None:
            lines.append(f"  {key}: {as_value(getattr(options, key))}")
    if options.skip_rows:
        lines.append(f"  skip_rows: {options.skip_rows}")
    return lines


def _names(names: tuple[str, ...]) -> str:
    return as_value(names[0] if len(names) == 1 else list(names))


def _window_lines(piece: Piece) -> list[str]:
    """What is given and what is to be said."""
    shortest = _shortest(piece)
    if len(piece) >= 7:
        half = max(1, shortest // 2)
        return [f"  source_length: {half}  # points given, the rest is said: your choice"]
    third = max(1, shortest // 40)
    part = round(shortest * min(Split().validation, Split().test))
    lines = []
    if part < 4 * third:
        lines.append(
            f"  # too few points: of {shortest} the smallest part would have {part}. Give longer"
            "\n  # series, or files of their own: validation_path and test_path"
        )
    return [
        *lines,
        f"  window: {{source: {3 * third}, target: {third}}}  # points given and said: your choice",
        "  split: {by: time}",
    ]


__all__ = ["DataError", "InferredRoles", "InspectOptions", "Report", "count_copies", "inspect_file"]
