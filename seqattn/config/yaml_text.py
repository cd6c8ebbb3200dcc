"""A config as the text of a YAML file."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from seqattn.config.knobs import Config
from seqattn.config.plain import as_plain
from seqattn.config.reading import KeyPath, read_text
from seqattn.errors import ConfigError

NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Signs that YAML takes for the end of a line, or refuses, where they are not escaped."""


def to_yaml(config: Config, origins: Mapping[str, str] | None = None) -> str:
    """The config as YAML that loads again, each value's origin as a comment beside it."""
    lines: list[tuple[str, str]] = []

    def write(section: Mapping[str, Any], path: KeyPath) -> None:
        for key, value in section.items():
            indent = "  " * len(path)
            if isinstance(value, dict):
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
    """A text, or a list of them, for YAML to read back: as JSON writes it, but for signs beyond
    U+FFFF, of which JSON makes two that YAML does not put together again."""
    return NOT_IN_YAML.sub(
        lambda sign: f"\\u{ord(sign.group()):04x}", json.dumps(value, ensure_ascii=False)
    )


@functools.cache
def _is_plain(text: str) -> bool:
    """Whether YAML reads a text without quotes back as that text, where a file would have it."""
    try:
        return bool(
            read_text(f"a:\n  b: {text}  # c\nd: 1", "").content == {"a": {"b": text}, "d": 1}
        )
    except ConfigError:
        return False
