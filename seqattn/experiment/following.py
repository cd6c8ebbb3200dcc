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
from seqattn.experiment.jobs import Job
from seqattn.experiment.skip_start import share_map, start_skips
from seqattn.experiment.surroundings import choose_device
from seqattn.runs import RunFolder
from seqattn.training import Run, World, batch_of, load_state, train

TRAINED = b"trained already"


def refuse_what_cannot_be_shared(config: Config) -> None:
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


def told(config: Config) -> str:
    """What all processes must have alike of a config; where its files lie may differ."""
    plain = as_plain(config)
    for key in ("path", "validation_path", "test_path"):
        plain["data"].pop(key, None)
    return repr(plain)


def digest(data: Splits) -> bytes:
    """What all processes must have alike of the sequences."""
    found = hashlib.sha256("".join(data.digests).encode())
    for part in (data.train, data.validation):
        for _, some in part.chunks():
            found.update(some.source.tobytes())
            found.update(some.target.tobytes())
    return found.digest()


def follow(
    config: Config, world: World, device: str, threads: int | None, stop: Callable[[], int]
) -> None:
    """Train along with the first process, until it ends.

    Raises:
        WorldError: the others have another config or other data, or are lost.
    """
    with world.beginning():
        chosen = choose_device(device)
        refuse_what_cannot_be_shared(config)
        data = load(config.data)
        world.compare(told(config), digest(data))
    raw = world.from_first(b"")
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
