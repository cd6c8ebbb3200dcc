"""The command `seqattn init`, which writes a starter config."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from seqattn.cli.completion import complete_shipped
from seqattn.cli.output import ignore_closed_pipe, note, show
from seqattn.errors import ConfigError, UsageError

SHORT_NAMES = {"compare": "compare/scores"}
"""Short names of some shipped configs, in addition to their own names."""
INTRODUCTION = """\
# Started from the shipped config {source}. To report all mistakes: seqattn config check {file}
#
"""


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
    from seqattn.runs.storage import write_output

    contents, command = build_starter(source, name)
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
        show(f"Next:\n  seqattn {command} {[*contents][-1]}")


def build_starter(source: str, name: str) -> tuple[dict[Path, bytes], str]:
    """Return the contents of a starter config and of its data files, and the command that runs the
    config, "train" or "compare". The config is the last file.

    The names of the config, its run folder and its files are replaced, in comments and values.

    Args:
        source: the name of a shipped config, with hyphens or underscores, or a short name.
        name: the name of the new config. A suffix `.yaml` is ignored.

    Raises:
        ConfigError: if there is no such shipped config, or if the new name is not valid for a run.
    """
    from seqattn.config import NAME_PATTERN, nearest
    from seqattn.config.shipped_configs import (
        CLONE_FOLDER,
        config_description,
        has_comparison,
        shipped_configs,
        shipped_folder,
    )

    configs, name = shipped_configs(), name.removesuffix(".yaml")
    chosen = SHORT_NAMES.get(source, source.replace("-", "_"))
    if chosen not in configs:
        close = nearest(chosen, [*SHORT_NAMES, *configs])
        hint = f"Did you mean {close}?" if close else "`seqattn config list` prints the names."
        raise ConfigError(f"--from {source}: no such shipped config. {hint}")
    if not re.search(NAME_PATTERN, name) or len(name) > 100:
        raise ConfigError(
            f"NAME {name}: may have up to 100 letters, digits, '.', '_' and '-', and must start"
            " with a letter, a digit or '_'. The file is written to the current folder."
        )
    text = configs[chosen].read_text(encoding="utf-8")
    start = text.index(f"# {config_description(text)[:20]}")
    (old,) = re.findall(r"^name: (\S+)", text, re.MULTILINE)
    file, folder = f"{name}.yaml", f"{CLONE_FOLDER}/data/"
    data_files = sorted(set(re.findall(rf"{folder}([\w.]+\w)", text)))
    text = INTRODUCTION.format(source=chosen, file=file) + text[start:]
    text = text.replace(f"{CLONE_FOLDER}/{chosen}.yaml", file).replace(folder, "")
    text = re.sub(rf"^name: {old}\b", f"name: {name}", text, flags=re.MULTILINE)
    text = re.sub(rf"\boutputs/{old}\b", f"outputs/{name}", text)
    contents = {Path(each): (shipped_folder() / "data" / each).read_bytes() for each in data_files}
    contents[Path(file)] = text.encode()
    return contents, "compare" if has_comparison(text) else "train"
