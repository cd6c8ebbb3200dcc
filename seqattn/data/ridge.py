"""Ridge regression on a training part, for the initial weights of `model.skip: linear`.

In shapes, S is the source length, T the target length, F the number of source features, G the
number of target features, K the number of penalties and n the number of sequences in a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.data.least_squares import LinearSystem, scaled_blocks
from seqattn.data.sequences import Sequences
from seqattn.data.spaces import Floats, Vectors

PENALTIES = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Penalties that `ridge_map` tries, relative to the mean eigenvalue of the centered Gram matrix."""
MAX_WORK = 2**30
"""Maximum work for `ridge_map`, as the number of linear systems times (S * F)^3. The limit allows
one system with S * F = 1024, or 8 systems with S * F = 512. A fit to 5,000 sequences with
S * F = 1024 took 23 s and 120 MiB on one thread of a loaded machine."""


@dataclass(frozen=True, eq=False)
class RidgeMap:
    """The affine map `target = weight @ source + bias`, in the units of a model.

    Attributes:
        weight: (T, G, S, F) weights.
        bias: (T, G) biases. Weight and bias are 0 for a target cell that is unobserved in all
            training sequences.
        penalty: the value from `PENALTIES` that was chosen.
        loss: mean squared error over the observed target cells of the validation part, in the
            units of the training loss.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    penalty: float
    loss: float


def ridge_work(train: Sequences) -> int:
    """Return an upper bound on the work that `ridge_map` does, in the unit of `MAX_WORK`.

    The bound depends only on shapes, and on whether target cells are missing. If any target cell is
    missing, each target cell may need its own system.
    """
    systems = train.target_steps * len(train.target_features) if train.has_masked_targets else 1
    return int(systems * (train.source_steps * len(train.features)) ** 3)


def ridge_map(train: Sequences, validation: Sequences) -> RidgeMap:
    """Fit a ridge regression from sources to targets on the training part.

    The chosen penalty has the lowest loss on the validation part. The bias has no penalty. Each
    target cell is fitted to the training sequences in which this cell was observed. Penalties are
    relative to the mean eigenvalue of the centered Gram matrix of the sources of these sequences.
    The result is deterministic. Weights are penalized in the units of the model.

    Args:
        train: training sequences, each with S source steps and T target steps.
        validation: validation sequences, with the same lengths as the training sequences.
    """
    system = LinearSystem.of(train)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow gives a non-finite loss
        maps = [_in_model_units(system, each, train) for each in system.solve(PENALTIES)]
        losses = _penalty_losses(maps, validation)
    best = int(np.argmin(losses))
    weight, bias = maps[best]
    S, T = train.source_steps, train.target_steps
    F, G = len(train.features), len(train.target_features)
    return RidgeMap(
        np.ascontiguousarray(weight.T).reshape(T, G, S, F), bias.reshape(T, G), PENALTIES[best],
        float(losses[best]),
    )  # fmt: skip


def _in_model_units(
    system: LinearSystem, solution: Floats, train: Sequences
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the weights (S * F, T * G) and biases (T * G,) of one solution in the units of the
    model."""
    inputs, outputs = system.inputs, system.outputs
    source, target = train.source_space, train.target_space
    assert isinstance(source, Vectors) and isinstance(target, Vectors)
    unit = inputs.unit(source.scale)[:, None]
    weight = np.divide(solution[:-1], unit, where=unit > 0, out=np.zeros_like(solution[:-1]))
    at_zero = inputs.design(inputs.tile(source.scaling.shift)[None]) @ solution
    bias = outputs.inverse_transform(at_zero)[0] - outputs.tile(target.scaling.shift)
    bias = np.where(outputs.count > 0, bias / outputs.tile(target.scale), 0)
    return (weight * outputs.unit(target.scale)).astype(np.float32), bias.astype(np.float32)


def _penalty_losses(
    maps: list[tuple[NDArray[np.float32], NDArray[np.float32]]], part: Sequences
) -> Floats:
    """Return the mean squared error of each map, over the observed target cells of a part, as an
    array (K,).

    Forecasts are computed in float32, as in a model, so that the result includes the rounding
    errors of large weights that cancel each other.
    """
    errors, cells = np.zeros(len(maps)), 0
    of_source, of_target = part.source_space, part.target_space
    assert isinstance(of_source, Vectors) and isinstance(of_target, Vectors)
    for _, batch, scalers in scaled_blocks(part):
        source = of_source.scaling.transform(scalers[0].transform(batch.source))
        target = of_target.scaling.transform(scalers[1].transform(batch.target))
        source, target = source.reshape(len(batch), -1), target.reshape(len(batch), -1)
        observed, rows = batch.target_cells.reshape(target.shape), source.astype(np.float32)
        cells += int(np.count_nonzero(observed))
        for k, (weight, bias) in enumerate(maps):
            errors[k] += np.square(rows @ weight + bias - target)[observed].sum()
    return np.nan_to_num(errors / max(1, cells), nan=np.inf)
