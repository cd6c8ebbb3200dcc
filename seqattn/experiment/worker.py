"""Processes of one training that write nothing: all but the first that torchrun starts."""

from __future__ import annotations

import hashlib
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from seqattn.config import Config, as_plain
from seqattn.data import Splits, load
from seqattn.errors import Stopped, UsageError
from seqattn.experiment.job import Job
from seqattn.experiment.run_environment import choose_device
from seqattn.experiment.skip_start import share_map, start_skips
from seqattn.runs import RunFolder
from seqattn.training import ProcessGroup, Run, batch_of, load_state, train

TRAINED = b"trained already"


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
    """What all processes must have alike of a config; where its files lie may differ."""
    plain = as_plain(config)
    for key in ("path", "validation_path", "test_path"):
        plain["data"].pop(key, None)
    return repr(plain)


def data_fingerprint(data: Splits) -> bytes:
    """What all processes must have alike of the sequences."""
    found = hashlib.sha256("".join(data.digests).encode())
    for part in (data.train, data.validation):
        for _, some in part.chunks():
            found.update(some.source.tobytes())
            found.update(some.target.tobytes())
    return found.digest()


def follow(
    config: Config, world: ProcessGroup, device: str, threads: int | None, stop: Callable[[], int]
) -> None:
    """Train along with the first process, until it ends.

    Raises:
        DistributedError: the others have another config or other data, or are lost.
    """
    with world.beginning():
        chosen = choose_device(device)
        check_can_be_distributed(config)
        data = load(config.data)
        world.compare(config_fingerprint(config), data_fingerprint(data))
    raw = world.broadcast(b"")
    if raw == TRAINED:
        return
    job = Job(config, RunFolder(Path()), data)
    model = job.model = job.new_model()
    state = None
    if raw:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "last.safetensors"
            file.write_bytes(raw)
            state, _ = load_state(file, model)
    job.state = state
    start_skips([job], fit=False)
    share_map(world, job)
    torch.set_num_threads(threads or 1)
    run = Run(
        model.to(chosen), batch_of(data.train, chosen, scaling=data.scaling),
        batch_of(data.validation, chosen, scaling=data.scaling), config.training, config.seed,
        state, data.train.ids,
    )  # fmt: skip
    train([run], stop=lambda: stop() != 0, world=world)
    if run.error is not None:
        raise run.error
    if world.stopped:
        raise Stopped(stop() or signal.SIGTERM, "with the other processes.")
