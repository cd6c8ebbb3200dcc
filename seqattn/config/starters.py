"""Starter configs: copies of shipped configs under names that the user chooses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seqattn.config.mistakes import nearest
from seqattn.config.schema import NAME_PATTERN
from seqattn.config.shipped_configs import (
    CLONE_FOLDER,
    config_description,
    has_comparison,
    shipped_configs,
    shipped_folder,
)
from seqattn.errors import ConfigError

SHORT_NAMES = {"compare": "compare/scores"}
"""Short names of some shipped configs, in addition to their own names."""
INTRODUCTION = """\
# Started from the shipped config {source}. To report all mistakes: seqattn config check {file}
#
"""


@dataclass(frozen=True)
class Starter:
    """A starter config.

    Attributes:
        file: the name of the config file.
        text: the content of the config file.
        command: the seqattn command that runs the config, "train" or "compare".
        data_files: the data files of the config, in the folder of the shipped configs. Copies of
            these files belong in the folder of the config file.
    """

    file: str
    text: str
    command: str
    data_files: Sequence[Path]


def build_starter(source: str, name: str) -> Starter:
    """Build a starter config from a shipped config.

    The function replaces the names of the config, its run folder and its files, in comments and
    values.

    Args:
        source: the name of a shipped config, with hyphens or underscores, or a short name.
        name: the name of the new config. A suffix `.yaml` is ignored.

    Raises:
        ConfigError: if there is no such shipped config, or if the new name is not valid for a run.
    """
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
    files = sorted(set(re.findall(rf"{folder}([\w.]+\w)", text)))
    text = INTRODUCTION.format(source=chosen, file=file) + text[start:]
    text = text.replace(f"{CLONE_FOLDER}/{chosen}.yaml", file).replace(folder, "")
    text = re.sub(rf"^name: {old}\b", f"name: {name}", text, flags=re.MULTILINE)
    text = re.sub(rf"\boutputs/{old}\b", f"outputs/{name}", text)
    command = "compare" if has_comparison(text) else "train"
    return Starter(file, text, command, [shipped_folder() / "data" / each for each in files])
