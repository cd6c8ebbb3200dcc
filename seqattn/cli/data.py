"""The commands of `seqattn data`, which check a data file, write generated sequences, and show the
file formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from seqattn.cli.help_pages import CommandIndex, CommandPage
from seqattn.cli.options import ConfigFile, Overrides, grouped_options
from seqattn.cli.output import ignore_closed_pipe, note, show
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.errors import DataError, UsageError, counted

if TYPE_CHECKING:
    from seqattn.data.chunk import Chunk, Ragged
    from seqattn.data.inspect import FileReport
    from seqattn.data.reading import Reading

data_app = typer.Typer(
    cls=CommandIndex, no_args_is_help=True, rich_markup_mode=None,
    help="Check data files and write generated sequences.",
)  # fmt: skip


Split = Literal["train", "validation", "test"]
MAX_DRAWN_STEPS = 1000  # of each sequence in a picture
EXAMPLES = {
    "CSV, long: one row for each step (.csv; .tsv with tabs)": (
        "sequence,step,x,y\na,1,-1.02,-0.97\na,2,-1.05,1.01\nb,1,0.98,-1.10\nb,2,0.95,0.92\n"
    ),
    "CSV, wide: one row for each sequence (.csv)": (
        "sequence,x_1,y_1,x_2,y_2\na,-1.02,-0.97,-1.05,1.01\nb,0.98,-1.10,0.95,0.92\n"
    ),
    "JSON records: the columns of a CSV file, long or wide (.json; .jsonl without brackets)": (
        '[{"sequence": "a", "step": 1, "x": -1.02, "y": -0.97},\n'
        ' {"sequence": "a", "step": 2, "x": -1.05, "y": 1.01},\n'
        ' {"sequence": "b", "step": 1, "x": 0.98, "y": -1.10},\n'
        ' {"sequence": "b", "step": 2, "x": 0.95, "y": 0.92}]\n'
    ),
    "JSON Lines: one object for each sequence; target and id are optional (.jsonl)": (
        '{"id": "a", "source": [[-1.02, -0.97], [-1.05, 1.01]], "target": [[1.0, 1.0]]}\n'
        '{"id": "b", "source": [[0.98, -1.10]], "target": [[0.95, 0.92]]}\n'
    ),
    "NPZ, from Python (.npz)": (
        "import numpy as np\n"
        "source, target = np.zeros((9, 5, 2)), np.zeros((9, 3, 2))  # sequences, steps, features\n"
        "np.savez('my.npz', source=source, target=target, source_lengths=np.full(9, 5),\n"
        "         target_lengths=np.full(9, 3), ids=np.array(list('abcdefghi')))\n"
    ),
    "NPY, from Python; trailing NaN are padding (.npy)": (
        "import numpy as np\n"
        "np.save('my.npy', np.zeros((9, 8, 2), dtype=np.float32))  # sequences, steps, features\n"
    ),
    "Parquet and Arrow: the columns of a CSV file, long or wide (.parquet, .arrow)": (
        "import pandas as pd\npd.read_csv('my.csv').to_parquet('my.parquet')\n"
    ),
}


@data_app.command("formats", cls=CommandPage, epilog="seqattn data formats")
def formats_command() -> None:
    """Print an example of each file format.

    The option --input and the config section `data: {kind: file}` accept these formats. Text files
    may be compressed with gzip (.gz) and, if they have rows and columns, with Zstandard (.zst).
    """
    end_on_closed_pipe()
    for title, text in EXAMPLES.items():
        show(f"{title}\n")
        show("".join(f"    {line}\n" for line in text.splitlines()))


@dataclass(frozen=True)
class ColumnOptions:
    """The options for the roles of the columns."""

    heading: ClassVar = "Column options"

    series: Annotated[str | None, typer.Option(
        "--series", metavar="NAME[,NAME]|none", help="Column of series ids.",
        show_default="detected",
    )] = None  # fmt: skip
    time: Annotated[str | None, typer.Option(
        "--time", metavar="NAME[,NAME]|none", help="Time column.", show_default="detected"
    )] = None  # fmt: skip
    features: Annotated[str | None, typer.Option(
        "--features", metavar="NAME,...", help="Feature columns.",
        show_default="all other numeric columns",
    )] = None  # fmt: skip
    ignore: Annotated[
        str | None, typer.Option("--ignore", metavar="NAME,...", help="Columns to leave out.")
    ] = None
    one_hot: Annotated[str | None, typer.Option(
        "--one-hot", metavar="NAME,...", help="Categorical columns to encode as features."
    )] = None  # fmt: skip


@dataclass(frozen=True)
class TextOptions:
    """The options for parsing the text of a file."""

    heading: ClassVar = "Parsing options"

    table_layout: Annotated[str, typer.Option(
        "--layout", metavar="LAYOUT",
        help="long (one row for each step), wide (one row for each sequence) or auto.",
    )] = "auto"  # fmt: skip
    na: Annotated[
        str | None,
        typer.Option("--na", metavar="TEXT,...", help="Strings for missing values."),
    ] = None
    time_format: Annotated[str | None, typer.Option(
        "--time-format", metavar="FORMAT", help="Date format, such as %d.%m.%Y.",
        show_default="detected",
    )] = None  # fmt: skip
    delimiter: Annotated[str | None, typer.Option(
        "--delimiter", metavar="CHAR", help="Separator of cells.", show_default="detected"
    )] = None  # fmt: skip
    decimal: Annotated[str, typer.Option(
        "--decimal", metavar="CHAR", help="Decimal separator: '.', ',' or auto."
    )] = "auto"  # fmt: skip
    thousands: Annotated[str, typer.Option(
        "--thousands", metavar="CHAR",
        help="Thousands separator: ',', '.', ' ', \"'\", none or auto.",
    )] = "auto"  # fmt: skip
    comment: Annotated[
        str | None, typer.Option("--comment", metavar="TEXT", help="Prefix of comment lines.")
    ] = None
    skip_rows: Annotated[int, typer.Option(
        "--skip-rows", metavar="N", min=0, help="Number of lines before the header."
    )] = 0  # fmt: skip
    encoding: Annotated[str | None, typer.Option(
        "--encoding", metavar="NAME", help="Text encoding, such as latin-1.",
        show_default="detected",
    )] = None  # fmt: skip

    def check(self) -> None:
        """Check the options that accept only a fixed set of values.

        Raises:
            UsageError: if an option does not accept the given value.
        """
        for flag, value, known in (
            ("--decimal", self.decimal, (".", ",", "auto")),
            ("--thousands", self.thousands, (",", ".", " ", "'", "none", "auto")),
            ("--layout", self.table_layout, ("long", "wide", "auto")),
        ):
            if value not in known:
                raise UsageError(f"{flag} {value}: expected one of {', '.join(map(repr, known))}.")


def _reading_of(columns: ColumnOptions, text: TextOptions) -> Reading:
    from seqattn.data.reading import Reading

    series, time, features, ignore = columns.series, columns.time, columns.features, columns.ignore
    return Reading(
        layout=text.table_layout, delimiter=text.delimiter, comment=text.comment,
        encoding=text.encoding, skip_rows=text.skip_rows, decimal=text.decimal,
        thousands=None if text.thousands == "none" else text.thousands,
        na_values=None if text.na is None else _split_names(text.na), time_format=text.time_format,
        series="auto" if series is None else () if series == "none" else _split_names(series),
        time="auto" if time is None else () if time == "none" else _split_names(time),
        features=None if features is None else _split_names(features),
        ignore=("",) if ignore == "" else _split_names(ignore or ""),
        one_hot=_split_names(columns.one_hot or ""),
    )  # fmt: skip


def _split_names(value: str) -> tuple[str, ...]:
    """Split the value of an option at commas, and drop empty names."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


@data_app.command(
    "check", cls=CommandPage, epilog="seqattn data check squares.csv --picture squares.png"
)
@grouped_options
def check_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Data file, folder of files, or glob pattern.")
    ],
    columns: ColumnOptions,
    text: TextOptions,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE.png|svg|pdf", help="Draw the first ten sequences."),
    ] = None,
) -> None:
    """Describe a data file, and show how to train on it.

    The command prints the role of each column, the range of each feature, and the `data:` section
    of a config that trains on the file. Of pairs of texts, it prints lengths, symbols, duplicates
    and suspicious pairs.
    """
    from seqattn.data.text_report import has_pairs_of_texts

    encoding = text.encoding or "utf-8"
    if has_pairs_of_texts(str(file), encoding):
        options = [*_options_given(columns, text), *(["--picture"] if picture else [])]
        _check_texts(str(file), encoding, options)
        return
    from seqattn.data.inspect import inspect_file
    from seqattn.data.reading import name_origin
    from seqattn.runs.storage import check_outputs

    text.check()
    reading = _reading_of(columns, text)
    if picture is not None:
        from seqattn.plots import run_pictures

        run_pictures.picture_ending(picture)
    check_outputs({"--picture": picture}, {"FILE": file})
    is_pattern = any(char in str(file) for char in "*?[") and not file.exists()
    folder = file if file.is_dir() or is_pattern else None
    heading = ""
    if folder is not None:
        from seqattn.data.files import find_files

        files = find_files(str(folder), reading.format)
        size = sum(each.stat().st_size for each in files)
        heading = f"{folder}: {counted(len(files), 'file')}, {size / 1e9:.3g} GB; the first:"
        file = files[0]
    with name_origin("options"):
        report = inspect_file(file, reading)
    if picture is not None:
        _draw_sequences(report.chunk, picture)
    end_on_closed_pipe()
    if heading:
        show(heading)
    _show_report(file, report)
    show("\nTo train on it, put this into a config:\n")
    show(report.section if folder is None else report.section.replace(str(file), str(folder)))


def _options_given(columns: ColumnOptions, text: TextOptions) -> list[str]:
    """Return the options about tables that were given."""
    names = {"table_layout": "layout"}
    return [
        f"--{names.get(one.name, one.name).replace('_', '-')}"
        for options in (columns, text)
        for one in fields(options)
        if one.name != "encoding" and getattr(options, one.name) != one.default
    ]


def _check_texts(path: str, encoding: str, options: Sequence[str]) -> None:
    """Print the description of a file with pairs of texts.

    Args:
        path: the file.
        encoding: its encoding.
        options: the options about tables that were given.

    Raises:
        UsageError: if there are such options.
    """
    if options:
        raise UsageError(
            f"{options[0]}: is about tables of numbers, but {path} has pairs of texts. Leave it"
            " out."
        )
    import sys

    from tqdm import tqdm

    from seqattn.config import Text
    from seqattn.data.text import read_pairs
    from seqattn.data.text_report import describe_pairs, section_of

    notes = list[str]()
    pairs = read_pairs(Text(path=path, encoding=encoding), path, notes)
    with tqdm(pairs, "pairs", unit="", leave=False, disable=not sys.stderr.isatty()) as bar:
        lines = list(describe_pairs(path, bar))
    end_on_closed_pipe()
    for line in notes:
        note(f"{line}.")
    for line in lines:
        show(line)
    show("\nTo train on it, put this into a config:\n")
    show(section_of(path, encoding))


def _show_report(file: Path, report: FileReport) -> None:
    """Print the description of a file."""
    from seqattn.data.chunk import step_text
    from seqattn.data.inspect import count_duplicates

    chunk = report.chunk
    for line in report.notes:
        note(f"{file}: {line}.")
    lengths = chunk.points.lengths
    low, high = int(lengths.min()), int(lengths.max())
    span = counted(low, "step") if low == high else f"{low:,} to {high:,} steps"
    show(f"{file}: {report.layout}, {counted(len(chunk), 'sequence')} of {span}")
    for reason in report.reasons:
        show(f"  {reason}")
    sides = [("", chunk.points)]
    if chunk.target is not None:
        sides = [("source ", chunk.points), ("target ", chunk.target)]
        lengths = chunk.target.lengths
        show(f"targets: {int(lengths.min())} to {int(lengths.max())} steps")
    for side, ragged in sides:
        _show_features(side, ragged)
    if chunk.order is not None:
        steps = report.steps
        missing = 0 if steps is None else steps.missing
        gaps = f", {counted(missing, 'missing row')}" if missing else ""
        spacing = f"spacing {report.frequency}"
        if steps is not None and not steps.is_even:
            spacing = "not evenly spaced"
        time = ",".join(report.reading.time_columns) or "steps"
        show(
            f"  {time}: {step_text(chunk.order.min())} to"
            f" {step_text(chunk.order.max())}, {spacing}{gaps}"
        )
    if len(chunk) > 1:
        copies = count_duplicates(chunk)
        show(f"  duplicate sequences: {f'{copies:,}' if copies else 'none'}")


def _show_features(side: str, ragged: Ragged) -> None:
    import numpy as np

    for i, name in enumerate(ragged.features):
        column = ragged.values[:, i]
        empty = int(np.isnan(column).sum())
        if empty == len(column):
            show(f"  {side}{name}: all cells are empty")
            continue
        missing = f", {empty:,} of {len(column):,} cells empty" if empty else ""
        show(
            f"  {side}{name}: {np.nanmin(column):g} to {np.nanmax(column):g}, mean"
            f" {np.nanmean(column):g}{missing}"
        )


def _draw_sequences(chunk: Chunk, picture: Path) -> None:
    from seqattn.plots import Details, paths_figure, run_pictures
    from seqattn.runs.array_files import shorten_name

    n = min(10, len(chunk))
    paths = [chunk.points.of(k)[:MAX_DRAWN_STEPS] for k in range(n)]
    offsets = chunk.points.offsets
    times = None if chunk.order is None else [
        chunk.order[offsets[k] : offsets[k + 1]][:MAX_DRAWN_STEPS] for k in range(n)
    ]  # fmt: skip
    no_points = [path[:0] for path in paths]
    run_pictures.save(
        paths_figure(
            paths, no_points, no_points, titles=[shorten_name(name, 20) for name in chunk.ids[:n]],
            features=list(chunk.points.features), details=Details(times=times),
        ),
        picture,
    )  # fmt: skip
    note(f"Drew {picture}")


@data_app.command(
    "sample", cls=CommandPage,
    epilog="seqattn data sample squares --output squares.csv",
)  # fmt: skip
def sample(
    config: ConfigFile,
    output: Annotated[Path, typer.Option(
        "--output", metavar="FILE", help="File of the sequences; its suffix selects the format."
    )],
    overrides: Overrides = None,
    part: Annotated[Split, typer.Option("--part", help="Split to write.")] = "train",
    wide: Annotated[
        bool, typer.Option("--wide", help="Write one row for each sequence.")
    ] = False,
) -> None:  # fmt: skip
    """Write the sequences that a config generates to a file.

    The command also prints the `data:` section of a config that reads this file.
    """
    from seqattn.config import Lag, OwnFile, Polygons, Squares, Text, as_value, resolve
    from seqattn.data import load_data
    from seqattn.data.files import file_format
    from seqattn.data.writing import write_pairs, write_sequences
    from seqattn.runs.storage import check_outputs, write_output

    check_outputs({"--output": output}, {"CONFIG": config})
    task = resolve(config, overrides or []).config.data
    if isinstance(task, OwnFile | Text):
        raise UsageError(f"{config}: its sequences are in a file already ({task.path}).")
    try:
        form = file_format(output)
    except DataError as error:
        raise UsageError(str(error)) from None
    sequences = getattr(load_data(task), part)
    if kind := "text" if sequences.source_space.symbols else "":
        if form != "tsv" or wide:
            raise UsageError(f"{config}: its sequences are symbols, which a .tsv file contains.")
        content, keys = write_pairs(sequences)
    else:
        is_continuation = isinstance(task, Squares | Polygons | Lag)
        content, keys = write_sequences(sequences, form, wide=wide, is_continuation=is_continuation)
    write_output(output, content)
    note(f"Wrote {counted(len(sequences), 'sequence')} to {output}. To train on it:")
    with ignore_closed_pipe():
        path = as_value(str(output))
        show(f"data:\n  kind: {kind or 'file'}\n  path: {path}\n{keys}".rstrip("\n"))
