"""Counter-based random numbers: every generator is a function of (seed, stream, position).

Nothing depends on what was drawn before: a new consumer of random numbers changes no other, and a
resumed run has no generator state to restore. The numbers come from Philox (Salmon et al. 2011,
"Parallel Random Numbers: As Easy as 1, 2, 3"). Its key is a function of seed and stream, and the
highest word of its counter is the position. The generators are NumPy `RandomState`s because NumPy
guarantees their numbers across versions (NEP 19); methods of `Generator` may change.
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


def rng_for(seed: int, name: StreamName, position: int | str) -> np.random.RandomState:
    """A new generator for one purpose at one position.

    Args:
        seed: the run's seed, 0 or more.
        name: what the numbers are for.
        position: an epoch, or the name of a parameter.
    """
    counter = np.array([0, 0, 0, _position_word(position)], dtype=np.uint64)
    return np.random.RandomState(np.random.Philox(key=_philox_key(seed, name), counter=counter))


def rngs_for(
    keys: Iterable[tuple[int, int | str]], name: StreamName
) -> Iterator[np.random.RandomState]:
    """The generators of `rng_for` for many keys, in a quarter of the time. Each is valid until the
    next of its stream is requested.

    Args:
        keys: a seed and a position for each.
    """
    rng, initial = _reusable_generator(name)
    state = initial["state"]
    for seed, position in keys:
        state["key"] = _philox_key(seed, name)
        state["counter"][3] = _position_word(position)
        rng.set_state(initial)  # also clears the second of a pair of normal numbers
        yield rng


@functools.lru_cache(maxsize=65_536)
def _philox_key(seed: int, name: StreamName) -> NDArray[np.uint64]:
    entropy = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
    return np.asarray(entropy.generate_state(2, np.uint64), dtype=np.uint64)


def _position_word(position: int | str) -> int:
    return zlib.crc32(position.encode()) if isinstance(position, str) else position


@functools.cache
def _reusable_generator(name: StreamName) -> tuple[np.random.RandomState, Any]:
    """A generator whose state is set for every key, and the state at counter 0."""
    bits = np.random.Philox(0)
    initial: Any = bits.state
    initial["state"]["counter"] = np.zeros(4, dtype=np.uint64)
    return np.random.RandomState(bits), initial
