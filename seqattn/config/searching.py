"""Ranges of config keys to search in: `training.learning_rate=log(1e-4,1e-1)`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from seqattn.config import Config, Draft
from seqattn.config.comparing import NOT_VARIED
from seqattn.config.mistakes import listed
from seqattn.config.reading import read_text
from seqattn.errors import ConfigError

FORMS = "log(A,B), uniform(A,B), or values with commas between"


@dataclass(frozen=True)
class Range:
    """What a key may be.

    Attributes:
        path: of the key, dotted.
        kind: numbers between `low` and `high`, evenly or by their logarithm; or one of `values`.
        whole: only whole numbers.
    """

    path: str
    kind: Literal["uniform", "log", "choice"]
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Search:
    """What to search.

    Attributes:
        name: of the folder.
        ranges: each of another key.
        config: of a trial, from a value for each key.
    """

    name: str
    seed: int
    epochs: int
    ranges: tuple[Range, ...]
    config: Callable[[Mapping[str, Any]], Config]

    def as_plain(self) -> dict[str, Any]:
        return {"ranges": [vars(each) | {"values": list(each.values)} for each in self.ranges]}


def search(path: Path, overrides: Sequence[str], texts: Sequence[str]) -> Search:
    """Read a config and what is to be searched, and try the ends of every range.

    Args:
        overrides: "PATH=VALUE" each, for all trials.
        texts: "PATH=RANGE" each.

    Raises:
        ConfigError: with every mistake.
    """
    draft = Draft.read(path, overrides)
    draft.content.pop("compare", None)
    draft.resolve()  # the config itself comes first
    mistakes, ranges = list[str](), list[Range]()

    def config(values: Mapping[str, Any]) -> Config:
        said = ", ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
        return draft.changed(dict(values), f"--search {said}").resolve().config

    def refused(key: str, value: Any) -> list[str]:
        try:
            config({key: value})
        except ConfigError as error:
            return list(error.mistakes) or [str(error)]
        return []

    for text in texts:
        found = _parsed(text)
        if isinstance(found, str):
            mistakes.append(found)
            continue
        if found.path in NOT_VARIED:
            mistakes.append(f"--search {found.path}: {NOT_VARIED[found.path]}.")
            continue
        if found.path in {each.path for each in ranges}:
            mistakes.append(f"--search {found.path}: is given twice.")
            continue
        ends = found.values or (found.low, found.high)
        if found.kind != "choice":
            whole = all(float(end).is_integer() for end in ends)
            if whole and refused(found.path, ends[0] + 0.5):  # a knob that counts
                found = Range(found.path, found.kind, int(found.low), int(found.high), whole=True)
                ends = (found.low, found.high)
        mistakes += [wrong for end in ends for wrong in refused(found.path, end)]
        ranges.append(found)
    if not texts:
        mistakes.append(f"--search is missing: PATH=RANGE, a range being {FORMS}.")
    if mistakes:
        raise ConfigError(f"{path}: {listed(len(mistakes))}.", list(dict.fromkeys(mistakes)))
    base = config({})
    return Search(base.name, base.seed, base.training.epochs, tuple(ranges), config)


def _parsed(text: str) -> Range | str:
    """A range, or what is wrong with it."""
    path, equals, said = (part.strip() for part in text.partition("="))
    if not equals or not path or not said:
        return f"--search {text}: expected PATH=RANGE, a range being {FORMS}."
    call = re.fullmatch(r"(\w+)\((.*)\)", said)
    if call is None:
        try:
            values = read_text(f"[{said}]", f"--search {text}").content
        except ConfigError as error:
            return str(error)
        if len(values) < 2:
            return f"--search {text}: one value is nothing to search; expected {FORMS}."
        return Range(path, "choice", values=tuple(values))
    kind, inside = call.groups()
    if kind not in ("log", "uniform"):
        return f"--search {text}: {kind}(...) is no range; expected {FORMS}."
    try:
        low, high = (float(part) for part in inside.split(","))
    except ValueError:
        return f"--search {text}: expected two numbers in {kind}(A,B)."
    if not low < high < float("inf"):
        return f"--search {text}: expected A below B."
    if kind == "log" and low <= 0:
        return f"--search {text}: a logarithm needs numbers above 0."
    return Range(path, kind, low, high)  # type: ignore[arg-type]
