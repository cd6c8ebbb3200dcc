"""The keys of the config and the variants of each section, and what is made from them: the JSON
Schema and the reference in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from seqattn.config.reading import KeyPath
from seqattn.config.schema import ComparisonFile, Section
from seqattn.config.section import Variants

SectionType = type[Section]
READING_KEYS = (
    "format", "layout", "series", "time", "ignore", "missing", "spacing", "na_values",
    "time_format", "delimiter", "decimal", "thousands", "comment", "skip_rows", "header",
    "encoding",
)  # fmt: skip
"""Keys of the `data` section that control how a file is read. A new file may need other values of
these keys than the training data."""


def variants_of(field: FieldInfo) -> Variants | None:
    """Return the variants of a key; None if the key has only one type."""
    inner = [each for of in get_args(field.annotation) for each in getattr(of, "__metadata__", ())]
    return next((each for each in (*field.metadata, *inner) if isinstance(each, Variants)), None)


def field_variants(section: SectionType, key: str) -> dict[str, SectionType]:
    """Return the sections that are allowed as the value of a key, as a mapping from the name of the
    variant to the section. A section without variants has the name ""."""
    field = section.model_fields[key]
    if found := variants_of(field):
        return found.sections
    types = (field.annotation, *get_args(field.annotation))
    plain = [each for each in types if isinstance(each, type) and issubclass(each, Section)]
    return {"": plain[0]} if plain else {}


def choices(field: FieldInfo) -> tuple[Any, ...]:
    """Return the names or values to which a key is limited; an empty tuple if there are none."""
    if found := variants_of(field):
        return (*found.names, *found.sections) if found.names else ()
    types = (field.annotation, *get_args(field.annotation))
    return tuple(value for each in types if get_origin(each) is Literal for value in get_args(each))


def sections_at(path: Sequence[str]) -> dict[str, SectionType]:
    """Return all sections that are allowed at a path, as a mapping from tag to section. The result
    is empty if the config has no section at this path."""
    sections: dict[str, SectionType] = {"": ComparisonFile}
    for key in path:
        below: dict[str, SectionType] = {}
        for section in sections.values():
            if key in section.model_fields:
                below |= field_variants(section, key)
        sections = below
    return sections


def selecting_key(path: Sequence[str]) -> str:
    """Return the key that selects the variant of the section at a path, such as "kind"."""
    fields = (each.model_fields.get(path[-1]) for each in sections_at(path[:-1]).values())
    return next(found.key for field in fields if field and (found := variants_of(field)))


def all_keys() -> Iterator[tuple[KeyPath, SectionType, str]]:
    """Yield a tuple (path, section, tag of the section) for every key of every variant."""

    def walk(section: SectionType, tag: str, path: KeyPath) -> Iterator[Any]:
        for key in section.model_fields:
            yield (*path, key), section, tag
            for inner_tag, inner in field_variants(section, key).items():
                yield from walk(inner, inner_tag, (*path, key))

    yield from walk(ComparisonFile, "", ())


def is_settable(path: KeyPath, tag: str, *, only_reading: bool) -> bool:
    """Return whether the option `--set` of a command accepts a key.

    Args:
        path: the path of the key.
        tag: the tag of the section that contains the key.
        only_reading: whether the command accepts only `READING_KEYS`. Other commands accept all
            keys except those of the section `compare`.
    """
    if only_reading:
        return tag == "file" and path in {("data", key) for key in READING_KEYS}
    return path[0] != "compare"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a config file, for editors."""
    schema = ComparisonFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


HEAD = """# Config keys

`seqattn config schema --markdown --output docs/config.md` generates this page from the code. If a
config contains an unknown key, every command that reads the config ends with an error that names
the file and the line, and suggests the nearest valid key or lists the valid keys of the section.
`seqattn config show my.yaml` prints every value and its origin.

A heading such as "`data` (kind: copy)" refers to the section `data` with `kind: copy`. If the
default of a key is "required", the config must contain the key.
"""

BOUNDS = {"minimum": "{} or more", "exclusiveMinimum": "above {}", "maximum": "{} at most",
          "exclusiveMaximum": "below {}"}  # fmt: skip
"""The text for each keyword of JSON Schema that sets a bound."""


def render_manual(schema: Mapping[str, Any]) -> str:
    """Render the reference of all keys in Markdown, with a heading per section and a table row per
    key.

    Args:
        schema: the JSON Schema that `seqattn.config.json_schema` returns.
    """
    sections: dict[tuple[KeyPath, str], list[str]] = {}
    descriptions: dict[tuple[KeyPath, str], str] = {}
    for path, section, tag in all_keys():
        place = (path[:-1], tag)
        definition = schema["$defs"].get(section.__name__, schema)
        found = definition["properties"][path[-1]]
        rows = sections.setdefault(place, [])
        descriptions[place] = " ".join(str(definition.get("description", "")).split())
        row = _table_row(path[-1], found, path[-1] in definition.get("required", ()))
        if row not in rows:
            rows.append(row)
    lines = [HEAD]
    for (path, tag), rows in sections.items():
        dotted = ".".join(path)
        name = f"`{dotted}`" if dotted else "The file"
        if tag:
            name += f" ({selecting_key(path)}: {tag})"
        lines += [f"## {name}", "", descriptions[path, tag], "", "| key | values | default | |",
                  "| --- | --- | --- | --- |", *rows, ""]  # fmt: skip
    return "\n".join(lines)


def _table_row(key: str, found: Mapping[str, Any], required: bool) -> str:
    default = "required" if required else _default_text(found.get("default"), found)
    words = " ".join(str(found.get("description", "")).split())
    cells = [f"`{key}`", _value_types(found), default, words]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default_text(value: Any, found: Mapping[str, Any]) -> str:
    if isinstance(value, dict):
        first = next((value[k] for k in ("kind", "score", "schedule") if k in value), None)
        return f"`{first}`" if first is not None else "a section"
    if value is None and "default" not in found:
        return ""
    return f"`{json.dumps(value, ensure_ascii=False)}`".replace('"', "")


def _value_types(found: Mapping[str, Any]) -> str:
    """Return a Markdown description of the allowed values of a key."""
    if "const" in found:
        return f"`{found['const']}`"
    if "enum" in found:
        return ", ".join(f"`{value}`" for value in found["enum"])
    if "anyOf" in found or "oneOf" in found:
        parts = [_value_types(one) for one in found.get("anyOf", found.get("oneOf", ()))]
        return ", ".join(dict.fromkeys(part for part in parts if part))
    if "$ref" in found:
        return "a section"
    kind = str(found.get("type", ""))
    names = {"integer": "whole number", "number": "number", "boolean": "`true`, `false`",
             "string": "text", "array": "list", "object": "mapping", "null": "`null`"}  # fmt: skip
    bounds = ", ".join(
        words.format(found[bound]) for bound, words in BOUNDS.items() if bound in found
    )
    return names.get(kind, kind) + (f" ({bounds})" if bounds else "")
