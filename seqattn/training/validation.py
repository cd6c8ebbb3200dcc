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
    world: ProcessGroup | None = None,
) -> tuple[list[float], list[float]]:
    """Mean squared error over a part, free running and with every step teacher-forced.

    Their gap is the exposure bias: what it costs to build on one's own mistakes.

    Args:
        batch_size: of training; long sequences are taken as many at a time.
        world: processes that take a share each; None: all is done here.

    Returns:
        both for each run, as numbers in double precision.
    """
    R, mine = data.runs, slice(0, len(data))
    if world is not None:
        mine = world.share(len(data))
    totals, counted = ([0.0] * R, [0.0] * R), [0] * R
    at_once = sequences_together(data.source_steps + data.target_steps, batch_size)
    for first in range(mine.start, mine.stop, at_once):
        batch = data.take(slice(first, min(first + at_once, mine.stop))).owned()
        real = batch.points
        for total, losses in zip(totals, objective.both_losses(batch), strict=True):
            for k, (loss, n) in enumerate(zip(losses.view(-1).tolist(), real, strict=True)):
                total[k] += loss * n
        counted = [a + b for a, b in zip(counted, real, strict=True)]
    if world is not None:
        said = torch.tensor([*totals[0], *totals[1], *counted], dtype=torch.float64)
        sums = world.all_reduce(said.to(world.device)).tolist()
        totals, counted = (sums[:R], sums[R : 2 * R]), sums[2 * R :]
    free, forced = ([total / n for total, n in zip(sums, counted, strict=True)] for sums in totals)
    return free, forced
