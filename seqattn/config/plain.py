"""The conversion of a config to plain data (dicts, lists, strings, numbers, booleans, None) or
YAML, and the conversion back to a config."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from seqattn.config.mistakes import count_mistakes, describe_error
from seqattn.config.plugins import require_plugins, warn_of_changes
from seqattn.config.reading import KeyPath, read_yaml_text
from seqattn.config.schema import Config, Section
from seqattn.config.section import DISCRIMINATORS
from seqattn.errors import ConfigError

MAPPINGS = (("data", "units"),)
"""The paths of the mappings that are single values. All other mappings are sections."""
PATH_KEYS = ("data.path", "data.validation_path", "data.test_path")
"""The keys with the paths of data files."""
NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""The characters that YAML treats as line ends or rejects if they are not escaped."""


def as_plain(config: Section) -> dict[str, Any]:
    """Convert a config to plain data. The keys of each section are in the order of
    `Section.names`."""
    return _order_keys(config.model_dump(mode="json"))


def _order_keys(content: dict[str, Any]) -> dict[str, Any]:
    """Sort the keys of each section in the order of `Section.names`."""
    first = [key for key in DISCRIMINATORS if key in content]
    ordered = first + [key for key in content if key not in first]
    return {
        key: _order_keys(content[key]) if isinstance(content[key], dict) else content[key]
        for key in ordered
    }


def is_section(value: Any, path: KeyPath) -> bool:
    """Return whether the value at a path is a section of the config."""
    return isinstance(value, dict) and path not in MAPPINGS


def leaves(content: Mapping[str, Any], path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    """Return a pair (path, value) for every value that is not a section."""
    found: list[tuple[KeyPath, Any]] = []
    for key, value in content.items():
        at = (*path, key)
        found += leaves(value, at) if is_section(value, at) else [(at, value)]
    return found


def config_differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Return the values that differ between two configs. The result maps each dotted path to a
    pair (old, new)."""
    before = {".".join(at): value for at, value in leaves(as_plain(old))}
    after = {".".join(at): value for at, value in leaves(as_plain(new))}
    return {
        key: (before.get(key), after.get(key))
        for key in before | after
        if before.get(key) != after.get(key)
    }


UNKNOWN_PATH = "unknown"
"""Placeholder for the path in the config of a checkpoint, because checkpoints store no paths."""


def without_paths(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain data of a config without the paths of data files, and with the file names of
    plugins instead of their paths."""
    data = {key: value for key, value in plain["data"].items() if f"data.{key}" not in PATH_KEYS}
    plugins = [
        {**each, "path": PurePath(each["path"]).name} if "path" in each else each
        for each in plain.get("plugins", ())
    ]
    return {**plain, "data": data, "plugins": plugins}


def from_plain(content: Mapping[str, Any], origin: str) -> Config:
    """Build a config from stored plain data, such as the data in a checkpoint.

    Args:
        content: the plain data.
        origin: the origin of the data, for error messages.

    Raises:
        ConfigError: if the data are not a valid config.
        PluginError: if the config needs a plugin that is not loaded. The function loads no plugin.
    """
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        require_plugins(content, origin)
        found = [describe_error(details) for details in error.errors()]
        raise ConfigError(
            f"{origin}: {count_mistakes(len(found))} in the config.",
            [f"{'.'.join(at)}: {words}" for at, words in found],
        ) from None
    warn_of_changes(config)
    return config


def to_yaml(config: Config, origins: Mapping[str, str] | None = None) -> str:
    """Convert a config to YAML text.

    Args:
        config: the config.
        origins: the origin of each value, by dotted path, for a comment beside the value; None for
            text without comments.
    """
    lines: list[tuple[str, str]] = []

    def write(section: Mapping[str, Any], path: KeyPath) -> None:
        for key, value in section.items():
            indent = "  " * len(path)
            if is_section(value, (*path, key)):
                lines.append((f"{indent}{key}:", ""))
                write(value, (*path, key))
            else:
                origin = _on_one_line((origins or {}).get(".".join((*path, key)), ""))
                lines.append((f"{indent}{key}: {as_value(value)}", origin))

    write(as_plain(config), ())
    if origins is None:
        return "".join(f"{text}\n" for text, _ in lines)
    width = max(len(text) for text, _ in lines)
    return "".join(
        f"{text:<{width}}  # {origin}\n" if origin else f"{text}\n" for text, origin in lines
    )


def _on_one_line(text: str) -> str:
    """Escape line breaks and other unprintable characters in the text of a comment."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def as_value(value: Any) -> str:
    """Convert a value to YAML text on one line."""
    if isinstance(value, float):
        return repr(value)  # the shortest text that YAML reads as the same number
    if isinstance(value, str) and _is_plain(value):
        return value
    return _in_quotes(value)


def _in_quotes(value: Any) -> str:
    """Convert a value to JSON text that YAML can read. Characters beyond U+FFFF are not written as
    surrogate pairs, because YAML does not support such pairs."""
    return NOT_IN_YAML.sub(
        lambda sign: f"\\u{ord(sign.group()):04x}", json.dumps(value, ensure_ascii=False)
    )


@functools.cache
def _is_plain(text: str) -> bool:
    """Return whether YAML reads a string without quotes as the same string."""
    try:
        return bool(
            read_yaml_text(f"a:\n  b: {text}  # c\nd: 1", "").content == {"a": {"b": text}, "d": 1}
        )
    except ConfigError:
        return False
