"""The validation losses of every run: free running and teacher-forced."""

from __future__ import annotations

import torch

from seqattn.training.batches import Batch, GatheredBatch
from seqattn.training.objective import LossFn
from seqattn.training.process_group import ProcessGroup, shard_of

MAX_SEQUENCES = 512
MAX_STEPS = 4096
"""Of a chunk: one that fits into the CPU's cache is faster than all sequences at once."""


def validation_chunk_size(steps: int, batch_size: int) -> int:
    """How many validation sequences are evaluated together.

    Args:
        steps: length of the longest source plus length of the longest target.
        batch_size: of training.
    """
    return max(batch_size, min(MAX_SEQUENCES, MAX_STEPS // steps), 1)


def validate(
    loss_fn: LossFn,
    data: Batch | GatheredBatch,
    batch_size: int = 1,
    processes: ProcessGroup | None = None,
) -> tuple[list[float], list[float]]:
    """Mean squared error over the validation part, free running and with every step teacher-forced.

    Their gap is the exposure bias (Bengio et al. 2015, "Scheduled Sampling", section 1).

    Args:
        batch_size: of training; at least as many sequences are evaluated together.
        processes: processes that evaluate a share each; None: this one evaluates all.

    Returns:
        both losses of each run, in double precision.
    """
    R, mine = data.runs, shard_of(processes, len(data)).places
    totals, counted = ([0.0] * R, [0.0] * R), [0] * R
    at_once = validation_chunk_size(data.source_steps + data.target_steps, batch_size)
    for first in range(mine.start, mine.stop, at_once):
        batch = data.take(slice(first, min(first + at_once, mine.stop))).contiguous()
        counts = batch.loss_counts.tolist()
        for total, losses in zip(totals, loss_fn.validation_losses(batch), strict=True):
            for k, (loss, n) in enumerate(zip(losses.view(-1).tolist(), counts, strict=True)):
                total[k] += loss * n
        counted = [a + b for a, b in zip(counted, counts, strict=True)]
    if processes is not None:
        own = torch.tensor([*totals[0], *totals[1], *counted], dtype=torch.float64)
        sums = processes.all_reduce(own.to(processes.device)).tolist()
        totals, counted = (sums[:R], sums[R : 2 * R]), sums[2 * R :]
    free, forced = ([total / n for total, n in zip(sums, counted, strict=True)] for sums in totals)
    return free, forced
