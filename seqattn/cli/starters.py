"""The command `seqattn init`, which writes a starter config."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqattn.cli.completion import complete_shipped
from seqattn.cli.output import ignore_closed_pipe, note, show
from seqattn.errors import UsageError


def init_command(
    name: Annotated[str, typer.Argument(
        metavar="[NAME]", help="Name of the config. The file is NAME.yaml; without NAME, my.yaml."
    )] = "my",
    source: Annotated[str, typer.Option(
        "--from", metavar="CONFIG", autocompletion=complete_shipped,
        help="Shipped config to start from, such as squares, notebook, own-data or compare.",
    )] = "squares",
    force: Annotated[
        bool, typer.Option("--force", help="Replace existing files.")
    ] = False,
) -> None:  # fmt: skip
    """Write a commented starter config.

    The config is a copy of a shipped config, and you can train it as it is. `seqattn config list`
    prints the shipped configs. A config that reads a data file comes with a copy of that file.
    """
    from seqattn.config.starters import build_starter
    from seqattn.runs.storage import write_output

    starter = build_starter(source, name)
    contents = {Path(file.name): file.read_bytes() for file in starter.data_files}
    contents[Path(starter.file)] = starter.text.encode()
    for path, content in contents.items():
        is_same = path.is_file() and path.stat().st_size == len(content)
        is_same = is_same and path.read_bytes() == content
        if path.exists() and not is_same and not force:
            raise UsageError(
                f"{path}: already exists and is not changed. Choose another NAME, or replace the"
                " file (--force)."
            )
    for path, content in contents.items():
        write_output(path, content)
        note(f"Wrote {path}")
    with ignore_closed_pipe():
        show(f"Next:\n  seqattn {starter.command} {starter.file}")
