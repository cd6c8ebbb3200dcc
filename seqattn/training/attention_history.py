"""`training.record_attention`: attention weights of a few validation sequences at some epochs, kept
in film.npz of the run folder.

Letters: P probe sequences, L layers, A heads, T target steps, S source steps.
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
        epoch: finished epochs; 0 is before the first.
        weights: (P, L, A, T, S).
        meaning: of the weights; see `seqattn.models.AttentionMap`.
    """

    epoch: int
    weights: NDArray[np.float32]
    meaning: str = "distribution"


def probe_batch(validation: Batch | GatheredBatch) -> Batch:
    """The first validation sequences of each run, fewer where they are long."""
    cells = validation.source_steps * validation.target_steps
    return validation.take(slice(0, max(1, min(MAX_PROBES, MAX_CELLS // cells)))).contiguous()


def attention_snapshots(model: Seq2SeqModel, probe: Batch, epoch: int) -> list[AttentionSnapshot]:
    """A snapshot of each run; an empty list for models without attention.

    The forecasts are free running and draw no random number, so that recording does not change a
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
    return [AttentionSnapshot(epoch, run, maps[0].meaning) for run in by_run]


def write_attention_history(
    path: Path, history: Sequence[AttentionSnapshot], validation: Sequences
) -> None:
    """Write snapshots with the sequences that they are of; cells at padding are NaN."""
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
    """The snapshots up to an epoch; empty where there is no file. An unreadable file is logged, and
    replaced by the next save."""
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
