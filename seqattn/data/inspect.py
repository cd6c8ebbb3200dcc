"""Inspection of a file: contents, inferred column roles, and a `data:` section for the config."""

from __future__ import annotations

import contextlib
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from seqattn.config import OwnFile, Split, as_value
from seqattn.data.chunk import Chunk, concat_chunks
from seqattn.data.file_dataset import target_series
from seqattn.data.files import NESTED, TABLES, check_file, file_format, file_kind, read_all
from seqattn.data.reading import ReadOptions
from seqattn.data.seasonality import SeriesCollection, find_season
from seqattn.data.series import Series, Spans, infer_spacing, regularize
from seqattn.data.setting_names import setting
from seqattn.data.spacing import Frequency, Spacing
from seqattn.data.tables.read import infer_layout, open_table, table_chunks
from seqattn.data.tables.roles import LongLayout
from seqattn.data.tables.wide import WideLayout
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
WINDOW = re.compile(r"^  window: .*$", re.MULTILINE)


@dataclass(frozen=True)
class StepSummary:
    """Summary of the times of a file.

    Attributes:
        frequency: up to three step intervals as text, such as "1 hour or 1 day", or "irregular".
        missing: number of missing rows, or 0 if the times are irregular.
        is_even: whether the times are regular: the step interval is known, all distances between
            rows are multiples of this interval, and no more rows are missing than there are
            distances.
    """

    frequency: str
    missing: int
    is_even: bool


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
    words = " or ".join(map(str, list(found.frequencies())[:3]))
    is_even = is_even and bool(words)
    return StepSummary(words if is_even else "irregular", missing if is_even else 0, is_even)


def render_section(
    file: Path, options: ReadOptions, chunk: Chunk, layout: LongLayout | WideLayout | None,
    steps: StepSummary | None,
) -> str:  # fmt: skip
    """Return the `data:` section of a config for a file, in YAML.

    Args:
        file: the file, for the key `path`.
        options: the options for reading the file.
        chunk: the sequences of the file.
        layout: layout of a table, or None for other files.
        steps: summary of the times of a table, or None if there are no times.
    """
    lines = ["data:", "  kind: file", f"  path: {as_value(str(file))}"]
    if layout is None:
        settings = {key: getattr(options, key) for key in ("format", "layout")}
        lines += [f"  {key}: {value}" for key, value in settings.items() if value != "auto"]
    else:
        lines += _table_lines(options, layout, steps)
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
    section = "\n".join(lines)
    return section if chunk.target is not None else insert_proposed_window(section, chunk)


def _table_lines(
    options: ReadOptions, layout: LongLayout | WideLayout, steps: StepSummary | None
) -> list[str]:
    if isinstance(layout, WideLayout):
        lines = ["  layout: wide"]
        if layout.series:
            lines.append(f"  series: {_render_names(layout.series)}")
        if options.time_format is not None:
            lines.append(f"  time_format: {as_value(options.time_format)}")
        formats = {"decimal": options.decimal, "thousands": options.thousands}
        lines += [f"  {key}: {as_value(sign)}" for key, sign in formats.items() if sign != "auto"]
    else:
        lines = _long_lines(options, layout, steps)
    for key in ("na_values", "delimiter", "comment", "encoding"):
        value = getattr(options, key)
        if value is not None:
            lines.append(f"  {key}: {as_value(list(value) if key == 'na_values' else value)}")
    if options.skip_rows:
        lines.append(f"  skip_rows: {options.skip_rows}")
    return lines


def _long_lines(options: ReadOptions, roles: LongLayout, steps: StepSummary | None) -> list[str]:
    columns = roles.columns
    lines = ["  layout: long", f"  series: {_render_names(roles.series)}"]
    times = () if roles.time is None else roles.time.names
    lines.append(f"  time: {_render_names(times)}")
    if steps is not None and not steps.is_even:
        lines.append(UNEVEN_LINE)
    lines.append(f"  features: {as_value(list(roles.features))}")
    if options.one_hot:
        lines.append(f"  one_hot: {as_value(list(options.one_hot))}")
    lines += [f"  time_format: {as_value(form)}" for form in roles.time_formats]
    numbers = [columns[name] for name in roles.features if columns[name].kind == "number"]
    if any(column.decimal == "," for column in numbers):
        return [*lines, '  decimal: ","']
    thousands = {column.thousands for column in numbers} - {""}
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
    return [
        *lines,
        f"  window: {{source: {3 * third}, target: {third}}}"
        "  # points of source and target: your choice",
        "  split: {by: time}",
    ]


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


def insert_proposed_window(section: str, chunk: Chunk) -> str:
    """Replace the window of a `data:` section with a proposed window. The section is unchanged if
    it has no window, or if no window can be proposed.

    Args:
        section: the section in YAML, as `seqattn data check` prints it.
        chunk: the sequences of the file.
    """
    if not WINDOW.search(section):
        return section
    proposed = find_proposed_window(chunk)
    if proposed is None:
        return section
    lines = (
        f"  # {proposed.why}\n"
        f"  window: {{source: {proposed.source}, target: {proposed.target}}}  # points of"
        " source and target, from the season: your choice"
    )
    return WINDOW.sub(lambda _: lines, section)


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
