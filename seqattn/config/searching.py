"""Search spaces over config keys, such as `training.learning_rate=log(1e-4,1e-1)`."""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from seqattn.config import Config, Draft, as_plain, leaves
from seqattn.config.comparing import NOT_VARIED
from seqattn.config.mistakes import count_mistakes
from seqattn.config.reading import read_yaml_list
from seqattn.errors import ConfigError

SEARCHED_DATA = ("data.n_train", "data.train_seed")
"""The keys of `data` that can be searched. They change neither the validation part nor the units of
the validation loss."""
EPOCHS = "training.epochs"
FORMS = "log(A,B), uniform(A,B), or values such as A,B or [A,B]"
TrialConfig = Callable[[Mapping[str, Any]], Config]
Label = None | bool | int | float | str
"""The type of a value in the database of trials."""


@dataclass(frozen=True)
class Range:
    """The range of the values of one key.

    Attributes:
        path: the dotted path of the key.
        kind: "uniform" or "log" for numbers from `low` to `high`, distributed uniformly or
            log-uniformly; "choice" for one of `values`.
        low, high: the bounds of the numbers.
        whole: whether only integers are allowed.
        values: the values of a choice; empty for numbers.
    """

    path: str
    kind: Literal["uniform", "log", "choice"]
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    values: tuple[Any, ...] = ()

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of `values`. The label of None, a number, a boolean or a string is the value
        itself. The label of any other value is the JSON text of the value. If this rule would give
        two equal labels, as for 1 and True, all labels are JSON texts."""
        labels = tuple(
            value if isinstance(value, Label) else json.dumps(value, sort_keys=True)
            for value in self.values
        )
        if any(one == other for one, other in itertools.combinations(labels, 2)):
            return tuple(json.dumps(value, sort_keys=True) for value in self.values)
        return labels

    @property
    def size(self) -> float:
        """The number of values; infinite for a range of real numbers."""
        if self.kind == "choice":
            return len(self.values)
        return int(self.high) - int(self.low) + 1 if self.whole else math.inf

    def value_of(self, label: Any) -> Any:
        """Return the value with the given label."""
        return self.values[self.labels.index(label)] if self.kind == "choice" else label

    def as_text(self) -> str:
        """Return the range as text for the option `--search PATH=RANGE`."""
        if self.kind != "choice":
            return f"{self.kind}({self.low:.10g},{self.high:.10g})"
        return ",".join(
            value if isinstance(value, str) else json.dumps(value) for value in self.values
        )


@dataclass(frozen=True)
class Search:
    """A search space.

    Attributes:
        name: the name of the search's folder.
        base: the config that trials change.
        ranges: the ranges, one per key.
        config: a function that builds the config of a trial from one value for each searched key.
    """

    name: str
    base: Config
    ranges: tuple[Range, ...]
    config: TrialConfig

    @property
    def seed(self) -> int:
        return self.base.seed

    @property
    def epochs(self) -> int:
        """The largest number of epochs of a trial."""
        for each in self.ranges:
            if each.path == EPOCHS:
                return int(max(each.values or (each.high,)))
        return self.base.training.epochs

    @property
    def varies_epochs(self) -> bool:
        """Whether the number of epochs, or the section that contains it, is searched."""
        return not {"training", EPOCHS}.isdisjoint(self.paths)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(each.path for each in self.ranges)

    @property
    def size(self) -> float:
        """The number of combinations of values; infinite if there is a range of real numbers."""
        return math.prod(each.size for each in self.ranges)

    def shared_values(self) -> dict[str, Any]:
        """Return the config values that the trials have in common, except the key `name`, by dotted
        key."""
        return {
            path: value
            for at, value in leaves(as_plain(self.base))
            if not (path := ".".join(at)).startswith(tuple(f"{key}." for key in self.paths))
            and path not in (*self.paths, "name")
        }


def plan_search(path: Path, overrides: Sequence[str], texts: Sequence[str]) -> Search:
    """Read a config file, parse the ranges, and validate the bounds or values of every range.

    Args:
        path: the config file.
        overrides: strings "PATH=VALUE" that apply to all trials.
        texts: strings "PATH=RANGE".

    Raises:
        ConfigError: if the config or the ranges have mistakes; the error lists them.
    """
    draft = Draft.read(path, overrides)
    draft.load_plugins()
    draft.mistakes += [
        f"{origin}: has no effect, because a search trains no variants."
        for origin in draft.overrides_at(("compare",))
    ]
    draft.content.pop("compare", None)
    draft.resolve()  # reports the mistakes of the config itself first

    def config(values: Mapping[str, Any]) -> Config:
        changes = ", ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
        return draft.changed(values, f"--search {changes}").resolve().config

    mistakes, ranges = list[str](), list[Range]()
    for text in texts:
        try:
            found = _parse_range(text)
            _check_key(found.path, ranges, path)
        except ConfigError as error:
            mistakes.append(str(error))
            continue
        pairs = [sorted((found.path, each.path), key=len) for each in ranges]
        mistakes += [
            f"--search {inner}: is a part of {outer}, which is also searched. Search only {outer},"
            " with complete values."
            for outer, inner in pairs
            if inner.startswith(f"{outer}.")
        ]
        mistakes += [
            f"{origin}: has no effect, because --search {found.path} sets this key. Give only one"
            " of the two."
            for origin in draft.overrides_at(tuple(found.path.split(".")))
        ]
        found = _to_integer_range(found, config)
        mistakes += _check_values(found, config)
        ranges.append(found)
    if not texts:
        mistakes.append(f"--search PATH=RANGE is missing; RANGE is {FORMS}.")
    if mistakes:
        raise ConfigError(
            f"{path}: {count_mistakes(len(mistakes))}.", list(dict.fromkeys(mistakes))
        )
    base = config({})
    return Search(base.name, base, tuple(ranges), config)


def _check_key(key: str, ranges: Sequence[Range], path: Path) -> None:
    """Check the key of a range.

    Raises:
        ConfigError: if the key cannot be searched, or already has a range.
    """
    if key in NOT_VARIED:
        raise ConfigError(f"--search {key}: {NOT_VARIED[key]}.")
    if key.partition(".")[0] == "data" and key not in SEARCHED_DATA:
        raise ConfigError(
            f"--search {key}: changes the validation part or the units of its loss, so the"
            f" easiest data would win. Of the data, only {' and '.join(SEARCHED_DATA)} can be"
            f" searched. To compare values of another key, run: seqattn compare"
            f" {shlex.quote(str(path))} --vary {key}=A,B"
        )
    if key in {each.path for each in ranges}:
        raise ConfigError(f"--search {key}: is given twice.")


def _to_integer_range(found: Range, config: TrialConfig) -> Range:
    """Convert a range to integers if its bounds are integers and the key requires integers."""
    if found.kind == "choice" or not (found.low.is_integer() and found.high.is_integer()):
        return found
    if not _config_mistakes(config, found.path, found.low + 0.5):
        return found
    return replace(found, low=int(found.low), high=int(found.high), whole=True)


def _check_values(found: Range, config: TrialConfig) -> list[str]:
    """Return the mistakes in the bounds or values of a range. Two values that give the same config
    are also a mistake."""
    ends = found.values or (found.low, found.high)
    mistakes = [words for end in ends for words in _config_mistakes(config, found.path, end)]
    if mistakes:
        return mistakes
    configs = [config({found.path: value}) for value in found.values]
    return [
        f"--search {found.path}: {json.dumps(found.values[i])} and {json.dumps(found.values[k])}"
        " are the same config."
        for i, k in itertools.combinations(range(len(configs)), 2)
        if configs[i] == configs[k]
    ]


def _config_mistakes(config: TrialConfig, key: str, value: Any) -> list[str]:
    """Return the mistakes in the config in which a key has the given value."""
    try:
        config({key: value})
    except ConfigError as error:
        return list(error.mistakes) or [str(error)]
    return []


def _parse_range(text: str) -> Range:
    """Parse "PATH=RANGE".

    Raises:
        ConfigError: if the text is not a range, or if it contains only one value.
    """
    path, equals, range_text = (part.strip() for part in text.partition("="))
    if not equals or not path or not range_text:
        raise ConfigError(f"--search {text}: expected PATH=RANGE; RANGE is {FORMS}.")
    call = re.fullmatch(r"(\w+)\((.*)\)", range_text)
    if call is None:
        values = read_yaml_list(range_text, f"--search {text}")
        if len(values) < 2:
            raise ConfigError(
                f"--search {text}: a search needs two values or more; expected {FORMS}."
            )
        return Range(path, "choice", values=tuple(values))
    kind, inside = call.groups()
    if kind not in ("log", "uniform"):
        raise ConfigError(f"--search {text}: {kind}(...) is not a range; expected {FORMS}.")
    try:
        low, high = (float(part) for part in inside.split(","))
    except ValueError:
        raise ConfigError(f"--search {text}: expected two numbers in {kind}(A,B).") from None
    if not low < high < float("inf"):
        raise ConfigError(f"--search {text}: expected A below B.")
    if kind == "log" and low <= 0:
        raise ConfigError(f"--search {text}: a logarithm needs numbers above 0.")
    return Range(path, kind, low, high)  # type: ignore[arg-type]
