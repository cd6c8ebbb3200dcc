"""The reference of all keys in Markdown, rendered from the JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from seqattn.config.reading import KeyPath
from seqattn.config.sections import all_keys, selecting_key

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
