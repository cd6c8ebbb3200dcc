"""A model's linear skip in its graphs; see `seqattn.models.skip`.

Letters: N sequences, S source length, T target length, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqattn.export.graphs import Begun, Made, Named, Parts
from seqattn.models import LinearSkip

SKIP = "skip"


class SkippedParts(Parts):
    """The parts of a network with what the skip adds to each step.

    The state `skip` (N, T, F) has what is still to be added: the next step first, NaN after the
    last. A source of another length than S gets NaN at every step, since a graph cannot refuse it.

    Args:
        network: the parts of the network alone.
        skip: the model's.
    """

    def __init__(self, network: Parts, skip: LinearSkip) -> None:
        self.network, self.skip, self.growing = network, skip, network.growing

    def begin(self, source: Tensor, lengths: Tensor) -> Begun:
        begun = self.network.begin(source, lengths)
        S, T = self.skip.lengths
        fits = (lengths == S)[:, None, None]
        added = self.skip.mapped(source, T).masked_fill(~fits, torch.nan)
        return Begun(begun.point, begun.memory, {**begun.state, SKIP: added}, begun.maps)

    def step(self, point: Tensor, memory: Named, state: Named) -> Made:
        made = self.network.step(point, memory, state)
        added = state[SKIP]
        none = torch.full_like(added[:, :1], torch.nan)
        left = torch.cat([added[:, 1:], none], dim=1)
        return Made(made.point + added[:, 0], {**made.state, SKIP: left}, made.maps)
