"""From a YAML file and overrides to one frozen `Config`, and back to text.

resolved = resolve(Path("configs/squares.yaml"), ["training.epochs=10"])
resolved.config.training.epochs            # 10
resolved.origins["training.epochs"]        # "--set training.epochs=10"
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seqattn.config.knobs import (
    AdditiveAttention,
    Attention,
    Compare,
    ComparisonFile,
    Config,
    ConstantForcing,
    ConstantRate,
    Copy,
    CosineAttention,
    CosineRate,
    Data,
    DotAttention,
    EarlyStopping,
    ExponentialForcing,
    FastWeights,
    GeneralAttention,
    Generated,
    InverseSigmoidForcing,
    Lag,
    LearningRateSchedule,
    LinearForcing,
    LocalWindow,
    Location,
    LocationShift,
    Model,
    OwnFile,
    PlateauRate,
    Polygons,
    Recall,
    Recurrent,
    Reverse,
    ScaledDotAttention,
    Section,
    Sort,
    Split,
    Squares,
    StepRate,
    TeacherForcing,
    Training,
    Transformer,
    UniformAttention,
    Window,
)
from seqattn.config.knobs.section import APART
from seqattn.config.mistakes import listed, nearest, sentence
from seqattn.config.reading import KeyPath, read_file, read_text
from seqattn.config.renames import RenamedKeyWarning, with_new_names, with_old_defaults
from seqattn.config.sections import every_key
from seqattn.errors import ConfigError

DEFAULT = "default"

MOST_MISTAKES = 200
"""Mistakes that are told one by one: with more it is no config."""
MAPPINGS = (("data", "units"),)
"""Paths of the values that are mappings; every other mapping is a section."""
NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Signs that YAML takes for the end of a line, or refuses, where they are not escaped."""


@dataclass(frozen=True)
class Resolved:
    """A valid config, and where each value came from.

    Attributes:
        config: every knob, defaults filled in.
        origins: dotted path of a leaf -> "default", "FILE:LINE" or "--set PATH=VALUE".
    """

    config: Config
    origins: Mapping[str, str]


def resolve(path: Path | None, overrides: Sequence[str] = ()) -> Resolved:
    """Read a config file, apply overrides, validate everything at once.

    Args:
        path: a YAML file, or None to start from the defaults.
        overrides: "PATH=VALUE" each, where VALUE is YAML, as `--set` takes them.

    Raises:
        ConfigError: with every mistake of the file and the overrides.
    """
    draft = Draft.read(path, overrides)
    if "compare" in draft.content:
        raise ConfigError(
            f"{path}: describes a comparison (compare:), not one training. Run: seqattn compare"
            f" {path}"
        )
    return draft.resolve()


@dataclass
class Draft:
    """A config that is not validated yet.

    Attributes:
        path: the file it is from, if any.
        content: plain data.
        places: where each path of keys was given.
        mistakes: found so far.
    """

    path: Path | None
    content: dict[str, Any]
    places: dict[KeyPath, str]
    mistakes: list[str]

    @classmethod
    def read(cls, path: Path | None, overrides: Sequence[str] = ()) -> Draft:
        """A file with `--set PATH=VALUE` overrides."""
        draft = cls(path, {}, {}, [])
        if path is not None:
            document = read_file(path)
            draft.content = document.content
            draft.places = {key: f"{path}:{line}" for key, line in document.lines.items()}
        for override in overrides:
            draft.mistakes += _override(override, draft)
        return draft

    def changed(self, changes: Mapping[str, Any], origin: str) -> Draft:
        """A copy with dotted paths set to plain values; `origin` says who wants it."""
        copied = Draft(
            self.path, copy.deepcopy(self.content), dict(self.places), list(self.mistakes)
        )
        for dotted, value in changes.items():
            copied.mistakes += _put(tuple(dotted.split(".")), value, origin, copied)
        return copied

    def resolve(self) -> Resolved:
        """Validate everything at once.

        Raises:
            ConfigError: with every mistake.
        """
        return _resolve(self.path, self.content, self.places, self.mistakes)


def _resolve(
    path: Path | None, content: dict[str, Any], places: dict[KeyPath, str], mistakes: list[str]
) -> Resolved:
    mistakes = list(mistakes)
    content, places = with_new_names(content, places, warn=True)
    config: Config | None = None
    more = 0
    try:
        config = Config.model_validate(content)
    except ValidationError as error:
        found = error.errors()
        more = len(found) - MOST_MISTAKES
        for details in found[:MOST_MISTAKES]:
            at, words = sentence(details)
            mistakes.append(f"{_place(at, places, path)}: {'.'.join(at)}: {words}")
    if mistakes or config is None:
        subject = str(path) if path is not None else "the config"
        unique = sorted(dict.fromkeys(mistakes), key=_line)
        total = len(unique) + max(more, 0)
        if more > 0:
            unique.append(f"... and {more:,} more")
        raise ConfigError(f"{subject}: {listed(total)}.", unique)
    origins = {".".join(leaf): _place(leaf, places, None) for leaf, _ in leaves(as_plain(config))}
    return Resolved(config, origins)


def read_stored(path: Path) -> Config:
    """The config.yaml of a run folder, with what keys meant in the version that wrote it.

    Raises:
        ConfigError: it cannot be read, or is not valid.
    """
    draft = Draft.read(path)
    draft.content = with_old_defaults(draft.content)
    return draft.resolve().config


def as_stored_now(content: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A config, or some sections of one, that this program stored as plain data, as it would store
    them now: with the keys that have come since. What is not valid any more stays as it is.
    """
    try:
        found = as_plain(from_plain({"name": "stored", **content}, origin))
    except ConfigError:
        return dict(content)
    return {key: found.get(key, value) for key, value in content.items()}


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


def as_plain(config: Section) -> dict[str, Any]:
    """A config as dicts, texts, numbers and None, in the order of the knobs."""
    return _discriminator_first(config.model_dump(mode="json"))


def is_section(value: Any, path: KeyPath) -> bool:
    """Whether what stands at a path holds keys of the config."""
    return isinstance(value, dict) and path not in MAPPINGS


def leaves(content: Mapping[str, Any], path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    """(path, value) of every value that is no section."""
    found: list[tuple[KeyPath, Any]] = []
    for key, value in content.items():
        at = (*path, key)
        found += leaves(value, at) if is_section(value, at) else [(at, value)]
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


def to_yaml(config: Config, origins: Mapping[str, str] | None = None) -> str:
    """The config as YAML that loads again, each value's origin as a comment beside it."""
    lines: list[tuple[str, str]] = []

    def write(section: Mapping[str, Any], path: KeyPath) -> None:
        for key, value in section.items():
            indent = "  " * len(path)
            if is_section(value, (*path, key)):
                lines.append((f"{indent}{key}:", ""))
                write(value, (*path, key))
            else:
                origin = _on_one_line((origins or {}).get(".".join((*path, key)), ""))
                lines.append((f"{indent}{key}: {as_value(value)}", origin))

    write(as_plain(config), ())
    if origins is None:
        return "".join(f"{text}\n" for text, _ in lines)
    width = max(len(text) for text, _ in lines)
    return "".join(
        f"{text:<{width}}  # {origin}\n" if origin else f"{text}\n" for text, origin in lines
    )


def _on_one_line(text: str) -> str:
    """For a comment: a path may hold a line break, behind which YAML would read on."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a config file, for editors."""
    schema = ComparisonFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def as_value(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, float):
        return repr(value)  # the shortest text that reads back as the same number
    if isinstance(value, str) and _is_plain(value):
        return value
    return _in_quotes(value)


def _in_quotes(value: Any) -> str:
    """A text, or a list or mapping of them, for YAML to read back: as JSON writes it, but for signs
    beyond U+FFFF, of which JSON makes two that YAML does not put together again."""
    return NOT_IN_YAML.sub(
        lambda sign: f"\\u{ord(sign.group()):04x}", json.dumps(value, ensure_ascii=False)
    )


@functools.cache
def _is_plain(text: str) -> bool:
    """Whether YAML reads a text without quotes back as that text, where a file would have it."""
    try:
        return bool(
            read_text(f"a:\n  b: {text}  # c\nd: 1", "").content == {"a": {"b": text}, "d": 1}
        )
    except ConfigError:
        return False


def _discriminator_first(content: dict[str, Any]) -> dict[str, Any]:
    """The same with each section in the order of `Section.names`."""
    first = [key for key in APART if key in content]
    ordered = first + [key for key in content if key not in first]
    return {
        key: _discriminator_first(content[key]) if isinstance(content[key], dict) else content[key]
        for key in ordered
    }


def _override(override: str, draft: Draft) -> list[str]:
    """Write one `--set PATH=VALUE` into a draft; returns mistakes."""
    origin = f"--set {override}"
    dotted, equals, text = override.partition("=")
    path = tuple(dotted.strip().split("."))
    if not equals or not all(path):
        return [f"{origin}: expected PATH=VALUE, such as training.epochs=10."]
    try:
        document = read_text(text, origin)
    except ConfigError as error:
        return [str(error)]
    mistakes = _put(path, document.content, origin, draft)
    for inner in document.lines if not mistakes else ():
        draft.places[(*path, *inner)] = origin
    return mistakes


def _put(path: KeyPath, value: Any, origin: str, draft: Draft) -> list[str]:
    """Set one value; returns mistakes."""
    section, places = draft.content, draft.places
    for depth, key in enumerate(path[:-1], start=1):
        below = section.get(key)
        if below is None:
            below = section[key] = {}
        elif not isinstance(below, dict):
            return [f"{origin}: {'.'.join(path[:depth])} is no section."]
        section = below
    for known in [known for known in places if known[: len(path)] == path]:
        del places[known]
    section[path[-1]] = copy.deepcopy(value)
    places[path] = origin
    return []


def _line(mistake: str) -> tuple[bool, int]:
    """Order of reading: the file's lines from the top, then the overrides."""
    number = re.match(r"[^ ]+?:(\d+): ", mistake)
    return (number is None, int(number.group(1)) if number else 0)


def _place(at: KeyPath, places: Mapping[KeyPath, str], path: Path | None) -> str:
    """The file and line, or the override, that gave a path its value."""
    if at in places:
        return places[at]
    if path is None:
        return DEFAULT
    for length in range(len(at) - 1, 0, -1):
        if at[:length] in places:
            return places[at[:length]]
    return str(path)


__all__ = [
    "DEFAULT",
    "AdditiveAttention",
    "Attention",
    "Compare",
    "ComparisonFile",
    "Config",
    "ConstantForcing",
    "ConstantRate",
    "Copy",
    "CosineAttention",
    "CosineRate",
    "Data",
    "DotAttention",
    "Draft",
    "EarlyStopping",
    "ExponentialForcing",
    "FastWeights",
    "GeneralAttention",
    "Generated",
    "InverseSigmoidForcing",
    "Lag",
    "LearningRateSchedule",
    "LinearForcing",
    "LocalWindow",
    "Location",
    "LocationShift",
    "Model",
    "OwnFile",
    "PlateauRate",
    "Polygons",
    "Recall",
    "Recurrent",
    "RenamedKeyWarning",
    "Resolved",
    "Reverse",
    "ScaledDotAttention",
    "Section",
    "Sort",
    "Split",
    "Squares",
    "StepRate",
    "TeacherForcing",
    "Training",
    "Transformer",
    "UniformAttention",
    "Window",
    "as_plain",
    "as_stored_now",
    "as_value",
    "differences",
    "every_key",
    "from_plain",
    "json_schema",
    "nearest",
    "read_stored",
    "resolve",
    "to_yaml",
]
