"""Types and checks of the arguments of the Python API."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from seqattn.config import Config, Override
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.analysis.evaluation import ForecastOverride

DataFrame: TypeAlias = Any
"""A pandas or polars DataFrame, or a pyarrow table. seqattn requires none of these libraries."""
ConfigArgument: TypeAlias = Config | Mapping[str, Any] | str | Path | None
"""A `Config`, a mapping with the content of a YAML file, the path of a YAML file, the name of a
shipped config, or None for the defaults."""
OverrideArgument: TypeAlias = "str | Sequence[Mapping[str, Any]] | ForecastOverride | None"
"""The attention weights that replace those of the model in a forecast, or None. The argument is
one of the following:

- a string: a value of `--attention-override`, such as "uniform" or "forced:FILE.json".
- a list of dicts, as in FILE.json. Each dict contains the forced weights of one query.
- a `ForecastOverride`.

If the sources are an array, its sequences have the ids "0", "1", and so on."""


class DataNote(UserWarning):
    """A note on how a source is read, or on sources and forecasts that are longer than those of the
    training. The commands print such notes."""


def warn(line: str) -> None:
    """Issue a `DataNote`."""
    warnings.warn(line, DataNote, stacklevel=2)


def as_override_list(keywords: Mapping[str, Any]) -> list[Override]:
    """Convert the `**overrides` of `train`, `train_seeds` or `compare` to overrides of a config.

    The keyword `training__epochs` changes the key `training.epochs`. The value of the keyword
    `overrides` is a list of strings "PATH=VALUE", or a mapping from dotted keys to values. The
    other keywords take precedence over these values.

    Raises:
        UsageError: if `overrides` is neither a list of strings nor a mapping.
    """
    first = keywords.get("overrides") or ()
    pairs = [(key.replace("__", "."), value) for key, value in keywords.items()
             if key != "overrides"]  # fmt: skip
    if isinstance(first, Mapping):
        return [(str(key), as_config_value(value)) for key, value in [*first.items(), *pairs]]
    is_list = isinstance(first, Iterable) and not isinstance(first, str)
    if not is_list or not all(isinstance(text, str) for text in first):
        raise UsageError(
            f"overrides {first!r}: expected a list of strings such as ['training.epochs=5'], or a"
            " dict such as {'training.epochs': 5}."
        )
    return [*first, *((key, as_config_value(value)) for key, value in pairs)]


def as_config_value(value: Any) -> Any:
    """Convert a Python value to types that YAML has: NumPy numbers become Python numbers, arrays,
    tuples and ranges become lists, and paths become strings."""
    if isinstance(value, Mapping):
        return {str(key): as_config_value(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [as_config_value(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def check_step_count(steps: int | None) -> int | None:
    """Check that a number of steps is None or a whole number above 0, and return it.

    Raises:
        UsageError: if `steps` is not a whole number above 0.
    """
    if steps is not None and as_integer(steps, "steps") < 1:
        raise UsageError(f"steps {steps}: expected 1 or more.")
    return steps


def check_count(count: int | None, name: str, largest: int) -> int | None:
    """Check that an argument is None or a whole number from 1 to `largest`, and return it.

    Raises:
        UsageError: if the argument is not such a number. The message contains its name.
    """
    if count is not None and not 1 <= as_integer(count, name) <= largest:
        raise UsageError(f"{name} {count}: expected 1 to {largest}.")
    return count


def as_integer(number: Any, name: str) -> int:
    """Convert an argument to an integer. The error message contains the name of the argument.

    Raises:
        UsageError: if the argument is not a whole number.
    """
    try:
        return operator.index(number)
    except TypeError:
        raise UsageError(f"{name} {number!r}: expected a whole number.") from None
