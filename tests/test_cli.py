"""What a person types and what they get: files, words, exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from matplotlib.image import imread
from rich.cells import cell_len

from seqattn.analysis.comparison import tables
from seqattn.cli.result_tables import print_variants
from seqattn.config import resolve
from seqattn.runs import RunFolder
from seqattn.runs.storage import exclusive_lock, read_arrays
from seqattn.training import RunProgress
from tests.conftest import SMALL, Ended, fresh_process, tree
from tests.faults.nursery import Nursery

Command = Callable[..., Ended]
SETS = [word for override in SMALL for word in ("--set", override)]


def small_config(folder: Path, text: str = "name: mine\n") -> Path:
    file = folder / "my.yaml"
    file.write_text(text)
    return file


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# --- train --------------------------------------------------------------------------------------


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
    for words in ("this model, free running", "noise floor", "minus the source corner",
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
    assert "is trained to epoch 3 already" in done.err
    assert tree(tmp_path) == before
    done = seqattn(*words, "--resume", "--set", "seed=5", "--set", "training.epochs=9")
    assert done.code == 2
    assert "cannot be resumed with another config" in done.err
    assert "seed: 23 -> 5" in done.err
    assert "(harmless, and no reason to refuse: training.epochs: 3 -> 9)" in done.err
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


@pytest.mark.parametrize("width", [50, 60, 80, 200])
def test_a_table_of_variants_cuts_no_number(width: int, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    headings = ["variant", "median loss [95%]", "mean loss [95%]", "worst (seed)", "seconds"]
    cells = ["0.7574 [0.6510, 0.8069]", "0.7374 [0.6510, 0.8069]", "0.8069 (25)", "0.1"]
    names = ["score-additive_learning_rate-0.01_hidden-4", "dot"]
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(
        tables, "variant_table", lambda arms: (headings, [[name, *cells] for name in arms])
    )
    for shown in (names, names[:1]):
        print_variants("t", shown)  # type: ignore[arg-type]
        said = capsys.readouterr().out
        assert said.count(cells[0]) == len(shown)
        assert max(map(len, said.splitlines())) <= width
        assert (cells[2] in said) == (width > 50 or len(shown) == 1)
        assert (cells[1] in said) == (width >= (200 if len(shown) > 1 else 80))
    assert "dot" not in said
    alike = ["漢字" * 11 + last for last in "甲乙"]
    print_variants("t", alike)  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "甲" in said
    assert "乙" in said
    assert (alike[0] in said) == (width == 200)
    assert all(cell_len(line) <= width for line in said.splitlines())


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
    assert "training.epochs: 3 are done already, 2 are asked" in done.err
    assert tree(folder.path) == before
    done = seqattn(*words, "--resume", "--set", "training.epochs=4", "--set", "seed=23",
                   "--plots", "none")  # fmt: skip
    assert done.code == 0
    assert folder.read_summary()["epochs"] == 4
    assert tree(folder.path)["predictions.npz"] != before["predictions.npz"]


def test_a_name_of_digits_is_a_name(seqattn: Command, tmp_path: Path) -> None:
    assert (
        seqattn(
            "train", small_config(tmp_path), *SETS, "--name", "2024", "-q", "--plots", "none"
        ).code
        == 0
    )
    assert resolve(tmp_path / "outputs/2024/config.yaml").config.name == "2024"


def test_a_schedule_over_all_epochs_cannot_be_stretched(seqattn: Command, tmp_path: Path) -> None:
    words = ["train", small_config(tmp_path), *SETS, "-q", "--plots", "none",
             "--set", "training.learning_rate_schedule.kind=cosine"]  # fmt: skip
    assert seqattn(*words).code == 0
    done = seqattn(*words, "--resume", "--set", "training.epochs=9")
    assert done.code == 2
    assert "training.epochs: 3 -> 9, and training.learning_rate_schedule spans all" in done.err


def test_resume_without_a_checkpoint_starts_and_says_so(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("train", small_config(tmp_path), *SETS, "--resume", "--plots", "none")
    assert done.code == 0
    assert "There is no checkpoint to resume from yet: starting from the beginning" in done.err


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


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["train", "none.yaml"], 2, "none.yaml: no such file"),
        (["train", "."], 2, ".: is a directory"),
        (["train", "my.yaml", "--set", "model.hidden=3"], 2, "Did you mean model.hidden_dim?"),
        (["train", "my.yaml", "--name", "../up"], 2, '--set name="../up": name: may hold'),
        (["train", "my.yaml", "--name", "a/b"], 2, "name: may hold up to 100 letters"),
        (["train", "my.yaml", "--seed", "-1"], 2, "seed: must be at least 0"),
        (["train", "my.yaml", "--device", "cuda"], 2, "torch finds no GPU here"),
        (["train", "my.yaml", "--device", "tpu"], 2, "tpu"),
        (["train", "my.yaml", "--output-dir", "my.yaml"], 5, "my.yaml"),
        (["train", "my.yaml", "--threads", "0"], 2, "--threads"),
        (["train"], 2, "CONFIG"),
        (["trian"], 2, "train"),
        (["predict", "none"], 4, "none: no such run"),
        (["predict", "my.yaml"], 4, "my.yaml: is a truncated or corrupt checkpoint"),
        (["predict", "."], 4, "is not a run folder"),
        (["evaluate", "none"], 4, "none: no such run"),
        (["plot-attention", "none"], 4, "none: no such run"),
        (["config", "check", "none.yaml"], 2, "none.yaml: no such file"),
    ],
    ids=range(18),
)
def test_what_cannot_be_done_says_why_and_changes_nothing(
    seqattn: Command, tmp_path: Path, words: list[str], code: int, said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    small_config(tmp_path)
    before = tree(tmp_path)
    done = seqattn(*words)
    assert done.code == code, done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert tree(tmp_path) == before
    assert len(done.err.splitlines()) <= 6


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


# --- predict ------------------------------------------------------------------------------------

MY_CSV = "sequence,step,x,y\nfirst,1,-1,-1\nfirst,2,-1,1\nlonger,5,1,1\nlonger,6,1,-1\nlonger,7,-1,-1\nshort,0,1,1\n"


def test_predict_continues_my_sequences(
    seqattn: Command, attention_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV)
    before = tree(attention_run)
    done = seqattn("predict", attention_run, "--input", "my.csv")
    assert done.code == 0, done.err
    found = rows(done.out)
    assert list(found[0]) == ["sequence", "step", "x", "y"]
    assert [(row["sequence"], row["step"]) for row in found] == [
        ("first", "3"), ("first", "4"), ("longer", "8"), ("longer", "9"), ("short", "1"),
        ("short", "2"),
    ]  # fmt: skip
    assert tree(attention_run) == before
    alone = "".join(line + "\n" for line in MY_CSV.splitlines()[:3])
    (tmp_path / "one.csv").write_text(alone)
    one = rows(seqattn("predict", attention_run, "--input", "one.csv").out)
    for ours, theirs in zip(one, found[:2], strict=True):  # batch mates change nothing
        assert float(ours["x"]) == pytest.approx(float(theirs["x"]), abs=1e-6)


def test_predict_reads_standard_input(
    seqattn: Command, attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MY_CSV.encode())))
    done = seqattn("predict", attention_run, "--input", "-")
    assert done.code == 0, done.err
    assert len(rows(done.out)) == 6


def test_predict_in_every_format(seqattn: Command, attention_run: Path, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV)
    shown = rows(seqattn("predict", attention_run, "--input", "my.csv").out)
    values = np.array([[float(row["x"]), float(row["y"])] for row in shown]).reshape(3, 2, 2)
    for words in (("--output", "a.csv"), ("--format", "csv", "--output", "a")):
        assert seqattn("predict", attention_run, "--input", "my.csv", *words).code == 0
        assert rows((tmp_path / words[-1]).read_text()) == shown
    done = seqattn("predict", attention_run, "--input", "my.csv", "--format", "jsonl")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["id"] for line in lines] == ["first", "longer", "short"]
    np.testing.assert_allclose([line["forecast"] for line in lines], values)
    done = seqattn("predict", attention_run, "--input", "my.csv", "--output", "a.npz",
                   "--attention", "w.npz", "--steps", "5")  # fmt: skip
    assert done.code == 0
    arrays, weights = read_arrays(tmp_path / "a.npz"), read_arrays(tmp_path / "w.npz")
    np.testing.assert_allclose(arrays["forecast"][:, :2], values, atol=1e-6)
    assert arrays["forecast"].shape == (3, 5, 2)
    assert weights["weights"].shape == (3, 1, 1, 5, 3)
    assert np.isnan(weights["weights"][0, ..., 2]).all()
    assert np.isfinite(weights["weights"][1]).all()
    assert weights["ids"].tolist() == ["first", "longer", "short"]


def test_predict_an_example_is_the_saved_forecast(seqattn: Command, ragged_run: Path) -> None:
    saved = read_arrays(ragged_run / "predictions.npz")
    found = rows(seqattn("predict", ragged_run, "--example", "3").out)
    real = np.isfinite(saved["forecast"][3]).all(-1)
    values = np.array([[float(row["x"]), float(row["y"])] for row in found])
    np.testing.assert_allclose(values[real], saved["forecast"][3][real], atol=1e-6)
    assert found[0]["step"] == str(saved["source_lengths"][3] + 1)
    everything = rows(seqattn("predict", ragged_run).out)
    assert len(everything) == 24


def test_advice_is_what_can_be_followed(seqattn: Command, attention_run: Path) -> None:
    """A model of made sequences has no data.missing that could be set."""
    for text in ("sequence,step,x,y\na,1,1,1\na,3,1,1\n", "sequence,step,x,y\na,1,,1\n"):
        Path("my.csv").write_text(text)
        refused = seqattn("predict", attention_run, "--input", "my.csv")
        assert refused.code == 3
        assert "data.missing" not in refused.err


def test_the_last_checkpoint_can_be_named(seqattn: Command, attention_run: Path) -> None:
    last = attention_run / "checkpoints" / "last.safetensors"
    assert seqattn("predict", last, "--example", "0").code == 0
    assert seqattn("plot-attention", last, "--output", "last.svg").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--input", "none.csv"], 3, "none.csv: no such file"),
        (["--input", "empty.csv"], 3, "empty.csv: is empty"),
        (["--input", "nan.csv"], 3, "nan.csv: line 2, column 'y' is empty"),
        (
            ["--input", "gap.csv"],
            3,
            "gap.csv: line 3: step 3 follows step 1, but steps are 1 apart",
        ),
        (["--input", "column.csv"], 3, "column.csv: no column 'y'; found sequence, step, x"),
        (["--input", "."], 3, ".: is a directory"),
        (["--input", "my.csv", "--example", "1"], 2, "give one of them"),
        (["--example", "12"], 2, "--example 12: the run has test sequences 0 to 11"),
        (["--example", "-1"], 2, "the run has test sequences 0 to 11"),
        (["--format", "npz"], 2, "is binary and needs --output FILE.npz"),
        (["--format", "parquet"], 2, "is binary and needs --output FILE.parquet"),
        (["--output", "a.xlsx"], 2, "its suffix is none of .csv, .tsv, .jsonl, .npz"),
        (["--attention", "w.csv"], 2, "weights are written as NPZ"),
        (["--steps", "0"], 2, "--steps"),
        (["--output", "my.csv/x.csv"], 5, "my.csv"),
        (["--output", "."], 5, "Is a directory"),
        (["--input", "large.csv"], 3, "large.csv: line 2, column 'x' is 1e+39; values up to 1e+15"),
    ],
    ids=range(17),
)
def test_what_cannot_be_predicted(
    seqattn: Command, attention_run: Path, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    head = "sequence,step,x,y\n"
    for name, text in {
        "my": MY_CSV, "empty": "", "nan": head + "a,1,1,nan\n", "gap": head + "a,1,1,1\na,3,1,1\n",
        "column": "sequence,step,x\na,1,1\n", "large": head + "a,1,1e39,1\n",
    }.items():  # fmt: skip
        (tmp_path / f"{name}.csv").write_text(text)
    before = tree(tmp_path)
    done = seqattn("predict", attention_run, *words)
    assert done.code == code, done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert tree(tmp_path) == before


def test_notes_on_columns_go_to_stderr(
    seqattn: Command, attention_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "my.csv").write_text("sequence,step,lon,lat\na,1,0,1\n")
    done = seqattn("predict", attention_run, "--input", "my.csv")
    assert done.out.startswith("sequence,step,lon,lat\n")
    assert "my.csv: lon, lat are read as x, y, in this order." in done.err


def test_a_reader_that_leaves_is_no_error(attention_run: Path, tmp_path: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -m seqattn predict {attention_run} --steps 1000 | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path,
                          check=False)  # fmt: skip
    assert done.stdout == "sequence,step,x,y\n"
    assert done.stderr == ""
    assert done.returncode == 141  # by SIGPIPE, as any filter


# --- checkpoints --------------------------------------------------------------------------------


@pytest.fixture
def copied(attention_run: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(attention_run, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_broken_checkpoints_end_with_4(seqattn: Command, copied: RunFolder, tmp_path: Path) -> None:
    import pickle

    whole = copied.best.read_bytes()
    for content, words in (
        (whole[:-5], "is a truncated or corrupt checkpoint"),
        (b"", "is a truncated or corrupt checkpoint"),
        (pickle.dumps({"a": 1}), "pickles are never opened"),
    ):
        copied.best.write_bytes(content)
        before = tree(tmp_path)
        for command in ("predict", "evaluate"):
            done = seqattn(command, "run")
            assert done.code == 4
            assert words in done.err
            assert "Traceback" not in done.err
        assert tree(tmp_path) == before


def test_a_checkpoint_of_other_shapes_ends_with_4(
    seqattn: Command, copied: RunFolder, tmp_path: Path
) -> None:
    text = copied.config.read_text()
    copied.config.write_text(text.replace("hidden_dim: 5", "hidden_dim: 6"))
    done = seqattn("predict", "run")
    assert done.code == 4
    assert "is a checkpoint of another model than its folder's" in done.err
    assert "model.hidden_dim: config.yaml has 6, checkpoint has 5" in done.err
    copied.config.write_text("name: [")
    done = seqattn("predict", "run")
    assert done.code == 4
    assert "its config cannot be read" in done.err


def test_a_broken_last_checkpoint_is_not_resumed(
    seqattn: Command, copied: RunFolder, tmp_path: Path
) -> None:
    (tmp_path / "outputs").mkdir()
    shutil.move(copied.path, tmp_path / "outputs" / "run")
    folder = RunFolder(tmp_path / "outputs" / "run")
    folder.last.write_bytes(folder.last.read_bytes()[:-1])
    folder.previous.unlink(missing_ok=True)
    before = tree(tmp_path)
    done = seqattn("train", folder.config, "--name", "run", "--resume")
    assert done.code == 4
    assert "last.safetensors: is a truncated or corrupt checkpoint" in done.err
    assert "No checkpoint is left to go on from" in done.err
    assert tree(tmp_path) == before


def test_the_last_but_one_is_gone_on_from(seqattn: Command, tmp_path: Path) -> None:
    """With the reason said, and to the same end."""
    words = ["train", small_config(tmp_path), *SETS, "--plots", "none",
             "--set", "training.checkpoint_seconds=0"]  # fmt: skip
    assert seqattn(*words).code == 0
    folder = RunFolder(tmp_path / "outputs" / "mine")
    whole, best = folder.last.read_bytes(), folder.best.read_bytes()
    assert folder.previous.read_bytes() != whole
    for damage in ("cut", "gone"):
        if damage == "cut":
            folder.last.write_bytes(whole[:-1])
        else:
            folder.last.unlink()
        folder.best.unlink()
        done = seqattn(*words, "--resume")
        assert done.code == 0, done.err
        said = (
            "is a truncated or corrupt checkpoint"
            if damage == "cut"
            else "last.safetensors: is gone"
        )
        assert "Skipped checkpoint: " in done.err
        assert said in done.err
        assert said in folder.log.read_text()
        assert folder.best.read_bytes() == best
    for file in (folder.last, folder.previous):
        file.unlink()
    done = seqattn(*words, "--resume")
    assert done.code == 4
    assert "metrics.csv tells of epochs, but their checkpoints are gone" in done.err


def test_one_writer_a_folder(seqattn: Command, tmp_path: Path) -> None:
    """Refused with who holds it; a reader is not."""
    words = ["train", small_config(tmp_path), *SETS, "-q", "--plots", "none"]
    assert seqattn(*words).code == 0
    before = tree(tmp_path / "outputs")
    with exclusive_lock(tmp_path / "outputs" / "mine"):
        for flag in ("--resume", "--overwrite"):
            done = seqattn(*words, flag)
            assert done.code == 6
            assert f"outputs/mine: process {os.getpid()} on " in done.err
        assert seqattn("predict", "outputs/mine", "--example", "0").code == 0
    after = tree(tmp_path / "outputs")
    assert {k: v for k, v in after.items() if k != "mine/.lock"} == {
        k: v for k, v in before.items() if k != "mine/.lock"
    }
    assert seqattn(*words, "--overwrite").code == 0


def test_what_a_killed_start_leaves_is_no_hindrance(seqattn: Command, tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "mine"
    folder.mkdir(parents=True)
    for name in (".lock", ".config.yaml.99999999.part", "config.yaml"):
        (folder / name).write_text("")
    assert seqattn("train", small_config(tmp_path), *SETS, "-q", "--plots", "none").code == 0
    assert not list(folder.glob(".*.part"))
    (folder / ".lock").unlink()
    (folder / "environment.json").unlink()  # without a lock the files are somebody's
    done = seqattn("train", small_config(tmp_path), *SETS, "-q", "--plots", "none")
    assert done.code == 2
    assert "is not a run folder" in done.err


def test_what_would_not_fit_is_refused_beforehand(
    seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(tmp_path, "data: {kind: copy, length: 9999, n_train: 1000000}\n")
    done = seqattn("train", config)
    assert done.code == 2
    assert re.search(r"would take about [\d.]+ GiB \([\d.]+ GiB for the sequences", done.err)
    assert not (tmp_path / "outputs").exists()
    monkeypatch.setattr(
        "seqattn.runs.storage.limits.shutil.disk_usage", lambda place: mock.Mock(free=50_000)
    )
    done = seqattn("train", small_config(tmp_path), *SETS)
    assert done.code == 5
    assert "0.0 MiB free, but two checkpoints of each run need" in done.err
    assert not (tmp_path / "outputs").exists()


def test_a_save_that_fails_is_loud(
    seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the training goes on beside it."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seqattn.experiments.folder_session.save_state", refuse)
    done = seqattn("train", small_config(tmp_path), *SETS, "-q")
    assert done.code == 5
    assert "No space left on device" in done.err
    assert "--resume goes on from them" in done.err


def test_inspect_shows_a_checkpoint_without_a_model(
    seqattn: Command, attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqattn.training.checkpoints.build_model", None)
    last = attention_run / "checkpoints" / "last.safetensors"
    done = seqattn("inspect", last)
    assert done.code == 0, done.err
    for words in (f"last.safetensors: valid, {last.stat().st_size:,} bytes", "kind: training",
                  "version: 3", "model.hidden_dim: 5", "optimizer.output.bias.exp_avg_sq",
                  "trained on: x, y (at most 2 steps) -> x, y (at most 2 steps)"):  # fmt: skip
        assert words in done.out
    assert not re.search("^ *name:", done.out, re.MULTILINE), "no checkpoint has one"
    described = json.loads(seqattn("inspect", attention_run, "--json").out)
    assert described["kind"] == "model"
    assert described["layout"]["features"] == ["x", "y"]
    sizes = {row["name"]: row["shape"] for row in described["tensors"]}
    assert sizes["output.weight"] == [2, 10]
    done = seqattn("inspect", small_config(Path.cwd()))
    assert done.code == 4


def test_verify_resume_names_the_first_tensor_that_differs(
    seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["verify-resume", small_config(tmp_path), *SETS, "--stops", "3"]
    done = seqattn(*words)
    assert done.code == 0, done.err
    assert re.search(
        r"Stopped after steps \d+, \d+, \d+ of 9 and resumed, the training ends bit", done.out
    )
    assert "Stopped after step" in done.err
    begin = RunProgress.__post_init__

    def forgets(run: RunProgress) -> None:
        if run.checkpoint is not None:
            run.checkpoint.loss_sum += 1
        begin(run)

    monkeypatch.setattr(RunProgress, "__post_init__", forgets)
    done = seqattn(*words, "-q")
    assert done.code == 4
    assert "the uninterrupted one: history differs by up to" in done.err
    assert tree(tmp_path).keys() == {"my.yaml"}


def test_one_step_cannot_be_stopped_in_between(seqattn: Command, tmp_path: Path) -> None:
    words = ["verify-resume", small_config(tmp_path), *SETS, "--set", "training.epochs=1"]
    done = seqattn(*words, "--set", "training.batch_size=48")
    assert done.code == 2
    assert "A training of one step cannot be stopped in between" in done.err
    assert "Stopped after" not in done.out


# --- evaluate -----------------------------------------------------------------------------------


def test_evaluate_prints_one_table(seqattn: Command, attention_run: Path) -> None:
    done = seqattn("evaluate", attention_run)
    assert done.code == 0
    for words in ("free running", "teacher-forced", "free running, target step 2", "noise floor",
                  "last source point", "mean of the training targets", "above the floor"):  # fmt: skip
        assert words in done.out


def test_evaluate_for_machines_agrees_with_the_summary(
    seqattn: Command, attention_run: Path
) -> None:
    found: dict[str, Any] = json.loads(seqattn("evaluate", attention_run, "--json").out)
    summary = json.loads((attention_run / "summary.json").read_text())
    assert found["loss"] == pytest.approx(summary["test_loss"], rel=1e-6)
    assert found["baselines"] == pytest.approx(summary["baselines"])
    assert found["above_floor"] == pytest.approx(found["loss"] - found["noise_floor"])


def test_evaluate_on_my_own(seqattn: Command, attention_run: Path, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV.rsplit("short", 1)[0] + "first2,1,0,0\nfirst2,2,0,0\n")
    found = json.loads(seqattn("evaluate", attention_run, "--input", "my.csv", "--json").out
                       or "{}")  # fmt: skip
    assert found["noise_floor"] is None
    # "longer" gives 2 points and has 1 to say; the others give 1 and have 1.
    assert found["baselines"]["last source point"] == pytest.approx((0 + 4 + 4 + 0 + 0 + 0) / 6)
    (tmp_path / "one.csv").write_text(MY_CSV)
    done = seqattn("evaluate", attention_run, "--input", "one.csv")
    assert done.code == 3
    assert "sequence 'short' has one point" in done.err


@pytest.mark.parametrize("length", [2, 3, 4, 5, 9])
def test_evaluate_on_sequences_of_any_length(
    seqattn: Command, attention_run: Path, tmp_path: Path, length: int
) -> None:
    rows_of = [f"a,{step},{step % 2},{step // 2}" for step in range(length)]
    (tmp_path / "my.csv").write_text("sequence,step,x,y\n" + "\n".join(rows_of) + "\n")
    done = seqattn("evaluate", attention_run, "--input", "my.csv", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["loss_by_step"]) == max(1, length - 2)
    assert bool(found["fitted"]) == (length == 4)  # the map fits the trained lengths only


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


KINDS = {
    "fast_weights": "model={kind: fast_weights}",
    "transformer": "model={kind: transformer, model_dim: 8, heads: 2}",
    "hard": "model.attention={normalizer: hard, estimator: reinforce, heads: 2}",
}


@pytest.mark.parametrize("name", KINDS)
def test_every_verb_knows_every_kind(seqattn: Command, tmp_path: Path, name: str) -> None:
    """Train, stop and go on, predict, evaluate, plot, explain: on sources of unequal length."""
    sets = ["--set", KINDS[name], "--set", "data.n_train=16", "--set", "data.variable_length=true",
            "--set", "data.n_validation=8", "--set", "data.n_test=12",
            "--set", "training.teacher_forcing.probability=1", "--name", name]  # fmt: skip
    (tmp_path / "c.yaml").write_text("training: {epochs: 2}\n")
    (tmp_path / "my.csv").write_text(MY_CSV)
    done = seqattn("train", "c.yaml", *sets, "--name", "alone")
    assert done.code == 0, done.err
    assert (tmp_path / "outputs/alone/attention.png").exists()
    assert "seqattn plot-attention outputs/alone" in done.out
    done = seqattn("train", "c.yaml", *sets, "--seeds", "2", "--plots", "none")
    assert done.code == 0, done.err
    run = tmp_path / "outputs" / name / "seed-23"
    arrays = read_arrays(run / "attention.npz")
    layers, heads = {"fast_weights": (1, 1), "transformer": (2, 2), "hard": (1, 2)}[name]
    assert arrays["weights"].shape[1:3] == (layers, heads)
    assert np.isnan(arrays["weights"]).any()
    assert str(arrays["meaning"]) == ("strength" if name == "fast_weights" else "distribution")
    if name == "transformer":
        looked_back = arrays["decoder_self"]
        T = looked_back.shape[-1]
        assert np.isnan(looked_back[..., ~np.tri(T, dtype=bool)]).all()
        lengths = arrays["source_lengths"]
        for k, row in enumerate(arrays["encoder_self"]):
            real = np.isfinite(row[0, 0])
            assert real.sum() == lengths[k] ** 2
            np.testing.assert_allclose(np.nansum(row, axis=-1)[..., : lengths[k]], 1, atol=1e-5)
    for words in (
        ["train", "c.yaml", *sets, "--seeds", "2", "--set", "training.epochs=3", "--resume",
         "--plots", "none"],
        ["predict", run, "--input", "my.csv", "--attention", "w.npz"],
        ["evaluate", run],
        ["plot-attention", run, "--examples", "3"],
        ["plot-attention", run, "--input", "my.csv", "--steps", "4", "--layer", "0"],
        ["explain", run, "--example", "1"],
    ):  # fmt: skip
        done = seqattn(*words)
        assert done.code == 0, (words, done.err)
    for words, said in (
        (["--layer", "7"], "--layer 7: this model has"),
        (["--head", "7"], "--head 7: this model has"),
        (["--kind", "decoder_self"], "--kind decoder_self: this model has cross"),
    ):
        done = seqattn("plot-attention", run, *words)
        expected = 0 if name == "transformer" and "--kind" in words else 2
        assert done.code == expected
        assert expected == 0 or said in done.err
    assert (run / "attention-decoder_self.png").exists() == (name == "transformer")
    before = (run / "attention.png").read_bytes()
    done = seqattn("plot-attention", run, "--layer", "0", "--head", "0")
    assert done.code == 0
    assert (run / "attention-layer0-head0.png").exists()
    assert (run / "attention.png").read_bytes() == before
    done = seqattn("plot-attention", run, "--examples", "100")
    cut = {"transformer": "Drew 5 of 12 sequences, with 4 panels each.",
           "hard": "Drew 10 of 12 sequences, with 2 panels each."}.get(name, "")  # fmt: skip
    assert cut in done.err
    assert ("--layer" in done.err) == bool(cut)


def test_predict_keeps_no_weights_in_memory(
    seqattn: Command, attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqattn.analysis import evaluation

    kept: list[bool] = []
    original = evaluation.free_run

    def watched(*words: Any, **options: Any) -> Any:
        found = original(*words, **options)
        kept.append(bool(found.maps))
        return found

    monkeypatch.setattr(evaluation, "free_run", watched)
    assert seqattn("predict", attention_run).code == 0
    assert seqattn("evaluate", attention_run).code == 0
    assert seqattn("predict", attention_run, "--attention-override", "uniform").code == 0
    assert kept == [False] * 3  # and none to evaluate, which keeps no forecasts either
    assert seqattn("predict", attention_run, "--attention", "w.npz").code == 0
    assert kept == [False] * 4  # these went to the file as they came
    assert Path("w.npz").is_file()


def test_an_explanation_is_never_shortened(
    seqattn: Command, attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    done = seqattn("explain", attention_run)
    assert done.code == 0
    assert "\u2026" not in done.out


# --- plot-attention -----------------------------------------------------------------------------


def test_a_picture_is_drawn_again_without_torch(attention_run: Path, tmp_path: Path) -> None:
    before = (attention_run / "attention.png").read_bytes()
    (attention_run / "attention.png").unlink()
    code = (
        "import sys\nsys.argv = ['seqattn', 'plot-attention', sys.argv[1]]\n"
        "from seqattn.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'matplotlib' in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(attention_run)], check=True, cwd=tmp_path)
    assert (attention_run / "attention.png").read_bytes() == before


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_of_my_own_sequences(
    seqattn: Command, attention_run: Path, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV)
    done = seqattn("plot-attention", attention_run, "--input", "my.csv", "--examples", "2",
                   "--steps", "4", "--output", f"where.{ending}")  # fmt: skip
    assert done.code == 0, done.err
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert (tmp_path / f"where.{ending}").read_bytes().startswith(starts[ending])


def test_pictures_that_cannot_be_drawn(
    seqattn: Command, attention_run: Path, tmp_path: Path
) -> None:
    before = tree(attention_run)
    for words, said in (
        (["--output", "a.gif"], "End the file name in .png, .svg, .pdf"),
        (["--output", "a"], "the format of the picture is unknown"),
        (["--steps", "3"], "--steps needs --input"),
        (["--examples", "0"], "--examples"),
    ):
        done = seqattn("plot-attention", attention_run, *words)
        assert done.code == 2
        assert said in done.err
    assert tree(attention_run) == before
    assert not tree(tmp_path)


# --- config -------------------------------------------------------------------------------------


def test_config_check(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("config", "check", small_config(tmp_path, "seed: 3\nmodel: {hidden_dim: 4}\n"))
    assert done.code == 0
    assert "valid. It sets 2 of " in done.out
    done = seqattn("config", "check", small_config(tmp_path, "sed: 3\nmodel: {hidden_dim: a}\n"))
    assert done.code == 2
    assert "2 mistakes" in done.err
    assert "Did you mean seed?" in done.err


def test_config_show_loads_again(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("config", "show", small_config(tmp_path, "seed: 3\n"), "--set", "name=other")
    (tmp_path / "again.yaml").write_text(done.out)
    assert resolve(tmp_path / "again.yaml").config.seed == 3
    assert "my.yaml:1" in done.out
    assert "# --set name=other" in done.out
    assert "# default" in done.out
    assert seqattn("config", "show").code == 0


def test_config_schema(seqattn: Command, tmp_path: Path) -> None:
    shown = seqattn("config", "schema").out
    assert json.loads(shown)["properties"]["training"]
    assert seqattn("config", "schema", "--output", "s.json").code == 0
    assert (tmp_path / "s.json").read_text() == shown


def test_nothing_of_a_file_steers_the_terminal(seqattn: Command, tmp_path: Path) -> None:
    text = '"a\\e[31m": 1\nname: "x\\e]0;evil\\a [bold]"\n'
    done = seqattn("config", "check", small_config(tmp_path, text))
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\\x1b[31m" in done.err


# --- the door -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["train"], ["predict"], ["plot-attention"], ["evaluate"], ["config", "check"],
     ["config", "show"], ["config", "schema"]],
)  # fmt: skip
def test_every_verb_shows_an_example(seqattn: Command, words: list[str]) -> None:
    done = seqattn(*words, "--help")
    assert done.code == 0
    assert f"Example: seqattn {' '.join(words)}" in done.out.replace("\n  ", " ")


def test_version(seqattn: Command) -> None:
    import seqattn as package

    assert seqattn("--version").out == f"seqattn {package.__version__}\n"


def test_works_without_a_home_and_in_any_locale(attention_run: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "LANG", "LC_ALL")}
    done = subprocess.run(
        [sys.executable, "-m", "seqattn", "evaluate", str(attention_run)], cwd=tmp_path,
        capture_output=True, env={**environment, "LC_ALL": "C"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
