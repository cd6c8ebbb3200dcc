"""`training.record_attention`: the parameters of a run at some epochs, so that its model can
forecast as it would have at each of them. The run folder has them in parameter_history.npz.

Letters: E recorded epochs (frames), P numbers in the parameters of a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.errors import CheckpointError
from seqattn.runs import RunFolder
from seqattn.runs.storage import write_arrays

MAX_BYTES = 20_000_000
"""Maximum size of the frames of a run. Beyond it, frames are dropped evenly."""

Shapes = Mapping[str, Sequence[int]]
"""The shape of each parameter by name, in the order of a frame."""


@dataclass(frozen=True)
class ParameterSnapshot:
    """The parameters of a run after an epoch.

    Attributes:
        epoch: finished epochs; 0 is before the first.
        parameters: (P,), all parameters, flattened and joined in the model's order.
    """

    epoch: int
    parameters: NDArray[np.float32]


def recording_interval(every: int, epoch: int, P: int) -> int | None:
    """Return the number of epochs between two frames of a run that has reached an epoch.

    It is `every`, doubled until all frames up to the epoch fit into `MAX_BYTES`. As a function of
    the epoch it is the same after a resume.

    Args:
        every: `training.record_attention`.
        epoch: finished epochs.
        P: numbers in the parameters of the run.

    Returns:
        the interval in epochs; None if a single frame is too large.
    """
    max_frames = MAX_BYTES // (4 * P)
    if max_frames < 1:
        return None
    interval = every
    while epoch // interval + 1 > max_frames:
        interval *= 2
    return interval


def record_parameters(
    history: list[ParameterSnapshot], epoch: int, every: int, parameters: NDArray[np.float32]
) -> None:
    """Add a frame to a history if one is due, and drop those that a longer interval leaves out.

    Args:
        history: changed in place.
        epoch: finished epochs, a multiple of `every`.
        every: `training.record_attention`.
        parameters: (P,) of now; copied.
    """
    interval = recording_interval(every, epoch, len(parameters))
    if interval is None:
        return
    if epoch % interval == 0 and not (history and history[-1].epoch == epoch):
        history.append(ParameterSnapshot(epoch, np.array(parameters, dtype=np.float32)))
    if interval > every:
        history[:] = [frame for frame in history if frame.epoch % interval == 0]


def history_bytes(every: int | None, epochs: int, P: int) -> int:
    """Return the size of the history of a whole training, in bytes.

    Args:
        every: `training.record_attention`.
        epochs: of the training.
        P: numbers in the parameters of a run.
    """
    interval = None if every is None else recording_interval(every, epochs, P)
    return 0 if interval is None else 4 * P * (epochs // interval + 1)


def describe_interval(every: int | None, epoch: int, P: int) -> str | None:
    """Return a sentence about frames that are left out; None if there is none.

    Args:
        every, epoch, P: see `recording_interval`.
    """
    if every is None or (interval := recording_interval(every, epoch, P)) == every:
        return None
    size, budget = f"{4e-6 * P:.3g} MB for an epoch", f"{MAX_BYTES / 1e6:g} MB for all"
    if interval is None:
        return f"parameter_history.npz: is not written: {size} exceeds {budget}"
    usual = "every epoch" if every == 1 else f"every {every}"
    return (
        f"parameter_history.npz: has the parameters every {interval} epochs instead of {usual}:"
        f" {size}, at most {budget}"
    )


def write_parameter_history(
    path: Path, history: Sequence[ParameterSnapshot], shapes: Shapes
) -> None:
    """Write a history.

    Args:
        path: the file.
        history: one frame or more.
        shapes: of the parameters in a frame.
    """
    axes = max((len(shape) for shape in shapes.values()), default=0)
    padded = [[*shape, *[-1] * (axes - len(shape))] for shape in shapes.values()]
    arrays: dict[str, NDArray[Any]] = {
        "epochs": np.array([frame.epoch for frame in history], dtype=np.int64),
        "parameters": np.stack([frame.parameters for frame in history]),
        "names": np.array(list(shapes), dtype=np.str_),
        "shapes": np.array(padded, dtype=np.int64).reshape(len(shapes), axes),
    }
    # Trained parameters shrink by a few percent only, which takes longer than writing them.
    write_arrays(path, arrays, compressed=False)


def load_parameter_history(
    folder: RunFolder, epoch: int, shapes: Shapes
) -> list[ParameterSnapshot]:
    """Return the frames up to an epoch, to continue from; empty if there is no file. An unreadable
    file is logged, and replaced by the next save.

    Args:
        folder: run folder.
        epoch: the last one to return.
        shapes: of the parameters of the model.
    """
    if not folder.parameter_history.exists():
        return []
    try:
        arrays = folder.read_parameter_history()
        check_same_shapes(folder.parameter_history, arrays, shapes)
    except CheckpointError as error:
        folder.log_line(f"earlier parameters are lost: {error}")
        return []
    return [
        ParameterSnapshot(int(at), frame)
        for at, frame in zip(arrays["epochs"], arrays["parameters"], strict=True)
        if at <= epoch
    ]


def check_same_shapes(path: Path, arrays: Mapping[str, NDArray[Any]], shapes: Shapes) -> None:
    """Check that a history is of a model with these parameters.

    Raises:
        CheckpointError: it is of another model.
    """
    stored = parameter_shapes(arrays)
    if list(stored.items()) != [(name, tuple(shape)) for name, shape in shapes.items()]:
        raise CheckpointError(
            f"{path}: is of another model than the run: its parameters have other names or shapes."
            " Remove the file, or train again (--overwrite) to write it."
        )


def parameter_shapes(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter of a history that was read, in the order of a frame."""
    return {
        name: tuple(size for size in padded if size >= 0)
        for name, padded in zip(arrays["names"].tolist(), arrays["shapes"].tolist(), strict=True)
    }


def named_parameters(arrays: Mapping[str, NDArray[Any]], frame: int) -> dict[str, Tensor]:
    """Return the parameters of one frame of a history that was read, by name.

    Args:
        arrays: of the file.
        frame: index of the frame, from 0.
    """
    shapes, row = parameter_shapes(arrays), torch.from_numpy(arrays["parameters"][frame].copy())
    pieces = torch.split(row, [math.prod(shape) for shape in shapes.values()])
    return {
        name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
    }
