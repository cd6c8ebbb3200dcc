"""Counter-based random numbers: every generator is a function of (seed, stream, position).

The numbers of a generator do not depend on draws from other generators. Code that uses an
additional generator therefore changes no other draw. A resumed run does not need to restore the
state of a generator, because it can create each generator again. The numbers come from Philox
(Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"). The key of Philox is a function
of the seed and the stream. The highest word of the counter of Philox is the position, or a hash of
the position if the position is a name. The generators are instances of NumPy's class `RandomState`,
because NumPy guarantees that the numbers of this class are the same in every version (NEP 19). The
numbers of the newer class `Generator` may change from version to version.
"""

from __future__ import annotations

import functools
import threading
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

StreamName = Literal["init", "shuffle", "coins", "dropout", "sampling", "data", "split",
                     "sample", "decoding", "feedback"]  # fmt: skip


def rng_for(seed: int, name: StreamName, position: int | str) -> np.random.RandomState:
    """Return a new generator for a position of a stream.

    Args:
        seed: the seed of the run, the data or the split; 0 or more.
        name: the stream, named after the purpose of the numbers.
        position: a number, such as an epoch, or a name, such as the name of a parameter.
    """
    counter = np.array([0, 0, 0, _position_word(position)], dtype=np.uint64)
    return np.random.RandomState(np.random.Philox(key=_philox_key(seed, name), counter=counter))


def rngs_for(
    keys: Iterable[tuple[int, int | str]], name: StreamName
) -> Iterator[np.random.RandomState]:
    """Yield generators that draw the same numbers as those of `rng_for`, in about a quarter of the
    time that separate calls of `rng_for` take. Each generator is valid until the same thread
    requests the next generator of the same stream.

    Args:
        keys: a pair of seed and position for each generator.
        name: the stream, named after the purpose of the numbers.
    """
    rng, initial = _reusable.of(name)
    state = initial["state"]
    for seed, position in keys:
        state["key"] = _philox_key(seed, name)
        state["counter"][3] = _position_word(position)
        rng.set_state(initial)  # also clears a cached second normal number
        yield rng


@functools.lru_cache(maxsize=65_536)
def _philox_key(seed: int, name: StreamName) -> NDArray[np.uint64]:
    entropy = np.random.SeedSequence([seed, zlib.crc32(name.encode())])
    return np.asarray(entropy.generate_state(2, np.uint64), dtype=np.uint64)


def _position_word(position: int | str) -> int:
    return zlib.crc32(position.encode()) if isinstance(position, str) else position


class _Reusable(threading.local):
    """The generators that a thread uses again for other positions. Several threads may train models
    at the same time."""

    def __init__(self) -> None:
        self.by_stream: dict[str, tuple[np.random.RandomState, Any]] = {}

    def of(self, name: StreamName) -> tuple[np.random.RandomState, Any]:
        """Return a generator, and the state of this generator at counter 0. The caller overwrites
        the state for every key."""
        if name not in self.by_stream:
            bits = np.random.Philox(0)
            initial: Any = bits.state
            initial["state"]["counter"] = np.zeros(4, dtype=np.uint64)
            self.by_stream[name] = np.random.RandomState(bits), initial
        return self.by_stream[name]


_reusable = _Reusable()
