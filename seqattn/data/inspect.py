"""Inspection of a file: contents, inferred column roles, and a `data:` section for the config."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seqattn.config import OwnFile, Split, as_value
from seqattn.data.chunk import Chunk, concat_chunks
from seqattn.data.file_dataset import target_series
from seqattn.data.files import NESTED, TABLES, check_file, file_format, file_kind, read_all
from seqattn.data.reading import Reading, setting
from seqattn.data.seasonality import SeriesCollection, find_season
from seqattn.data.series import Series, Spans, infer_spacing, regularize
from seqattn.data.spacing import Frequency, Spacing
from seqattn.data.tables.long import LongTable
from seqattn.data.tables.read import find_roles
from seqattn.data.tables.table import open_table
from seqattn.data.tables.wide import WideTable
from seqattn.data.units import units_in_names
from seqattn.errors import AmbiguousData, DataError

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


UNEVEN_LINE = "  spacing: uneven  # the rows are one step apart, in the order of time"


@dataclass(frozen=True)
class StepSummary:
    """Summary of the times of a file.

    Attributes:
        frequency: up to three step intervals as text, such as "1 hour or 1 day", or "irregular".
        intervals: number of different step intervals.
        missing: number of missing rows, or 0 if the times are irregular.
        is_even: whether the times are regular: the step interval is known, all distances between
            rows are multiples of this interval, and no more rows are missing than there are
            distances.
    """

    frequency: str
    intervals: int
    missing: int
    is_even: bool


@dataclass(frozen=True, eq=False)
class FileReport:
    """The result of inspecting a file.

    Attributes:
        kind: format of the file.
        layout: description of the layout.
        reading: how the file was read, with the roles of the columns of a table.
        ignored: the reason for leaving out each ignored column, by column name.
        reasons: the reasons for the inferred series id and time columns, as phrases.
        chunk: all sequences.
        steps: summary of the times of a table, or None if there are no times.
        notes: notes for the user on how the file was read.
        section: the `data:` section of a config for training on the file.
    """

    kind: str
    layout: str
    reading: Reading
    ignored: Mapping[str, str]
    reasons: tuple[str, ...]
    chunk: Chunk
    steps: StepSummary | None
    notes: tuple[str, ...]
    section: str

    @property
    def frequency(self) -> str | None:
        """Step interval as text, or None if there is no time column."""
        return None if self.steps is None else self.steps.frequency

    @property
    def sequences(self) -> int:
        return len(self.chunk)

    @property
    def rows(self) -> int:
        return len(self.chunk.points.values)


def inspect_file(file: Path, reading: Reading | None = None) -> FileReport:
    """Read a whole file, infer the roles of its columns, and compose a `data:` section for it.

    Args:
        file: the file.
        reading: what the user set, or None to infer everything.

    Raises:
        AmbiguousData: if the file is an array with two axes, which can be many sequences of one
            feature or one sequence of many features.
        DataError: if each sequence has one row only.
    """
    reading = reading or Reading()
    check_file(file)
    kind = file_kind(file, file_format(file, reading.format))
    if kind not in TABLES:
        shape: tuple[int, ...] = ()
        if kind == "npy" and reading.layout == "auto":
            with contextlib.suppress(Exception):  # the reader reports the error later
                shape = np.load(file, mmap_mode="r", allow_pickle=False).shape
        if len(shape) == 2:
            raise AmbiguousData(
                f"{file}: an array of shape {shape} can be {shape[0]} sequences of {shape[1]}"
                f" points ({setting('layout', 'wide')}) or one sequence of {shape[0]} points with"
                f" {shape[1]} features ({setting('layout', 'long')}).",
                ({"layout": "wide"}, {"layout": "long"}),
            )
        chunk = read_all(file, reading)
        suffix = ", separate source and target" if chunk.target is not None else ""
        words = kind.removeprefix(NESTED)
        found = replace(reading, series=(), time=(), features=chunk.points.features)
        lines = [
            f"  {key}: {value}"
            for key, value in (("format", reading.format), ("layout", reading.layout))
            if value != "auto"
        ]
        section = render_section(file, lines, chunk, None)
        return FileReport(
            words, f"{words}{suffix}", found, {}, (), chunk, None, chunk.notes, section
        )
    with open_table(file, str(file), kind, reading) as table:
        roles, _ = find_roles(table, reading)
        chunk = concat_chunks(list(roles.chunks(whole=True)))
        if int(chunk.points.lengths.max()) < 2:
            raise DataError(
                f"{file}: has one row in each sequence, which is too few: a source and a target"
                " need one point each."
            )
        steps = summarize_steps(chunk)
        section = render_section(file, _table_lines(reading, roles, steps), chunk, steps)
    layout = f"{kind}, one sequence per row"
    if isinstance(roles, LongTable):
        names = " and ".join(map(repr, roles.reading.series))
        of_which = f"sequences identified by {names}" if names else "all of one sequence"
        layout = f"{kind}, one point per row, {of_which}"
    return FileReport(
        kind, layout, replace(roles.reading, features=chunk.points.features),
        {name: str(why) for name, why in roles.ignored.items()}, roles.reasons, chunk, steps,
        (*chunk.notes, *_notes_on_rows(chunk, steps)), section,
    )  # fmt: skip


def summarize_steps(chunk: Chunk) -> StepSummary | None:
    """Return a summary of the times of a chunk, or None if the chunk has no times."""
    if chunk.order is None:
        return None
    found = Spacing.infer(chunk.order, chunk.points.offsets)
    steps = found.distances(chunk.order, chunk.points.offsets)
    with np.errstate(invalid="ignore"):
        is_even = bool(((steps >= 1) & (steps == np.round(steps))).all())
    missing = int(steps.sum()) - len(steps) if is_even else 0
    is_even = is_even and missing <= len(steps)  # otherwise, most rows of the grid are missing
    intervals = list(found.frequencies())
    if not is_even or not intervals:
        return StepSummary("irregular", len(intervals), 0, False)
    return StepSummary(" or ".join(map(str, intervals[:3])), len(intervals), missing, True)


def _notes_on_rows(chunk: Chunk, steps: StepSummary | None) -> list[str]:
    """Return notes on uneven times, missing rows, different spacings and short sequences."""
    notes = []
    if steps is not None and not steps.is_even:
        notes.append(
            "times are not evenly spaced, so rows are one step apart, in the order of time"
        )
    elif steps is not None and steps.missing:
        rows = "row is" if steps.missing == 1 else "rows are"
        notes.append(f"{steps.missing:,} {rows} missing between others, {steps.frequency} apart")
    if steps is not None and steps.is_even and steps.intervals > 1:
        notes.append(f"series have different spacings: {steps.frequency}")
    lengths = chunk.points.lengths
    short = np.flatnonzero(lengths < typical_min_length(chunk))
    if short.size:
        shown = ", ".join(repr(chunk.ids[int(k)]) for k in short[:3])
        notes.append(
            f"{short.size} of the {len(chunk)} sequences are too short for this section, and are"
            f" left out: {shown}{', ...' if short.size > 3 else ''}"
        )
    return notes


def render_section(
    file: Path, reading_lines: Sequence[str], chunk: Chunk, steps: StepSummary | None
) -> str:
    """Return the `data:` section of a config for a file, in YAML.

    Args:
        file: the file, for the key `path`.
        reading_lines: the lines with the keys that define how the file is read.
        chunk: the sequences of the file.
        steps: summary of the times of a table, or None if there are no times.
    """
    lines = ["data:", "  kind: file", f"  path: {as_value(str(file))}", *reading_lines]
    if in_names := units_in_names(
        [*chunk.points.features, *(() if chunk.target is None else chunk.target.features)]
    ):
        lines.append(f"  # units: {as_value(in_names)}  # from the names; data.units sets them")
    if chunk.target is None:
        lines += _window_lines(chunk)
    values = [chunk.points.values, *([] if chunk.target is None else [chunk.target.values])]
    lacks_rows = steps is not None and steps.is_even and steps.missing > 0
    if lacks_rows or any(np.isnan(numbers).any() for numbers in values):
        lines.append("  missing: interpolate  # or drop_sequence")
    return "\n".join(lines)


def _table_lines(
    reading: Reading, roles: LongTable | WideTable, steps: StepSummary | None
) -> list[str]:
    """Return the lines with the keys that define how a table is read.

    Args:
        reading: what the user set.
        roles: the table with the roles of its columns.
        steps: summary of the times, or None if there are no times.
    """
    lines = [f"  layout: {roles.reading.layout}"]
    if isinstance(roles, LongTable):
        lines += _long_lines(roles, steps)
    else:
        if series := roles.reading.series_columns:
            lines.append(f"  series: {_render_names(series)}")
        if reading.time_format is not None:
            lines.append(f"  time_format: {as_value(reading.time_format)}")
        formats = {"decimal": reading.decimal, "thousands": reading.thousands}
        lines += [f"  {key}: {as_value(sign)}" for key, sign in formats.items() if sign != "auto"]
    for key in ("na_values", "delimiter", "comment", "encoding"):
        value = getattr(reading, key)
        if value is not None:
            lines.append(f"  {key}: {as_value(list(value) if key == 'na_values' else value)}")
    if reading.skip_rows:
        lines.append(f"  skip_rows: {reading.skip_rows}")
    return lines


def _long_lines(roles: LongTable, steps: StepSummary | None) -> list[str]:
    reading = roles.reading
    lines = [
        f"  series: {_render_names(reading.series_columns)}",
        f"  time: {_render_names(reading.time_columns)}",
    ]
    if steps is not None and not steps.is_even:
        lines.append(UNEVEN_LINE)
    lines.append(f"  features: {as_value(list(roles.numbers))}")
    if reading.one_hot:
        lines.append(f"  one_hot: {as_value(list(reading.one_hot))}")
    lines += [f"  time_format: {as_value(form)}" for form in roles.config_time_formats]
    columns = [roles.columns[name] for name in roles.numbers]
    if any(column.decimal == "," for column in columns):
        return [*lines, '  decimal: ","']
    thousands = {column.thousands for column in columns} - {""}
    return [*lines, *(f"  thousands: {as_value(sign)}" for sign in thousands)]


def _render_names(names: tuple[str, ...]) -> str:
    if not names:
        return "null"
    return as_value(names[0] if len(names) == 1 else list(names))


def _window_lines(chunk: Chunk) -> list[str]:
    """Return the lines with the keys that define how series are cut into source and target."""
    min_length = typical_min_length(chunk)
    if len(chunk) >= 7:
        half = max(1, min_length // 2)
        return [
            f"  source_length: {half}  # points of the source, the rest is the target: your choice"
        ]
    third = max(1, min_length // 40)
    part = round(min_length * min(Split().validation, Split().test))
    lines = []
    if part < 4 * third:
        lines.append(
            f"  # too few points: of {min_length} the smallest part would have {part}. Give longer"
            "\n  # series, or files of their own: validation_path and test_path"
        )
    proposed = find_proposed_window(chunk)
    if proposed is None:
        lines.append(
            f"  window: {{source: {3 * third}, target: {third}}}"
            "  # points of source and target: your choice"
        )
    else:
        lines += [
            f"  # {proposed.why}",
            f"  window: {{source: {proposed.source}, target: {proposed.target}}}  # points of"
            " source and target, from the season: your choice",
        ]
    return [*lines, "  split: {by: time}"]


def typical_min_length(chunk: Chunk) -> int:
    """Return the length of the shortest sequence, ignoring sequences that are shorter than 10 steps
    and shorter than a third of the median length."""
    lengths = chunk.points.lengths
    return int(lengths[lengths >= min(np.median(lengths) / 3, 10)].min())


def find_proposed_window(chunk: Chunk) -> ProposedWindow | None:
    """Return the window that `propose_window` proposes for a chunk, or None if it proposes none. If
    the times are regular, missing rows count as steps."""
    spacing = infer_spacing(chunk)
    if spacing is not None and not spacing.is_known.all():
        spacing = None
    config = OwnFile(path="-", missing="interpolate")
    try:
        series = regularize(chunk, "the file", config, spacing)
    except DataError:  # uneven steps or an empty column, so rows are taken in order
        spacing = None
        series = Series("the file", chunk.ids, chunk.points)
    frequency = None if spacing is None else spacing.common()
    table = target_series(series, Spans.of_series(series), config)
    return propose_window(table, frequency)


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
