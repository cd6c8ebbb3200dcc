"""From what pydantic found to what a person reads: where, what came, what would do."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from seqattn.config.knobs import ComparisonFile
from seqattn.config.reading import KeyPath, describe
from seqattn.config.sections import SectionType, every_key, field_variants, sections_at


def sentence(error: ErrorDetails) -> tuple[KeyPath, str]:
    """The path that an error is about, and what to say of it.

    Args:
        error: one of `ValidationError.errors()`.
    """
    path, section, tag = _without_tags(error["loc"])
    given, context = error["input"], error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return path, _unknown_key(path, section, tag, given)
        case "contradiction":
            return (*path, context["key"]), f"{context['message']}."
        case "union_tag_invalid":
            key, names = _discriminator(path), list(sections_at(path))
            came = given.get(key) if isinstance(given, dict) else given
            return (*path, key), _not_a_choice(names, came)
        case "literal_error":
            return path, _not_a_choice(_options(context["expected"]), given)
        case kind:
            return path, expectation(kind, context, path, given)


def expectation(kind: str, context: Mapping[str, Any], path: KeyPath, given: Any) -> str:
    came = f"got {describe(given)}."
    match kind:
        case "int_type" | "int_parsing" | "int_from_float":
            return f"expected a whole number, {came}{_quotes(given)}"
        case "int_parsing_size":
            return f"the number is too large, {came}"
        case "float_type" | "float_parsing":
            return f"expected a number, {came}{_quotes(given)}"
        case "finite_number":
            return f"expected a finite number, {came}"
        case "bool_type" | "bool_parsing":
            return f"expected true or false, {came}{_yes_or_no(given)}"
        case "list_type":
            return f"expected a list such as [4, 16], {came}"
        case "string_type":
            return f"expected a text, {came}"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}, {came}"
        case "greater_than":
            return f"must be greater than {context['gt']:g}, {came}"
        case "less_than_equal":
            return f"must be at most {context['le']:,g}, {came}"
        case "less_than":
            return f"must be less than {context['lt']:g}, {came}"
        case "missing":
            return "is needed, and is not there."
        case "too_short" | "string_too_short":
            return f"must not be empty, {came}"
        case "too_long":
            return f"may have {context['max_length']} entries at most, {came}"
        case "string_too_long" if context["max_length"] != 100:
            signs = context["max_length"]
            return f"may be {signs} character{'s' * (signs > 1)} long at most, {came}"
        case "string_pattern_mismatch" | "string_too_long":
            return (
                "may hold up to 100 letters, digits, '.', '_' and '-', and starts with a letter,"
                f" a digit or '_'; {came}"
            )
        case "model_type" | "model_attributes_type" | "union_tag_not_found" | "dict_type":
            keys = ", ".join(
                dict.fromkeys(key for each in sections_at(path).values() for key in each.names())
            )
            if not keys:
                return f"expected a mapping such as {{temperature: degC}}, {came}"
            return f"expected a section with keys ({keys}), {came}"
        case _:  # a kind of error that no field of ours raises today
            return f"is not valid ({kind}), {came}"


def _without_tags(loc: Sequence[int | str]) -> tuple[KeyPath, SectionType, str]:
    """A pydantic location as keys of the file, with the section (and its tag) that holds it."""
    section: SectionType = ComparisonFile
    tag, path = "", list[str]()
    below: dict[str, SectionType] = {}
    for part in map(str, loc):
        if part in below and (list(below) != [""]):
            section, tag, below = below[part], part, {}
            continue
        if list(below) == [""]:
            section, tag = below[""], ""
        path.append(part)
        below = field_variants(section, part) if part in section.model_fields else {}
    return tuple(path), section, tag


def _discriminator(path: KeyPath) -> str:
    """The key that tells a section's variants apart: the Literal with one value in each."""
    tag, section = next(iter(sections_at(path).items()))
    return next(
        key
        for key, field in section.model_fields.items()
        if sections_at(path)[tag].model_fields[key].default == tag
    )


def _inside(path: KeyPath, given: Any) -> str:
    """What misspelt keys of a section were meant to be that stands where it cannot."""
    if not isinstance(given, dict):
        return ""
    known = {name for section in sections_at(path).values() for name in section.model_fields}
    close = [nearest(str(key), sorted(known)) for key in given if key not in known]
    return "".join(f" Did you mean {'.'.join([*path, name])}?" for name in close[:3] if name)


def _unknown_key(path: KeyPath, section: SectionType, tag: str, given: Any) -> str:
    *parents, key = path
    here = f"{'.'.join(parents)} ({tag})" if tag else ".".join(parents) or "the top level"
    elsewhere: dict[str, list[str]] = {}
    for known, _, known_tag in every_key():
        if known[-1] == key:
            elsewhere.setdefault(".".join(known[:-1]), []).append(known_tag)
    siblings = elsewhere.pop(".".join(parents), None)
    if siblings:
        name = _discriminator(tuple(parents))
        tags = " or ".join(dict.fromkeys(siblings))  # once, however many sections it may stand in
        below = [place for place in elsewhere if place.startswith(".".join(parents) + ".")]
        meant = f" Or did you mean {below[0]}.{key}?" if below else ""
        return f"{here} has no such key; it works with {name}: {tags}.{meant}{_inside(path, given)}"
    around = sections_at(tuple(parents))
    every = [name for each in around.values() for name in each.model_fields]
    close = nearest(key, list(dict.fromkeys([*section.model_fields, *every])))
    if close:
        meant = f"unknown key. Did you mean {'.'.join([*parents, close])}?"
        if close in section.model_fields:
            return meant
        tags = " or ".join(name for name, each in around.items() if close in each.model_fields)
        return f"{meant} It works with {_discriminator(tuple(parents))}: {tags}."
    if elsewhere:
        homes = " or in ".join(home or "the top level" for home in elsewhere)
        return f"unknown key here; this key belongs in {homes}."
    names = {known[-1]: ".".join(known) for known, _, _ in every_key()}
    far = nearest(key, list(names))
    if far:
        return f"unknown key. Did you mean {names[far]}?"
    return f"unknown key. The keys of {here} are {', '.join(section.names())}."


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that a misspelt one most likely meant, or None."""
    folded = {name.lower().replace("_", ""): name for name in known}
    found = difflib.get_close_matches(
        word.lower().replace("_", "").replace("-", ""), folded, 1, 0.6
    )
    return folded[found[0]] if found else None


def _not_a_choice(allowed: Sequence[str], given: Any) -> str:
    if len(allowed) == 1:
        head = f"so far only {allowed[0]} is offered, got {describe(given)}."
    else:
        head = f"expected one of {', '.join(allowed)}; got {describe(given)}."
    close = nearest(given, allowed) if isinstance(given, str) else None
    return f"{head} Did you mean {close}?" if close else head


def _options(expected: str) -> list[str]:
    """pydantic's "'a', 'b' or 'c'" as a list."""
    spelt = {"True": "true", "False": "false"}
    options = [option.strip("'") for option in expected.replace(" or ", ", ").split(", ")]
    return [spelt.get(option, option) for option in options]


def _quotes(given: Any) -> str:
    if not isinstance(given, str):
        return ""
    try:
        return " Remove the quotes." if math.isfinite(float(given)) else ""
    except ValueError:
        return ""


def _yes_or_no(given: Any) -> str:
    words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
    word = words.get(str(given).lower()) if isinstance(given, str) else None
    return f" Write {word}." if word else ""


def listed(mistakes: int) -> str:
    return "1 mistake" if mistakes == 1 else f"{mistakes} mistakes"
