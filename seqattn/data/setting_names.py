"""The names of settings in messages: config keys, options in `seqattn data check`, or changes of a
DataFrame in Python."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Literal

from seqattn.config import as_value

SHORT_OPTIONS = {"na_values": "--na"}
"""The options that are not named after their config key, by key."""
Origin = Literal["config", "options", "frame"]
_origin: ContextVar[Origin] = ContextVar("_origin", default="config")


@contextlib.contextmanager
def name_origin(origin: Origin) -> Iterator[None]:
    """Return a context manager in which messages contain the remedies for an origin of settings:
    config keys, the options of `seqattn data check`, or a DataFrame in Python."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)


def renaming(others: str = ".") -> str:
    """Return text for a message that states to rename a column.

    Args:
        others: the end of the sentence, with remedies other than renaming the column of a file.
    """
    if _origin.get() == "frame":
        return "Rename a column of the DataFrame, or its index."
    return f"Rename the column in the file{others}"


def setting(key: str, value: str | Sequence[str] | None = "") -> str:
    """Return text for a message that states how to set a key of the section `data`.

    For example, the text is `data.ignore: ['day']`, or `--ignore day` in `seqattn data check`.

    Args:
        key: the key without `data.`.
        value: the value, a list of values, None for `null` or `none`, or "" for the name alone.
    """
    if _origin.get() == "options":
        option = SHORT_OPTIONS.get(key, f"--{key.replace('_', '-')}")
        if value == "":
            return option
        if value is None:
            return f"{option} none"
        text = shlex.quote(value if isinstance(value, str) else ",".join(value))
        return f"{option}={text}" if text.startswith("-") or text == "''" else f"{option} {text}"
    if value == "":
        return f"data.{key}"
    if value is None:
        return f"data.{key}: null"
    return f"data.{key}: {as_value(value) if isinstance(value, str) else list(value)}"
