"""The choice of the features of an array in an NPY or NPZ file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from seqattn.data.files.columns import join_names, select_features
from seqattn.data.files.options import ReadOptions
from seqattn.errors import DataError


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
        options: ReadOptions,
    ) -> FeatureChoice:  # fmt: skip
        """Select features by the names in the file, or by position if the file has no names.

        Args:
            arrays: the arrays of the file by name.
            words: name of the array with the feature names.
            name: name of the file, for messages.
            key: name of the array of values.
            F: number of features in the array of values.
            options: the options for reading the file.

        Raises:
            DataError: if a feature is missing, the number of names is wrong or a name occurs twice.
        """
        if words not in arrays:
            return cls.in_order(key, F, options)
        file_names = read_texts(arrays[words], name, words)
        if len(file_names) != F:
            raise DataError(f"{name}: {key!r} has {F} features, {words!r} {len(file_names)} names.")
        doubled = sorted({word for word in file_names if file_names.count(word) > 1})
        if doubled:
            raise DataError(f"{name}: {words!r} has {doubled[0]!r} twice.")
        names, notes = select_features(
            file_names, options, f"{name}: {key!r} has no feature",
            f"it has {join_names(file_names)}",
        )  # fmt: skip
        indices = tuple(file_names.index(word) for word in names)
        return cls(names, None if indices == tuple(range(F)) else indices, notes)

    @classmethod
    def in_order(cls, key: str, F: int, options: ReadOptions) -> FeatureChoice:
        """Take all features in order.

        Raises:
            DataError: if the number of names is wrong.
        """
        names = default_names(F) if options.features is None else options.features
        if len(names) != F:
            raise DataError(
                f"{key}: has {F} features a point, but there are {len(names)} names:"
                f" {', '.join(names)}."
            )
        return cls(names)


def choose_target_features(
    arrays: dict[str, NDArray[Any]], name: str, source: tuple[str, ...], G: int,
    options: ReadOptions,
) -> FeatureChoice:  # fmt: skip
    """Select the target features.

    Args:
        arrays: the arrays of the file by name.
        name: name of the file, for messages.
        source: names of the selected source features.
        G: number of target features in the file.
        options: the options for reading the file.
    """
    words, features = "said", None
    if words not in arrays and len(arrays.get("features", ())) == G:
        words, features = "features", options.features  # same names as the source features
    elif words not in arrays:
        features = default_target_names(source, G)
    if options.source_and_target is not None:
        features = options.source_and_target[1]
    return FeatureChoice.of(arrays, words, name, "target", G, replace(options, features=features))


def read_texts(array: NDArray[Any], name: str, key: str) -> list[str]:
    if array.ndim != 1 or array.dtype.kind not in "Uiu":
        raise DataError(f"{name}: {key!r} must be a list of strings; it is {array.dtype}.")
    return [str(word) for word in array.tolist()]
