"""The two histories that a run records if `training.record_attention` is set.

The attention history contains the attention weights of a few validation sequences, called probe
sequences, after some of the epochs; its file is `film.npz`. The parameter history contains the
parameters of a run after some of the epochs, so that the model of each of these epochs can be
loaded; its file is `parameter_history.npz`. A frame consists of the parameters after one epoch.

In shapes of attention, P is the number of probe sequences, L the number of layers, A the number of
heads, T the number of target steps, and S the number of source steps. In shapes of parameters, P is
the number of parameter values of a run.
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

from seqattn.data import Sequences
from seqattn.errors import CheckpointError
from seqattn.models import Seq2SeqModel
from seqattn.runs import RunFolder, masked_weights
from seqattn.runs.storage import write_arrays
from seqattn.training.batches import Batch, GatheredBatch

MAX_PROBES = 8
MAX_CELLS = 2**15
MAX_BYTES = 20_000_000
"""Maximum size of all frames of a run, in bytes. If the frames exceed this size, every second frame
is dropped."""


@dataclass(frozen=True)
class AttentionSnapshot:
    """Cross-attention weights of the probe sequences after an epoch.

    Attributes:
        epoch: number of finished epochs; 0 before the first epoch.
        weights: (P, L, A, T, S) attention weights.
        meaning: the meaning of the weights; see `seqattn.models.AttentionMap`.
    """

    epoch: int
    weights: NDArray[np.float32]
    meaning: str = "distribution"


def probe_batch(validation: Batch | GatheredBatch) -> Batch:
    """Return the first validation sequences of each run, at most `MAX_PROBES`. If the sequences are
    long, the function returns fewer of them."""
    cells = validation.source_steps * validation.target_steps
    return validation.take(slice(0, max(1, min(MAX_PROBES, MAX_CELLS // cells)))).contiguous()


def attention_snapshots(model: Seq2SeqModel, probe: Batch, epoch: int) -> list[AttentionSnapshot]:
    """Compute a snapshot for each run. For a model without attention, return an empty list. Steps
    after the end of all outputs of symbols have weights 0, so all snapshots have the same shape.

    The forecasts are free running and draw no random numbers, so recording does not affect
    training.
    """
    steps = probe.target.shape[-2]
    with torch.inference_mode():
        forecast = model.forecast(probe.source, steps, source_lengths=probe.source_lengths)
        maps = [each for each in forecast.attention if each.kind == "cross"]
        if not maps:
            return []
        stacked = torch.stack([each.weights for each in maps], dim=-4).float()
        padded = torch.nn.functional.pad(stacked, (0, 0, 0, steps - stacked.shape[-2]))
        weights = padded.cpu().numpy()
    by_run = weights if probe.source.dim() == 4 else weights[None]
    return [AttentionSnapshot(epoch, each, maps[0].meaning) for each in by_run]


def write_attention_history(
    path: Path, history: Sequence[AttentionSnapshot], validation: Sequences
) -> None:
    """Write the snapshots with the ids, labels, lengths and alignment of the probe sequences.
    Weights at padding become NaN."""
    weights = np.stack([snapshot.weights for snapshot in history])
    probe = validation.select(slice(0, weights.shape[1]))
    arrays: dict[str, NDArray[Any]] = {
        **masked_weights({"cross": weights}, probe.source_lengths, probe.target_lengths),
        "axes": np.array(["frame", "sequence", "layer", "head", "target_step", "source_step"]),
        "epochs": np.array([snapshot.epoch for snapshot in history]),
        "meaning": np.array(history[0].meaning),
        "ids": np.array(list(probe.ids)),
        "labels": np.array(list(probe.labels), dtype=np.str_),
        "source_lengths": probe.source_lengths,
        "target_lengths": probe.target_lengths,
        **({} if probe.alignment is None else {"alignment": probe.alignment}),
    }
    write_arrays(path, arrays)


def read_attention_history(folder: RunFolder, epoch: int) -> list[AttentionSnapshot]:
    """Read the snapshots up to an epoch.

    If the run has no file with snapshots, the function returns an empty list. If the file cannot be
    read, the function logs the reason and returns an empty list, and the next save replaces the
    file.
    """
    if not folder.film.exists():
        return []
    try:
        arrays = folder.read_film()
    except CheckpointError as error:
        folder.log_line(f"earlier attention is lost: {error}")
        return []
    weights = np.nan_to_num(arrays["weights"], nan=0.0)
    return [
        AttentionSnapshot(int(at), frame, str(arrays["meaning"]))
        for at, frame in zip(arrays["epochs"], weights, strict=True)
        if at <= epoch
    ]


Shapes = Mapping[str, Sequence[int]]
"""The shape of each parameter by name, in the order of a frame."""


@dataclass(frozen=True)
class ParameterSnapshot:
    """The parameters of a run after an epoch.

    Attributes:
        epoch: number of finished epochs; 0 before the first epoch.
        parameters: (P,) all parameters, flattened and concatenated in the order of the model.
    """

    epoch: int
    parameters: NDArray[np.float32]


def recording_interval(every: int, epoch: int, P: int) -> int | None:
    """Return the number of epochs between two frames of a run that has finished `epoch` epochs.

    The interval is `every`, doubled until all frames up to the epoch fit into `MAX_BYTES`. It
    depends only on the arguments, so a resumed run has the same interval.

    Args:
        every: value of `training.record_attention`.
        P: number of parameter values of the run.

    Returns:
        The interval in epochs, or None if a single frame is too large.
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
    """Add a frame to a history if one is due. If the interval is longer than `every`, drop the
    frames whose epochs are not multiples of the interval.

    Args:
        history: the frames so far, which the function changes in place.
        epoch: number of finished epochs, which must be a multiple of `every`.
        every: value of `training.record_attention`.
        parameters: (P,) current parameters, which the function copies.
    """
    interval = recording_interval(every, epoch, len(parameters))
    if interval is None:
        return
    if epoch % interval == 0 and not (history and history[-1].epoch == epoch):
        history.append(ParameterSnapshot(epoch, np.array(parameters, dtype=np.float32)))
    if interval > every:
        history[:] = [frame for frame in history if frame.epoch % interval == 0]


def history_bytes(every: int | None, epochs: int, P: int) -> int:
    """Return the size in bytes of the history of a finished run."""
    interval = None if every is None else recording_interval(every, epochs, P)
    return 0 if interval is None else 4 * P * (epochs // interval + 1)


def describe_interval(every: int | None, epoch: int, P: int) -> str | None:
    """Return a message about frames that are left out, or None if no frame is left out."""
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
    """Write a history of at least one frame."""
    axes = max((len(shape) for shape in shapes.values()), default=0)
    padded = [[*shape, *[-1] * (axes - len(shape))] for shape in shapes.values()]
    arrays: dict[str, NDArray[Any]] = {
        "epochs": np.array([frame.epoch for frame in history], dtype=np.int64),
        "parameters": np.stack([frame.parameters for frame in history]),
        "names": np.array(list(shapes), dtype=np.str_),
        "shapes": np.array(padded, dtype=np.int64).reshape(len(shapes), axes),
    }
    # Compression would make the file only a few percent smaller, but would take longer than writing
    # the file.
    write_arrays(path, arrays, compressed=False)


def load_parameter_history(
    folder: RunFolder, epoch: int, shapes: Shapes
) -> list[ParameterSnapshot]:
    """Read the frames up to an epoch.

    If the run has no file with frames, the function returns an empty list. If the file cannot be
    read or belongs to another model, the function logs the reason and returns an empty list, and
    the next save replaces the file.
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
    """Check that a history belongs to a model with these parameters.

    Raises:
        CheckpointError: if the history belongs to another model.
    """
    stored = parameter_shapes(arrays)
    if list(stored.items()) != [(name, tuple(shape)) for name, shape in shapes.items()]:
        raise CheckpointError(
            f"{path}: does not belong to the model of the run, because the names or shapes of its"
            " parameters are different. Remove the file, or train again (--overwrite) to write it."
        )


def parameter_shapes(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter in the arrays of a file, in the order of a frame."""
    return {
        name: tuple(size for size in padded if size >= 0)
        for name, padded in zip(arrays["names"].tolist(), arrays["shapes"].tolist(), strict=True)
    }


def named_parameters(arrays: Mapping[str, NDArray[Any]], frame: int) -> dict[str, Tensor]:
    """Return the parameters of one frame, by name."""
    shapes, flat = parameter_shapes(arrays), torch.from_numpy(arrays["parameters"][frame].copy())
    pieces = torch.split(flat, [math.prod(shape) for shape in shapes.values()])
    return {
        name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
    }
