"""The ridge map of a training part, which `model.skip: linear` starts at.

Letters: S source steps, T target steps, F features of a source point, G of a target point, K
penalties, n sequences that are at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.least_squares import DesignTable, LinearSystem
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Floats, Sequences

PENALTIES = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
"""What `ridge_map` tries, as shares of the mean eigenvalue of the centred Gram matrix."""
MAX_WORK = 2**30
"""Linear systems times (S F)^3, up to which `ridge_map` is meant to be used: one system of S F =
1024, or 8 of 512. 5,000 sequences of 1024 took 23 s and 120 MiB, with one thread, beside other
work."""


@dataclass(frozen=True, eq=False)
class RidgeMap:
    """target = weight source + bias, in a model's units.

    Attributes:
        weight: (T, G, S, F).
        bias: (T, G); 0, as the weights, for a cell that no training sequence has.
        penalty: the one of `PENALTIES` that was chosen.
        loss: the mean squared error over the observed target cells of the validation part, in the
            units of a training's losses.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    penalty: float
    loss: float


def ridge_work(train: Sequences) -> int:
    """Linear systems times (S F)^3, at most: target cells that some sequences lack have one each.
    A function of shapes alone."""
    systems = train.target_steps * len(train.target_features) if train.masks_targets else 1
    return int(systems * (train.source_steps * len(train.features)) ** 3)


def ridge_map(train: Sequences, validation: Sequences, scaling: Scaling) -> RidgeMap:
    """The affine map with the smallest mean squared error on the training part plus a penalty on
    the squares of its weights; the bias has none. Of `PENALTIES` the validation part chooses.

    Each target cell is fitted to the training sequences in which it was observed. A penalty is a
    share of the mean eigenvalue of the centred Gram matrix of these sequences' sources. The result
    is a function of the arguments alone.

    Args:
        train, validation: of one shape, S source and T target points each.
        scaling: to the model's units; the penalty is on weights in these.
    """
    system = LinearSystem.of(DesignTable(train, scaling))
    with np.errstate(over="ignore", invalid="ignore"):  # beyond float32: no finite loss
        maps = [_in_model_units(system, each, scaling) for each in system.solve(PENALTIES, scaling)]
        losses = _penalty_losses(maps, validation, scaling)
    best = int(np.argmin(losses))
    weight, bias = maps[best]
    S, T, F, G = (
        train.source_steps,
        train.target_steps,
        len(train.features),
        len(train.target_features),
    )
    return RidgeMap(
        np.ascontiguousarray(weight.T).reshape(T, G, S, F), bias.reshape(T, G), PENALTIES[best],
        float(losses[best]),
    )  # fmt: skip


def _in_model_units(
    system: LinearSystem, solution: Floats, scaling: Scaling
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """((S F, T G) weights, (T G,) biases) of one solution, from a model's source to its target."""
    inputs, outputs = system.inputs, system.outputs
    unit = inputs.unit(scaling.source)[:, None]
    slopes = np.divide(solution[:-1], unit, where=unit > 0, out=np.zeros_like(solution[:-1]))
    at_zero = inputs.design(inputs.tiled(scaling.source.shift)[None]) @ solution
    bias = outputs.unscaled(at_zero)[0] - outputs.tiled(scaling.target.shift)
    bias = np.where(outputs.count > 0, bias / outputs.tiled(scaling.target.scale), 0)
    return (slopes * outputs.unit(scaling.target)).astype(np.float32), bias.astype(np.float32)


def _penalty_losses(
    maps: list[tuple[NDArray[np.float32], NDArray[np.float32]]], part: Sequences, scaling: Scaling
) -> Floats:
    """(K,) mean squared errors over the observed target cells of a part, of forecasts in float32,
    as a model computes them: large weights that cancel cost precision there."""
    errors, cells = np.zeros(len(maps)), 0
    table = DesignTable(part, scaling)
    for _, some, own in table.parts():
        source = scaling.source.scaled(own[0].scaled(some.source)).reshape(len(some), -1)
        target = scaling.target.scaled(own[1].scaled(some.target)).reshape(len(some), -1)
        seen, rows = some.target_cells.reshape(target.shape), source.astype(np.float32)
        cells += int(np.count_nonzero(seen))
        for k, (weight, bias) in enumerate(maps):
            errors[k] += np.square(rows @ weight + bias - target)[seen].sum()
    return np.nan_to_num(errors / max(1, cells), nan=np.inf)
