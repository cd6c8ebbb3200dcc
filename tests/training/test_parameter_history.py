"""The parameters of a run at some epochs: recorded, bounded, resumed, read, and loaded again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seqattn as package
from seqattn import experiments
from seqattn.config import Config, resolve
from seqattn.data import DataSpec, load_data
from seqattn.data.tokens import END
from seqattn.errors import CheckpointError, Interrupted, UsageError
from seqattn.models import FeatureSpec, build_model
from seqattn.runs import RunFolder
from seqattn.runs.storage import read_arrays, write_arrays
from seqattn.training import histories, load_model, to_tensors
from seqattn.training.histories import (
    MAX_BYTES,
    ParameterSnapshot,
    attention_snapshots,
    record_parameters,
    recording_interval,
)
from tests.conftest import Ended

SMALL = ["data.n_train=40", "data.n_validation=12", "data.n_test=15", "training.epochs=6",
         "training.batch_size=8", "training.record_attention=2", "name=small",
         "model.hidden_dim=5"]  # fmt: skip
MODELS = {
    "attention": ["model.attention.heads=1"],
    "plain": ["model.attention=null"],
    "fast weights": ["model.kind=fast_weights"],
    "skip": ["model.skip=linear"],
}


def config_of(*overrides: str) -> Config:
    return resolve(None, [*SMALL, *overrides]).config


def trained(output_dir: Path, *overrides: str, **options: Any) -> RunFolder:
    return experiments.train_one(config_of(*overrides), output_dir, plots=False, **options)[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def mine(run: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(run.path, tmp_path / "small")
    return RunFolder(tmp_path / "small")


def by_name(arrays: dict[str, Any], frame: int) -> dict[str, np.ndarray]:
    """The tensors of a frame, cut by hand."""
    found, first = {}, 0
    for name, padded in zip(arrays["names"].tolist(), arrays["shapes"].tolist(), strict=True):
        shape = tuple(size for size in padded if size >= 0)
        size = int(np.prod(shape))
        found[name] = arrays["parameters"][frame, first : first + size].reshape(shape)
        first += size
    assert first == arrays["parameters"].shape[1]
    return found


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_of_the_model_at_each_epoch(name: str, tmp_path: Path) -> None:
    folder = trained(tmp_path, *MODELS[name])
    arrays = folder.read_parameter_history()
    assert arrays["epochs"].tolist() == [0, 2, 4, 6]
    assert arrays["parameters"].dtype == np.float32
    last = load_model(folder.last)
    assert last.epoch == 6
    for key, value in last.model.named_parameters():
        assert np.array_equal(by_name(arrays, -1)[key], value.detach().numpy()), key
    shorter = trained(tmp_path / "shorter", *MODELS[name], "training.epochs=4")
    for key, value in load_model(shorter.last).model.named_parameters():
        assert np.array_equal(by_name(arrays, 2)[key], value.detach().numpy()), key


def test_epoch_0_is_before_training(run: RunFolder) -> None:
    model = build_model(config_of().model, 2, config_of().seed)
    first = by_name(run.read_parameter_history(), 0)
    assert first.keys() == dict(model.named_parameters()).keys()
    for key, value in model.named_parameters():
        assert np.array_equal(first[key], value.detach().numpy()), key


def test_recording_changes_nothing_that_is_learned(run: RunFolder, tmp_path: Path) -> None:
    without = trained(tmp_path, "training.record_attention=null")
    assert not without.parameter_history.exists()
    assert run.best.read_bytes() != b""
    ours, theirs = load_model(run.last).model, load_model(without.last).model
    for name, value in ours.state_dict().items():
        assert torch.equal(value, theirs.state_dict()[name])


# --- resuming, groups -----------------------------------------------------------------------------


def stop_at(step: int) -> experiments.Callbacks:
    steps = 0

    def stop() -> int:
        nonlocal steps
        steps += 1
        return 15 if steps >= step else 0

    return experiments.Callbacks(stop=stop)


@pytest.mark.parametrize("step", [1, 10, 13, 20])  # 5 steps an epoch
def test_a_resumed_run_has_the_file_of_an_uninterrupted_one(
    step: int, run: RunFolder, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        trained(tmp_path, callbacks=stop_at(step))
    folder = trained(tmp_path, resume=True)
    assert folder.parameter_history.read_bytes() == run.parameter_history.read_bytes()


def test_a_resume_from_the_save_before_has_the_same_file(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        trained(tmp_path, "training.checkpoint_seconds=0", callbacks=stop_at(21))
    folder = RunFolder(tmp_path / "small")
    folder.last.write_bytes(b"broken")
    folder = trained(tmp_path, resume=True)
    assert folder.parameter_history.read_bytes() == run.parameter_history.read_bytes()


def test_each_run_of_a_group_has_the_parameters_that_it_has_alone(tmp_path: Path) -> None:
    config = config_of()
    jobs = experiments.train_many(experiments.seeds_of(config, tmp_path / "many", 3), threads=1)
    for job in jobs:
        alone = trained(tmp_path / str(job.config.seed), f"seed={job.config.seed}")
        ours, theirs = job.folder.read_parameter_history(), alone.read_parameter_history()
        assert ours["epochs"].tolist() == theirs["epochs"].tolist() == [0, 2, 4, 6]
        assert ours["names"].tolist() == theirs["names"].tolist()
        assert np.array_equal(ours["parameters"][0], theirs["parameters"][0])
        np.testing.assert_allclose(ours["parameters"], theirs["parameters"], rtol=0, atol=1e-5)
        for key, value in load_model(job.folder.last).model.named_parameters():
            assert np.array_equal(by_name(ours, -1)[key], value.detach().numpy()), key
        assert job.state.parameter_history == []


def test_runs_that_end_early_leave_the_histories_of_the_others(tmp_path: Path) -> None:
    early = ["training.epochs=12", "training.early_stopping={patience: 1, min_delta: 0.02}"]
    pairs = experiments.seeds_of(config_of(*early), tmp_path / "many", 4)
    jobs = experiments.train_many(pairs, threads=1)
    ends = [job.position[0] for job in jobs]
    assert len(set(ends)) > 1  # else the group was never made smaller
    for job, end in zip(jobs, ends, strict=True):
        arrays = job.folder.read_parameter_history()
        assert arrays["epochs"].tolist() == list(range(0, end + 1, 2))


def test_an_unreadable_file_is_logged_and_replaced(mine: RunFolder) -> None:
    mine.parameter_history.write_bytes(b"broken")
    trained(mine.path.parent, "training.epochs=8", resume=True)
    assert "earlier parameters are lost: " in mine.log.read_text()
    assert mine.read_parameter_history()["epochs"].tolist() == [6, 8]


# --- the budget -----------------------------------------------------------------------------------


def test_the_interval_is_doubled_until_the_frames_fit() -> None:
    P = MAX_BYTES // 4 // 5  # 5 frames
    assert [recording_interval(10, epoch, P) for epoch in (0, 40, 49, 50, 90, 100, 5000)] == [
        10, 10, 10, 20, 20, 40, 1280,
    ]  # fmt: skip
    assert recording_interval(10, 10**6, MAX_BYTES // 4) == 10 * 2**17  # epoch 0 alone
    assert recording_interval(10, 0, MAX_BYTES // 4 + 1) is None


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("every", [1, 3])
def test_frames_are_dropped_evenly(every: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MAX_BYTES", 4 * most)
    history = list[ParameterSnapshot]()
    for epoch in range(0, 100 * every + 1, every):
        record_parameters(history, epoch, every, np.array([float(epoch)]))
        epochs = [each.epoch for each in history]
        assert len(epochs) <= most
        assert epochs[0] == 0
        interval = recording_interval(every, epoch, 1)
        assert epochs == list(range(0, epoch + 1, interval))
        assert 2 * len(epochs) >= min(most, epoch // every + 1)
        assert [float(each.parameters[0]) for each in history] == epochs


def test_a_snapshot_does_not_change_with_the_weights() -> None:
    history, weights = list[ParameterSnapshot](), np.zeros(3, dtype=np.float32)
    record_parameters(history, 0, 1, weights)
    weights += 1
    assert history[0].parameters.tolist() == [0, 0, 0]


def test_the_log_says_that_frames_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: RunFolder
) -> None:
    P = run.read_parameter_history()["parameters"].shape[1]
    monkeypatch.setattr(histories, "MAX_BYTES", 4 * P * 3)
    folder = trained(tmp_path, "training.record_attention=1")
    assert folder.read_parameter_history()["epochs"].tolist() == [0, 4]
    assert folder.read_film()["epochs"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    (line,) = [line for line in folder.log.read_text().splitlines() if "parameter" in line
               and "every 4 epochs" in line]  # fmt: skip
    assert "parameter_history.npz: has the parameters every 4 epochs instead of every epoch" in line


def test_a_thinned_file_is_the_same_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: RunFolder
) -> None:
    P = run.read_parameter_history()["parameters"].shape[1]
    monkeypatch.setattr(histories, "MAX_BYTES", 4 * P * 3)
    overrides = ("training.record_attention=1", "training.epochs=9")
    whole = trained(tmp_path / "whole", *overrides)
    for step in (12, 23, 31):
        with pytest.raises(Interrupted):
            trained(tmp_path / str(step), *overrides, callbacks=stop_at(step))
        folder = trained(tmp_path / str(step), *overrides, resume=True)
        assert folder.parameter_history.read_bytes() == whole.parameter_history.read_bytes()
    assert whole.read_parameter_history()["epochs"].tolist() == [0, 4, 8]


def test_parameters_beyond_the_budget_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "MAX_BYTES", 16)
    folder = trained(tmp_path)
    assert not folder.parameter_history.exists()
    assert folder.film.exists()
    assert "parameter_history.npz: is not written" in folder.log.read_text()


# --- reading --------------------------------------------------------------------------------------


def test_a_file_without_an_array_is_refused(mine: RunFolder) -> None:
    arrays = read_arrays(mine.parameter_history)
    write_arrays(mine.parameter_history, {"epochs": arrays["epochs"]})
    with pytest.raises(CheckpointError, match=r"parameter_history\.npz: parameters: is missing"):
        mine.read_parameter_history()


# --- a model of an epoch --------------------------------------------------------------------------


def test_a_run_is_loaded_as_it_was_at_an_epoch(run: RunFolder, tmp_path: Path) -> None:
    shorter = package.load(trained(tmp_path, "training.epochs=4").last)
    at_4 = package.load(run.path, epoch=4)
    assert at_4.trained.epoch == 4
    source = [[-1.0, -1.0], [-1.0, 1.0]]
    assert np.array_equal(at_4.predict(source), shorter.predict(source))
    assert not np.array_equal(at_4.predict(source), package.load(run.path, epoch=0).predict(source))


def test_an_epoch_that_was_not_recorded(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"epoch 3: .* has the parameters of epochs 0, 2, 4 and 6"):
        package.load(run.path, epoch=3)
    without = trained(tmp_path, "training.record_attention=null")
    with pytest.raises(UsageError, match=r"training\.record_attention=1"):
        package.load(without.path, epoch=3)
    with pytest.raises(UsageError, match="has one epoch only; give the run folder"):
        package.load(run.best, epoch=4)


def test_parameters_of_another_model_are_not_loaded(mine: RunFolder, tmp_path: Path) -> None:
    wider = trained(tmp_path / "wider", "model.hidden_dim=6")
    shutil.copy(wider.parameter_history, mine.parameter_history)
    with pytest.raises(
        CheckpointError, match=r"parameter_history\.npz: .*does not belong to the model"
    ):
        package.load(mine.path, epoch=4)


def test_predict_of_an_epoch(run: RunFolder, seqattn: Callable[..., Ended], tmp_path: Path) -> None:
    shorter = trained(tmp_path, "training.epochs=4")
    done = seqattn("predict", run.path, "--epoch", "4")
    assert done.code == 0, done.err
    assert done.out == seqattn("predict", shorter.last).out
    refused = seqattn("predict", run.path, "--epoch", "3")
    assert refused.code == 2
    assert "has the parameters of epochs 0, 2, 4 and 6" in refused.err
    (tmp_path / "f.json").write_text(json.dumps({"rows": [{"step": 1, "weights": [0.5, 0.5]}]}))
    both = seqattn("predict", run.path, "--epoch", "0", "--attention-override",
                   f"forced:{tmp_path / 'f.json'}")  # fmt: skip
    assert both.code == 0, both.err


def test_snapshots_of_outputs_that_end_early_have_all_steps() -> None:
    """The outputs of symbols end at another step after each epoch."""
    words = ["data.kind=reverse", "data.symbols=8", "data.length=4", "data.n_train=32",
             "data.n_validation=8", "data.n_test=8", "model.hidden_dim=4", "training.epochs=1",
             "training.record_attention=1", "name=words"]  # fmt: skip
    config = resolve(None, words).config
    data = load_data(config.data)
    model = build_model(config.model, FeatureSpec.of(DataSpec.of_splits(data)), 1)
    probe = to_tensors(data.validation)
    T = probe.target.shape[-2]
    for bias, last in ((30.0, 1), (-30.0, T)):
        with torch.no_grad():
            model.output.bias[END] = bias  # type: ignore[index, operator, union-attr]
        (snapshot,) = attention_snapshots(model, probe, 0)
        assert snapshot.weights.shape[-2] == T
        written = snapshot.weights.sum(axis=-1) > 0
        assert written[..., :last].all() and not written[..., last:].any()
