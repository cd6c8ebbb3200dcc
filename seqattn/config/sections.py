"""The keys of the config as data: which keys exist, and in which variants of a section."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Tag

from seqattn.config.knobs import ComparisonFile, Section
from seqattn.config.reading import KeyPath

SectionType = type[Section]


def variants(annotation: Any) -> dict[str, SectionType]:
    """The sections that an annotation allows, by tag; a section without variants has the tag "".

    Empty if the annotation is a plain value.
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
    """The sections that a key of a section can hold, by tag."""
    return variants(section.model_fields[key].annotation)


def choices(annotation: Any) -> tuple[Any, ...]:
    """The values of the Literal in an annotation; empty without one."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(value for inner in get_args(annotation) for value in choices(inner))


def sections_at(path: Sequence[str]) -> dict[str, SectionType]:
    """All sections that a path can hold, by tag; empty if it holds a value."""
    sections: dict[str, SectionType] = {"": ComparisonFile}
    for key in path:
        below: dict[str, SectionType] = {}
        for section in sections.values():
            if key in section.model_fields:
                below |= field_variants(section, key)
        sections = below
    return sections


def all_keys() -> Iterator[tuple[KeyPath, SectionType, str]]:
    """Yields (path, section, tag of the section) for every key of every variant."""

    def walk(section: SectionType, tag: str, path: KeyPath) -> Iterator[Any]:
        for key in section.model_fields:
            yield (*path, key), section, tag
            for inner_tag, inner in field_variants(section, key).items():
                yield from walk(inner, inner_tag, (*path, key))

    yield from walk(ComparisonFile, "", ())


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a config file, for editors."""
    schema = ComparisonFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
