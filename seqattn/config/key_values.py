"""The values that shell completion suggests for config keys."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import get_args

from pydantic.fields import FieldInfo

from seqattn.config.plain import as_value
from seqattn.config.sections import all_keys, choices, field_variants, is_settable, key_descriptions


@functools.cache
def key_values(*, only_reading: bool = False) -> Mapping[str, Mapping[str, str]]:
    """Return the values that completion suggests for the config keys, by dotted key.

    The values are YAML texts, each with the first sentence of the description of the key. If the
    value of a key is not a section and has no fixed choices, the function suggests the default of
    the key if this default is a number or a string, and "" otherwise. It also suggests `null` if
    the key accepts `null`.

    Args:
        only_reading: see `is_settable`.
    """
    keys = dict[str, dict[str, str]]()
    for path, section, tag in all_keys():
        if not is_settable(path, tag, only_reading=only_reading):
            continue
        field = section.model_fields[path[-1]]
        description = " ".join(key_descriptions(section)[path[-1]].split())
        sentence = re.split(r"\.(?: (?=[A-Z])|$)", description)[0]
        is_section = bool(field_variants(section, path[-1]))
        for value in _values(field, is_section):
            keys.setdefault(".".join(path), {}).setdefault(value, sentence)
    return keys


def _values(field: FieldInfo, is_section: bool) -> Iterator[str]:
    """Yield the suggested values of a key as YAML texts: the choices of the key or, if it has none,
    its default. For a section, yield only the names that the key accepts instead of a section. In
    both cases, also yield `null` if the key accepts `null`."""
    types = (field.annotation, *get_args(field.annotation))
    yield from map(as_value, choices(field))
    if bool in types:
        yield from ("true", "false")
    elif not is_section and not choices(field):
        has_text = isinstance(field.default, str | int | float)
        yield as_value(field.default) if has_text else ""
    if type(None) in types:
        yield "null"
