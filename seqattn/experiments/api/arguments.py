"""The arguments of the Python API: types, checks, and the conversion of sources to sequences."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqattn.analysis.evaluation import ForecastOverride
from seqattn.analysis.evaluation.frames import FrameReader
from seqattn.analysis.evaluation.texts import read_sources
from seqattn.config import Config, Override
from seqattn.data import Sequences
from seqattn.data.frames import frame_kind
from seqattn.data.sequences import Floats, valid_mask
from seqattn.data.windows import interpolate_linearly
from seqattn.errors import DataError, UsageError, counted
from seqattn.training import LoadedModel

DataFrame: TypeAlias = Any
"""A pandas or polars DataFrame, or a pyarrow table. seqattn requires none of these libraries."""
ConfigArgument: TypeAlias = Config | Mapping[str, Any] | str | Path | None
"""A `Config`, a mapping with the content of a YAML file, the path of a YAML file, the name of a
shipped config, or None for the defaults."""
OverrideArgument: TypeAlias = str | Sequence[Mapping[str, Any]] | ForecastOverride | None
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


def check_count(count: int | None, name: str, largest: float = math.inf) -> int | None:
    """Check that an argument is None or a whole number from 1 to `largest`, and return it."""
    if count is not None and not 1 <= as_integer(count, name) <= largest:
        expected = "1 or more" if largest == math.inf else f"1 to {largest}"
        raise UsageError(f"{name} {count}: expected {expected}.")
    return count


def as_integer(number: Any, name: str) -> int:
    """Convert an argument to an integer. The error message contains the name of the argument."""
    try:
        return operator.index(number)
    except TypeError:
        raise UsageError(f"{name} {number!r}: expected a whole number.") from None


# --- sources --------------------------------------------------------------------------------------


def is_single_sequence(source: Any) -> bool:
    """Return whether a source is a single sequence: an array (S, F), or a text."""
    return isinstance(source, str) or (frame_kind(source) is None and np.ndim(source) == 2)


def as_texts(source: Any, name: str = "source") -> list[str]:
    """Return a text, or several texts, as a list.

    Raises:
        UsageError: if the source is something else.
    """
    texts = [source] if isinstance(source, str) else source
    found: list[Any] = list(texts) if isinstance(texts, Iterable) else [None]
    if not all(isinstance(one, str) for one in found):
        raise UsageError(f"{name}: the model reads text. Give a string, or a list of strings.")
    return found


def source_sequences(
    source: Any, trained: LoadedModel, message: Callable[[str], None],
    observed: ArrayLike | None = None,
) -> Sequences:  # fmt: skip
    """Convert an array (N, S, F) or (S, F), a DataFrame, or texts to sequences without targets.

    An array has no times, so the interpolation of missing cells assumes that steps are evenly
    spaced.

    Args:
        source: array in the units of the data, with NaN or masked elements as padding, or a
            DataFrame. With `data.missing: interpolate`, NaN or masked elements before the last step
            that has a number are missing cells.
        observed: mask of the shape of the array, True at observed cells; None if all numbers of the
            array were observed. Numbers in unobserved cells are kept, as if a file reader had
            filled them.

    Raises:
        DataError: if the values are not numbers, if a shape is wrong, if the source contains
            infinity, or if a cell of a sequence is missing although `data.missing` does not fill
            such cells, or although no other cell of the feature was observed.
        UsageError: if `observed` is given for a DataFrame or texts, or if a model of symbols gets
            something else than texts.
    """
    if trained.spec.source.symbols:
        if observed is not None:
            raise UsageError("observed: a text has no missing cells; leave it out.")
        return read_sources(trained, as_texts(source), "source", message)
    if frame_kind(source) is not None:
        if observed is not None:
            raise UsageError("observed: a DataFrame marks missing cells itself; leave it out.")
        return FrameReader.of(trained, source, message).read_sources()
    spec = trained.spec
    values, known = _read_array(source, observed, spec.source_features)
    N, S, _ = values.shape
    is_number = np.isfinite(values)
    lengths = np.where(is_number.any(axis=2), np.arange(1, S + 1), 0).max(axis=1)
    keep = valid_mask(lengths, S)[:, :, None]
    missing = keep & ~known
    wrong = np.isinf(values).any(axis=(1, 2)) | (lengths == 0)
    if not trained.fills_missing:
        wrong |= missing.any(axis=(1, 2))
    if wrong.any():
        raise DataError(
            f"sequence {int(np.argmax(wrong))}: not all numbers before its end are finite and"
            " observed. Use NaN only to pad a shorter sequence at its end, or for missing cells of"
            " a run with data.missing: interpolate."
        )
    if missing.any():
        lacking = np.argwhere(~known.any(axis=1))
        if lacking.size:
            k, feature = map(int, lacking[0])
            raise DataError(
                f"sequence {k} has no {spec.source_features[feature]!r} in its source, so it cannot"
                " be interpolated."
            )
        if empty := int((missing & ~is_number).sum()):
            message(f"the array: {counted(empty, 'empty cell')} interpolated.")
        at = np.broadcast_to(np.arange(S, dtype=np.float64), (N, S))
        values = np.where(is_number, values, interpolate_linearly(values, known, at))
    return Sequences(
        np.where(keep, values, 0.0), lengths,
        np.zeros((N, 0, len(spec.target_features))), np.zeros(N, dtype=np.int64),
        spec.source_features, tuple(str(k) for k in range(N)), target_features=spec.target_features,
        source_observed=known if missing.any() else None,
        source_space=spec.source, target_space=spec.target,
    )  # fmt: skip


def _read_array(
    source: Any, observed: ArrayLike | None, features: tuple[str, ...]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the values (N, S, F) of an array, and a mask of the cells that contain an observed
    number."""
    try:
        values = np.asarray(_fill_masked(source), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"expected an array of numbers: {error}.") from None
    shape, F = values.shape, len(features)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[2] != F or 0 in values.shape:
        raise DataError(
            f"expected an array (N, S, {F}) or (S, {F}) with the features"
            f" {', '.join(features)}; got {np.shape(source)}."
        )
    if observed is None:
        return values, np.isfinite(values)
    given = np.asarray(observed)
    if given.shape != shape or given.dtype.kind != "b":
        raise DataError(
            f"observed: expected booleans of shape {shape}; got {given.dtype} of shape"
            f" {given.shape}."
        )
    return values, np.isfinite(values) & given.reshape(values.shape)


def _fill_masked(source: Any) -> Any:
    """Return a source with NaN in the masked elements of its masked arrays."""
    if isinstance(source, np.ma.MaskedArray):
        return np.ma.filled(source.astype(np.float64), np.nan)
    if isinstance(source, list | tuple):
        return [_fill_masked(each) for each in source]
    return source
