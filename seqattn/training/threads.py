"""Choice of the number of threads by timing a few steps.

With several threads, every operation waits for the slowest thread. In a small model, this wait is
longer than the operation itself. If another process uses a core at the same time, the wait is far
longer: in one case, training took thirty seconds instead of two seconds. Small models therefore get
one thread without a trial, and large models get more threads only if a few steps are clearly faster
with more threads. A short training gets one thread without a trial, too.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import time
from collections.abc import Iterator, Sequence

import torch

from seqattn.runs.storage import core_count
from seqattn.training.learner import build_group
from seqattn.training.loop import train_step
from seqattn.training.state import RunProgress, TrainingRun, train_mode

MIN_MULTIPLICATIONS = 2_000_000
"""Smallest number of multiplications in a step for a trial with several threads."""
MIN_STEP_SECONDS = 0.003
"""Smallest duration in seconds of a step for which more than one thread is tried."""
MIN_STEPS = 100
"""Smallest number of training steps for a trial. A trial of two numbers of threads takes as long as
eight steps or less, so in a shorter training it could take longer than it saves."""
TRIAL_STEPS = 3
"""Number of timed steps for each number of threads."""
MAX_TRIAL_SECONDS = 2.0
"""After so many seconds, one timed step is enough."""
MAX_TIME_RATIO = 0.8
"""Largest ratio of the new step time to the old one at which the number of threads is doubled."""
SLOW_RATIO, SLOW_SECONDS = 1.25, 0.05
"""A trial of a number of threads ends at the first step that takes more than `SLOW_RATIO` times the
step time with fewer threads, plus `SLOW_SECONDS` in which threads may start."""


@contextlib.contextmanager
def restore_thread_count() -> Iterator[None]:
    """Restore torch's number of threads at the end of the block, even after an error."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread in the block, because several are slower for small tensors."""
    with restore_thread_count():
        torch.set_num_threads(1)
        yield


def find_fastest_threads(runs: Sequence[TrainingRun]) -> tuple[int, str]:
    """Choose the number of threads for a group of runs by training copies of the runs for a few
    steps.

    Returns:
        The number of threads, and the reason for this choice.
    """
    if core_count() == 1:
        return 1, "one core"
    if multiplications(runs) < MIN_MULTIPLICATIONS:
        return 1, "too few multiplications a step for more"
    batches = -(-len(runs[0].train) // _batch_size(runs[0]))
    if batches * max(run.config.epochs for run in runs) < MIN_STEPS:
        return 1, "too few steps to measure the time with more"
    copies = [RunProgress(dataclasses.replace(run, model=copy.deepcopy(run.model))) for run in runs]
    state, learner = build_group(copies)
    plan = learner.plan_epoch(state)

    def seconds(threads: int, limit: float) -> float:
        torch.set_num_threads(threads)
        taken = list[float]()
        for _ in range(1 + TRIAL_STEPS):  # the first step warms up
            state.step = 0
            began = time.perf_counter()
            with train_mode(learner.params.model):
                train_step(state, learner, plan)
            taken.append(time.perf_counter() - began)
            if taken[-1] > limit:
                return taken[-1]
            if len(taken) > 1 and sum(taken) > MAX_TRIAL_SECONDS:
                break
        return min(taken[1:])

    best, least = 1, seconds(1, math.inf)
    words = [f"a step takes {least * 1e3:.2g} ms with 1"]
    if least < MIN_STEP_SECONDS:
        return 1, words[0]
    threads = 2
    while threads <= core_count():
        taken = seconds(threads, SLOW_RATIO * least + SLOW_SECONDS)
        words.append(f"{taken * 1e3:.2g} ms with {threads}")
        if taken > MAX_TIME_RATIO * least:
            break
        best, least = threads, taken
        threads *= 2
    torch.set_num_threads(best)
    return best, ", ".join(words)


def multiplications(runs: Sequence[TrainingRun]) -> int:
    """Estimate the number of multiplications in a training step.

    The estimate counts each weight once per time step in the forward pass, and twice in the
    backward pass.
    """
    weights = sum(parameter.numel() for parameter in runs[0].model.parameters())
    train = runs[0].train
    steps = (train.source_steps + train.target_steps) * _batch_size(runs[0])
    return 3 * len(runs) * weights * steps


def _batch_size(run: TrainingRun) -> int:
    """Return the number of the longest sequences in a batch."""
    return run.config.sequences_per_batch(max(run.train.source_steps, run.train.target_steps))
