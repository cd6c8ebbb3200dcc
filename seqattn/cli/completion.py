"""Shell completion for config files, run folders, config keys and the values of keys.

Each time the user presses Tab in a seqattn command, the shell runs seqattn with the environment
variable `_SEQATTN_COMPLETE`. No function here may import torch, because this import is slow.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

Candidates = list[tuple[str, str]]
"""Pairs (text, description). typer removes the pairs whose text does not start with the typed
word."""

VARIABLE = "_SEQATTN_COMPLETE"
KEY_VARIABLE = "_SEQATTN_COMPLETE_KEY"
"""The environment variable with the key of the value that bash completes. For `model.cell=gr`, the
key is `model.cell`."""
MAX_RUNS = 100


def join_bash_words() -> None:
    """Join the words that bash split at equals signs, before typer reads them.

    bash passes `--set model.cell=gr` as the four words `--set`, `model.cell`, `=` and `gr`, and
    replaces only the last of them. The function joins such words into one, `model.cell=gr`. If the
    user is completing the value of a key, the function keeps only the value in the last word, and
    stores the key in the environment variable `_SEQATTN_COMPLETE_KEY`.
    """
    if os.environ.get(VARIABLE) != "complete_bash":
        return
    text = os.environ.get("COMP_WORDS", "")
    words = text.split("\n") if "\n" in text else text.split()
    position = int(os.environ.get("COMP_CWORD", "0"))
    words = [*words, ""][: position + 1]
    joined = list[str]()
    for word in words:
        if joined and (word == "=" or joined[-1].endswith("=")):
            joined[-1] += word
        else:
            joined.append(word)
    if joined[-1].startswith("--") and "=" in joined[-1]:
        joined[-1:] = joined[-1].split("=", 1)
    key, equals, value = joined[-1].partition("=")
    if equals and len(words) > len(joined):
        os.environ[KEY_VARIABLE] = key
        joined[-1] = value
    os.environ["COMP_WORDS"] = "\n".join(joined)
    os.environ["COMP_CWORD"] = str(len(joined) - 1)


def complete_config(incomplete: str) -> Candidates:
    """Return the names of shipped configs and the paths of YAML files that match the typed text."""
    files = [
        (path, "file") for pattern in ("*.y*ml", "*/*.y*ml") for path in _paths(incomplete, pattern)
    ]
    return [*files, *complete_shipped(incomplete)]


def complete_shipped(incomplete: str) -> Candidates:
    """Return the names of the shipped configs that match the typed text."""
    from seqattn.config.shipped_configs import config_description, shipped_configs

    return [
        (name, _one_line(config_description(file.read_text(encoding="utf-8"))))
        for name, file in shipped_configs().items()
        if name.startswith(incomplete)
    ]


def complete_run(incomplete: str) -> Candidates:
    """Return the run folders that match the typed text, the matching folders that contain runs, and
    the runs in these folders.

    The result has at most `MAX_RUNS` candidates. If the text contains no slash, the function
    searches in `outputs`, the default folder of runs.
    """
    start = incomplete if os.sep in incomplete else f"outputs{os.sep}"
    found = Candidates()
    for path in _paths(start, "*"):
        inner = [each for level in ("*", "*/*") for each in sorted(Path(path).glob(level))]
        runs = [(str(each), "run") for each in inner if _is_run(each)]
        if _is_run(Path(path)):
            found.append((path, "run"))
        elif runs:
            found += [(path, f"folder with {len(runs)} run{'s' * (len(runs) != 1)}"), *runs]
        if len(found) >= MAX_RUNS:
            break
    return found[:MAX_RUNS]


def _paths(incomplete: str, pattern: str) -> list[str]:
    """Return the paths that start with the typed text and continue with a match of a pattern."""
    return sorted(glob.glob(glob.escape(incomplete) + pattern))  # noqa: PTH207  (keeps "./")


def _is_run(path: Path) -> bool:
    """Return whether a folder contains the file `config.yaml` and the folder `checkpoints`."""
    return (path / "config.yaml").is_file() and (path / "checkpoints").is_dir()


def complete_override(incomplete: str) -> Candidates:
    """Return the config keys for `--set` that match the typed text. If only one key matches, or if
    the typed text contains an equals sign, return the values of the key instead."""
    return _complete_key(incomplete, only_reading=False)


def complete_reading(incomplete: str) -> Candidates:
    """Return the same candidates as `complete_override`, but only for `READING_KEYS`."""
    return _complete_key(incomplete, only_reading=True)


def _complete_key(incomplete: str, *, only_reading: bool) -> Candidates:
    """Return the matching config keys. If only one key matches, or if the typed text contains an
    equals sign, return the values of the key instead."""
    keys = key_values(only_reading=only_reading)
    if of_bash := os.environ.get(KEY_VARIABLE):
        return [(value, _one_line(text)) for value, text in keys.get(of_bash, {}).items()]
    key, equals, _ = incomplete.partition("=")
    matching = [key] if equals else [each for each in keys if each.startswith(incomplete)]
    if len(matching) > 1:
        return [(f"{each}=", _one_line(next(iter(keys[each].values())))) for each in matching]
    return [(f"{each}={value}", _one_line(text)) for each in matching
            for value, text in keys.get(each, {}).items()]  # fmt: skip


@functools.cache
def key_values(*, only_reading: bool = False) -> Mapping[str, Mapping[str, str]]:
    """Return the values that completion suggests for the config keys, by dotted key.

    The values are YAML texts, each with the first sentence of the description of the key. If the
    value of a key is not a section and has no fixed choices, the function suggests the default of
    the key if this default is a number or a string, and "" otherwise. It also suggests `null` if
    the key accepts `null`.

    Args:
        only_reading: see `is_settable`.
    """
    from seqattn.config import as_value
    from seqattn.config.keys import (
        all_keys,
        choices,
        field_variants,
        is_settable,
    )

    keys = dict[str, dict[str, str]]()
    for path, section, tag in all_keys():
        if not is_settable(path, tag, only_reading=only_reading):
            continue
        field = section.model_fields[path[-1]]
        types = (field.annotation, *get_args(field.annotation))
        values = [as_value(each) for each in choices(field)]
        if bool in types:
            values += ["true", "false"]
        elif not values and not field_variants(section, path[-1]):
            has_text = isinstance(field.default, str | int | float)
            values.append(as_value(field.default) if has_text else "")
        if type(None) in types:
            values.append("null")
        description = " ".join((field.description or "").split())
        sentence = re.split(r"\.(?: (?=[A-Z])|$)", description)[0]
        for value in values:
            keys.setdefault(".".join(path), {}).setdefault(value, sentence)
    return keys


def _one_line(text: str) -> str:
    """Shorten a description to one line, because typer wraps a long description, and a shell reads
    one candidate per line."""
    return textwrap.shorten(text, 70, placeholder=" ...")
