"""Named random streams, all derived from one seed.

Each draw is a function of (seed, stream, position) and of nothing that was drawn before:
switching one thing on never moves another, and a run that resumes has no generator to
restore. Streams are NumPy `RandomState`s because their numbers are frozen for good by
NumPy's policy (NEP 19); `Generator` methods may change between versions.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

StreamName = Literal["init", "shuffle", "coins", "dropout", "sampling"]


def stream(seed: int, name: StreamName, position: int | str) -> np.random.RandomState:
    """A fresh stream for one purpose at one position.

    Args:
        seed: the run's seed, 0 or more.
        name: what the numbers are for.
        position: where in the run: an epoch, or the name of a parameter.
    """
    return np.random.RandomState(np.random.Philox(_entropy(seed, name, position)))


def streams(
    places: Iterable[tuple[int, int | str]], name: StreamName
) -> Iterator[np.random.RandomState]:
    """The same streams one after the other, each good until the next of its name is asked for:
    a third of the time.

    Args:
        places: a seed and a position for each.
    """
    bits, numbers, start = _generator(name)
    for seed, position in places:
        start["state"]["key"] = _entropy(seed, name, position).generate_state(2, np.uint64)
        bits.state = start
        yield numbers


@functools.cache
def _generator(name: StreamName) -> tuple[np.random.Philox, np.random.RandomState, Any]:
    """A generator to be moved from place to place, and the state in which a stream begins."""
    bits = np.random.Philox(0)
    start: Any = bits.state
    start["state"]["counter"] = np.zeros(4, dtype=np.uint64)
    return bits, np.random.RandomState(bits), start


def _entropy(seed: int, name: StreamName, position: int | str) -> np.random.SeedSequence:
    place = zlib.crc32(position.encode()) if isinstance(position, str) else position
    return np.random.SeedSequence(_words(seed, zlib.crc32(name.encode()), place))


def _words(*numbers: int) -> NDArray[np.uint32]:
    """Numbers as 32-bit words, lowest first: what SeedSequence makes of them itself, slower."""
    words = []
    for number in numbers:
        words.append(number & 0xFFFFFFFF)
        while number := number >> 32:
            words.append(number & 0xFFFFFFFF)
    return np.array(words, dtype=np.uint32)
