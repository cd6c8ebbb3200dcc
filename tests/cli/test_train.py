"""`seqattn train`: run folders, options, resuming, signals."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from seqattn.config import resolve
from seqattn.experiments.progress import RunsInTraining
from seqattn.runs import EpochRecord, RunFolder
from seqattn.runs.storage import read_arrays
from tests.cli.small import SETS, rows, small_config
from tests.conftest import Ended, fresh_process, tree
from tests.faults.nursery import Nursery

Command = Callable[..., Ended]


def test_train_leaves_a_complete_run_folder(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("train", small_config(tmp_path), *SETS)
    assert done.code == 0, done.err
    folder = tmp_path / "outputs" / "mine"
    assert set(tree(folder)) == {
        "config.yaml", "metrics.csv", "summary.json", "predictions.npz", "attention.npz",
        "loss_curve.png", "predictions.png", "attention.png", "environment.json", "train.log",
        "checkpoints/best.safetensors", "checkpoints/last.safetensors",
        "checkpoints/previous.safetensors", ".lock",
    }  # fmt: skip
    assert (
        resolve(folder / "config.yaml").config
        == resolve(small_config(tmp_path), [word for word in SETS if "=" in word]).config
    )
    metrics = rows((folder / "metrics.csv").read_text())
    assert [row["epoch"] for row in metrics] == ["1", "2", "3"]
    summary = json.loads((folder / "summary.json").read_text())
    environment = json.loads((folder / "environment.json").read_text())
    assert {"test_loss", "baselines", "noise_floor", "parameters", "best_epoch"} <= set(summary)
    assert environment["device"] == "cpu"
    assert environment["threads"] == 1
    assert "torch" in environment["packages"]
    for name in ("loss_curve", "predictions", "attention"):
        assert imread(folder / f"{name}.png").std() > 0.05
    weights = read_arrays(folder / "attention.npz")["weights"]
    assert weights.shape == (12, 1, 1, 2, 2)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    for words in ("this model, free running", "noise floor (lower bound)", "minus the source corner",
                  "outputs/mine", "seqattn evaluate outputs/mine",
                  "seqattn plot-attention outputs/mine"):  # fmt: skip
        assert words in done.out
    assert "epoch 3/3: training" in done.err
    assert "\x1b" not in done.out + done.err


def test_the_summary_agrees_with_the_data_files(attention_run: Path) -> None:
    summary = json.loads((attention_run / "summary.json").read_text())
    saved = read_arrays(attention_run / "predictions.npz")
    error = np.square(saved["forecast"] - saved["target"])
    assert summary["test_loss"] == pytest.approx(error.mean())
    assert summary["loss_by_step"] == pytest.approx(error.mean(axis=(0, 2)).tolist())
    minus = -saved["source"]
    assert summary["baselines"]["minus the source corner"] == pytest.approx(
        np.square(minus - saved["target"]).mean()
    )


def test_a_plain_run_has_no_attention(seqattn: Command, plain_run: Path) -> None:
    assert not (plain_run / "attention.npz").exists()
    assert not (plain_run / "attention.png").exists()
    before = tree(plain_run)
    for words in (("plot-attention", plain_run), ("predict", plain_run, "--attention", "w.npz")):
        done = seqattn(*words)
        assert done.code == 2
        assert "its model has no attention (model.attention: null)" in done.err
    assert tree(plain_run) == before


def test_shortcuts_and_quiet(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("train", small_config(tmp_path), *SETS, "--name", "other", "--seed", "7",
                   "--output-dir", "deep/er", "--quiet", "--threads", "2", "--device", "cpu")  # fmt: skip
    assert (done.code, done.out, done.err) == (0, "", "")
    config = resolve(tmp_path / "deep/er/other/config.yaml").config
    assert (config.name, config.seed) == ("other", 7)


@pytest.mark.parametrize(("option", "override"), [("--seed", "seed=5"), ("--name", "name=other")])
def test_an_option_and_an_override_of_one_key_are_refused(
    seqattn: Command, tmp_path: Path, option: str, override: str
) -> None:
    done = seqattn("train", small_config(tmp_path), option, "3", "--set", override)
    assert done.code == 2
    assert f"--set {override}: has no effect, because {option} 3 sets the same key" in done.err
    assert not (tmp_path / "outputs").exists()


def test_the_same_bytes_from_a_fresh_process(nursery: Nursery, tmp_path: Path) -> None:
    """Two processes were started apart: hashes of strings differ between them."""
    small_config(tmp_path)
    words = ["train", "my.yaml", *SETS, "-q", "--output-dir"]
    done = fresh_process([*words, "one"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert nursery.run([*words, "two"], tmp_path).code == 0
    one, two = (tree(tmp_path / place / "mine") for place in ("one", "two"))
    timed = (
        "metrics.csv",
        "summary.json",
        *(f"checkpoints/{k}.safetensors" for k in ("last", "previous")),
    )
    for name in one:
        if name not in ("train.log", "environment.json", ".lock", *timed):
            assert one[name] == two[name], name
    without_seconds = [
        [{**row, "seconds": ""} for row in rows(files["metrics.csv"].decode())]
        for files in (one, two)
    ]
    assert without_seconds[0] == without_seconds[1]


def test_an_existing_run_is_refused_resumed_or_replaced(seqattn: Command, tmp_path: Path) -> None:
    words = ["train", small_config(tmp_path), *SETS, "--plots", "none"]
    assert seqattn(*words, "-q").code == 0
    folder = tmp_path / "outputs" / "mine"
    (folder / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    done = seqattn(*words)
    assert done.code == 2
    assert "already has a run. Continue it (--resume), replace it (--overwrite)" in done.err
    assert tree(tmp_path) == before
    done = seqattn(*words, "--resume")
    assert done.code == 0
    assert "is already trained to epoch 3" in done.err
    assert tree(tmp_path) == before
    done = seqattn(*words, "--resume", "--set", "seed=5", "--set", "training.epochs=9")
    assert done.code == 2
    assert "cannot be resumed with another config" in done.err
    assert "seed: 23 -> 5" in done.err
    assert "training.epochs: 3 -> 9" not in done.err
    assert tree(tmp_path) == before
    done = seqattn(*words, "--resume", "--set", "training.epochs=5")
    assert done.code == 0
    assert "Resuming after epoch 3" in done.err
    assert len(rows((folder / "metrics.csv").read_text())) == 5
    whole = [*words, "--set", "training.epochs=5"]
    assert seqattn(*whole, "--output-dir", "whole", "-q").code == 0
    assert (folder / "checkpoints/best.safetensors").read_bytes() == (
        tmp_path / "whole/mine/checkpoints/best.safetensors"
    ).read_bytes()
    assert seqattn(*words, "--overwrite", "-q", "--set", "seed=5").code == 0
    assert resolve(folder / "config.yaml").config.seed == 5
    assert (folder / "notes.txt").read_text() == "mine"


def test_the_progress_of_many_runs_says_of_how_many_its_losses_are(
    seqattn: Command, tmp_path: Path
) -> None:
    words = ["train", small_config(tmp_path), *SETS, "--plots", "none", "--seeds", "3"]
    done = seqattn(*words)
    (last,) = (line for line in done.err.splitlines() if line.startswith("epoch 9/9"))
    losses = sorted(
        RunFolder(tmp_path / f"outputs/mine/seed-{seed}").read_metrics()[-1].validation_loss
        for seed in (23, 24, 25)
    )
    low, middle, high = (f"{loss:.4f}" for loss in losses)
    expected = f"3 of 3 runs training, median validation {middle} ({low} to {high})"
    assert last == f"epoch 9/9: {expected}"


def test_runs_that_have_ended_are_left_out_of_the_progress() -> None:
    runs = RunsInTraining(3)
    paths = [Path(name) for name in "abc"]
    for path, loss in zip(paths, (0.5, 0.25, 0.125), strict=True):
        runs.epoch(path, EpochRecord(1, 1.0, loss, 1.0, 0.1, 1.0, 0.1, exact_match=loss))
    assert runs.describe_losses() == (
        "3 of 3 runs training, median validation 0.2500 (0.1250 to 0.5000), exact 25.0%"
    )
    runs.ended(paths[0])
    runs.ended(paths[1])
    assert runs.describe_losses() == (
        "1 of 3 runs training, training 1.0000, validation 0.1250, exact 12.5%"
    )


def test_a_resume_leaves_nothing_of_before(seqattn: Command, tmp_path: Path) -> None:
    words = ["train", small_config(tmp_path), *SETS, "-q"]
    assert seqattn(*words).code == 0
    folder = RunFolder(tmp_path / "outputs" / "mine")
    whole = tree(folder.path)
    for picture in (folder.loss_picture, folder.attention_picture):
        picture.unlink()
    assert seqattn(*words, "--resume").code == 0  # finished: only what is missing is drawn
    assert tree(folder.path) == whole
    folder.summary.unlink()  # as if killed before the end
    assert seqattn(*words, "--resume", "--plots", "none").code == 0
    pictures = {
        folder.loss_picture.name,
        folder.predictions_picture.name,
        folder.attention_picture.name,
    }
    assert tree(folder.path).keys() == whole.keys() - pictures
    before = tree(folder.path)
    done = seqattn(*words, "--resume", "--set", "training.epochs=2")
    assert done.code == 2
    assert "training.epochs: 3 are finished -> 2" in done.err
    assert tree(folder.path) == before
    done = seqattn(*words, "--resume", "--set", "training.epochs=4", "--set", "seed=23",
                   "--plots", "none")  # fmt: skip
    assert done.code == 0
    assert folder.read_summary()["epochs"] == 4
    assert tree(folder.path)["predictions.npz"] != before["predictions.npz"]


def test_a_schedule_over_all_epochs_cannot_be_stretched(seqattn: Command, tmp_path: Path) -> None:
    words = ["train", small_config(tmp_path), *SETS, "-q", "--plots", "none",
             "--set", "training.learning_rate_schedule.kind=cosine"]  # fmt: skip
    assert seqattn(*words).code == 0
    done = seqattn(*words, "--resume", "--set", "training.epochs=9")
    assert done.code == 2
    assert "training.epochs: 3 -> 9, on which training.learning_rate_schedule depends" in done.err


def test_a_folder_that_is_no_run_is_never_touched(seqattn: Command, tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "mine"
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    small_config(tmp_path)
    before = tree(tmp_path)
    for flag in ([], ["--overwrite"], ["--resume"]):
        done = seqattn("train", "my.yaml", *SETS, *flag)
        assert done.code == 2
        assert "is not a run folder" in done.err
        assert tree(tmp_path) == before


def test_a_loss_that_is_not_finite_ends_with_7(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("train", small_config(tmp_path), *SETS, "--set", "training.optimizer=sgd",
                   "--set", "training.learning_rate=100", "--set", "training.epochs=200")  # fmt: skip
    assert done.code == 7
    assert "loss is" in done.err
    assert "in epoch" in done.err
    assert "at learning rate 100" in done.err
    from safetensors import safe_open

    with safe_open(tmp_path / "outputs/mine/checkpoints/last.safetensors", "np") as file:
        for key in file.keys():  # noqa: SIM118
            assert np.isfinite(file.get_tensor(key)).all(), key


LONG = [*SETS, "--set", "training.epochs=150", "--set", "training.checkpoint_seconds=60",
        "--plots", "none"]  # fmt: skip


@pytest.fixture(scope="module")
def never_stopped(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The best weights of a training of 150 epochs."""
    home = tmp_path_factory.mktemp("whole")
    small_config(home)
    whole = nursery.run(["train", "my.yaml", *LONG, "-q"], home)
    assert whole.code == 0, whole.err
    return (home / "outputs/mine/checkpoints/best.safetensors").read_bytes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_a_resume_ends_the_same(
    tmp_path: Path, number: signal.Signals, code: int, never_stopped: bytes, nursery: Nursery
) -> None:
    small_config(tmp_path)
    words = ["train", "my.yaml", *LONG]
    child = nursery.start(words, tmp_path)
    log = tmp_path / "outputs" / "mine" / "train.log"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and "epoch 5:" in log.read_text()):
        time.sleep(0.002)
    os.kill(child, number)
    done = nursery.wait(child)
    assert done.code == code, done.err
    assert f"{number.name}: saved to outputs/mine in epoch" in done.err
    assert "Traceback" not in done.err
    resumed = nursery.run([*words, "--resume", "-q"], tmp_path)
    assert resumed.code == 0, resumed.err
    best = tmp_path / "outputs/mine/checkpoints/best.safetensors"
    assert best.read_bytes() == never_stopped
    with (tmp_path / "outputs/mine/metrics.csv").open() as stream:
        assert [row["epoch"] for row in csv.DictReader(stream)] == [str(k) for k in range(1, 151)]


def test_a_model_that_is_too_short_is_refused_before_anything_is_written(
    seqattn: Command, tmp_path: Path
) -> None:
    (tmp_path / "short.yaml").write_text(
        "name: short\nmodel: {kind: transformer, positions: learned, longest: 1}\n"
        "training: {teacher_forcing: {probability: 1.0}, epochs: 1}\n"
    )
    done = seqattn("train", "short.yaml")
    assert done.code == 2
    assert "model.longest is 1, but the data have sequences of 2 points" in done.err
    assert not (tmp_path / "outputs").exists()


def test_a_run_is_tested_on_sources_that_are_longer_than_those_of_its_training(
    seqattn: Command, tmp_path: Path
) -> None:
    (tmp_path / "long.yaml").write_text(
        "name: long\ndata: {kind: copy, symbols: 20, length: 4, min_length: 2, test_length: 9,"
        " min_test_length: 5, n_train: 20, n_validation: 10, n_test: 11}\n"
        "model: {kind: transformer, model_dim: 8, heads: 2, positions: learned, longest: 9}\n"
        "training: {teacher_forcing: {probability: 1.0}, epochs: 1}\n"
    )
    done = seqattn("train", "long.yaml")
    assert done.code == 2  # 9 symbols and the end
    assert "model.longest is 9, but the data have sequences of 10 points" in done.err
    longer = ("--set", "model.longest=10")
    assert seqattn("train", "long.yaml", *longer).code == 0
    summary = json.loads((tmp_path / "outputs/long/summary.json").read_text())
    assert len(summary["loss_by_step"]) == 10
    done = seqattn("evaluate", "outputs/long", "--json")
    assert json.loads(done.out)["loss"] == summary["test_loss"]
    more = seqattn("train", "long.yaml", *longer, "--set", "training.epochs=2", "--resume")
    assert more.code == 0, more.err
    done = seqattn("train", "long.yaml", *longer, "--set", "data.test_length=8", "--resume")
    assert done.code == 2
    assert "data.test_length: 9 -> 8" in done.err
