"""Ranges of config keys to search in: `training.learning_rate=log(1e-4,1e-1)`."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from seqattn.config import Config, Draft, as_plain, leaves
from seqattn.config.comparing import NOT_VARIED
from seqattn.config.mistakes import listed
from seqattn.config.reading import read_text
from seqattn.errors import ConfigError

SEARCHED_DATA = ("data.n_train", "data.train_seed")
"""Keys of the data that change neither the validation part nor the units of its loss."""
EPOCHS = "training.epochs"
FORMS = "log(A,B), uniform(A,B), or values with commas between"
Label = None | bool | int | float | str
"""What a database can store of a value."""


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

    @property
    def labels(self) -> tuple[Label, ...]:
        """Each of `values` as a database stores it: itself where it is None, a number, a truth
        value or a text, else its JSON text. No two are equal (in Python 1 equals True)."""
        labels = tuple(
            value if isinstance(value, Label) else json.dumps(value, sort_keys=True)
            for value in self.values
        )
        if any(one == other for one, other in itertools.combinations(labels, 2)):
            return tuple(json.dumps(value, sort_keys=True) for value in self.values)
        return labels

    @property
    def size(self) -> float:
        """How many values there are; infinity where any number will do."""
        if self.kind == "choice":
            return len(self.values)
        return int(self.high) - int(self.low) + 1 if self.whole else math.inf

    def value_of(self, label: Any) -> Any:
        """The value that a database stores as `label`."""
        return self.values[self.labels.index(label)] if self.kind == "choice" else label

    def place_of(self, label: Any) -> int:
        """Of a value among the `size` that there are."""
        return self.labels.index(label) if self.kind == "choice" else int(label) - int(self.low)

    def label_at(self, place: int) -> Label:
        return self.labels[place] if self.kind == "choice" else int(self.low) + place

    def as_text(self) -> str:
        """As it is typed after `--search PATH=`."""
        if self.kind != "choice":
            return f"{self.kind}({self.low:.10g},{self.high:.10g})"
        return ",".join(
            value if isinstance(value, str) else json.dumps(value) for value in self.values
        )


@dataclass(frozen=True)
class Search:
    """What to search.

    Attributes:
        name: of the folder.
        base: the config that every trial changes.
        ranges: each of another key.
        config: of a trial, from a value for each key.
    """

    name: str
    base: Config
    ranges: tuple[Range, ...]
    config: Callable[[Mapping[str, Any]], Config]

    @property
    def seed(self) -> int:
        return self.base.seed

    @property
    def epochs(self) -> int:
        """Of a trial at most."""
        for each in self.ranges:
            if each.path == EPOCHS:
                return int(max(each.values or (each.high,)))
        return self.base.training.epochs

    @property
    def varies_epochs(self) -> bool:
        """Whether trials differ in how many epochs they have."""
        return EPOCHS in self.paths

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(each.path for each in self.ranges)

    @property
    def size(self) -> float:
        """How many combinations of values there are; infinity where numbers are searched that do
        not count."""
        return math.prod(each.size for each in self.ranges)

    @property
    def ordered(self) -> list[Range]:
        """The ranges by their keys: what is drawn does not depend on the order they were given
        in."""
        return sorted(self.ranges, key=lambda each: each.path)

    def place_of(self, labels: Mapping[str, Any]) -> int:
        """Of a combination among the `size` that there are."""
        place = 0
        for each in self.ordered:
            place = place * int(each.size) + each.place_of(labels[each.path])
        return place

    def labels_at(self, place: int) -> dict[str, Label]:
        """The combination at a place."""
        labels = dict[str, Label]()
        for each in reversed(self.ordered):
            place, here = divmod(place, int(each.size))
            labels[each.path] = each.label_at(here)
        return labels

    def as_plain(self) -> dict[str, Any]:
        """What makes it this search and no other: the values that all trials share, but for the
        name, and what is searched."""
        shared = {
            path: value
            for at, value in leaves(as_plain(self.base))
            if not (path := ".".join(at)).startswith(tuple(f"{key}." for key in self.paths))
            and path not in (*self.paths, "name")
        }
        return {
            "config": shared,
            "ranges": [asdict(each) | {"values": list(each.values)} for each in self.ranges],
        }


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
        if found.path.partition(".")[0] == "data" and found.path not in SEARCHED_DATA:
            mistakes.append(
                f"--search {found.path}: changes the validation part or the units of its loss, so"
                " that the easiest data would win. Of the data only"
                f" {' and '.join(SEARCHED_DATA)} can be searched; to hold others against each"
                f" other: seqattn compare {path} --vary {found.path}=A,B."
            )
            continue
        if found.path in {each.path for each in ranges}:
            mistakes.append(f"--search {found.path}: is given twice.")
            continue
        mistakes += [_inside(found.path, each.path) for each in ranges
                     if f"{found.path}.".startswith(f"{each.path}.")
                     or f"{each.path}.".startswith(f"{found.path}.")]  # fmt: skip
        ends = found.values or (found.low, found.high)
        if found.kind != "choice":
            whole = all(float(end).is_integer() for end in ends)
            if whole and refused(found.path, ends[0] + 0.5):  # a knob that counts
                found = Range(found.path, found.kind, int(found.low), int(found.high), whole=True)
                ends = (found.low, found.high)
        wrong = [wrong for end in ends for wrong in refused(found.path, end)]
        mistakes += wrong or _alike(found, config)
        ranges.append(found)
    if not texts:
        mistakes.append(f"--search is missing: PATH=RANGE, a range being {FORMS}.")
    if mistakes:
        raise ConfigError(f"{path}: {listed(len(mistakes))}.", list(dict.fromkeys(mistakes)))
    base = config({})
    return Search(base.name, base, tuple(ranges), config)


def _inside(one: str, other: str) -> str:
    inner, outer = sorted((one, other), key=len, reverse=True)
    return (
        f"--search {inner}: lies inside {outer}, which is searched, too; give {outer} each of its"
        " values whole."
    )


def _alike(found: Range, config: Callable[[Mapping[str, Any]], Config]) -> list[str]:
    """Values that stand for one config would be tried as if they were several."""
    configs = [config({found.path: value}) for value in found.values]
    return [
        f"--search {found.path}: {json.dumps(found.values[i])} and {json.dumps(found.values[k])}"
        " are the same config."
        for i, k in itertools.combinations(range(len(configs)), 2)
        if configs[i] == configs[k]
    ]


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
