"""The names of settings in messages: config keys, or options in `seqattn data check`."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

from seqattn.config import as_value

SHORT_OPTIONS = {"na_values": "--na"}
"""The options that are not named after their config key, by key."""
_names_options: ContextVar[bool] = ContextVar("_names_options", default=False)


@contextlib.contextmanager
def name_options() -> Iterator[None]:
    """Return a context manager in which messages contain the options of `seqattn data check`
    instead of the config keys."""
    token = _names_options.set(True)
    try:
        yield
    finally:
        _names_options.reset(token)


def setting(key: str, value: str | Sequence[str] | None = "") -> str:
    """Return text for a message that states how to set a key of the section `data`.

    For example, the text is `data.ignore: ['day']`, or `--ignore day` in `seqattn data check`.

    Args:
        key: the key without `data.`.
        value: the value, a list of values, None for `null` or `none`, or "" for the name alone.
    """
    if _names_options.get():
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
