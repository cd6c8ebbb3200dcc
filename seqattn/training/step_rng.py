"""Random numbers of one training step: dropout and hard choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from seqattn.rng import rngs_for

STEP_BITS, CALL_BITS = 32, 10


class StepRNG:
    """See `seqattn.models.RNG`. Each number is a function of seed, epoch, step and which call it
    was, so a run draws the same alone, side by side with others, and resumed in mid-epoch.

    Args:
        seeds: one a run; several put an axis of runs first.
        epoch, step: where in the training.
        like: whose type and device the numbers have.
        part: of how many sequences this process has which; None: all. It draws those of all, and
            keeps its own.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        epoch: int,
        step: int,
        like: Tensor,
        part: tuple[int, slice] | None = None,
    ) -> None:
        self.seeds, self.epoch, self.step, self.like = seeds, epoch, step, like
        self.part = part
        self.calls = dict[str, int]()

    def uniform(self, name: Literal["sampling", "dropout"], *shape: int) -> Tensor:
        call = self.calls.get(name, 0)
        assert call < 1 << CALL_BITS
        self.calls[name] = call + 1
        position = self.epoch << (STEP_BITS + CALL_BITS) | self.step << CALL_BITS | call
        places = ((seed, position) for seed in self.seeds)
        if self.part is not None:
            shape = (self.part[0], *shape[1:])
        drawn = [numbers.random_sample(shape) for numbers in rngs_for(places, name)]
        if self.part is not None:
            drawn = [numbers[self.part[1]] for numbers in drawn]
        array = drawn[0] if len(drawn) == 1 else np.stack(drawn)
        return torch.from_numpy(array).to(self.like)
