"""Runs that start with the weights of another run (`training.start_from`)."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqattn
from seqattn import experiments
from seqattn.config import Config, resolve
from seqattn.config.comparing import plan_comparison
from seqattn.errors import CheckpointError, ConfigError, Interrupted
from seqattn.experiments.compare import run_comparison
from seqattn.experiments.verify_resume import first_difference, verify_resume
from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import read_checkpoint
from tests.grouped import series_config, write_series

SMALL = {"n_train": 20, "n_validation": 8, "n_test": 7}
MODEL = {"hidden_dim": 3}


def config(
    name: str, *, data: Any = SMALL, model: Any = MODEL, seed: int = 3, **training: Any
) -> Config:
    training = {"epochs": 3, "batch_size": 7, "checkpoint_seconds": 0, **training}
    return resolve(
        {"name": name, "seed": seed, "data": data, "model": model, "training": training}
    ).config


def train(home: Path, name: str, *, resume: bool = False, stop: int = 0, **keys: Any) -> RunFolder:
    calls = itertools.count(1)
    callbacks = experiments.Callbacks(stop=lambda: 15 if stop and next(calls) >= stop else 0)
    folder, _ = experiments.train_one(
        config(name, **keys), home, resume=resume, callbacks=callbacks, plots=False
    )
    return folder


def train_seeds(home: Path, name: str, seeds: int = 2, **keys: Any) -> list[experiments.Job]:
    resume = keys.pop("resume", False)
    configs = experiments.seeds_of(config(name, **keys), home / name, seeds)
    launch = experiments.Launch(before_writing=lambda: experiments.create_seed_folders(configs))
    return experiments.train_many(configs, threads=1, launch=launch, resume=resume)


def best_weights(folder: RunFolder) -> dict[str, np.ndarray]:
    return read_checkpoint(folder.best).tensors


def first_weights(folder: RunFolder) -> dict[str, np.ndarray]:
    """The weights before the first step, of a run with `record_attention: 1`."""
    model = seqattn.load(folder.path, epoch=0).trained.model
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.fixture
def source(tmp_path: Path) -> RunFolder:
    return train(tmp_path, "source", learning_rate=0.5)


@pytest.mark.parametrize(
    "file", ["", "checkpoints/best.safetensors", "checkpoints/last.safetensors"]
)
def test_a_run_starts_with_the_best_weights_of_another_run(
    source: RunFolder, tmp_path: Path, file: str
) -> None:
    rate = {"kind": "cosine", "minimum": 0.001}
    path = source.path / file
    run = train(tmp_path, "new", start_from=str(path), record_attention=1, learning_rate=0.01,
                learning_rate_schedule=rate)  # fmt: skip
    assert source.read_summary()["best_epoch"] < 3
    assert same(first_weights(run), best_weights(source))
    history = run.read_metrics()
    assert [record.epoch for record in history] == [1, 2, 3]
    assert history[0].learning_rate == pytest.approx(0.01)
    record = run.read_summary()["start_from"]
    assert (record["run"], record["epoch"]) == (str(path), source.read_summary()["best_epoch"])
    assert run.read_environment()["start_from"] == record
    assert (
        f"the scaling of {path} (SHA-256 of the weights: {record['sha256']})" in run.log.read_text()
    )


def test_a_frozen_map_is_that_of_the_other_run(tmp_path: Path) -> None:
    model = {**MODEL, "skip": "linear"}
    old = train(tmp_path, "old", model=model)
    run = train(tmp_path, "new", model=model, start_from=str(old.path),
                data={**SMALL, "train_seed": 99})  # fmt: skip
    before, after = best_weights(old), best_weights(run)
    maps = [name for name in before if name.startswith("skip.")]
    assert maps
    assert all(np.array_equal(before[name], after[name]) for name in maps)
    assert not same(before, after)


def files(home: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `data` sections of two files with the same features, whose numbers differ in size."""
    for name, seed in (("old.csv", 5), ("new.csv", 7)):
        write_series(home / name, seed=seed)
    rows = [row.split(",") for row in (home / "new.csv").read_text().splitlines()]
    larger = [[*row[:5], *(str(20 * float(value)) for value in row[5:])] for row in rows[1:]]
    (home / "new.csv").write_text("\n".join(map(",".join, [rows[0], *larger])) + "\n")
    columns = {"series": "sequence", "time": "step", "features": ["a", "b"]}
    return series_config(home / "old.csv", **columns), series_config(home / "new.csv", **columns)


def test_the_scaling_of_the_other_run_is_kept(tmp_path: Path) -> None:
    old_data, new_data = files(tmp_path)
    old = train(tmp_path, "old", data=old_data)
    run = train(tmp_path, "new", data=new_data, start_from=str(old.path))
    alone = train(tmp_path, "alone", data=new_data)
    scales = [read_checkpoint(each.best).spec.scaling_as_plain() for each in (old, run, alone)]
    assert scales[0] == scales[1] != scales[2]
    opened = seqattn.load(run.path)
    assert opened.evaluate().loss == run.read_summary()["test_loss"]
    assert alone.read_summary()["test_loss"] < run.read_summary()["test_loss"]  # a smaller unit


@pytest.mark.parametrize("from_files", [False, True])
def test_a_resume_never_reads_the_other_run_again(tmp_path: Path, from_files: bool) -> None:
    old_data, new_data = files(tmp_path) if from_files else (SMALL, {**SMALL, "train_seed": 99})
    old = train(tmp_path, "old", data=old_data)
    keys: dict[str, Any] = {"data": new_data, "start_from": str(old.path)}
    at_once = train(tmp_path, "at-once", **keys)
    with pytest.raises(Interrupted):
        train(tmp_path, "resumed", stop=4, **keys)
    shutil.rmtree(old.path)
    resumed = train(tmp_path, "resumed", resume=True, **keys)
    compared, difference = first_difference(at_once, resumed)
    assert difference is None
    assert compared > 20
    assert resumed.read_summary()["start_from"] == at_once.read_summary()["start_from"]
    assert resumed.read_environment()["start_from"] == at_once.read_environment()["start_from"]


def without_checkpoint(folder: RunFolder) -> None:
    """Leave what a kill before the first save leaves."""
    for file in folder.files:
        if file not in (folder.config, folder.environment, folder.log):
            file.unlink(missing_ok=True)


def test_a_run_without_a_checkpoint_starts_again_only_with_the_same_weights(
    source: RunFolder, tmp_path: Path
) -> None:
    keys = {"start_from": str(source.path)}
    before = best_weights(train(tmp_path, "new", **keys))
    without_checkpoint(RunFolder(tmp_path / "new"))
    again = train(tmp_path, "new", resume=True, **keys)
    assert same(best_weights(again), before)
    without_checkpoint(again)
    shutil.rmtree(source.path)
    with pytest.raises(CheckpointError, match=r"training.start_from: .*source: no such run"):
        train(tmp_path, "new", resume=True, **keys)
    train(tmp_path, "source", learning_rate=0.01)
    with pytest.raises(CheckpointError, match="new: was started with other weights than .*source"):
        train(tmp_path, "new", resume=True, **keys)
    run, _ = experiments.train_one(config("new", **keys), tmp_path, overwrite=True, plots=False)
    assert run.read_summary()["start_from"]["epoch"] == 3


def test_each_seed_starts_from_the_run_with_its_own_seed(tmp_path: Path) -> None:
    train_seeds(tmp_path, "old")
    train_seeds(tmp_path, "new", start_from=str(tmp_path / "old"), record_attention=1)
    for seed in (3, 4):
        name = f"seed-{seed}"
        run, old = RunFolder(tmp_path / "new" / name), RunFolder(tmp_path / "old" / name)
        assert same(first_weights(run), best_weights(old))
        assert run.read_summary()["start_from"]["run"] == str(old.path)
    with pytest.raises(CheckpointError, match="has no run with seed 5, only with 3, 4"):
        train_seeds(tmp_path, "more", 3, start_from=str(tmp_path / "old"))
    assert not (tmp_path / "more").exists()


def test_seeds_that_are_trained_together_keep_different_scalings(tmp_path: Path) -> None:
    old_data, new_data = files(tmp_path)
    for seed, data in ((3, old_data), (4, new_data)):
        train(tmp_path / "old", f"seed-{seed}", seed=seed, data=data)
    keys: dict[str, Any] = {"data": new_data, "start_from": str(tmp_path / "old")}
    for job in train_seeds(tmp_path, "new", **keys):
        alone = train(tmp_path, f"alone-{job.config.seed}", seed=job.config.seed, **keys)
        assert job.folder.log.read_text().count("batched with 1 other runs") == 1
        losses = [each.read_summary()["test_loss"] for each in (job.folder, alone)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_resume_from_a_starting_point_is_verified(source: RunFolder, tmp_path: Path) -> None:
    result = verify_resume(config("new", start_from=str(source.path)), tmp_path / "two", stops=3)
    assert result.difference is None


def test_a_comparison_of_a_start_with_and_without_weights(
    source: RunFolder, tmp_path: Path
) -> None:
    plan = plan_comparison(
        {"name": "starts", "data": SMALL, "model": MODEL, "training": {"epochs": 1}},
        vary={"training.start_from": [None, str(source.path)]}, seeds=2,
    )  # fmt: skip
    result = run_comparison(plan, tmp_path, threads=1)
    records = [{summary["start_from"] and summary["start_from"]["run"]
                for summary in variant.summaries.values()} for variant in result.variants]  # fmt: skip
    assert records == [{None}, {str(source.path)}]
    assert result.same_units


def refuse(home: Path, message: str, **keys: Any) -> None:
    with pytest.raises((ConfigError, CheckpointError)) as caught:
        train(home, "new", **keys)
    assert message in str(caught.value)
    assert not (home / "new").exists()


def test_a_run_that_does_not_fit_is_refused_with_each_difference(tmp_path: Path) -> None:
    old_data, new_data = files(tmp_path)
    old = train(tmp_path, "old", data={**old_data, "units": {"a": "m"}}).path
    for message, keys in (
        (f"model.hidden_dim: {old} has 3, this run has 5", {"model": {"hidden_dim": 5}}),
        (f"model.attention.score: {old} has scaled_dot, this run has null",
         {"model": {**MODEL, "attention": None}}),
        (f'source features: {old} has ["a", "b"], this run has ["a", "c"]',
         {"data": {**new_data, "features": ["a", "c"]}}),
        (f"data.scaling: {old} has standard, this run has minmax",
         {"data": {**new_data, "scaling": "minmax"}}),
        (f"data.relative: {old} has false, this run has true", {"data": {**new_data, "relative": True}}),
        (f"data.normalize: instance: {old} has false, this run has true",
         {"data": {**new_data, "normalize": "instance"}}),
        (f"data.units.a: {old} has m, this run has km", {"data": {**new_data, "units": {"a": "km"}}}),
        (f"data.scaling: {old} has standard, this run has none", {"data": SMALL}),
    ):  # fmt: skip
        refuse(tmp_path, message, **{"data": new_data, "start_from": str(old), **keys})


def test_a_run_without_a_finished_epoch_has_no_weights_to_start_with(
    source: RunFolder, tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        train(tmp_path, "begun", stop=1)
    for path in (tmp_path / "begun", tmp_path / "begun" / "checkpoints" / "last.safetensors"):
        refuse(tmp_path, "has no finished epoch", start_from=str(path))
    with pytest.raises(ConfigError, match="is in the folder of this run"):
        experiments.train_one(
            config("source", start_from=str(source.best)), tmp_path, overwrite=True, plots=False
        )
    assert source.best.exists()


def test_a_run_that_stopped_early_says_how_to_continue_it(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"learning_rate": 0.5, "early_stopping": {"patience": 1}}
    folder = train(tmp_path, "run", epochs=20, **keys)
    lines = list[str]()
    callbacks = experiments.Callbacks(message=lines.append)

    def resume(**changes: Any) -> None:
        lines.clear()
        changed = config("run", **{"epochs": 20, **keys, **changes})
        experiments.train_one(changed, tmp_path, resume=True, callbacks=callbacks, plots=False)

    epochs = folder.read_summary()["epochs"]
    resume(epochs=30)
    assert "1 of 1 runs stopped early (training.early_stopping) and do not continue" in lines[0]
    assert f"--set training.start_from={folder.path}" in lines[0]
    resume()
    assert not any("training.start_from" in line for line in lines)
    with pytest.raises(ConfigError, match=f"training.start_from={folder.path}"):
        resume(early_stopping={"patience": 9})
    assert json.loads(folder.summary.read_text())["epochs"] == epochs
