"""The comparison of two runs, which finds each bit that differs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.config import resolve
from seqattn.experiments import train_one
from seqattn.experiments.verify_resume import first_difference
from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import VERSION
from seqattn.runs.checksummed import load_checksummed, save_checksummed

SMALL = ["data.n_train=16", "data.n_validation=8", "data.n_test=8", "training.epochs=2",
         "model.hidden_dim=2", "name=one"]  # fmt: skip
MOMENT = "optimizer.output.bias.exp_avg"
Change = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[RunFolder, RunFolder]:
    one, _ = train_one(resolve(None, SMALL).config, tmp_path)
    shutil.copytree(one.path, tmp_path / "other")
    return one, RunFolder(tmp_path / "other")


def change_tensor(folder: RunFolder, name: str, change: Change) -> None:
    metadata, tensors = load_checksummed(folder.last, VERSION)
    save_checksummed(folder.last, {**tensors, name: change(tensors[name].copy())}, metadata)


def change_array(path: Path, name: str, change: Change) -> None:
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, name: change(arrays[name])})


def test_copies_have_no_difference(runs: tuple[RunFolder, RunFolder]) -> None:
    one, other = runs
    compared, difference = first_difference(one, other)
    assert difference is None
    _, tensors = load_checksummed(one.last, VERSION)
    assert compared > len(tensors) + 2 + 9 + 7, "with the arrays of the forecasts and weights"
    change_tensor(other, "history", lambda a: a + np.eye(1, a.shape[1], a.shape[1] - 1))
    assert first_difference(one, other) == (compared, None), "wall times may differ"


def test_each_bit_of_a_tensor_counts(runs: tuple[RunFolder, RunFolder]) -> None:
    change_tensor(runs[0], MOMENT, np.zeros_like)
    change_tensor(runs[1], MOMENT, lambda a: -np.zeros_like(a))
    assert first_difference(*runs)[1] == f"{MOMENT} differs by up to 0"
    change_tensor(runs[1], MOMENT, lambda a: np.full_like(a, 0.5))
    assert first_difference(*runs)[1] == f"{MOMENT} differs by up to 0.5"


def test_the_dtype_and_the_shape_of_a_tensor_count(runs: tuple[RunFolder, RunFolder]) -> None:
    change_tensor(runs[1], MOMENT, lambda a: a.astype(np.float64))
    assert first_difference(*runs)[1] == f"{MOMENT} differs"
    change_tensor(runs[1], MOMENT, lambda a: a[:1].astype(np.float32))
    assert first_difference(*runs)[1] == f"{MOMENT} differs"


def test_the_forecasts_and_the_weights_count(runs: tuple[RunFolder, RunFolder]) -> None:
    one, other = runs
    change_array(other.attention, "weights", lambda a: a + np.float32(0.25))
    assert first_difference(*runs)[1] == "weights in attention.npz differs by up to 0.25"
    change_array(other.predictions, "ids", lambda a: a[::-1])
    assert first_difference(*runs)[1] == "ids in predictions.npz differs"
    other.predictions.unlink()
    assert "in predictions.npz is in one run only" in str(first_difference(*runs)[1])
    one.predictions.unlink()
    other.attention.unlink()
    one.attention.unlink()
    assert first_difference(*runs)[1] is None
