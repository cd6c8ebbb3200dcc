"""A config as plain data (dicts, lists, texts, numbers, booleans and None) and back; as YAML."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from seqattn.config.knobs import Config, Section
from seqattn.config.knobs.section import DISCRIMINATORS
from seqattn.config.mistakes import count_mistakes, describe_error
from seqattn.config.reading import KeyPath, read_yaml_text
from seqattn.config.renames import apply_old_defaults, rename_keys
from seqattn.errors import ConfigError

MAPPINGS = (("data", "units"),)
"""Paths of the values that are mappings; every other mapping is a section."""
NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Signs that YAML takes for the end of a line, or refuses, where they are not escaped."""


def as_plain(config: Section) -> dict[str, Any]:
    """A config as dicts, texts, numbers and None, in the order of the knobs."""
    return _order_keys(config.model_dump(mode="json"))


def _order_keys(content: dict[str, Any]) -> dict[str, Any]:
    """The same with each section in the order of `Section.names`."""
    first = [key for key in DISCRIMINATORS if key in content]
    ordered = first + [key for key in content if key not in first]
    return {
        key: _order_keys(content[key]) if isinstance(content[key], dict) else content[key]
        for key in ordered
    }


def is_section(value: Any, path: KeyPath) -> bool:
    """Whether what stands at a path holds keys of the config."""
    return isinstance(value, dict) and path not in MAPPINGS


def leaves(content: Mapping[str, Any], path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    """(path, value) of every value that is no section."""
    found: list[tuple[KeyPath, Any]] = []
    for key, value in content.items():
        at = (*path, key)
        found += leaves(value, at) if is_section(value, at) else [(at, value)]
    return found


def config_differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Dotted path -> (old, new) of every value that is not the same."""
    before = {".".join(at): value for at, value in leaves(as_plain(old))}
    after = {".".join(at): value for at, value in leaves(as_plain(new))}
    return {
        key: (before.get(key), after.get(key))
        for key in before | after
        if before.get(key) != after.get(key)
    }


def from_plain(content: Mapping[str, Any], origin: str) -> Config:
    """A config from plain data that this program wrote, in a checkpoint say.

    Raises:
        ConfigError: it is not valid.
    """
    content, _ = rename_keys(apply_old_defaults(content), {}, warn=False)
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        found = [describe_error(details) for details in error.errors()]
        raise ConfigError(
            f"{origin}: {count_mistakes(len(found))} in the config.",
            [f"{'.'.join(at)}: {words}" for at, words in found],
        ) from None


def upgrade_stored(content: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A config, or some sections of one, that this program stored as plain data, as it would store
    them now: with the keys that have come since. What is not valid any more stays as it is.
    """
    try:
        found = as_plain(from_plain({"name": "stored", **content}, origin))
    except ConfigError:
        return dict(content)
    return {key: found.get(key, value) for key, value in content.items()}


def to_yaml(config: Config, origins: Mapping[str, str] | None = None) -> str:
    """The config as YAML that loads again, each value's origin as a comment beside it."""
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
    """For a comment: a path may hold a line break, behind which YAML would read on."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def as_value(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, float):
        return repr(value)  # the shortest text that reads back as the same number
    if isinstance(value, str) and _is_plain(value):
        return value
    return _in_quotes(value)


def _in_quotes(value: Any) -> str:
    """A text, or a list or mapping of them, for YAML to read back: as JSON writes it, but for signs
    beyond U+FFFF, of which JSON makes two that YAML does not put together again."""
    return NOT_IN_YAML.sub(
        lambda sign: f"\\u{ord(sign.group()):04x}", json.dumps(value, ensure_ascii=False)
    )


@functools.cache
def _is_plain(text: str) -> bool:
    """Whether YAML reads a text without quotes back as that text, where a file would have it."""
    try:
        return bool(
            read_yaml_text(f"a:\n  b: {text}  # c\nd: 1", "").content == {"a": {"b": text}, "d": 1}
        )
    except ConfigError:
        return False
