"""Where a model looked while it learned: the weights of a few fixed sequences, epoch by epoch.

Letters: P probe sequences, L layers, A heads, T target steps, S source steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from seqattn.models import Seq2SeqModel
from seqattn.training.batches import Batch, GatheredBatch

PROBES = 8
MOST_CELLS = 2**15


@dataclass(frozen=True)
class Frame:
    """
    Attributes:
        epoch: finished epochs; 0 is before the first.
        weights: (P, L, A, T, S), of cross-attention.
        meaning: of the numbers; see `seqattn.models.AttentionMap`.
    """

    epoch: int
    weights: NDArray[np.float32]
    meaning: str = "distribution"


def probe_batch(validation: Batch | GatheredBatch) -> Batch:
    """The first validation sequences, of each run, fewer where they are long."""
    cells = validation.source_steps * validation.target_steps
    return validation.take(slice(0, max(1, min(PROBES, MOST_CELLS // cells)))).owned()


def frames(model: Seq2SeqModel, probe: Batch, epoch: int) -> list[Frame]:
    """A frame of each run, or none of models without attention.

    They run free, nothing is left to chance, and no random number is drawn: a training ends the
    same whether it is filmed or not.
    """
    with torch.inference_mode():
        forecast = model.forecast(
            probe.source, probe.target.shape[-2], source_lengths=probe.source_lengths
        )
        maps = [each for each in forecast.attention if each.kind == "cross"]
        if not maps:
            return []
        weights = torch.stack([each.weights for each in maps], dim=-4).float().cpu().numpy()
    several = probe.source.dim() == 4
    return [Frame(epoch, run, maps[0].meaning) for run in (weights if several else weights[None])]
