"""A reader of YAML that returns plain data with the line numbers of keys.

The reader rejects features that configs do not need: tags, anchors, aliases, several documents,
duplicate keys and keys that are not strings. The reader also rejects files that are too large or
too deeply nested. Scalars follow the core schema of YAML 1.2, so `1e-4` is a number, while `off`,
`no` and `12:30` are strings. Unlike in the core schema, `0x1f`, `0o17` and `017` are also strings.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from seqattn.config.files import read_regular_file
from seqattn.config.shipped_configs import CLONE_FOLDER, STDIN, shipped_configs
from seqattn.errors import ConfigError

MAX_BYTES = 1_000_000
MAX_DEPTH = 20
KeyPath = tuple[str, ...]

_CORE_SCHEMA = {
    "null": re.compile(r"^(?:~|null|Null|NULL|)$"),
    "bool": re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
    "int": re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"),
    "float": re.compile(
        r"^[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|\.inf|\.Inf|\.INF)$|^(?:\.nan|\.NaN|\.NAN)$"
    ),
}
_LEADING_ZEROS = re.compile(r"^[-+]?0[0-9]+$")
_MAX_DIGITS = 400


@dataclass(frozen=True)
class Document:
    """Plain data with line numbers.

    Attributes:
        content: the plain data, which consist of dicts, lists, strings, numbers, booleans and None.
            A text without any value, such as a comment, has the content None.
        lines: the line number of each key, counted from 1, by the path of keys. Keys inside lists
            have no entry.
        is_empty: whether the text contains no value.
    """

    content: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    is_empty: bool = False


def read_yaml_file(path: Path, *, is_stored: bool = False) -> Document:
    """Read a YAML file, a pipe, or standard input.

    Args:
        path: the path; `STDIN` for standard input.
        is_stored: whether the file is in a run folder, which contains only regular files. Reading a
            pipe in its place might never end.

    Raises:
        ConfigError: if the file cannot be read, or does not contain a plain YAML mapping.
    """
    try:
        if path == STDIN:
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        elif is_stored or not path.is_fifo():
            raw = read_regular_file(path, MAX_BYTES)
        else:
            with path.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        meant = " or ".join(_similar_files(path))
        hint = f"Did you mean {meant}?" if meant else "Give the path of a YAML file."
        raise ConfigError(f"{path}: no such file. {hint}") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}). Give the path of a YAML file."
        ) from None
    except ValueError:  # the path contains a NUL
        raise ConfigError(f"{str(path)!r}: is not a path. Give the path of a YAML file.") from None
    if len(raw) > MAX_BYTES:  # of a pipe; files are measured before they are read
        raise ConfigError(
            f"{path}: is larger than {MAX_BYTES:,} bytes; a config is a page of text."
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}:{line}: byte {raw[error.start]:#04x} is not UTF-8. Save the file as UTF-8."
        ) from None
    document = read_yaml_text(text, str(path))
    if document.is_empty:
        raise ConfigError(
            f"{path}: is empty. A config is a mapping such as 'name: squares';"
            " `seqattn config show` prints one with every default."
        )
    if not isinstance(document.content, dict):
        raise ConfigError(
            f"{path}:1: expected a mapping of keys such as 'name: squares',"
            f" got {describe_value(document.content)}."
        )
    return document


def _similar_files(path: Path) -> list[str]:
    """Return the YAML files with names that are similar to the name of a missing file.

    The function searches the folder of the missing file, then `configs/`, and then the shipped
    configs, and stops at the first place that contains similar names. The result contains the name
    of a shipped config instead of its path.
    """
    by_file = [
        {str(file): file.stem for file in sorted(files)}
        for files in (path.parent.glob("*.y*ml"), Path(CLONE_FOLDER).rglob("*.y*ml"))
    ]
    shipped = {
        f"{name} (the name of a shipped config)": file.stem
        for name, file in shipped_configs().items()
    }
    for stem_of in (*by_file, shipped):
        stems = sorted(set(stem_of.values()))
        close = [path.stem] if path.stem in stems else []
        for stem in close or difflib.get_close_matches(path.stem, stems, 3, 0.75):
            close += [stem] if stem not in close else []
        if close:
            return [file for stem in close for file, known in stem_of.items() if known == stem]
    return []


def read_yaml_text(text: str, origin: str) -> Document:
    """Read YAML text.

    Args:
        text: the YAML text.
        origin: the origin of the text, for error messages.

    Raises:
        ConfigError: if the text is not plain YAML.
    """
    try:
        _check_yaml_features(text, origin)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = " ".join(part for part in (error.context, error.problem) if part)
        if re.match(r"[ \t]*\t", "".join(text.splitlines()[line - 1 : line])):
            raise ConfigError(
                f"{origin}:{line}: is indented with a tab, which YAML does not allow. Use spaces."
            ) from None
        raise ConfigError(f"{origin}:{line}: is not valid YAML: {problem}.") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise ConfigError(
            f"{origin}:{line}: character {error.character:#x} is not allowed in YAML."
        ) from None
    lines: dict[KeyPath, int] = {}
    mistakes: list[str] = []
    if node is None or _is_empty(node):
        return Document(None, is_empty=True)
    content = _to_plain(node, (), lines, mistakes, origin)
    if mistakes:
        raise ConfigError(f"{origin}: cannot be read as a config.", mistakes)
    return Document(content, lines)


def read_yaml_list(text: str, origin: str) -> list[Any]:
    """Read the values of an option such as `--vary`: YAML values with commas between them, with or
    without the brackets of a YAML list. To give a single value that is a list, write two pairs of
    brackets.

    Args:
        text, origin: see `read_yaml_text`.
    """
    values: list[Any] = read_yaml_text(f"[{text}]", origin).content
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def describe_value(value: Any) -> str:
    """Return a short description of a value, for messages."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {shorten_text(repr(value))}"
        case dict():
            return "a mapping" if value else "an empty mapping"
        case list():
            return "a list"
        case int() if abs(value) >= 10**20:
            return f"a number of {len(str(abs(value)))} digits"
        case _:
            return shorten_text(str(value))


def is_plain_number(text: str) -> bool:
    """Return whether a text without quotes is a finite number in YAML."""
    return bool(_CORE_SCHEMA["int"].match(text)) or (
        bool(_CORE_SCHEMA["float"].match(text)) and text[-1].lower() not in "fn"
    )


def shorten_text(text: str, size: int = 60) -> str:
    """Shorten a text to at most `size` characters."""
    return text if len(text) <= size else text[: size - 3] + "..."


def _check_yaml_features(text: str, origin: str) -> None:
    """Check the events of the YAML parser before data are built from them. The check is not
    recursive, so deep nesting cannot exceed Python's recursion limit.

    Raises:
        ConfigError: if the text has tags, anchors, aliases, several documents or too many levels.
    """
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise ConfigError(
                    f"{origin}:{line}: a second document starts here. One file holds one config;"
                    " remove the '---'."
                )
        if anchor is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            raise ConfigError(
                f"{origin}:{line}: anchors and aliases ('{sign}{anchor}') are not allowed."
                " Write the value out."
            )
        if tag is not None:
            raise ConfigError(
                f"{origin}:{line}: tags ({shorten_text(repr(tag))}) are not allowed."
                " Write a plain value."
            )
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigError(
                    f"{origin}:{line}: is nested deeper than {MAX_DEPTH} levels; a config has 3."
                )
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1


def _to_plain(
    node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], mistakes: list[str], origin: str
) -> Any:
    """Convert a YAML node to plain data. Add the line numbers of the node's keys to `lines`, and
    add the mistakes in the node to `mistakes`."""
    if isinstance(node, yaml.ScalarNode):
        if _is_empty(node):
            mistakes.append(
                f"{origin}:{node.start_mark.line + 1}: {'.'.join(path)}: has no value. Write null"
                " to set nothing, or remove the key."
            )
            return None
        try:
            return _parse_scalar(node)
        except ValueError as error:
            mistakes.append(f"{origin}:{node.start_mark.line + 1}: {'.'.join(path)}: {error}")
            return None
    if isinstance(node, yaml.SequenceNode):
        return [_to_plain(item, path, {}, mistakes, origin) for item in node.value]
    content: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = _parse_scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            mistakes.append(f"{origin}:{line}: a key must be text, got {describe_value(key)}.")
            continue
        key_path = (*path, key)
        if key in content:
            mistakes.append(
                f"{origin}:{line}: {'.'.join(key_path)}: is repeated, first on line"
                f" {lines[key_path]}. Keep one of the two."
            )
            continue
        lines[key_path] = line
        content[key] = _to_plain(value_node, key_path, lines, mistakes, origin)
    return content


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.value and node.style is None


def _parse_scalar(node: yaml.ScalarNode) -> Any:
    """Return the value of a scalar, according to the rules in the module's docstring. A quoted
    scalar is a string.

    Raises:
        ValueError: if the scalar is an integer with too many digits.
    """
    text: str = node.value
    if node.style is not None:
        return text
    if _CORE_SCHEMA["null"].match(text):
        return None
    if _CORE_SCHEMA["bool"].match(text):
        return text[0] in "tT"
    if len(text) > _MAX_DIGITS and text.lstrip("+-").isdigit():
        raise ValueError(f"a number of {len(text)} digits is too long.")
    if _CORE_SCHEMA["int"].match(text):
        return int(text)
    if _LEADING_ZEROS.match(text):
        return text  # octal in YAML 1.1, decimal in 1.2
    if _CORE_SCHEMA["float"].match(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
