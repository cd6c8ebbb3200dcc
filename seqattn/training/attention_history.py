"""The attention history that a run records if `training.record_attention` is set.

The history contains the attention weights of a few validation sequences, called probe sequences,
after some of the epochs. The history is stored in the file `film.npz` of the run folder.

In shapes, P is the number of probe sequences, L is the number of layers, A is the number of heads,
T is the number of target steps, and S is the number of source steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqattn.data import Sequences
from seqattn.errors import CheckpointError
from seqattn.models import Seq2SeqModel
from seqattn.runs import RunFolder
from seqattn.runs.storage import write_arrays
from seqattn.training.batches import Batch, GatheredBatch

MAX_PROBES = 8
MAX_CELLS = 2**15


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
    """Compute a snapshot for each run. For a model without attention, return an empty list.

    The forecasts are free running and draw no random numbers, so recording does not affect
    training.
    """
    with torch.inference_mode():
        forecast = model.forecast(
            probe.source, probe.target.shape[-2], source_lengths=probe.source_lengths
        )
        maps = [each for each in forecast.attention if each.kind == "cross"]
        if not maps:
            return []
        weights = torch.stack([each.weights for each in maps], dim=-4).float().cpu().numpy()
    by_run = weights if probe.source.dim() == 4 else weights[None]
    return [AttentionSnapshot(epoch, each, maps[0].meaning) for each in by_run]


def write_attention_history(
    path: Path, history: Sequence[AttentionSnapshot], validation: Sequences
) -> None:
    """Write the snapshots with the ids, labels, lengths and alignment of the probe sequences.
    Weights at padding become NaN."""
    weights = np.stack([snapshot.weights for snapshot in history])
    P = weights.shape[1]
    probe = validation.select(slice(0, P))
    T, S = weights.shape[-2:]
    steps = np.arange(T) < probe.target_lengths[:, None]
    points = np.arange(S) < probe.source_lengths[:, None]
    real = (steps[:, :, None] & points[:, None, :])[None, :, None, None]
    arrays: dict[str, NDArray[Any]] = {
        "weights": np.where(real, weights, np.nan).astype(np.float32),
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
