"""From a YAML file and overrides to one frozen `Config`, and from a config to plain data or YAML. A
draft combines the file and the overrides, and reports the mistakes of both together."""

from __future__ import annotations

import copy
import functools
import json
import operator
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from seqattn.config.mistakes import count_mistakes, describe_error
from seqattn.config.plugins import (
    load_listed,
    require_plugins,
    warn_of_changes,
    with_used_plugins,
)
from seqattn.config.reading import KeyPath, read_yaml_file, read_yaml_text
from seqattn.config.schema import Config, Section
from seqattn.config.section import DISCRIMINATORS
from seqattn.config.shipped_configs import find_shipped_data
from seqattn.errors import ConfigError

ConfigSource: TypeAlias = Path | Mapping[str, Any] | None
"""The path of a YAML file, a mapping with the same content, or None for the defaults."""
Override: TypeAlias = str | tuple[str, Any]
"""A changed value: a string "PATH=VALUE" as in the option `--set` (VALUE is YAML), or a pair of a
dotted path and a value."""
DEFAULT = "default"
OF_MAPPING = "the config"
"""The name, in messages, of a config that is not read from a file."""

MAX_MISTAKES = 200
"""The largest number of validation errors that a message lists."""


@dataclass(frozen=True)
class Resolved:
    """A valid config, and the origin of each value.

    Attributes:
        config: the config with all defaults.
        origins: the origin of each value by dotted path. An origin is "default", "FILE:LINE" or
            an override, such as "--set PATH=VALUE". If the config was read from a mapping, the
            values from the mapping have the origin "default".
    """

    config: Config
    origins: Mapping[str, str]


def resolve(source: ConfigSource | Draft, overrides: Sequence[Override] = ()) -> Resolved:
    """Read a config, apply overrides, and validate the result.

    Args:
        source: a YAML file or a mapping; None to start from the defaults. A draft already contains
            its overrides; a pipe can be read only once.
        overrides: the changed values; see `Override`.

    Raises:
        ConfigError: if there are mistakes in the file or the overrides (the error lists them), or
            if the config describes a comparison.
    """
    draft = Draft.read(source, overrides)
    draft.load_plugins()
    if "compare" in draft.content:
        call = "Call seqattn.compare."
        if isinstance(draft.path, Path):
            call = f"Run: seqattn compare {shlex.quote(str(draft.path))}"
        raise ConfigError(
            f"{draft.name}: describes a comparison (compare:), not one training. {call}"
        )
    return draft.resolve()


def read_stored(path: Path) -> Config:
    """Read the `config.yaml` of a run folder. The plugins that it lists are not loaded."""
    draft = Draft.read(path, is_stored=True)
    config = draft.resolve().config
    warn_of_changes(config)
    return config


@dataclass
class Draft:
    """A config before validation.

    Attributes:
        path: the path of the file, "the config" for a mapping, or None for the defaults.
        content: the plain data of the config.
        places: the origin of each key that a file or an override sets, as a mapping from the path
            of the key to the origin. An origin is "FILE:LINE" or the override, such as
            "--set PATH=VALUE".
        overrides: the overrides that apply, as a mapping from the path of the key to the override.
        mistakes: the mistakes found so far.
        is_own: whether the config is the user's own config. If it is, `resolve` extends the key
            `plugins` with the plugins that the config uses.
    """

    path: Path | str | None
    content: dict[str, Any]
    places: dict[KeyPath, str]
    mistakes: list[str]
    is_own: bool = False
    overrides: dict[KeyPath, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        source: ConfigSource | Draft,
        overrides: Sequence[Override] = (),
        *,
        is_stored: bool = False,
    ) -> Draft:
        """Read a config, and apply the overrides, whose mistakes are added to `mistakes`.

        Args:
            source: see `resolve`.
            overrides: the changed values; see `Override`.
            is_stored: see `read_yaml_file`.
        """
        if isinstance(source, Draft):
            return source
        if isinstance(source, Path):
            document = read_yaml_file(source, is_stored=is_stored)
            places = {key: f"{source}:{line}" for key, line in document.lines.items()}
            draft = cls(source, find_shipped_data(document.content, source), places, [])
        elif source is None:
            draft = cls(None, {}, {}, [])
        else:
            draft = cls(OF_MAPPING, copy.deepcopy(dict(source)), {}, [])
        for override in overrides:
            if isinstance(override, str):
                draft._override(override)
            else:
                dotted, value = override
                draft._put_override(tuple(dotted.split(".")), value, f"{dotted}={value!r}")
        return draft

    def load_plugins(self) -> None:
        """Load the plugins that the config lists. Call this method for the user's own config only.

        If the config is in a run folder, its plugins are not loaded.
        """
        self.is_own = True
        file = self.path if isinstance(self.path, Path) else None
        if file is not None and is_in_run_folder(file):
            return
        place = self.places.get(("plugins",), self.name)
        is_in_file = file is not None and place.startswith(f"{file}:")
        folder = file.parent if file is not None and is_in_file else Path()
        load_listed(self.content, place, folder)

    @property
    def name(self) -> str:
        """The path of the file, or "the config" if there is no file."""
        return OF_MAPPING if self.path is None else str(self.path)

    def changed(self, changes: Mapping[str, Any], origin: str) -> Draft:
        """Return a copy of the draft with changed values.

        Args:
            changes: the new values by dotted path.
            origin: the origin of the changes, for messages.
        """
        copied = Draft(
            self.path, copy.deepcopy(self.content), dict(self.places), list(self.mistakes),
            self.is_own, self.overrides,
        )  # fmt: skip
        for dotted, value in changes.items():
            copied._put(tuple(dotted.split(".")), value, origin)
        return copied

    def resolve(self) -> Resolved:
        """Validate the config.

        Raises:
            ConfigError: if there are mistakes; the error lists them.
        """
        content, places = self.content, self.places
        found: list[ErrorDetails] = []
        try:
            config = Config.model_validate(content)
        except ValidationError as error:
            require_plugins(content, str(self.path or "the config"))
            found = error.errors()
        order = {place: number for number, place in enumerate(places.values())}
        ranked = [(len(order), mistake) for mistake in self.mistakes]
        for details in found[:MAX_MISTAKES]:
            at, words = describe_error(details, content)
            dotted = ".".join(key or repr(key) for key in at)
            place = origin_at(at, places, self.path)
            ranked.append((order.get(place, len(order)), f"{place}: {dotted}: {words}"))
        if ranked:
            ranked.sort(key=operator.itemgetter(0))
            unique = list(dict.fromkeys(mistake for _, mistake in ranked))
            more = max(len(found) - MAX_MISTAKES, 0)
            total = len(unique) + more
            if more:
                unique.append(f"... and {more:,} more")
            raise ConfigError(f"{self.name}: {count_mistakes(total)}.", unique)
        config = with_used_plugins(config) if self.is_own else config
        values = leaves(as_plain(config))
        return Resolved(config, {".".join(at): origin_at(at, places, None) for at, _ in values})

    def _override(self, override: str) -> None:
        """Apply one override "PATH=VALUE"."""
        origin = f"--set {override}"
        dotted, equals, text = override.partition("=")
        path = tuple(dotted.strip().split("."))
        if not equals or not all(path):
            found = ", got an empty key in PATH" if equals else ""
            self.mistakes.append(
                f"{origin}: expected PATH=VALUE, such as training.epochs=10{found}."
            )
            return
        try:
            document = read_yaml_text(text, origin)
        except ConfigError as error:
            self.mistakes.append(str(error))
            return
        if document.is_empty:
            quotes = "; a # in a value needs quotes" if text.strip() else ""
            self.mistakes.append(
                f"{origin}: has no value after '='. To set nothing, write null:"
                f" --set {dotted.strip()}=null{quotes}."
            )
            return
        if self._put_override(path, document.content, origin):
            self.places |= {(*path, *inner): origin for inner in document.lines}

    def _put_override(self, path: KeyPath, value: Any, origin: str) -> bool:
        """Apply one override, which replaces earlier overrides at its path; see `_put`."""
        kept = {at: each for at, each in self.overrides.items() if at[: len(path)] != path}
        self.overrides = {**kept, path: origin}
        return self._put(path, value, origin)

    def overrides_at(self, path: KeyPath) -> list[str]:
        """Return the overrides that lose their effect if the value at a path is replaced."""
        return [origin for each, origin in self.overrides.items() if each[: len(path)] == path]

    def _put(self, path: KeyPath, value: Any, origin: str) -> bool:
        """Set one value, and return True. If a key on the path to the value is not a section, add a
        mistake and return False."""
        section = self.content
        for depth, key in enumerate(path[:-1], start=1):
            below = section.get(key)
            if below is None:
                below = section[key] = {}
                self.places[path[:depth]] = origin
            elif not isinstance(below, dict):
                self.mistakes.append(f"{origin}: {'.'.join(path[:depth])} is not a section.")
                return False
            section = below
        for known in [known for known in self.places if known[: len(path)] == path]:
            del self.places[known]
        section[path[-1]] = copy.deepcopy(value)
        self.places[path] = origin
        return True


def is_in_run_folder(path: Path) -> bool:
    """Return whether a config file is in a run folder. A run folder may come from someone else, so
    its plugins are not loaded."""
    return (path.parent / "environment.json").exists()


def origin_at(at: KeyPath, places: Mapping[KeyPath, str], path: Path | str | None) -> str:
    """Return the origin of the value at a path, which is "FILE:LINE" or an override.

    For a value without its own origin, the result is "default" if `path` is None. If `path` is not
    None, the result is the origin of the innermost enclosing section that has an origin, or `path`
    if no enclosing section has an origin.
    """
    if at in places:
        return places[at]
    if path is None:
        return DEFAULT
    for length in range(len(at) - 1, 0, -1):
        if at[:length] in places:
            return places[at[:length]]
    return str(path)


# --- plain data and YAML --------------------------------------------------------------------------

MAPPINGS = (("data", "units"),)
"""The paths of the mappings that are single values. All other mappings are sections."""
PATH_KEYS = ("data.path", "data.validation_path", "data.test_path")
"""The keys with the paths of data files."""
NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""The characters that YAML treats as line ends or rejects if they are not escaped."""


def as_plain(config: Section) -> dict[str, Any]:
    """Convert a config to plain data. In each section, the key that selects its variant comes
    first."""

    def ordered(content: dict[str, Any]) -> dict[str, Any]:
        first = [key for key in DISCRIMINATORS if key in content]
        return {
            key: ordered(content[key]) if isinstance(content[key], dict) else content[key]
            for key in dict.fromkeys([*first, *content])
        }

    return ordered(config.model_dump(mode="json"))


def leaves(content: Mapping[str, Any], path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    """Return a pair (path, value) for every value that is not a section."""
    found: list[tuple[KeyPath, Any]] = []
    for key, value in content.items():
        at = (*path, key)
        is_section = isinstance(value, dict) and at not in MAPPINGS
        found += leaves(value, at) if is_section else [(at, value)]
    return found


def config_differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Return the values that differ between two configs. The result maps each dotted path to a
    pair (old, new)."""
    before = {".".join(at): value for at, value in leaves(as_plain(old))}
    after = {".".join(at): value for at, value in leaves(as_plain(new))}
    return {
        key: (before.get(key), after.get(key))
        for key in before | after
        if before.get(key) != after.get(key)
    }


UNKNOWN_PATH = "unknown"
"""Placeholder for the path in the config of a checkpoint, because checkpoints store no paths."""


def without_paths(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain data of a config without the paths of data files, and with the file names of
    plugins instead of their paths."""
    data = {key: value for key, value in plain["data"].items() if f"data.{key}" not in PATH_KEYS}
    plugins = [
        {**each, "path": PurePath(each["path"]).name} if "path" in each else each
        for each in plain.get("plugins", ())
    ]
    return {**plain, "data": data, "plugins": plugins}


def from_plain(content: Mapping[str, Any], origin: str) -> Config:
    """Build a config from stored plain data, such as the data in a checkpoint.

    Args:
        content: the plain data.
        origin: the origin of the data, for error messages.

    Raises:
        ConfigError: if the data are not a valid config.
    """
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        require_plugins(content, origin)
        found = [describe_error(details, content) for details in error.errors()]
        raise ConfigError(
            f"{origin}: {count_mistakes(len(found))} in the config.",
            [f"{'.'.join(at)}: {words}" for at, words in found],
        ) from None
    warn_of_changes(config)
    return config


def to_yaml(config: Config, origins: Mapping[str, str] | None = None) -> str:
    """Convert a config to YAML text.

    Args:
        config: the config.
        origins: the origin of each value, by dotted path, for a comment beside the value; None for
            text without comments.
    """
    lines: list[tuple[str, str]] = []

    def write(section: Mapping[str, Any], path: KeyPath) -> None:
        for key, value in section.items():
            indent = "  " * len(path)
            if isinstance(value, dict) and (*path, key) not in MAPPINGS:
                lines.append((f"{indent}{key}:", ""))
                write(value, (*path, key))
            else:
                origin = (origins or {}).get(".".join((*path, key)), "")
                printable = "".join(
                    sign if sign.isprintable() else sign.encode("unicode_escape").decode()
                    for sign in origin
                )
                lines.append((f"{indent}{key}: {as_value(value)}", printable))

    write(as_plain(config), ())
    if origins is None:
        return "".join(f"{text}\n" for text, _ in lines)
    width = max(len(text) for text, _ in lines)
    return "".join(
        f"{text:<{width}}  # {origin}\n" if origin else f"{text}\n" for text, origin in lines
    )


def as_value(value: Any) -> str:
    """Convert a value to YAML text on one line."""
    if isinstance(value, float):
        return repr(value)  # the shortest text that YAML reads as the same number
    if isinstance(value, str) and _is_plain(value):
        return value
    # JSON that YAML can read: YAML does not support surrogate pairs for characters beyond U+FFFF.
    return NOT_IN_YAML.sub(
        lambda sign: f"\\u{ord(sign.group()):04x}", json.dumps(value, ensure_ascii=False)
    )


@functools.cache
def _is_plain(text: str) -> bool:
    """Return whether YAML reads a string without quotes as the same string."""
    try:
        return bool(
            read_yaml_text(f"a:\n  b: {text}  # c\nd: 1", "").content == {"a": {"b": text}, "d": 1}
        )
    except ConfigError:
        return False
