"""The messages of several processes before the first step, from one function for all processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn.config import Config, resolve
from seqattn.data import load_data
from seqattn.errors import UsageError
from seqattn.experiments import Job, train_many
from seqattn.experiments.distributed import TRAINED, share_start
from seqattn.experiments.prepare import build_initial_model, fit_skip_maps, prepare_jobs
from seqattn.runs import RunFolder

SIZES = ["data.n_train=12", "data.n_validation=7", "data.n_test=5", "model.hidden_dim=3",
         "training.batch_size=5", "training.epochs=2"]  # fmt: skip
LINEAR = ["model.skip=linear", "data.variable_length=false"]


class Channel:
    """A process group of one process. Process 0 records its messages, and the other reads them."""

    def __init__(self, messages: list[Any] | None = None) -> None:
        self.rank = 0 if messages is None else 1
        self.messages = list[Any]() if messages is None else list(messages)

    def check_same_training(self, config_text: str, data_digest: bytes) -> None:
        assert self.broadcast((config_text, data_digest)) == (config_text, data_digest)

    def broadcast(self, content: Any) -> Any:
        if self.rank == 0:
            self.messages.append(content)
            return content
        return self.messages.pop(0)


def exchange(first: Job) -> tuple[list[Any], Job | None]:
    """The messages of process 0, and the job that another process makes of them."""
    sender: Any = Channel()
    share_start(sender, first)
    receiver: Any = Channel(sender.messages)
    own = Job(first.config, RunFolder(Path()), load_data(first.config.data))
    other = share_start(receiver, own)
    assert receiver.messages == []  # each message was received
    return sender.messages[1:], other


def config_of(*sets: str) -> Config:
    return resolve(None, [*SIZES, *sets]).config


@pytest.mark.parametrize("more", [[], LINEAR])
def test_a_new_run_has_the_initial_weights_of_process_0(tmp_path: Path, more: list[str]) -> None:
    config = config_of(*more)
    job = Job(config, RunFolder(tmp_path), load_data(config.data))
    ((first,),) = fit_skip_maps([[job]])
    _, other = exchange(first)
    assert other is not None and other.state is None and other.skip_map is None
    ours, theirs = (build_initial_model(each) for each in (first, other))
    assert (first.skip_map is None) == (more == [])
    for (name, weight), twin in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.equal(weight, twin), name
    assert more == [] or ours.skip.is_trainable == theirs.skip.is_trainable


@pytest.mark.parametrize("more", [[], LINEAR])
def test_a_resumed_run_has_the_state_of_process_0(tmp_path: Path, more: list[str]) -> None:
    folder = RunFolder(tmp_path / "run")
    train_many([(config_of(*more), folder)], threads=1)
    (first,) = prepare_jobs([(config_of(*more, "training.epochs=3"), folder)], resume=True)
    messages, other = exchange(first)
    assert messages == [folder.last.read_bytes()]
    assert other is not None and other.state is not None and first.state is not None
    assert other.position == first.position == (2, 0)
    for name, weight in first.state.weights.items():
        assert torch.equal(other.state.weights[name], weight)


def test_nothing_is_left_to_train(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    train_many([(config_of(), folder)], threads=1)
    (first,) = prepare_jobs([(config_of(), folder)], resume=True)
    messages, other = exchange(first)
    assert messages == [TRAINED]
    assert other is None


def test_a_config_that_needs_a_clock_is_refused_before_any_message(tmp_path: Path) -> None:
    config = config_of("training.compile=auto")
    channel: Any = Channel()
    job = Job(config, RunFolder(tmp_path), load_data(config.data))
    with pytest.raises(UsageError, match="depends on measured times"):
        share_start(channel, job)
    assert channel.messages == []
