"""The number of worker processes that train groups of runs at the same time.

The expected time of a group follows from the sizes of its data and its model. The two time
constants were fitted to four workloads of `scripts/bench.py` with manual gradients: A, B, C, and 64
seeds of A. For these workloads, the estimates are 0.8 to 1.2 times the measured times. Models that
are trained by autograd need two to four times the estimated time. The estimates decide only which
groups start first, and whether workers save more time than their start takes. Errors in the
estimates therefore do not change results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from seqattn.config import extension
from seqattn.data import Splits, Windows
from seqattn.experiments.group_training import Resources
from seqattn.experiments.job import Job
from seqattn.models import activations_per_sequence
from seqattn.runs.storage import core_count
from seqattn.training.batches import is_gathered
from seqattn.training.threads import MIN_MULTIPLICATIONS

SECONDS_PER_STEP = 0.5e-3
"""Time in seconds of a training step without the time for its values."""
SECONDS_PER_VALUE = 1.5e-9
"""Time in seconds for each value that the forward pass stores."""
START_SECONDS = 2.0
"""Time in seconds to start the workers, mostly to import torch. If the number of workers is
not given, workers are used only if they save more than this time."""
MAX_WORKERS = 1024 if os.name == "posix" else 60
"""Windows waits for at most 63 connections and processes at once."""


def expected_seconds(jobs: Sequence[Job]) -> float:
    """Estimate the training time of a group in seconds, on one thread.

    Args:
        jobs: the jobs of the group. Epochs that are already finished do not count.
    """
    first = jobs[0]
    steps = _epochs_left(first) * first.data.batches(first.config.training.batch_size)
    values = sum(
        _epochs_left(job) * len(job.data.train) * activations_per_sequence(
            job.config.model, *job.lengths, alone=len(jobs) == 1
        )
        for job in jobs
    )  # fmt: skip
    return SECONDS_PER_STEP * steps + SECONDS_PER_VALUE * values


def _epochs_left(job: Job) -> int:
    return max(0, job.config.training.epochs - job.position[0])


def worker_count(groups: Sequence[Sequence[Job]], resources: Resources, jobs: int | None) -> int:
    """Return how many workers train groups at the same time; 1 if this process trains all groups.

    Args:
        groups: the groups to train.
        resources: the device and the threads of each group.
        jobs: the requested number of workers; None to choose it.
    """
    if jobs == 1 or reason_for_one_process(groups, resources) is not None:
        return 1
    if jobs is not None:
        return min(jobs, len(groups), MAX_WORKERS)
    threads = [resources.threads, *(_threads_before(job) for group in groups for job in group)]
    cores = core_count() // max(number or 1 for number in threads)
    possible = min(len(groups), cores, MAX_WORKERS)
    # With fewer groups than cores, one large group at a time on all cores may be faster.
    if possible <= 1 or (possible < cores and not all(map(_needs_one_thread, groups))):
        return 1
    expected = [expected_seconds(group) for group in groups]
    saved = sum(expected) - max(max(expected), sum(expected) / possible)
    return possible if saved > START_SECONDS else 1


def _threads_before(job: Job) -> int | None:
    """Return the number of threads with which the run was trained before a resume."""
    return job.environment_of_state.get("threads")


def _needs_one_thread(jobs: Sequence[Job]) -> bool:
    """Return whether a group is so small that training uses one thread and does not measure the
    speed with more threads."""
    steps = sum(jobs[0].lengths) * jobs[0].config.training.batch_size
    return 3 * len(jobs) * jobs[0].parameters * steps < MIN_MULTIPLICATIONS


def reason_for_one_process(groups: Sequence[Sequence[Job]], resources: Resources) -> str | None:
    """Return why workers cannot train the groups, as the end of a sentence; None if they can.

    Runs on a GPU and runs that several processes share must be trained in this process. MLflow and
    Weights & Biases record all runs of a command from one process. Data that are read from disk
    during training would need another copy on disk for each worker. A worker cannot import a plugin
    or a main module that has no file.
    """
    if len(groups) <= 1:
        return "the runs are trained side by side, as one group"
    if resources.device.type != "cpu":
        return "the device is not the CPU"
    if resources.processes is not None:
        return "several processes share the run"
    if (reason := _reason_of_main_module()) is not None:
        return reason
    jobs = [job for group in groups for job in group]
    if any(job.config.logging.mlflow or job.config.logging.wandb for job in jobs):
        return "MLflow or Weights & Biases records the runs"
    if any(map(_stays_here, {id(job.data): job.data for job in jobs}.values())):
        return "the data are read from the disk cache, or are too large for memory"
    return None


def _reason_of_main_module() -> str | None:
    main = getattr(sys.modules["__main__"], "__file__", None)
    if main is not None and not Path(main).is_file():
        return "the main script has no file, for example because it comes from standard input"
    if any(
        source.module == "__main__" and not source.path for source in extension.SOURCES.values()
    ):
        return "a plugin is defined in a notebook or in an interactive session"
    return None


def _stays_here(data: Splits) -> bool:
    """Return whether data must not be copied to workers."""
    if is_gathered(data.train) or is_gathered(data.validation):
        return True
    parts = (data.train, data.validation, data.test, data.baseline_part)
    return any(isinstance(part, Windows) and part.is_on_disk for part in parts)
