"""`seqattn data`: look at a file, write what a config generates, show the formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seqattn.cli.options import ConfigFile, Overrides, grouped_options
from seqattn.cli.output import after_the_work, leave_with_the_reader, note, show
from seqattn.errors import DataError, UsageError, counted

if TYPE_CHECKING:
    from seqattn.data.files import Chunk
    from seqattn.data.files.chunk import Ragged
    from seqattn.data.files.options import ReadOptions
    from seqattn.data.inspect import FileReport

data_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None,
    help="Your own sequences: check a file, sample a config, formats.",
)  # fmt: skip


Part = Literal["train", "validation", "test"]
EXAMPLES = {
    "CSV, long: a point a row (.csv; .tsv with tabs)": (
        "sequence,step,x,y\na,1,-1.02,-0.97\na,2,-1.05,1.01\nb,1,0.98,-1.10\nb,2,0.95,0.92\n"
    ),
    "CSV, wide: a sequence a row": (
        "sequence,x_1,y_1,x_2,y_2\na,-1.02,-0.97,-1.05,1.01\nb,0.98,-1.10,0.95,0.92\n"
    ),
    "JSON lines: an object a sequence; target and id as you like (.jsonl)": (
        '{"id": "a", "source": [[-1.02, -0.97], [-1.05, 1.01]], "target": [[1.0, 1.0]]}\n'
        '{"id": "b", "source": [[0.98, -1.10]], "target": [[0.95, 0.92]]}\n'
    ),
    "NPZ, from Python (.npz)": (
        "import numpy as np\n"
        "source, target = np.zeros((9, 5, 2)), np.zeros((9, 3, 2))  # sequences, steps, features\n"
        "np.savez('my.npz', source=source, target=target, source_lengths=np.full(9, 5),\n"
        "         target_lengths=np.full(9, 3), ids=np.array(list('abcdefghi')))\n"
    ),
    "NPY, from Python; a tail of NaN is no point (.npy)": (
        "import numpy as np\n"
        "np.save('my.npy', np.zeros((9, 8, 2), dtype=np.float32))  # sequences, steps, features\n"
    ),
    "Parquet and Arrow: the columns of a CSV file, long or wide (.parquet, .arrow)": (
        "import pandas as pd\npd.read_csv('my.csv').to_parquet('my.parquet')\n"
    ),
}


@data_app.command(
    "formats",
    short_help="Show a few lines of each format.",
    epilog="Example: seqattn data formats",
)
def formats() -> None:
    """Show a few lines of each format that `--input` and `data: {kind: file}` read."""
    leave_with_the_reader()
    for title, text in EXAMPLES.items():
        show(f"{title}\n")
        show("".join(f"    {line}\n" for line in text.splitlines()))


@dataclass(frozen=True)
class ColumnOptions:
    """What the columns of a file are."""

    series: Annotated[str | None, typer.Option(
        "--series", metavar="NAME[,NAME]|none", help="Column of series ids."
    )] = None  # fmt: skip
    time: Annotated[str | None, typer.Option(
        "--time", metavar="NAME[,NAME]|none", help="Column that says when."
    )] = None  # fmt: skip
    features: Annotated[
        str | None, typer.Option("--features", metavar="NAME,...", help="Columns that are read.")
    ] = None
    ignore: Annotated[
        str | None, typer.Option("--ignore", metavar="NAME,...", help="Columns that are left out.")
    ] = None
    one_hot: Annotated[str | None, typer.Option(
        "--one-hot", metavar="NAME,...", help="Columns of words that are features."
    )] = None  # fmt: skip


@dataclass(frozen=True)
class TextOptions:
    """How the text of a file is read."""

    na: Annotated[
        str | None, typer.Option("--na", metavar="WORD,...", help="What stands for an empty cell.")
    ] = None
    time_format: Annotated[
        str | None, typer.Option("--time-format", metavar="FORMAT", help="Such as %d.%m.%Y.")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="What separates cells; found without.")
    ] = None
    decimal: Annotated[str, typer.Option("--decimal", help="'.', ',' or auto.")] = "auto"
    thousands: Annotated[str, typer.Option("--thousands", help="',', '.', ' ', none or auto.")] = (
        "auto"
    )
    comment: Annotated[
        str | None, typer.Option("--comment", help="What a line that is no row begins with.")
    ] = None
    skip_rows: Annotated[
        int, typer.Option("--skip-rows", min=0, help="Lines before the header.")
    ] = 0
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Such as latin-1; found without.")
    ] = None
    table_layout: Annotated[
        str, typer.Option("--layout", help="long: a point a row; wide: a sequence a row; or auto.")
    ] = "auto"

    def check(self) -> None:
        """
        Raises:
            UsageError: an option has a value that is none of its choices.
        """
        for flag, value, known in (
            ("--decimal", self.decimal, (".", ",", "auto")),
            ("--thousands", self.thousands, (",", ".", " ", "'", "none", "auto")),
            ("--layout", self.table_layout, ("long", "wide", "auto")),
        ):
            if value not in known:
                raise UsageError(f"{flag} {value}: expected one of {', '.join(map(repr, known))}.")


def _read_options(columns: ColumnOptions, text: TextOptions) -> ReadOptions:
    from seqattn.data.files.options import ReadOptions

    series, time, features, ignore = columns.series, columns.time, columns.features, columns.ignore
    return ReadOptions(
        layout=text.table_layout, delimiter=text.delimiter, comment=text.comment,
        encoding=text.encoding, skip_rows=text.skip_rows, decimal=text.decimal,
        thousands=None if text.thousands == "none" else text.thousands,
        na_values=None if text.na is None else _listed(text.na), time_format=text.time_format,
        series="auto" if series is None else () if series == "none" else _listed(series),
        time="auto" if time is None else None if time == "none" else _listed(time),
        features=None if features is None else _listed(features),
        ignore=("",) if ignore == "" else _listed(ignore or ""),
        one_hot=_listed(columns.one_hot or ""),
    )  # fmt: skip


def _listed(given: str) -> tuple[str, ...]:
    """The names in an option's value."""
    return tuple(name.strip() for name in given.split(",") if name.strip())


@data_app.command(
    "check",
    short_help="Say what a file holds, and how to train on it.",
    epilog="Example: seqattn data check my.csv --picture my.png",
)
@grouped_options
def check(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Your own sequences; or a folder of files, or a pattern."
        ),
    ],
    columns: ColumnOptions,
    text: TextOptions,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE.png|svg|pdf", help="Draw the first sequences."),
    ] = None,
) -> None:
    """Say what FILE holds and what each column was taken for; and print the `data:` section of a
    config that trains on it."""
    from seqattn.data.inspect import inspect_file
    from seqattn.runs.output_files import check_outputs

    text.check()
    options = _read_options(columns, text)
    if picture is not None:
        from seqattn.plots import run_pictures

        run_pictures.picture_ending(picture)
    check_outputs({"--picture": picture}, {"FILE": file})
    several = file.is_dir() or (any(sign in str(file) for sign in "*?[") and not file.exists())
    folder = file if several else None
    first = ""
    if folder is not None:
        from seqattn.data.paths import find_files

        files = find_files(str(folder), options.format)
        size = sum(one.stat().st_size for one in files)
        first = f"{folder}: {counted(len(files), 'file')}, {size / 1e9:.3g} GB; the first:"
        file = files[0]
    report = inspect_file(file, options)
    if picture is not None:
        _draw(report.chunk, picture)
    leave_with_the_reader()
    if first:
        show(first)
    _show(file, report)
    show("\nTo train on it, put this into a config:\n")
    show(report.section if folder is None else report.section.replace(str(file), str(folder)))


def _show(file: Path, report: FileReport) -> None:
    """What a file holds, for people."""
    from seqattn.data.files import step_text
    from seqattn.data.inspect import count_duplicates

    chunk = report.chunk
    for line in report.notes:
        note(f"{file}: {line}.")
    lengths = chunk.points.lengths
    low, high = int(lengths.min()), int(lengths.max())
    span = counted(low, "point") if low == high else f"{low:,} to {high:,} points"
    show(f"{file}: {report.layout}, {counted(len(chunk), 'sequence')} of {span}")
    for reason in report.roles.reasons:
        show(f"  {reason}")
    sides = [("", chunk.points)]
    if chunk.target is not None:
        sides = [("source ", chunk.points), ("target ", chunk.target)]
        told = chunk.target.lengths
        show(f"their targets: {int(told.min())} to {int(told.max())} points")
    for side, ragged in sides:
        _show_features(side, ragged)
    if chunk.order is not None:
        missing = report.missing_rows
        between = f", {counted(missing, 'row')} missing between" if missing else ""
        apart = (
            "not evenly spaced" if report.frequency == "irregular" else f"{report.frequency} apart"
        )
        show(
            f"  {report.roles.time or 'steps'}: {step_text(chunk.order.min())} to"
            f" {step_text(chunk.order.max())}, {apart}{between}"
        )
    if len(chunk) > 1:
        copies = count_duplicates(chunk)
        said = f"{copies:,} are copies of another" if copies else "no two are the same"
        show(f"  of the sequences {said}")


def _show_features(side: str, ragged: Ragged) -> None:
    import numpy as np

    for i, name in enumerate(ragged.features):
        column = ragged.values[:, i]
        empty = int(np.isnan(column).sum())
        if empty == len(column):
            show(f"  {side}{name}: every cell is empty")
            continue
        said = f", {empty:,} of {len(column):,} cells empty" if empty else ""
        show(
            f"  {side}{name}: {np.nanmin(column):g} to {np.nanmax(column):g}, mean"
            f" {np.nanmean(column):g}{said}"
        )


def _draw(chunk: Chunk, picture: Path) -> None:
    from seqattn.plots import paths_figure, run_pictures
    from seqattn.plots.style import shorten_name

    n = min(10, len(chunk))
    paths = [chunk.points.of(k)[:1000] for k in range(n)]
    none = [path[:0] for path in paths]
    run_pictures.save(
        paths_figure(
            paths, none, none, titles=[shorten_name(name, 20) for name in chunk.ids[:n]],
            features=list(chunk.points.features),
        ),
        picture,
    )  # fmt: skip
    note(f"Drew {picture}")


@data_app.command(
    "sample",
    short_help="Write the sequences that a config generates.",
    epilog="Example: seqattn data sample configs/squares.yaml --output squares.csv",
)
def sample(
    config: ConfigFile,
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="Its ending says which format.")
    ],
    overrides: Overrides = None,
    part: Annotated[Part, typer.Option("--part", help="Which of the three parts.")] = "train",
    wide: Annotated[bool, typer.Option("--wide", help="A table of a sequence a row.")] = False,
) -> None:
    """Write the sequences that CONFIG generates, and print the `data:` section that reads them."""
    from seqattn.config import Lag, OwnFile, Polygons, Squares, as_value, resolve
    from seqattn.data import load_data
    from seqattn.data.files import file_format
    from seqattn.data.files.sequence_files import write_sequences
    from seqattn.runs.output_files import check_outputs, write_output

    check_outputs({"--output": output}, {"CONFIG": config})
    described = resolve(config, overrides or []).config.data
    if isinstance(described, OwnFile):
        raise UsageError(f"{config}: its sequences are in a file already ({described.path}).")
    try:
        form = file_format(output)
    except DataError as error:
        raise UsageError(str(error)) from None
    sequences = getattr(load_data(described), part)
    goes_on = isinstance(described, Squares | Polygons | Lag)
    content, cut = write_sequences(sequences, form, wide=wide, is_continuation=goes_on)
    write_output(output, content)
    note(f"Wrote {counted(len(sequences), 'sequence')} to {output}. To train on it:")
    with after_the_work():
        show(f"data:\n  kind: file\n  path: {as_value(str(output))}\n{cut}".rstrip("\n"))
