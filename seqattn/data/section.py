"""Functions that generate the `data:` section of a config for a data file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqattn.config import OwnFile, Split, as_value
from seqattn.data.file_dataset import target_series
from seqattn.data.files import Chunk, ReadOptions
from seqattn.data.proposal import ProposedWindow, propose_window
from seqattn.data.regularize import regularize
from seqattn.data.series import Series, Spans, infer_spacing
from seqattn.data.spacing import Spacing
from seqattn.data.tables.roles import LongLayout
from seqattn.data.tables.wide_layout import WideLayout
from seqattn.data.units import units_in_names
from seqattn.errors import DataError

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
