"""All but the first process of a training that torchrun starts: they write nothing."""

from __future__ import annotations

import hashlib
import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from seqattn.config import Config, as_plain
from seqattn.data import Splits, load
from seqattn.errors import Stopped, UsageError
from seqattn.experiments.group_training import runs_of
from seqattn.experiments.job import Job
from seqattn.experiments.run_environment import choose_device
from seqattn.experiments.skip_start import share_skip_map
from seqattn.runs import RunFolder
from seqattn.training import PATHS, ProcessGroup, Session, load_state, train

TRAINED = b"trained already"
"""What the first process broadcasts where nothing is left to train; b"" where training begins; else
the bytes of the checkpoint to go on from."""


def check_can_be_distributed(config: Config) -> None:
    """
    Raises:
        UsageError: its steps depend on more than sums over the sequences of a batch, or on a clock.
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
    """The config values that all processes must share; paths may differ."""
    plain = as_plain(config)
    for key in PATHS:
        plain["data"].pop(key.partition(".")[2], None)
    return repr(plain)


def data_fingerprint(data: Splits) -> bytes:
    """A digest of the sequences, which all processes must share."""
    found = hashlib.sha256("".join(data.digests).encode())
    for part in (data.train, data.validation):
        for _, some in part.chunks():
            found.update(some.source.tobytes())
            found.update(some.target.tobytes())
    return found.digest()


class WorkerSession(Session):
    """Stops when told to, and keeps nothing."""

    def __init__(self, stop: Callable[[], int]) -> None:
        self.stop = stop

    def stop_requested(self) -> bool:
        return self.stop() != 0


def follow(
    config: Config,
    processes: ProcessGroup,
    device: str,
    threads: int | None,
    stop: Callable[[], int],
) -> None:
    """Train along with the first process, until it ends.

    Raises:
        DistributedError: the others have another config or other data, or are lost.
        NonFiniteError: the run diverged.
        Stopped: told to, as the others were.
    """
    with processes.beginning():
        chosen = choose_device(device)
        check_can_be_distributed(config)
        data = load(config.data)
        processes.compare(config_fingerprint(config), data_fingerprint(data))
    checkpoint = processes.broadcast(b"")
    if checkpoint == TRAINED:
        return
    job = Job(config, RunFolder(Path()), data)
    if checkpoint:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "last.safetensors"
            file.write_bytes(checkpoint)
            job = replace(job, state=load_state(file, job.new_model())[0])
    job = share_skip_map(processes, job)
    torch.set_num_threads(threads or 1)
    (run,) = runs_of([job], chosen)
    states = {} if job.state is None else {run: job.state}
    (trained,) = train([run], WorkerSession(stop), states=states, processes=processes)
    if trained.error is not None:
        raise trained.error
    if processes.stopped:
        raise Stopped(stop() or signal.SIGTERM, "with the other processes.")
