"""Functions that return the keys of the config, and the variants of each section."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Tag

from seqattn.config.reading import KeyPath
from seqattn.config.schema import ComparisonFile, Plugin, Section

SectionType = type[Section]
TEXT_TAG = "text"
"""The tag of a plain text in a union with sections."""
READING_KEYS = (
    "format", "layout", "series", "time", "ignore", "missing", "spacing", "na_values",
    "time_format", "delimiter", "decimal", "thousands", "comment", "skip_rows", "header",
    "encoding",
)  # fmt: skip
"""Keys of the `data` section that control how a file is read. A new file may need other values of
these keys than the training data."""


def variants(annotation: Any) -> dict[str, SectionType]:
    """Return the sections that an annotation allows, as a mapping from tag to section. A section
    without variants has the tag "".

    The result is empty if the annotation allows no section.
    """
    found: dict[str, SectionType] = {}
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        tags = [extra.tag for extra in extras if isinstance(extra, Tag)]
        for tag, section in variants(inner).items():
            found[tags[0] if tags else tag] = section
    elif origin in (Union, types.UnionType):
        for choice in get_args(annotation):
            found |= variants(choice)
    elif isinstance(annotation, type) and issubclass(annotation, Section):
        found[""] = annotation
    return found


def field_variants(section: SectionType, key: str) -> dict[str, SectionType]:
    """Return the sections that are allowed as the value of a key, as a mapping from tag to
    section."""
    return variants(section.model_fields[key].annotation)


def choices(annotation: Any) -> tuple[Any, ...]:
    """Return the values of the `Literal` in an annotation, or an empty tuple if there is no
    `Literal`."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for inner in get_args(annotation) for value in choices(inner))


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


def all_keys() -> Iterator[tuple[KeyPath, SectionType, str]]:
    """Yield a tuple (path, section, tag of the section) for every key of every variant."""

    def walk(section: SectionType, tag: str, path: KeyPath) -> Iterator[Any]:
        for key in section.model_fields:
            yield (*path, key), section, tag
            for inner_tag, inner in field_variants(section, key).items():
                yield from walk(inner, inner_tag, (*path, key))

    yield from walk(ComparisonFile, "", ())


@functools.cache
def key_descriptions(section: SectionType) -> Mapping[str, str]:
    """Return the descriptions of a section's keys: the string below each attribute in the source of
    the class or its base classes, or else the description in pydantic's `FieldInfo`.

    pydantic can collect these strings when it defines a class (`use_attribute_docstrings`). Parsing
    the sources of all sections takes 0.06 seconds, which only a few commands need to spend.
    """
    found = {key: field.description or "" for key, field in section.model_fields.items()}
    for cls in reversed(section.__mro__):
        if not issubclass(cls, Section) or not (source := _source(cls)):
            continue
        (definition,) = ast.parse(source).body
        assert isinstance(definition, ast.ClassDef)
        for attribute, below in itertools.pairwise(definition.body):
            match attribute, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=key)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ) if key in found:
                    found[key] = inspect.cleandoc(text)
    return found


def _source(cls: type) -> str:
    """Return the source of a class, or "" if it has no source file."""
    try:
        return textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return ""


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
    sections: set[SectionType] = {Plugin, *(section for _, section, _ in all_keys())}
    for section in sections:
        properties = schema["$defs"].get(section.__name__, schema)["properties"]
        for key, text in key_descriptions(section).items():
            properties[key] = dict(sorted({**properties[key], "description": text}.items()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
