"""The validation losses of each run, free running and teacher-forced."""

from __future__ import annotations

import torch

from seqattn.training.batches import Batch, GatheredBatch
from seqattn.training.objective import LossFn
from seqattn.training.process_group import ProcessGroup, shard_of

MAX_SEQUENCES = 512
"""Largest number of sequences in a chunk that exceeds the batch size of training."""
MAX_STEPS = 4096
"""Largest number of steps in a chunk that exceeds the batch size of training. A chunk that fits
into the CPU cache is faster."""


def validation_chunk_size(steps: int, batch_size: int) -> int:
    """Compute the number of validation sequences in a chunk.

    Args:
        steps: length of the longest source plus length of the longest target.
        batch_size: batch size of training.
    """
    return max(batch_size, min(MAX_SEQUENCES, MAX_STEPS // steps), 1)


def validate(
    loss_fn: LossFn,
    validation: Batch | GatheredBatch,
    batch_size: int = 1,
    processes: ProcessGroup | None = None,
) -> tuple[list[float], list[float]]:
    """Compute the mean squared errors of the validation part, free running and teacher-forced.

    The gap between the two errors measures the exposure bias (Bengio et al. 2015, "Scheduled
    Sampling", section 1).

    Args:
        loss_fn: the loss of the group.
        validation: the validation sequences.
        batch_size: batch size of training; see `validation_chunk_size`.
        processes: the processes that share the sequences; None if this process is alone.

    Returns:
        The free-running loss and the teacher-forced loss of each run.
    """
    R, mine = validation.run_count, shard_of(processes, len(validation)).places
    totals, counted = ([0.0] * R, [0.0] * R), [0] * R
    at_once = validation_chunk_size(validation.source_steps + validation.target_steps, batch_size)
    for first in range(mine.start, mine.stop, at_once):
        batch = validation.take(slice(first, min(first + at_once, mine.stop))).contiguous()
        counts = batch.loss_counts.tolist()
        for total, losses in zip(totals, loss_fn.eval_losses(batch), strict=True):
            for k, (loss, n) in enumerate(zip(losses.view(-1).tolist(), counts, strict=True)):
                total[k] += loss * n
        counted = [a + b for a, b in zip(counted, counts, strict=True)]
    if processes is not None:
        own = torch.tensor([*totals[0], *totals[1], *counted], dtype=torch.float64)
        sums = processes.all_reduce(own.to(processes.device)).tolist()
        totals, counted = (sums[:R], sums[R : 2 * R]), sums[2 * R :]
    free_running, teacher_forced = (
        [total / n for total, n in zip(sums, counted, strict=True)] for sums in totals
    )
    return free_running, teacher_forced
