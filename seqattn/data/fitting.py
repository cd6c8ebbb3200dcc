"""The scaling of the user's own sequences, fitted on their training part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from seqattn.config import OwnFile
from seqattn.data.instance import InstanceStatistics
from seqattn.data.scaling import Fitted, Scaler, Scaling, fit_features, places_in
from seqattn.data.sequences import Integers, Sequences


def fit(config: OwnFile, train: Sequences) -> tuple[Scaling, list[str]]:
    """The scaling of a training part, and what should be said of it.

    Raises:
        DataError: data.scaling: robust, and more values than can be sorted in memory.
    """
    names = tuple(dict.fromkeys([*train.features, *train.said]))
    fitted = {}
    if config.scaling != "none":
        fitted = fit_features(config.scaling, names, _observed(config, train))
    scaling, notes = scaling_of(config, fitted, train.features, train.said)
    if config.normalize == "instance":
        notes += instance_notes(train.features, train.said, constant_windows(train), len(train))
    return scaling, notes


def _observed(
    config: OwnFile, train: Sequences
) -> Callable[[], Iterator[tuple[str, NDArray[np.floating]]]]:
    """What was observed of each feature, some sequences after the other: (feature, values)."""
    relative = replace(Scaling.identity(train), relative=config.relative)

    def values() -> Iterator[tuple[str, NDArray[np.floating]]]:
        for _, some in train.chunks():
            # With data.normalize: instance nothing is taken off here, so that losses count in the
            # same units as without.
            own = relative.of_each(some)
            for names, points, cells, scaler in zip(
                (some.features, some.said), (some.source, some.target),
                (some.source_cells, some.target_cells), own, strict=True,
            ):  # fmt: skip
                scaled = scaler.scaled(points)
                for i, name in enumerate(names):
                    yield name, scaled[:, :, i][cells[:, :, i]]

    return values


def scaling_of(
    config: OwnFile, fitted: Mapping[str, Fitted], features: Sequence[str], said: Sequence[str]
) -> tuple[Scaling, list[str]]:
    """The scaling of both sides from that of each feature, and what should be said of it.

    Args:
        fitted: empty with data.scaling: none.
        features, said: names of the source's and of the target's.
    """
    notes = [
        f"{name} is always {one.shift:g} in the training part: not scaled"
        for name, one in fitted.items() if one.constant
    ] + [
        f"{name} has equal quartiles in the training part: scaled by its standard deviation"
        for name, one in fitted.items() if one.quartiles_are_equal
    ]  # fmt: skip
    instance = config.normalize == "instance"
    source, target = (
        Scaler(
            np.array([0.0 if (instance and name in features) or not fitted else fitted[name].shift
                      for name in names]),
            np.array([fitted[name].scale if fitted else 1.0 for name in names]),
        )
        for names in (features, said)
    )  # fmt: skip
    carried = places_in(tuple(features), tuple(said))
    return Scaling(source, target, carried, config.relative, instance), notes


def constant_windows(part: Sequences) -> Integers:
    """(F,) in how many sources each feature is constant."""
    found = np.zeros(len(part.features), dtype=np.int64)
    for _, some in part.chunks():
        found += InstanceStatistics.of(some).constant.sum(axis=0)
    return found


def instance_notes(
    features: Sequence[str], said: Sequence[str], constant: Integers, sequences: int
) -> list[str]:
    """What should be said of data.normalize: instance.

    Args:
        constant: (F,) in how many training sources each feature is constant.
        sequences: of the training part.
    """
    only_said = [name for name in said if name not in features]
    return [
        f"{name} is constant in {count:,} of {sequences:,} training sources: shifted there, not"
        " scaled by its own standard deviation (data.normalize)"
        for name, count in zip(features, constant.tolist(), strict=True) if count
    ] + [
        f"{name} is to be said but not given, so that no source has a mean of it: it keeps the"
        " scaling of the training part (data.scaling)"
        for name in only_said
    ]  # fmt: skip
