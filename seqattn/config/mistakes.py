"""Error messages for pydantic's validation errors. Most messages contain the actual value and the
expected value."""

from __future__ import annotations

import contextlib
import difflib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic_core import ErrorDetails

from seqattn.config.keys import (
    SectionType,
    all_keys,
    choices,
    field_variants,
    sections_at,
    selecting_key,
    variants_of,
)
from seqattn.config.reading import KeyPath, describe_value, is_plain_number
from seqattn.config.schema import ComparisonFile


def describe_error(error: ErrorDetails, content: Mapping[str, Any]) -> tuple[KeyPath, str]:
    """Return the path of the key that an error concerns, and the message of the error.

    Args:
        error: an element of the list that `ValidationError.errors()` returns.
        content: the plain data of the config.
    """
    path, words = _describe(error, content)
    if error["type"] in ("extra_forbidden", "contradiction") or not _means_null(error["input"]):
        return path, words
    return path, f"{words} Write null." if _may_be_null(path) else words


def _means_null(given: Any) -> bool:
    """Return whether a user who wrote this value may have meant null."""
    return isinstance(given, str) and given.lower() in ("none", "nil", "no", "off", "false")


def _may_be_null(path: KeyPath) -> bool:
    """Return whether a key accepts null."""
    return any(
        type(None) in get_args(section.model_fields[path[-1]].annotation)
        for section in sections_at(path[:-1]).values()
        if path[-1] in section.model_fields
    )


def _describe(error: ErrorDetails, content: Mapping[str, Any]) -> tuple[KeyPath, str]:
    path = tuple(map(str, error["loc"]))
    given, context = error["input"], error.get("ctx", {})
    if path[:1] == ("plugins",) and len(path) > 1:
        return path[:1], (
            f"entry {int(path[1]) + 1}: expected the file or the module of a plugin, such as"
            f" my_attention.py or {{path: my_attention.py}}, at {'.'.join(path)}."
        )
    match error["type"]:
        case "extra_forbidden" if not path[-1]:
            return path, "is an empty key. Remove it, or name a key."
        case "extra_forbidden":
            return path, _unknown_key(path, *_section_of(path, content), given)
        case "contradiction":
            return (*path, context["key"]), f"{context['message']}."
        case "not_a_choice":
            path = (*path, context["key"]) if context["key"] else path
            return path, _not_a_choice(context["choices"], context["given"]) + (
                " If a plugin defines this name, load the plugin with plugins: [FILE] or --plugin"
                " FILE."
            ) * ("noun" in context)
        case "literal_error":
            path = path[:-1] if path[-1].isdigit() else path  # an entry of a list
            section, _ = _section_of(path, content)
            return path, _not_a_choice(choices(section.model_fields[path[-1]]), given)
        case "missing_name":
            others = f" beside {', '.join(map(str, given))}" if given else ""
            names = ", ".join(context["choices"])
            return (*path, context["key"]), f"is required{others}: one of {names}."
        case kind:
            return path, describe_expectation(kind, context, path, given)


EXPECTED = {
    "int_type": "a whole number", "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "finite_number": "a finite number",
    "bool_type": "true or false", "bool_parsing": "true or false",
    "list_type": "a list such as [4, 16]", "string_type": "text",
}  # fmt: skip
"""A description of the expected value, by pydantic's error type."""
BOUNDS = {
    "greater_than_equal": ("ge", "at least"), "greater_than": ("gt", "greater than"),
    "less_than_equal": ("le", "at most"), "less_than": ("lt", "less than"),
}  # fmt: skip
SECTION_TYPES = ("model_type", "dict_type")


def describe_expectation(kind: str, context: Mapping[str, Any], path: KeyPath, given: Any) -> str:
    """Return the message for an invalid or missing value.

    Args:
        kind: pydantic's error type.
        context: pydantic's context of the error, which contains, for example, a bound.
        path: the path of the key.
        given: the actual value.
    """
    actual = f"got {describe_value(given)}."
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}, {actual}{_correction(kind, given)}"
    if kind in BOUNDS:
        key, words = BOUNDS[kind]
        bound = context[key]
        is_whole = isinstance(bound, int)
        return f"must be {words} {f'{bound:,}' if is_whole else f'{bound:,g}'}, {actual}"
    if kind in SECTION_TYPES:
        keys = dict.fromkeys(key for each in sections_at(path).values() for key in each.names())
        if not keys:
            return f"expected a mapping such as {{temperature: degC}}, {actual}"
        return f"expected a section with keys ({', '.join(keys)}), {actual}"
    match kind:
        case "int_parsing_size":
            return f"the number is too large, {actual}"
        case "missing":
            return "is required, but missing."
        case "too_short" | "string_too_short":
            return f"must not be empty, {actual}"
        case "too_long":
            return f"may have at most {context['max_length']} entries, {actual}"
        case "string_too_long" if context["max_length"] != 100:
            signs = context["max_length"]
            return f"may have at most {signs} character{'s' * (signs > 1)}, {actual}"
        case "string_pattern_mismatch" | "string_too_long":
            return (
                "may have up to 100 letters, digits, '.', '_' and '-', and must start with a"
                f" letter, a digit or '_'; {actual}"
            )
        case _:  # no field raises any other kind of error at present
            return f"is not valid ({kind}), {actual}"


def _correction(kind: str, given: Any) -> str:
    """Return a suggested correction of a string that was given in place of a number or boolean."""
    if not isinstance(given, str):
        return ""
    if kind.startswith("bool"):
        words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
        word = words.get(given.lower())
        return f" Write {word}." if word else ""
    if not kind.startswith(("int", "float")):
        return ""
    if re.fullmatch("[+-]?0[0-9]+", given):
        octal = "" if set(given) & {"8", "9"} else f", or {int(given, 8)} if it is octal"
        return f" A number cannot start with 0: write {int(given)}{octal}."
    if is_plain_number(given):
        return " Remove the quotes."
    for parse in (lambda text: int(text, 0), float):
        with contextlib.suppress(ValueError):
            return f" Write {number!r}." if math.isfinite(number := parse(given)) else ""
    return ""


def _section_of(path: KeyPath, content: Any) -> tuple[SectionType, str]:
    """Return the section that contains the last key of a path, and the name of its variant."""
    section: SectionType = ComparisonFile
    name = ""
    for key in path[:-1]:
        content = content[key]
        variants = variants_of(section.model_fields[key])
        name = content.get(variants.key, variants.default) if variants else ""
        section = field_variants(section, key)[name]
    return section, name


def _suggest_inside(path: KeyPath, given: Any) -> str:
    """Return suggestions for misspelled keys in a misplaced section."""
    if not isinstance(given, dict):
        return ""
    known = {name for section in sections_at(path).values() for name in section.model_fields}
    close = [nearest(str(key), sorted(known)) for key in given if key not in known]
    return "".join(f" Did you mean {'.'.join([*path, name])}?" for name in close[:3] if name)


def _unknown_key(path: KeyPath, section: SectionType, tag: str, given: Any) -> str:
    """Return the message for a key that does not exist in the section."""
    *parents, key = path
    parent = ".".join(parents)
    holder = f"{parent} ({tag})" if tag else parent or "the top level"
    tags_by_parent: dict[str, list[str]] = {}
    for known, _, known_tag in all_keys():
        if known[-1] == key:
            tags_by_parent.setdefault(".".join(known[:-1]), []).append(known_tag)
    tags = tags_by_parent.pop(parent, [])
    if tags:
        inner = [f"{place}.{key}" for place in tags_by_parent if place.startswith(f"{parent}.")]
        meant = f" Or did you mean {inner[0]}?" if inner else ""
        return (
            f"{holder} has no such key; it works with {_name_variants(path[:-1], tags)}.{meant}"
            f"{_suggest_inside(path, given)}"
        )
    if close := _nearest_sibling(path, section, given):
        return close
    if tags_by_parent:
        sections = " or in ".join(home or "the top level" for home in tags_by_parent)
        return f"unknown key here; this key belongs in {sections}."
    names = {known[-1]: ".".join(known) for known, _, _ in all_keys()}
    far = nearest(key, list(names))
    if far:
        return f"unknown key. Did you mean {names[far]}?"
    return f"unknown key. The keys of {holder} are {', '.join(section.names())}."


def _known_below(path: list[str], given: Any) -> list[str]:
    """Extend the path of a section by the keys in it that a value sets, as long as each section of
    the value has only one key, and this key exists."""
    while isinstance(given, dict) and len(given) == 1:
        ((key, given),) = given.items()
        if not any(key in section.model_fields for section in sections_at(path).values()):
            break
        path = [*path, key]
    return path


def _nearest_sibling(path: KeyPath, section: SectionType, given: Any) -> str:
    """Return the message for a misspelled key of the section or of another variant of the section;
    "" if no similar key exists.

    Args:
        given: the value of the misspelled key.
    """
    *parents, key = path
    around = sections_at(parents)
    every = [name for each in around.values() for name in each.model_fields]
    close = nearest(key, list(dict.fromkeys([*section.model_fields, *every])))
    if close is None:
        return ""
    meant = f"unknown key. Did you mean {'.'.join(_known_below([*parents, close], given))}?"
    if close in section.model_fields:
        return meant
    tags = [tag for tag, each in around.items() if close in each.model_fields]
    return f"{meant} It works with {_name_variants(path[:-1], tags)}."


def _name_variants(path: KeyPath, tags: Sequence[str]) -> str:
    """Return text that names variants of the section at a path, such as `kind: copy or sort`."""
    return f"{selecting_key(path)}: {' or '.join(dict.fromkeys(tags))}"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that is most similar to a word, or None if no known word is similar."""
    folded = {name.lower().replace("_", ""): name for name in known}
    found = difflib.get_close_matches(
        word.lower().replace("_", "").replace("-", ""), folded, 1, 0.6
    )
    return folded[found[0]] if found else None


def _not_a_choice(allowed: Sequence[str], given: Any) -> str:
    """Return the message for a value that is not one of the choices."""
    if len(allowed) == 1:
        head = f"expected {allowed[0]}, got {describe_value(given)}."
    else:
        head = f"expected one of {', '.join(allowed)}; got {describe_value(given)}."
    close = nearest(given, allowed) if isinstance(given, str) else None
    return f"{head} Did you mean {close}?" if close else head


def count_mistakes(mistakes: int) -> str:
    """Return the number of mistakes as text, such as `2 mistakes`."""
    return "1 mistake" if mistakes == 1 else f"{mistakes} mistakes"
