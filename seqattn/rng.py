"""Named random streams, all derived from one seed.

Each draw is a function of (seed, stream, position) and of nothing that was drawn before:
switching one thing on never moves another, and a run that resumes has no generator to
restore. The numbers come from Philox (Salmon et al. 2011), which is made for this: its key says
seed and stream, and its counter, whose highest word is the position, where in the stream.
Streams are NumPy `RandomState`s because their numbers are frozen for good by NumPy's policy
(NEP 19); `Generator` methods may change between versions.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

StreamName = Literal["init", "shuffle", "coins", "dropout", "sampling", "data", "split",
                     "sample"]  # fmt: skip


def stream(seed: int, name: StreamName, position: int | str) -> np.random.RandomState:
    """A fresh stream for one purpose at one position.

    Args:
        seed: the run's seed, 0 or more.
        name: what the numbers are for.
        position: where in the run: an epoch, or the name of a parameter.
    """
    counter = np.array([0, 0, 0, _word(position)], dtype=np.uint64)
    return np.random.RandomState(np.random.Philox(key=_key(seed, name), counter=counter))


def streams(
    places: Iterable[tuple[int, int | str]], name: StreamName
) -> Iterator[np.random.RandomState]:
    """The same streams one after the other, each good until the next of its name is asked for:
    a quarter of the time.

    Args:
        places: a seed and a position for each.
    """
    numbers, start = _generator(name)
    state = start["state"]
    for seed, position in places:
        state["key"] = _key(seed, name)
        state["counter"][3] = _word(position)
        numbers.set_state(start)  # and forget the second of a pair of normal numbers
        yield numbers


@functools.lru_cache(maxsize=65_536)
def _key(seed: int, name: StreamName) -> NDArray[np.uint64]:
    entropy = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
    return np.asarray(entropy.generate_state(2, np.uint64), dtype=np.uint64)


def _word(position: int | str) -> int:
    return zlib.crc32(position.encode()) if isinstance(position, str) else position


@functools.cache
def _generator(name: StreamName) -> tuple[np.random.RandomState, Any]:
    """A generator to be moved from place to place, and the state in which a stream begins."""
    bits = np.random.Philox(0)
    start: Any = bits.state
    start["state"]["counter"] = np.zeros(4, dtype=np.uint64)
    return np.random.RandomState(bits), start
