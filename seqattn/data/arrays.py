"""Readers of NPY and NPZ files. The readers accept no pickled objects.

An NPY file contains one array (N, L, F), or (N, L) for one feature. With the layout "long", an
array (L, F) is one sequence. The array is memory-mapped. Trailing steps that are NaN in every
feature are padding. An NPZ file contains the array `source` and optionally `target`, or an array
with whole sequences, such as `values`. Optional arrays are `ids`, `features` (names of source
features), `said` (names of target features), and `source_lengths`, `target_lengths` or `lengths`
(numbers of valid steps), as in `predictions.npz`. So are `source_observed`, a mask whose False
cells are empty cells of `source`, and `source_times`, the times of its steps. Features with names
are selected by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqattn.data.chunk import DATES, Chunk, Ragged, first_line, to_offsets
from seqattn.data.missing_values import SentinelCounter, na_numbers
from seqattn.data.reading import Reading, join_names
from seqattn.data.sequences import Integers, row_blocks, valid_mask
from seqattn.errors import DataError
from seqattn.runs.storage import unpack_arrays


def default_names(features: int) -> tuple[str, ...]:
    """Return names for unnamed features: x and y for two features, otherwise f1, f2, ..."""
    return ("x", "y") if features == 2 else tuple(f"f{i}" for i in range(1, features + 1))


def default_target_names(source: tuple[str, ...], features: int) -> tuple[str, ...]:
    """Return names for unnamed target features: the names of the source features if there are as
    many target features as source features, otherwise t1, t2, ..."""
    same = len(source) == features
    return source if same else tuple(f"t{i}" for i in range(1, features + 1))


@dataclass(frozen=True)
class FeatureChoice:
    """The selected features of an array.

    Attributes:
        names: names of the features.
        indices: indices of the features in the array, or None for all features in order.
        notes: notes for the user.
    """

    names: tuple[str, ...]
    indices: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, arrays: dict[str, NDArray[Any]], words: str, name: str, key: str, F: int,
        reading: Reading,
    ) -> FeatureChoice:  # fmt: skip
        """Select features by the names in the file, or by position if the file has no names.

        Args:
            arrays: the arrays of the file by name.
            words: name of the array with the feature names.
            name: name of the file, for messages.
            key: name of the array of values.
            F: number of features in the array of values.
            reading: how to read the file.

        Raises:
            DataError: if a feature is missing, the number of names is wrong or a name occurs twice.
        """
        if words not in arrays:
            return cls.in_order(key, F, reading)
        file_names = read_texts(arrays[words], name, words)
        if len(file_names) != F:
            raise DataError(f"{name}: {key!r} has {F} features, {words!r} {len(file_names)} names.")
        doubled = sorted({word for word in file_names if file_names.count(word) > 1})
        if doubled:
            raise DataError(f"{name}: {words!r} has {doubled[0]!r} twice.")
        names, notes = reading.select_features(file_names, f"{name}: {key!r} has no feature",
            f"it has {join_names(file_names)}",
        )  # fmt: skip
        indices = tuple(file_names.index(word) for word in names)
        return cls(names, None if indices == tuple(range(F)) else indices, notes)

    @classmethod
    def in_order(cls, key: str, F: int, reading: Reading) -> FeatureChoice:
        """Take all features in order.

        Raises:
            DataError: if the number of names is wrong.
        """
        names = default_names(F) if reading.features is None else reading.features
        if len(names) != F:
            raise DataError(
                f"{key}: has {F} features a point, but there are {len(names)} names:"
                f" {', '.join(names)}."
            )
        return cls(names)


def choose_target_features(
    arrays: dict[str, NDArray[Any]], name: str, source: tuple[str, ...], G: int,
    reading: Reading,
) -> FeatureChoice:  # fmt: skip
    """Select the target features.

    Args:
        arrays: the arrays of the file by name.
        name: name of the file, for messages.
        source: names of the selected source features.
        G: number of target features in the file.
        reading: how to read the file.
    """
    words, features = "said", None
    if words not in arrays and len(arrays.get("features", ())) == G:
        words, features = "features", reading.features  # same names as the source features
    elif words not in arrays:
        features = default_target_names(source, G)
    if reading.source_and_target is not None:
        features = reading.source_and_target[1]
    return FeatureChoice.of(arrays, words, name, "target", G, replace(reading, features=features))


def read_texts(array: NDArray[Any], name: str, key: str) -> list[str]:
    if array.ndim != 1 or array.dtype.kind not in "Uiu":
        raise DataError(f"{name}: {key!r} must be a list of strings; it is {array.dtype}.")
    return [str(word) for word in array.tolist()]


ZIP_MAGIC = b"PK\x03\x04"
"""The first bytes of an NPZ file."""


def read_npy(path: Path, reading: Reading, *, whole: bool = False) -> Iterator[Chunk]:
    """Yield chunks of an NPY file. The values are views of the mapped file if possible.

    Args:
        path: the file.
        reading: how to read the file.
        whole: whether to yield the whole file as one chunk.

    Raises:
        DataError: if the file contains no array of numbers or the array has the wrong shape.
    """
    with path.open("rb") as file:
        is_npz = file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
    if is_npz:  # np.load would not close a damaged NPZ file
        raise DataError(f"{path}: is an NPZ file under another name. End it in .npz.")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # parsing the header can fail in many ways
        raise DataError(f"{path}: is not an NPY file of numbers ({first_line(error)}).") from None
    if array.ndim == 1:  # one sequence of one feature
        array = array[None, :]
    if array.ndim == 2 and reading.layout == "long":
        array = array[None, :, :]
    values = _check_array(array, str(path), "the array")
    marks = SentinelCounter(str(path), reading)
    for first, part in [(0, values)] if whole and len(values) else row_blocks(values):
        names = tuple(str(k) for k in range(first, first + len(part)))
        where = f"row {first + 1} on"
        chunk = _array_chunk(
            _without_na(part, reading), None, names,
            FeatureChoice.in_order(where, part.shape[2], reading), where, first,
        )  # fmt: skip
        yield replace(chunk, notes=(*chunk.notes, *marks.add(chunk.points)))
    marks.check()
    if not len(values):
        raise DataError(f"{path}: has no sequences: its shape is {array.shape}.")


def read_npz(file: Path | BinaryIO, name: str, reading: Reading) -> Iterator[Chunk]:
    """Yield the single chunk of an NPZ file.

    Raises:
        DataError: if the file is damaged, is too large when decompressed or has conflicting shapes.
    """
    arrays = _unpack(file, name)
    key = _main_array(arrays, name)
    values = _check_array(arrays[key], name, repr(key))
    if not len(values):
        raise DataError(f"{name}: has no sequences: the shape of {key!r} is {values.shape}.")
    lengths = _read_lengths(arrays, name, ("source_lengths", "lengths"), values, key)
    if key == "source" and "source_observed" in arrays:
        observed = arrays["source_observed"]
        if observed.shape != arrays[key].shape or observed.dtype.kind != "b":
            raise DataError(
                f"{name}: 'source_observed' must be booleans of the shape of 'source',"
                f" {arrays[key].shape}; it is {observed.dtype} of shape {observed.shape}."
            )
        values = np.where(observed.reshape(values.shape), values, values.dtype.type(np.nan))
    has_target = "target" in arrays and key != "values"
    source_reading = reading
    if has_target and reading.source_and_target is not None:
        source_reading = replace(reading, features=reading.source_and_target[0])
    which = FeatureChoice.of(arrays, "features", name, key, values.shape[2], source_reading)
    ids = tuple(map(str, range(len(values))))
    if "ids" in arrays:
        ids = tuple(read_texts(arrays["ids"], name, "ids"))
        if len(ids) != len(values):
            raise DataError(f"{name}: has {len(values)} sequences in {key!r} and {len(ids)} ids.")
    chunk = _array_chunk(_without_na(values, reading), lengths, ids, which, key, 0)
    if key == "source" and "source_times" in arrays:
        chunk = replace(chunk, order=_read_times(arrays["source_times"], name, chunk.points))
    marks = SentinelCounter(name, reading)
    if not has_target:
        notes = marks.add(chunk.points)
        marks.check()
        yield replace(chunk, notes=(*chunk.notes, *notes))
        return
    target = _check_array(arrays["target"], name, "'target'")
    if len(target) != len(ids):
        raise DataError(
            f"{name}: has {len(ids)} sequences in {key!r} and {len(target)} in 'target'."
        )
    of_target = choose_target_features(
        arrays, name, chunk.points.features, target.shape[2], reading
    )
    target_lengths = _read_lengths(arrays, name, ("target_lengths",), target, "target")
    targets = _array_chunk(
        _without_na(target, reading), target_lengths, ids, of_target, "target", 0
    )
    notes = marks.add(chunk.points, targets.points)
    marks.check()
    yield replace(
        chunk, target=targets.points, where_target=targets.where,
        notes=tuple(dict.fromkeys([*chunk.notes, *of_target.notes, *notes])),
    )  # fmt: skip


def _unpack(file: Path | BinaryIO, name: str) -> dict[str, NDArray[Any]]:
    """Return all arrays of an NPZ file by name.

    Raises:
        DataError: if the file is damaged or is too large when decompressed.
    """
    try:
        return unpack_arrays(file)
    except Exception as error:  # a damaged archive can raise errors of several modules
        raise DataError(
            f"{name}: is a damaged NPZ file, or cannot be read as one ({first_line(error)}). Large"
            " arrays are mapped if they are saved as NPY."
        ) from None


def _main_array(arrays: dict[str, NDArray[Any]], name: str) -> str:
    """Return the name of the array that contains the sources or the whole sequences.

    Raises:
        DataError: if there is no array `source` or `values`, and no other array can be used.
    """
    for key in ("source", "values"):
        if key in arrays:
            return key
    known = {"target", "lengths", "source_lengths", "target_lengths"}
    wide = [k for k, array in arrays.items() if array.ndim == 3 and array.dtype.kind in "fiu"]
    if len(wide) != 1 or known & arrays.keys():
        raise DataError(
            f"{name}: has no array 'source' or 'values' of shape (sequences, steps, features);"
            f" found {', '.join(sorted(arrays)) or 'nothing'}."
        )
    return wide[0]


def _array_chunk(
    values: NDArray[np.floating], lengths: Integers | None, ids: tuple[str, ...],
    which: FeatureChoice, key: str, first: int,
) -> Chunk:  # fmt: skip
    """Convert an array (N, L, F) to a chunk. If `lengths` is None, trailing NaN steps are
    padding."""
    if which.indices is not None:
        values = values[:, :, which.indices]
    N, L, F = values.shape
    names, notes = which.names, which.notes
    if lengths is None:
        lengths = np.empty(N, dtype=np.int64)
        for at, rows in row_blocks(values):
            empty = np.isnan(rows).all(axis=2)
            tail = np.where(empty.all(axis=1), L, empty[:, ::-1].argmin(axis=1))
            lengths[at : at + len(rows)] = L - tail
        if (lengths < L).any():
            notes = (*notes, "a sequence ends where all that follows is missing")
    is_full = bool((lengths == L).all())
    points = values.reshape(N * L, F) if is_full else values[valid_mask(lengths, L)]
    offsets = to_offsets(lengths)

    def where(row: int, feature: int) -> str:
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        step = row - int(offsets[k])
        place = feature if which.indices is None else which.indices[feature]
        cell = f"[{first + k}, {step}, {place}]"
        return f"{key.split(' ')[0] if key.startswith('row') else key}{cell} ({names[feature]!r})"

    return Chunk(ids, Ragged(points, offsets, names), where, notes=notes)


def _without_na(values: NDArray[np.floating], reading: Reading) -> NDArray[np.floating]:
    """Replace the numbers that mark missing values with NaN."""
    is_missing = np.isin(values, na_numbers(reading))
    return np.where(is_missing, values.dtype.type(np.nan), values) if is_missing.any() else values


def _check_array(array: NDArray[Any], name: str, label: str) -> NDArray[np.floating]:
    if array.dtype.kind not in "fiu":
        raise DataError(f"{name}: {label} contains {array.dtype}, not numbers.")
    if array.dtype.kind != "f" or array.dtype.itemsize < 4 or array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or 0 in array.shape[1:]:
        raise DataError(
            f"{name}: {label} has shape {array.shape}; expected (sequences, steps, features), or"
            " (sequences, steps) for one feature."
        )
    return array


def _read_times(times: NDArray[Any], name: str, points: Ragged) -> NDArray[Any]:
    """Return the times of the valid steps, (rows,).

    Raises:
        DataError: if there are not increasing dates or numbers for all steps of each sequence.
    """
    N, lengths = len(points), points.lengths
    if times.ndim == 2 and len(times) == N and times.dtype.kind in "Mfiu":
        keep = valid_mask(lengths, times.shape[1])
        order = times[keep].astype(DATES if times.dtype.kind == "M" else np.float64)
        is_last = np.diff(np.repeat(np.arange(N), np.minimum(lengths, times.shape[1]))) > 0
        increases = (np.diff(order).astype(np.float64) > 0) | is_last
        if len(order) == len(points.values) and np.isfinite(order).all() and increases.all():
            return order
    raise DataError(
        f"{name}: 'source_times' must be increasing dates or numbers, one for each step of"
        f" 'source'; it is {times.dtype} of shape {times.shape}."
    )


def _read_lengths(
    arrays: dict[str, NDArray[Any]], name: str, keys: tuple[str, ...], values: NDArray[np.floating],
    of: str,
) -> Integers | None:  # fmt: skip
    N, L, _ = values.shape
    for key in keys:
        if key not in arrays:
            continue
        lengths = arrays[key]
        if lengths.shape != (N,) or lengths.dtype.kind not in "iu":
            raise DataError(
                f"{name}: {key!r} must be {N} whole numbers, one for each sequence of {of!r}; it is"
                f" {lengths.dtype} of shape {lengths.shape}."
            )
        wrong = np.flatnonzero((lengths < 0) | (lengths > L))
        if wrong.size:
            k = int(wrong[0])
            raise DataError(
                f"{name}: {key}[{k}] is {lengths[k]}, but {of!r} has room for 0 to {L} points."
            )
        return lengths.astype(np.int64)
    return None
