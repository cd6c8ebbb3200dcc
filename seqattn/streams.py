"""Named random streams, all derived from one seed.

Each draw is a function of (seed, stream, position) and of nothing that was drawn before:
switching one thing on never moves another, and a run that resumes has no generator to
restore. Streams are NumPy `RandomState`s because their numbers are frozen for good by
NumPy's policy (NEP 19); `Generator` methods may change between versions.
"""

from __future__ import annotations

import zlib
from typing import Literal

import numpy as np

StreamName = Literal["init", "shuffle", "coins", "dropout", "sampling"]


def stream(seed: int, name: StreamName, position: int | str) -> np.random.RandomState:
    """A fresh stream for one purpose at one position.

    Args:
        seed: the run's seed, 0 or more.
        name: what the numbers are for.
        position: where in the run: an epoch, or the name of a parameter.
    """
    place = zlib.crc32(position.encode()) if isinstance(position, str) else position
    entropy = np.random.SeedSequence([seed, zlib.crc32(name.encode()), place])
    return np.random.RandomState(np.random.Philox(entropy))
