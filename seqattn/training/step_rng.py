"""The random numbers of a training step for dropout and hard attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from seqattn.errors import PluginError
from seqattn.rng import rngs_for
from seqattn.training.process_group import Shard

STEP_BITS, CALL_BITS = 32, 10


class StepRNG:
    """The implementation of `seqattn.models.RNG` for a training step.

    The numbers of a call depend only on seed, purpose, epoch, step and call number. A run therefore
    draws the same numbers whether it is trained alone, in a group, or after a resume within an
    epoch.

    Args:
        seeds: seed of each run. Several seeds add a leading axis of runs to the numbers.
        epoch: number of finished epochs.
        step: number of finished steps in the current epoch.
        like: tensor that has the type and device of the numbers.
        shard: this process's share of the batch; None for the whole batch.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        epoch: int,
        step: int,
        like: Tensor,
        shard: Shard | None = None,
    ) -> None:
        self.seeds, self.epoch, self.step, self.like = seeds, epoch, step, like
        self.shard = shard
        self.calls = dict[str, int]()

    def uniform(self, name: Literal["sampling", "dropout"], *shape: int) -> Tensor:
        """Draw uniform random numbers in [0, 1].

        The generator draws float64 numbers from [0, 1). If the type of `like` is less precise, a
        number may be rounded to 1.0.

        Args:
            name: purpose of the numbers.
            shape: shape of the numbers of a run. The first axis is the axis of sequences.

        Raises:
            PluginError: if the model draws more than 1,024 times in a step for the same purpose.
        """
        call = self.calls.get(name, 0)
        if call >= 1 << CALL_BITS:
            raise PluginError(
                f"the model draws random numbers for {name!r} more than {1 << CALL_BITS:,} times in"
                " a step. Draw the numbers of all decoder steps with one call."
            )
        self.calls[name] = call + 1
        counter = self.epoch << (STEP_BITS + CALL_BITS) | self.step << CALL_BITS | call
        keys = ((seed, counter) for seed in self.seeds)
        if self.shard is not None:
            shape = (self.shard.n, *shape[1:])
        drawn = [generator.random_sample(shape) for generator in rngs_for(keys, name)]
        if self.shard is not None:
            drawn = [numbers[self.shard.places] for numbers in drawn]
        array = drawn[0] if len(drawn) == 1 else np.stack(drawn)
        return torch.from_numpy(array).to(self.like, non_blocking=True)
