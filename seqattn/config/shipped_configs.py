"""The configs that seqattn ships: their folder, their names and descriptions, and the search for a
config by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CLONE_FOLDER = "configs"
"""The folder of the shipped configs in a clone. The wheel contains this folder as `shipped`, beside
this module."""
STDIN = Path("-")
"""The path that selects standard input."""
SUFFIXES = (".yaml", ".yml")
NEEDS_CLONE = "real"
"""The folder of the configs that only a clone can use, because a script of the clone writes their
data files. The wheel does not contain this folder."""
DATA_PATHS = ("path", "validation_path", "test_path")


def shipped_folder() -> Path:
    """Return the folder of the shipped configs. The path is relative if this folder is inside the
    current folder."""
    inside = Path(__file__).parent / "shipped"
    folder = inside if inside.is_dir() else Path(__file__).parents[2] / CLONE_FOLDER
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def shipped_configs() -> dict[str, Path]:
    """Return the path of each shipped config, by name.

    The name is the path below the folder of the shipped configs, without the suffix, such as
    `squares` or `compare/scores`. Configs in the folder itself come first. The configs in the
    folder `NEEDS_CLONE` are left out.
    """
    folder = shipped_folder()
    names = [file.relative_to(folder).with_suffix("") for file in folder.rglob("*.yaml")]
    names.sort(key=lambda name: (len(name.parts), name))
    return {
        name.as_posix(): folder / f"{name}.yaml" for name in names if name.parts[0] != NEEDS_CLONE
    }


def config_description(text: str) -> str:
    """Return the description at the start of a config: the first sentence of its comments, without
    the line that configures the YAML language server."""
    words = list[str]()
    for line in text.splitlines():
        comment = line.lstrip("#").strip()
        if comment.startswith("yaml-language-server:") or (not comment and not words):
            continue
        if not comment or not line.startswith("#"):
            break
        words.append(comment)
    return re.split(r"\.(?= [A-Z])", " ".join(words))[0].rstrip(".")


def has_comparison(text: str) -> bool:
    """Return whether a config describes a comparison, for `seqattn compare`."""
    return re.search(r"^compare:", text, re.MULTILINE) is not None


def find_config(path: Path) -> Path:
    """Find the config that a user asks for by a path, by `STDIN` for standard input, or by the name
    of a shipped config.

    An existing file or folder always has priority. An existing file with one of `SUFFIXES` has the
    next priority: the path `my` selects `my.yaml`. Otherwise, the name of a shipped config selects
    this config. The path of a shipped config in a clone (`configs/NAME.yaml`) also selects this
    config if there is no folder `configs`.

    Returns:
        the path of the file; the given path if no config has this path or name.
    """
    if path == STDIN or path.exists():
        return path
    if path.suffix not in SUFFIXES:
        for suffix in SUFFIXES:
            file = Path(f"{path}{suffix}")
            if file.is_file():
                return file
        return shipped_configs().get(path.as_posix(), path)
    if path.parts[:1] == (CLONE_FOLDER,) and not Path(CLONE_FOLDER).exists():
        name = path.relative_to(CLONE_FOLDER).with_suffix("").as_posix()
        return shipped_configs().get(name, path)
    return path


def find_shipped_data(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a config. If it is a shipped config, correct the paths of its data
    files.

    A shipped config names its data files by their paths in a clone (`configs/data/FILE`). If there
    is no such file, the function replaces the path with the path of the file in the folder of the
    shipped configs.

    Args:
        content: the plain data of the config.
        path: the path of the config.
    """
    data, folder = content.get("data"), shipped_folder()
    if not isinstance(data, dict) or not path.resolve().is_relative_to(folder.resolve()):
        return dict(content)
    changed = dict(data)
    for key in DATA_PATHS:
        file = Path(str(data.get(key)))
        if file.parts[:1] == (CLONE_FOLDER,) and not file.exists():
            shipped = folder / file.relative_to(CLONE_FOLDER)
            changed[key] = str(shipped) if shipped.exists() else data[key]
    return {**content, "data": changed}
