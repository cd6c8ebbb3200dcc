"""The linear skip connection of a model in its graphs; see `seqattn.models.skip`.

In shapes, N is the number of sequences, S is the source length, T is the target length, and G is
the number of target features.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from seqattn.export.graphs import EncodedSource, Parts, StepOutput
from seqattn.export.units import Tensors
from seqattn.models import LinearSkip

SKIP = "skip"


class SkipParts(Parts):
    """The parts of a network with a linear skip connection, whose output is added in each step.

    The state `skip` (N, T, G) is a queue with the outputs of the skip connection. The output for
    the next step comes first, and NaN follows the last output. If the length of a source is not S,
    its queue is NaN everywhere, because a graph cannot raise an error.

    Args:
        network: the parts of the network without the skip connection.
        skip: the model's skip connection.
    """

    def __init__(self, network: Parts, skip: LinearSkip) -> None:
        self.network, self.skip, self.growing = network, skip, network.growing

    def encode(self, source: Tensor, lengths: Tensor) -> EncodedSource:
        encoded = self.network.encode(source, lengths)
        S, T = self.skip.lengths
        fits = (lengths == S)[:, None, None]
        queue = self.skip.apply_weights(source, T).masked_fill(~fits, torch.nan)
        state = {**encoded.state, SKIP: queue}
        return replace(encoded, state=state)

    def step(self, point: Tensor, memory: Tensors, state: Tensors) -> StepOutput:
        output = self.network.step(point, memory, state)
        queue = state[SKIP]
        empty = torch.full_like(queue[:, :1], torch.nan)
        rest = torch.cat([queue[:, 1:], empty], dim=1)
        return replace(
            output, values=output.values + queue[:, 0], state={**output.state, SKIP: rest}
        )
