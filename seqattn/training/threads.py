"""How many threads a training wants, found by trying.

With more than one thread every operation waits for all of them. For the small ones of a small
model that wait is longer than the work, and where another process keeps a core busy it is longer
by far: a training of two seconds was seen to take thirty. So small work gets one thread without
a trial, and large work gets more only where a few steps were clearly faster with them.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from collections.abc import Sequence

import torch

from seqattn.training.learner import build_group
from seqattn.training.loop import train_step
from seqattn.training.state import Run, RunProgress

TINY = 2_000_000  # multiplications of a step that need no trial
SMALL = 0.003  # seconds of a step that no second thread can make worth its while
STEPS = 3
WORTH = 0.8  # of the time with fewer threads


def choose_threads(runs: Sequence[Run]) -> tuple[int, str]:
    """The number of threads for runs that go side by side, and why.

    The first steps of the training are tried on copies; nothing of the runs changes.
    """
    if len(cores()) == 1:
        return 1, "one core"
    if multiplications(runs) < TINY:
        return 1, "too few multiplications a step for more"
    copies = [RunProgress(dataclasses.replace(run, model=copy.deepcopy(run.model))) for run in runs]
    state, learner = build_group(copies)
    epoch = learner.start_epoch(state)

    def seconds(threads: int) -> float:
        torch.set_num_threads(threads)
        taken = []
        for _ in range(1 + STEPS):  # the first warms up
            state.step = 0
            began = time.perf_counter()
            train_step(state, learner, epoch)
            taken.append(time.perf_counter() - began)
        return min(taken[1:])

    best, least = 1, seconds(1)
    words = [f"a step takes {least * 1e3:.2g} ms with 1"]
    if least < SMALL:
        return 1, words[0]
    threads = 2
    while threads <= len(cores()):
        taken = seconds(threads)
        words.append(f"{taken * 1e3:.2g} ms with {threads}")
        if taken > WORTH * least:
            break
        best, least = threads, taken
        threads *= 2
    torch.set_num_threads(best)
    return best, ", ".join(words)


def multiplications(runs: Sequence[Run]) -> int:
    """Of a training step, about: every weight meets every point, forward and twice backward."""
    weights = sum(parameter.numel() for parameter in runs[0].model.parameters())
    data = runs[0].data
    return (
        3
        * len(runs)
        * weights
        * (data.source_steps + data.target_steps)
        * runs[0].config.batch_size
    )


def cores() -> list[int]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
