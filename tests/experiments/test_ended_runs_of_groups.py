"""Runs that end before their last epoch: at their first step, all of a group, or for want of data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from seqattn.config import Config, resolve
from seqattn.data import load_data
from seqattn.errors import DataError
from seqattn.models import build_model
from seqattn.training import (
    Batch,
    RunProgress,
    RunState,
    TrainingRun,
    to_tensors,
    train_models,
)
from seqattn.training.batches import DataLoader
from tests.training_session import Recorder, trained

SIZES = ["data.n_train=12", "data.n_validation=7", "data.n_test=5", "model.hidden_dim=3",
         "training.batch_size=5", "training.epochs=3", "training.teacher_forcing.probability=0.5",
         "training.checkpoint_seconds=1000"]  # fmt: skip
STEPS = 3  # of an epoch


def config_of(*sets: str) -> Config:
    return resolve(None, [*SIZES, *sets]).config


def run_of(seed: int, *sets: str) -> TrainingRun:
    config = config_of(*sets)
    data = load_data(config.data)
    parts = to_tensors(data.train), to_tensors(data.validation)
    return TrainingRun(
        build_model(config.model, 2, seed), *parts, config.training, seed, group_id="g"
    )


def without_targets(run: TrainingRun) -> TrainingRun:
    """The run with training targets of which none is finite."""
    return replace(run, train=filled(run.train, math.inf))


def filled(data: Any, number: float) -> Batch:
    """The sequences with one number as all their targets."""
    assert isinstance(data, Batch)
    return replace(data, target=torch.full_like(data.target, number))


def same_state(one: RunState | None, other: RunState | None) -> bool:
    """Whether two states are equal to the bit, but for wall time."""
    assert one is not None and other is not None
    tensors = [
        {
            "weights": state.weights,
            "best": state.best_weights,
            **{f"buffers of {key}": kept for key, kept in state.buffers.items()},
        }
        for state in (one, other)
    ]
    numbers = [
        (state.position, state.loss_sum, state.loss_count, state.best_epoch, state.slot,
         [replace(record, seconds=0.0) for record in state.history])
        for state in (one, other)
    ]  # fmt: skip
    return (
        numbers[0] == numbers[1]
        and tensors[0].keys() == tensors[1].keys()
        and all(
            left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)
            for left, right in zip(tensors[0].values(), tensors[1].values(), strict=True)
        )
    )


# --- the first step -------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["training loss", "update of the weights"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_run_that_diverges_at_its_first_step_is_saved_as_it_began(
    what: str, optimizer: str
) -> None:
    run = run_of(1, f"training.optimizer={optimizer}")
    if what == "training loss":
        run = without_targets(run)
    else:
        steep = run.config.model_copy(update={"learning_rate": 1e300})
        run = replace(run, config=steep)
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    saved = list[RunState]()
    (ended,) = trained([run], save=saved.append)
    assert ended.error is not None
    assert (ended.error.epoch, ended.error.step) == (1, 1)
    assert f"The {what} is " in str(ended.error)
    assert "in epoch 1, step 1, at learning rate" in str(ended.error)
    assert (ended.ending, ended.is_finished, ended.history) == ("diverged", False, [])
    (state,) = saved
    assert state is ended.state
    assert (state.position, state.loss_count, state.loss_sum) == ((0, 0), 0, 0.0)
    assert (state.best_epoch, state.best_weights, state.buffers) == (0, {}, {})
    assert state.weights.keys() == before.keys()
    assert all(torch.equal(state.weights[name], tensor) for name, tensor in before.items())


# --- all of a group -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("when", ["training", "validation"])
def test_a_group_of_which_all_diverge_ends(count: int, when: str) -> None:
    runs = [run_of(seed) for seed in range(count)]
    if when == "training":
        runs = [without_targets(run) for run in runs]
    else:
        runs = [replace(run, validation=filled(run.validation, math.nan)) for run in runs]
    saved, epochs = list[RunState](), list[Any]()
    found = trained(runs, save=saved.append, on_epoch=epochs.append)
    position = (0, 0) if when == "training" else (0, STEPS)
    assert [state.position for state in saved] == [position] * count
    assert epochs == []
    for run in found:
        assert run.error is not None
        assert (run.error.epoch, run.error.step) == (1, 1 if when == "training" else None)
        assert (run.ending, run.history) == ("diverged", [])
        assert run.state is not None
        assert all(tensor.isfinite().all() for tensor in run.state.weights.values())


# --- data that can no longer be read --------------------------------------------------------------


def gone_at(monkeypatch: pytest.MonkeyPatch, at: tuple[int, int]) -> None:
    """The files of the training sequences are gone once a batch is asked for: epoch and step."""
    shuffled = DataLoader.shuffled

    def gone(loader: DataLoader, seeds: Any, epoch: int) -> Any:
        fetch = shuffled(loader, seeds, epoch)

        def fetch_or_fail(step: int) -> Any:
            if (epoch, step) == at:
                raise DataError("my.parquet: is gone.")
            return fetch(step)

        return fetch_or_fail

    monkeypatch.setattr(DataLoader, "shuffled", gone)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("at", [(0, 2), (1, 0), (1, 1), (2, 2)])
def test_data_gone_in_an_epoch_save_the_state_before_once(
    at: tuple[int, int], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_models([run_of(seed) for seed in range(count)])
    saved = list[list[RunProgress]]()
    states = list[RunState | None]()

    class Saves(Recorder):
        def save(self, runs: Any) -> None:
            saved.append(list(runs))
            states.extend(run.state for run in runs)

    with monkeypatch.context() as patch:
        gone_at(patch, at)
        runs = [run_of(seed) for seed in range(count)]
        with pytest.raises(DataError, match="is gone"):
            train_models(runs, Saves(1000.0))
    last = saved[-1]
    assert [len(each) for each in saved if each] == [count]  # at the end of an epoch none was due
    assert [run.run for run in last] == runs
    assert [state.position for state in states if state] == [at] * count
    assert [state.slot.row for state in states if state and state.slot] == list(range(count))
    again = [run_of(seed) for seed in range(count)]
    rest = train_models(again, states=dict(zip(again, states, strict=True)))  # type: ignore[arg-type]
    for one, other in zip(rest, whole, strict=True):
        assert one.is_finished
        assert same_state(one.state, other.state)


# --- when folders are saved to --------------------------------------------------------------------
