"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, or a checkpoint file in one.")
]
InputFile = Annotated[
    Path | None,
    typer.Option(
        "--input", metavar="FILE",
        help="Your own sequences: CSV, TSV, JSON lines, NPZ, NPY, Parquet or Arrow; - reads CSV"
        " from standard input.",
    ),
]  # fmt: skip
