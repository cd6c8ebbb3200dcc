"""Inspection of a file: contents, inferred column roles, and a `data:` section for the config."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from seqattn.data.files import (
    NESTED,
    TABLES,
    Chunk,
    ReadOptions,
    check_file,
    file_format,
    file_kind,
    read_all,
)
from seqattn.data.files.chunk import concat_chunks
from seqattn.data.section import StepSummary, render_section, summarize_steps, typical_min_length
from seqattn.data.setting_names import setting
from seqattn.data.tables import infer_layout, open_table, table_chunks
from seqattn.data.tables.roles import LongLayout
from seqattn.data.tables.wide_layout import WideLayout
from seqattn.errors import AmbiguousData, DataError

InspectOptions = ReadOptions
"""The options that the user can set. Options that are not set are inferred."""


@dataclass(frozen=True)
class InferredRoles:
    """The column roles of a table, inferred or set by the user.

    Attributes:
        series: names of the columns with the series id.
        time: name of the time column, or several names joined by commas; None if there is no time
            column.
        features: names of the feature columns.
        ignored: the reason for leaving out each ignored column, by column name.
        reasons: the reasons for the inferred series id and time columns, as phrases.
    """

    series: tuple[str, ...] = ()
    time: str | None = None
    features: tuple[str, ...] = ()
    ignored: dict[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class FileReport:
    """The result of inspecting a file.

    Attributes:
        kind: format of the file.
        layout: description of the layout.
        roles: roles of the columns.
        chunk: all sequences.
        frequency: step interval as text, or None if there is no time column.
        missing_rows: number of missing rows if the steps are evenly spaced, otherwise 0.
        notes: notes for the user on how the file was read.
        section: the `data:` section of a config for training on the file.
    """

    kind: str
    layout: str
    roles: InferredRoles
    chunk: Chunk
    frequency: str | None
    missing_rows: int
    notes: tuple[str, ...]
    section: str

    @property
    def sequences(self) -> int:
        return len(self.chunk)

    @property
    def rows(self) -> int:
        return len(self.chunk.points.values)


def inspect_file(file: Path, options: InspectOptions | None = None) -> FileReport:
    """Read a whole file, infer the roles of its columns, and compose a `data:` section for it.

    Raises:
        DataError: if the file cannot be used.
        AmbiguousData: if the file can be read in several plausible ways.
    """
    options = options or InspectOptions()
    check_file(file)
    kind = file_kind(file, file_format(file, options.format))
    if kind not in TABLES:
        if kind == "npy" and options.layout == "auto":
            _check_two_axes(file)
        chunk = read_all(file, options)
        roles = InferredRoles(features=chunk.points.features)
        suffix = ", separate source and target" if chunk.target is not None else ""
        words = kind.removeprefix(NESTED)
        section = render_section(file, options, chunk, None, None)
        return FileReport(words, f"{words}{suffix}", roles, chunk, None, 0, chunk.notes, section)
    with open_table(file, kind, options) as table:
        layout = infer_layout(table, options)
        chunk = concat_chunks(list(table_chunks(table, layout, options, whole=True)))
        if int(chunk.points.lengths.max()) < 2:
            raise DataError(
                f"{file}: has one row in each sequence, which is too few: a source and a target"
                " need one point each."
            )
        roles = _inferred_roles(layout, chunk)
        steps = summarize_steps(chunk)
        section = render_section(file, options, chunk, layout, steps)
    notes = (*chunk.notes, *_step_notes(steps), *_length_notes(chunk))
    return FileReport(
        kind, _layout_text(kind, layout), roles, chunk, None if steps is None else steps.frequency,
        0 if steps is None else steps.missing, notes, section,
    )  # fmt: skip


def _check_two_axes(file: Path) -> None:
    """Check that an array does not have two axes. An array with two axes could contain many
    sequences of one feature or one sequence of many features.

    Raises:
        AmbiguousData: if the array has two axes.
    """
    shape: tuple[int, ...] = ()
    with contextlib.suppress(Exception):  # the reader reports the error later
        shape = np.load(file, mmap_mode="r", allow_pickle=False).shape
    if len(shape) == 2:
        n, m = shape
        raise AmbiguousData(
            f"{file}: an array of shape {shape} can be {n} sequences of {m} points"
            f" ({setting('layout', 'wide')}) or one sequence of {n} points with {m} features"
            f" ({setting('layout', 'long')}).",
            ({"layout": "wide"}, {"layout": "long"}),
        )


def _step_notes(steps: StepSummary | None) -> list[str]:
    if steps is None:
        return []
    if not steps.is_even:
        return ["times are not evenly spaced, so rows are one step apart, in the order of time"]
    notes = []
    if steps.missing:
        rows = "row is" if steps.missing == 1 else "rows are"
        notes.append(f"{steps.missing:,} {rows} missing between others, {steps.frequency} apart")
    if " or " in steps.frequency:
        notes.append(f"series have different spacings: {steps.frequency}")
    return notes


def _length_notes(chunk: Chunk) -> list[str]:
    lengths = chunk.points.lengths
    short = np.flatnonzero(lengths < typical_min_length(chunk))
    if not short.size:
        return []
    shown = ", ".join(repr(chunk.ids[int(k)]) for k in short[:3])
    more = ", ..." if short.size > 3 else ""
    return [
        f"{short.size} of the {len(chunk)} sequences are too short for this section, and are left"
        f" out: {shown}{more}"
    ]


def _inferred_roles(layout: LongLayout | WideLayout, chunk: Chunk) -> InferredRoles:
    if isinstance(layout, WideLayout):
        return InferredRoles(layout.series, None, chunk.points.features)
    time = None if layout.time is None else ",".join(layout.time.names)
    return InferredRoles(layout.series, time, chunk.points.features, layout.ignored, layout.reasons)


def _layout_text(kind: str, layout: LongLayout | WideLayout) -> str:
    if isinstance(layout, WideLayout):
        return f"{kind}, one sequence per row"
    if not layout.series:
        return f"{kind}, one point per row, all of one sequence"
    names = " and ".join(map(repr, layout.series))
    return f"{kind}, one point per row, sequences identified by {names}"


def count_duplicates(chunk: Chunk) -> int:
    """Return the number of sequences that repeat an earlier sequence. Data would leak if a split
    put a sequence and its duplicate into different parts."""
    seen = set[bytes]()
    for k in range(len(chunk)):
        digest = hashlib.blake2b(chunk.points.of(k).tobytes(), digest_size=16)
        if chunk.target is not None:
            digest.update(chunk.target.of(k).tobytes())
        seen.add(digest.digest())
    return len(chunk) - len(seen)
