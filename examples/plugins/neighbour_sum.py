"""A task in one file: each target step is the sum of two neighbouring source steps.

seqattn check-plugin examples/plugins/neighbour_sum.py
seqattn train examples/plugins/neighbour_sum.yaml
"""

from typing import Annotated

import numpy as np
from pydantic import Field

import seqattn


class NeighbourSumConfig(seqattn.TaskConfig):
    """A task in which target step t is the sum of the source steps t and t + 1, plus noise."""

    noise: Annotated[float, Field(ge=0, le=10)] = 0.1
    """Standard deviation of the normal noise on the target."""
    length: Annotated[int, Field(ge=2, le=1000)] = 6
    """Length of the longest source. The length of each source is random, from 2 to `length`."""


@seqattn.register_task("neighbour_sum", NeighbourSumConfig)
def generate(task: NeighbourSumConfig, n: int, seed: int) -> seqattn.Sequences:
    # Each purpose has its own generator: a change of the noise leaves the points unchanged.
    draws = [np.random.default_rng([seed, purpose]) for purpose in range(3)]
    lengths = draws[0].integers(2, task.length + 1, size=n)
    steps = np.arange(task.length)
    # Arrays are padded to the longest sequence. Padding is 0.
    source = draws[1].uniform(-1, 1, size=(n, task.length, 2))
    source = np.where((steps < lengths[:, None])[..., None], source, 0.0)
    ideal = source[:, :-1] + source[:, 1:]
    keep = (steps[:-1] < lengths[:, None] - 1)[..., None]
    noise = task.noise * draws[2].standard_normal(ideal.shape)
    return seqattn.Sequences(
        source=source,
        source_lengths=lengths,
        target=np.where(keep, ideal + noise, 0.0),
        target_lengths=lengths - 1,
        features=("x", "y"),
        ids=tuple(str(k) for k in range(n)),
        ideal=np.where(keep, ideal, 0.0),  # the forecast without noise gives the noise floor
    )
