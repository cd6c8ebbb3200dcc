"""Measure the time and the peak memory of parts of seqattn at large sizes.

    python scripts/growth.py

docs/scale.md has the results.
"""

from __future__ import annotations

import functools
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from seqattn.analysis.comparison.statistics import SeedSummary, paired_tests
from seqattn.runs.checksummed import load_checksummed, save_checksummed
from seqattn.training.batches import epoch_permutations


def timed(name: str, what: Callable[[], object]) -> None:
    began = time.perf_counter()
    what()
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:<58} {took:9.3f} s   peak so far {peak:5.2f} GiB", flush=True)


def main() -> None:
    numbers = np.random.RandomState(0)
    for n in (10**6, 10**7, 10**8):
        timed(f"an epoch's order of {n:,} sequences", lambda: epoch_permutations([1], 1, n))  # noqa: B023
    for seeds in (10**3, 10**4, 10**5):
        arms = {name: dict(enumerate(numbers.lognormal(size=seeds))) for name in "ab"}
        timed(f"intervals of {seeds:,} seeds", lambda: SeedSummary.of(arms["a"]))  # noqa: B023
        timed(f"a pair of {seeds:,} seeds", lambda: paired_tests([arms]))  # noqa: B023
    with tempfile.TemporaryDirectory() as place:
        file, metadata = Path(place) / "c.safetensors", {"version": 3}
        for parameters in (10**6, 10**7, 10**8):
            write = functools.partial(
                save_checksummed, file, {"w": np.zeros(parameters, dtype=np.float32)}, metadata
            )
            timed(f"a checkpoint of {parameters:,} numbers written", write)
            timed(f"a checkpoint of {parameters:,} numbers read", lambda: load_checksummed(file, 3))


if __name__ == "__main__":
    main()
