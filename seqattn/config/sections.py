"""Functions that return the keys of the config, and the variants of each section."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Tag

from seqattn.config.knobs import ComparisonFile, Section
from seqattn.config.reading import KeyPath

SectionType = type[Section]
TEXT_TAG = "text"
"""The tag of a plain text in a union with sections."""


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


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a config file, for editors."""
    schema = ComparisonFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
