"""Choice of the number of threads, by trial.

With several threads every operation waits for all of them. For the operations of a small model that
wait is longer than the work, and far longer where another process keeps a core busy: a training of
two seconds was seen to take thirty. So small work gets one thread without a trial, and large work
gets more only where a few steps were clearly faster with them.
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
from seqattn.training.state import RunProgress, TrainingRun

MIN_MULTIPLICATIONS = 2_000_000  # of a step; smaller ones get one thread without a trial
MIN_STEP_SECONDS = 0.003  # shorter steps never gain from more threads
TRIAL_STEPS = 3
MAX_TIME_RATIO = 0.8  # with twice the threads, to be worth them


def choose_threads(runs: Sequence[TrainingRun]) -> tuple[int, str]:
    """The number of threads for a group of runs, and the reason for it.

    The first steps of the training are tried on copies of the runs.
    """
    if core_count() == 1:
        return 1, "one core"
    if multiplications(runs) < MIN_MULTIPLICATIONS:
        return 1, "too few multiplications a step for more"
    copies = [RunProgress(dataclasses.replace(run, model=copy.deepcopy(run.model))) for run in runs]
    state, learner = build_group(copies)
    epoch = learner.start_epoch(state)

    def seconds(threads: int) -> float:
        torch.set_num_threads(threads)
        taken = []
        for _ in range(1 + TRIAL_STEPS):  # the first warms up
            state.step = 0
            began = time.perf_counter()
            train_step(state, learner, epoch)
            taken.append(time.perf_counter() - began)
        return min(taken[1:])

    best, least = 1, seconds(1)
    words = [f"a step takes {least * 1e3:.2g} ms with 1"]
    if least < MIN_STEP_SECONDS:
        return 1, words[0]
    threads = 2
    while threads <= core_count():
        taken = seconds(threads)
        words.append(f"{taken * 1e3:.2g} ms with {threads}")
        if taken > MAX_TIME_RATIO * least:
            break
        best, least = threads, taken
        threads *= 2
    torch.set_num_threads(best)
    return best, ", ".join(words)


def multiplications(runs: Sequence[TrainingRun]) -> int:
    """Approximate multiplications in a training step: each weight once for each time step forward,
    and twice backward."""
    weights = sum(parameter.numel() for parameter in runs[0].model.parameters())
    data = runs[0].data
    steps = (data.source_steps + data.target_steps) * runs[0].config.batch_size
    return 3 * len(runs) * weights * steps


def core_count() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
