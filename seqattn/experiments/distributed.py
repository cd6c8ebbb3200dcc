"""Training of one run in several processes.

Process 0 calls `train_many`, and writes the run folder. The other processes call `run_worker`, and
write nothing to the run folder. `share_start` exchanges all messages that are needed before the
first step. During training, the training loop and the learner exchange losses and gradients with
the other processes through `ProcessGroup`.
"""

from __future__ import annotations

import hashlib
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from seqattn.config import Config, ScoreConfig, as_plain, name_of, without_paths
from seqattn.data import Splits, load_data
from seqattn.errors import Interrupted, UsageError
from seqattn.experiments.group_training import build_runs
from seqattn.experiments.job import Job, StartingPoint
from seqattn.experiments.prepare import build_initial_model
from seqattn.experiments.run_environment import choose_device
from seqattn.models.attention.normalizers import build_normalizer
from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import read_checkpoint
from seqattn.runs.storage import physical_memory, read_regular_file
from seqattn.training import ProcessGroup, Session, train_models
from seqattn.training.checkpoints import restore_state

TRAINED = b"trained already"
"""Message that process 0 sends to the other processes if nothing is left to train."""


def share_start(processes: ProcessGroup, job: Job) -> Job | None:
    """Exchange all messages before the first step. Every process calls this function.

    First, all processes compare digests of config and data. Then process 0 sends a checkpoint file:
    its checkpoint, or the initial weights of a new run, because another machine may round
    differently when it fits the map of `model.skip: linear`. If nothing is left to train, process 0
    sends `TRAINED` instead.

    Args:
        job: the job of this process. Only process 0 has loaded the checkpoint and fitted the map.

    Returns:
        The job with the state or the initial weights of process 0, or None if nothing is left to
        train.
    """
    check_can_be_distributed(job.config)
    processes.check_same_training(shared_config_text(job.config), data_digest(job.data))
    content = TRAINED
    if job.checkpoint is not None and job.is_pending:
        content = read_regular_file(job.checkpoint, physical_memory())
    elif job.is_pending and processes.rank == 0:
        weights = build_initial_model(job).state_dict()
        content = StartingPoint("process 0", 0, weights, job.config, job.spec).as_bytes()
    content = processes.broadcast(content)
    if content == TRAINED:
        return None
    if processes.rank == 0:
        return job
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "received.safetensors"
        path.write_bytes(content)
        file = read_checkpoint(path)
    if job.config.training.start_from is not None:
        job = replace(job, data=job.data.fitted_as(file.spec.source, file.spec.target))
    if file.is_training:
        return replace(job, state=restore_state(file, job.new_model()))
    return replace(job, start=StartingPoint.of(file, "process 0"))


def check_can_be_distributed(config: Config) -> None:
    """Check that several processes can train a run of a config together. The training steps must
    depend only on sums over the sequences of a batch, and not on measured times.

    Raises:
        UsageError: if the gradient estimator has a baseline, or if `training.compile` is not "off".
    """
    attention = getattr(config.model, "attention", None)
    if isinstance(attention, ScoreConfig) and build_normalizer(attention).baseline is not None:
        key = f"normalizer: {name_of(attention.normalizer)}"
        if attention.estimator is not None:
            key = f"estimator: {attention.estimator}"
        raise UsageError(
            f"several processes: {key} compares each choice with the error"
            " of the whole batch, but each process computes only the error of its share. Set"
            " estimator=straight_through, or train with one process."
        )
    if config.training.compile != "off":
        raise UsageError(
            "several processes: training.compile depends on measured times, which differ"
            " between processes. Set training.compile=off."
        )


def shared_config_text(config: Config) -> str:
    """Return the config values that all processes must share, without the paths, as text."""
    return repr(without_paths(as_plain(config)))


def data_digest(data: Splits) -> bytes:
    """Return a SHA-256 digest of the data files and of the training and validation sequences. The
    digests of all processes must be equal."""
    found = hashlib.sha256("".join(data.digests).encode())
    for part in (data.train, data.validation):
        for _, some in part.chunks():
            found.update(some.source.tobytes())
            found.update(some.target.tobytes())
    return found.digest()


class WorkerSession(Session):
    """The session of each process except process 0. It stops on a signal and saves nothing."""

    def __init__(self, stop: Callable[[], int]) -> None:
        self.stop = stop

    def stop_requested(self) -> bool:
        return self.stop() != 0


def run_worker(
    config: Config,
    processes: ProcessGroup,
    device: str,
    threads: int | None,
    stop: Callable[[], int],
) -> None:
    """Train a run together with process 0 until training ends.

    Raises:
        DistributedError: if another process has a different config or different data, or if another
            process fails.
        NonFiniteError: if the run diverges.
        Interrupted: if one of the processes received a signal to stop.
    """
    with processes.startup():
        chosen = choose_device(device)
        fits_scaling = config.training.start_from is None
        own = Job(config, RunFolder(Path()), load_data(config.data, fits_scaling=fits_scaling))
        job = share_start(processes, own)
    if job is None:
        return
    torch.set_num_threads(threads or 1)
    (run,) = build_runs([job], chosen)
    states = {} if job.state is None else {run: job.state}
    (trained,) = train_models([run], WorkerSession(stop), states=states, processes=processes)
    if trained.error is not None:
        raise trained.error
    if processes.stopped:
        raise Interrupted(stop() or signal.SIGTERM, "with the other processes.")
