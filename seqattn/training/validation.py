"""Both validation losses of every run: free running, and told the truth."""

from __future__ import annotations

import torch

from seqattn.training.batches import Batch, GatheredBatch
from seqattn.training.objective import LossFn
from seqattn.training.process_group import ProcessGroup

VALIDATION_CHUNK = 512  # a chunk that stays in the cache beats one pass over everything
CHUNK_POINTS = 4096


def sequences_together(points: int, batch_size: int) -> int:
    """How many validation sequences are scored at a time.

    Args:
        points: of the longest source and the longest target together.
        batch_size: of training.
    """
    return max(batch_size, min(VALIDATION_CHUNK, CHUNK_POINTS // points), 1)


def validate(
    objective: LossFn,
    data: Batch | GatheredBatch,
    batch_size: int = 1,
    processes: ProcessGroup | None = None,
) -> tuple[list[float], list[float]]:
    """Mean squared error over a part, free running and with every step teacher-forced.

    Their gap is the exposure bias: what it costs to build on one's own mistakes.

    Args:
        batch_size: of training; at least as many sequences are scored together.
        processes: that take a share each; None: this one takes all.

    Returns:
        both for each run, as numbers in double precision.
    """
    R, mine = data.runs, slice(0, len(data))
    if processes is not None:
        mine = processes.share(len(data))
    totals, counted = ([0.0] * R, [0.0] * R), [0] * R
    at_once = sequences_together(data.source_steps + data.target_steps, batch_size)
    for first in range(mine.start, mine.stop, at_once):
        batch = data.take(slice(first, min(first + at_once, mine.stop))).owned()
        real = batch.points
        for total, losses in zip(totals, objective.both_losses(batch), strict=True):
            for k, (loss, n) in enumerate(zip(losses.view(-1).tolist(), real, strict=True)):
                total[k] += loss * n
        counted = [a + b for a, b in zip(counted, real, strict=True)]
    if processes is not None:
        own = torch.tensor([*totals[0], *totals[1], *counted], dtype=torch.float64)
        sums = processes.all_reduce(own.to(processes.device)).tolist()
        totals, counted = (sums[:R], sums[R : 2 * R]), sums[2 * R :]
    free, forced = ([total / n for total, n in zip(sums, counted, strict=True)] for sums in totals)
    return free, forced
