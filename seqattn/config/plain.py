"""A config as plain data (dicts, lists, texts, numbers, booleans and None), and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from seqattn.config.knobs import Config, Section
from seqattn.config.knobs.section import APART
from seqattn.config.mistakes import listed, sentence
from seqattn.config.reading import KeyPath
from seqattn.config.renames import with_new_names, with_old_defaults
from seqattn.errors import ConfigError


def as_plain(config: Section) -> dict[str, Any]:
    """A config as dicts, texts, numbers and None, in the order of the knobs."""
    return _discriminator_first(config.model_dump(mode="json"))


def _discriminator_first(content: dict[str, Any]) -> dict[str, Any]:
    """The same with each section in the order of `Section.names`."""
    first = [key for key in APART if key in content]
    ordered = first + [key for key in content if key not in first]
    return {
        key: _discriminator_first(content[key]) if isinstance(content[key], dict) else content[key]
        for key in ordered
    }


def leaves(content: Mapping[str, Any], path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    """(path, value) of every value that is no mapping."""
    found: list[tuple[KeyPath, Any]] = []
    for key, value in content.items():
        at = (*path, key)
        found += leaves(value, at) if isinstance(value, dict) else [(at, value)]
    return found


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Dotted path -> (old, new) of every value that is not the same."""
    before = {".".join(at): value for at, value in leaves(as_plain(old))}
    after = {".".join(at): value for at, value in leaves(as_plain(new))}
    return {
        key: (before.get(key), after.get(key))
        for key in before | after
        if before.get(key) != after.get(key)
    }


def from_plain(content: Mapping[str, Any], origin: str) -> Config:
    """A config from plain data that this program wrote, in a checkpoint say.

    Raises:
        ConfigError: it is not valid.
    """
    content, _ = with_new_names(with_old_defaults(content), {}, warn=False)
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        found = [sentence(details) for details in error.errors()]
        raise ConfigError(
            f"{origin}: {listed(len(found))} in the config.",
            [f"{'.'.join(at)}: {words}" for at, words in found],
        ) from None


def as_stored_now(content: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A config, or some sections of one, that this program stored as plain data, as it would store
    them now: with the keys that have come since. What is not valid any more stays as it is.
    """
    try:
        found = as_plain(from_plain({"name": "stored", **content}, origin))
    except ConfigError:
        return dict(content)
    return {key: found.get(key, value) for key, value in content.items()}
