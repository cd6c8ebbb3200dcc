"""The processes of a distributed training run except the first process. These processes write no
files."""

from __future__ import annotations

import hashlib
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from seqattn.config import Config, as_plain, without_paths
from seqattn.data import Splits, load_data
from seqattn.errors import Interrupted, UsageError
from seqattn.experiments.group_training import build_runs
from seqattn.experiments.job import Job
from seqattn.experiments.run_environment import choose_device
from seqattn.experiments.skip_start import share_skip_map
from seqattn.runs import RunFolder
from seqattn.training import ProcessGroup, Session, load_state, train_models

TRAINED = b"trained already"
"""Message of the first process to the others if nothing is left to train. Otherwise it sends the
bytes of the checkpoint to continue from, or b"" for a training that starts at the beginning."""


def check_can_be_distributed(config: Config) -> None:
    """Check that the training steps of a config depend only on sums over the sequences of a batch.

    Raises:
        UsageError: if the steps depend on anything else, or on a clock.
    """
    attention = getattr(config.model, "attention", None)
    if getattr(attention, "estimator", None) == "reinforce":
        raise UsageError(
            "several processes: estimator: reinforce holds a choice against the whole batch's"
            " error, of which each process knows its share. Set estimator=straight_through, or"
            " train with one process."
        )
    if config.training.compile != "off":
        raise UsageError(
            "several processes: training.compile goes by the clock, and theirs differ. Set it to"
            " off."
        )


def config_fingerprint(config: Config) -> str:
    """Return a text with the config values that all processes must share, without the paths."""
    return repr(without_paths(as_plain(config)))


def data_fingerprint(data: Splits) -> bytes:
    """Return the SHA-256 of the sequences, which all processes must share."""
    found = hashlib.sha256("".join(data.digests).encode())
    for part in (data.train, data.validation):
        for _, some in part.chunks():
            found.update(some.source.tobytes())
            found.update(some.target.tobytes())
    return found.digest()


class WorkerSession(Session):
    """Session that stops on a signal and saves nothing."""

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
    """Train together with the first process until training ends.

    Args:
        device: "auto", "cpu" or "cuda".
        threads: number of threads of torch. None means 1.
        stop: function that returns the number of the signal that requests a stop, or 0.

    Raises:
        DistributedError: if the other processes have another config or other data, or if another
            process fails.
        NonFiniteError: if the run diverged.
        Interrupted: if one of the processes received a signal to stop.
    """
    with processes.startup():
        chosen = choose_device(device)
        check_can_be_distributed(config)
        data = load_data(config.data)
        processes.check_same_training(config_fingerprint(config), data_fingerprint(data))
    checkpoint = processes.broadcast(b"")
    if checkpoint == TRAINED:
        return
    job = Job(config, RunFolder(Path()), data)
    if checkpoint:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "last.safetensors"
            file.write_bytes(checkpoint)
            job = replace(job, state=load_state(file, job.new_model()))
    job = share_skip_map(processes, job)
    torch.set_num_threads(threads or 1)
    (run,) = build_runs([job], chosen)
    states = {} if job.state is None else {run: job.state}
    (trained,) = train_models([run], WorkerSession(stop), states=states, processes=processes)
    if trained.error is not None:
        raise trained.error
    if processes.stopped:
        raise Interrupted(stop() or signal.SIGTERM, "with the other processes.")
