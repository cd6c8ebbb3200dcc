"""Hints for unknown options with the name of a config key, such as `--epochs`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def config_key_hint(option: str, arguments: Sequence[str], *, only_reading: bool) -> str:
    """Return a hint for an unknown option that has the name of a config key.

    Args:
        option: the unknown option, such as `--learning-rate`. The name of the option may be the
            whole path of a key or the last part of the path, with hyphens or underscores.
        arguments: all arguments of the command, from which the hint takes the value.
        only_reading: see `is_settable`.

    Returns:
        `--set PATH=VALUE` for each key with this name, joined by "or"; "" if there is no such key.
    """
    from seqattn.config.keys import all_keys, is_settable

    name = option.lstrip("-").replace("-", "_")
    paths = dict.fromkeys(
        ".".join(path)
        for path, _, tag in all_keys()
        if name in (path[-1], ".".join(path)) and is_settable(path, tag, only_reading=only_reading)
    )
    value = _value_of(option, arguments)
    return " or ".join(f"--set {shlex.quote(f'{path}={value}')}" for path in paths)


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """Return the value that the user gives for an option, or "VALUE" if the user gives none.

    The value is the text after an equals sign, or the next argument if this argument does not start
    with two hyphens.
    """
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
        if argument == option and following and not following.startswith("--"):
            return following
    return "VALUE"
