"""Errors in the data's units in summary.json, in every table and in the page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn import experiments
from seqattn.config import resolve
from seqattn.runs import RunFolder
from tests.conftest import Ended

Command = Callable[..., Ended]
CONFIG = """
name: {name}
data:
  kind: file
  path: my.csv
  series: null
  window: {{source: 14, target: 3}}
  split: {{by: time}}
model: {{hidden_dim: 4}}
training: {{epochs: 2}}
"""


def csv(columns: int, *, constant: bool = False) -> str:
    numbers = np.random.default_rng(1)
    wave = np.sin(2 * np.pi * np.arange(300) / 7)
    rows = ["step," + ",".join(f"f{i}" for i in range(columns))]
    for t in range(300):
        cells = [f"{10**i * (5 + wave[t] + 0.2 * numbers.normal()):.6g}" for i in range(columns)]
        if constant:
            cells[-1] = "3.5" if t < 210 else f"{numbers.normal():.4f}"
        rows.append(f"{t},{','.join(cells)}")
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs on one and on two features."""
    home = tmp_path_factory.mktemp("metrics")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for name, columns in (("one", 1), ("two", 2)):
            (home / "my.csv").write_text(csv(columns))
            (home / f"{name}.csv").write_text(csv(columns))
            (home / f"{name}.yaml").write_text(
                CONFIG.format(name=name).replace("my.csv", f"{name}.csv")
            )
            experiments.train_one(
                resolve(home / f"{name}.yaml").config, home / "outputs", plots=False
            )
    return home


@pytest.fixture
def home(trained: Path, tmp_path: Path) -> Path:
    """The same in the folder where commands run."""
    for path in trained.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / path.name)
    return tmp_path


def summary_of(home: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = RunFolder(home / "outputs" / name).read_summary()
    return found


def test_the_summary_has_the_errors_of_the_forecasts(home: Path) -> None:
    summary = summary_of(home, "two")
    metrics = summary["metrics"]
    assert (metrics["season"], metrics["season_origin"], metrics["notes"]) == (7, "found", [])
    assert metrics["mase_undefined"] == [None, None]
    names = {"this model", *summary["baselines"], *summary["fitted"]}
    assert metrics["errors"].keys() == names
    assert {"last source point", "drift", "seasonal naive (season 7, found)",
            "linear least squares (fitted)"} < names  # fmt: skip
    with np.load(home / "outputs/two/predictions.npz") as saved:
        errors = saved["forecast"] - saved["target"]
    mine = metrics["errors"]["this model"]
    assert mine["mae"] == pytest.approx(np.abs(errors).mean(axis=(0, 1)).tolist())
    assert mine["rmse"] == pytest.approx(np.sqrt(np.square(errors).mean(axis=(0, 1))).tolist())
    assert mine["rmse"] == pytest.approx(summary["rmse"]["this model"])
    values = np.loadtxt(home / "two.csv", delimiter=",", skiprows=1)[:210, 1:]
    scale = np.abs(values[7:] - values[:-7]).mean(axis=0)
    assert metrics["mase_scale"] == pytest.approx(scale.tolist())
    assert mine["mase"] == pytest.approx((mine["mae"] / scale).tolist())


def test_one_feature_is_one_table(seqattn: Command, home: Path) -> None:
    for words in (["train", "one.yaml", "--resume"], ["evaluate", "outputs/one"]):
        done = seqattn(*words)
        assert done.code == 0, done.err
        text = " ".join(done.out.split())
        for heading in ("MSE, scaled", "MAE, f0", "RMSE, f0", "MASE"):
            assert heading in done.out or heading.replace(" ", "") in done.out, (words, heading)
        assert "season 7" in text
        assert "MASE is the MAE over that of the seasonal naive forecast (season 7, found)" in text
        mae = summary_of(home, "one")["metrics"]["errors"]["drift"]["mae"][0]
        assert f"{mae:.4g}" in done.out


def test_two_features_have_a_table_each(seqattn: Command, home: Path) -> None:
    done = seqattn("evaluate", "outputs/two")
    assert done.code == 0, done.err
    for words in ("MASE, mean", "f0, in units of the data", "f1, in units of the data", "MAE, f1"):
        assert words in done.out
    assert "Its mean is over the features for which it is defined." in " ".join(done.out.split())
    errors = json.loads(seqattn("evaluate", "outputs/two", "--json").out)["metrics"]["errors"]
    expected = summary_of(home, "two")["metrics"]["errors"]
    for name, each in expected.items():
        assert errors[name]["mae"] == pytest.approx(each["mae"], rel=1e-6)


def test_the_page_shows_metrics(seqattn: Command, home: Path) -> None:
    done = seqattn("report", "outputs/two", "--no-live")
    assert done.code == 0, done.err
    page = (home / "outputs/two/report.html").read_text()
    assert "f1, in its own units" in page
    mase = summary_of(home, "two")["metrics"]["errors"]["seasonal naive (season 7, found)"]["mase"]
    assert f'<td class="number">{mase[1]:.4g}</td>' in page


def test_a_constant_feature_has_no_mase_and_says_why(seqattn: Command, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(csv(2, constant=True))
    (tmp_path / "c.yaml").write_text(CONFIG.format(name="constant"))
    done = seqattn("train", "c.yaml", "--plots", "none")
    assert done.code == 0, done.err
    metrics = summary_of(tmp_path, "constant")["metrics"]
    assert metrics["mase_scale"][1] is None
    assert metrics["errors"]["this model"]["mase"][1] is None
    assert metrics["errors"]["this model"]["mae"][1] > 0
    words = "MASE of f1 is undefined: the training series repeat exactly after 7 steps."
    assert words in " ".join(done.out.split())
    assert "undefined" in done.out


def test_made_sequences_have_no_units(attention_run: Path) -> None:
    assert "metrics" not in RunFolder(attention_run).read_summary()


@pytest.mark.parametrize("short", ["validation", "test"])
def test_a_part_too_short_for_the_season_found_leaves_the_row_out_of_both(
    seqattn: Command, tmp_path: Path, short: str
) -> None:
    numbers = np.random.default_rng(1)
    for part in ("train", "validation", "test"):
        rows = ["sequence,step,x"]
        for k in range(12):
            length = 8 if part == short and k == 3 else 40
            wave = np.sin(2 * np.pi * np.arange(length) / 7) + 0.1 * numbers.normal(size=length)
            rows += [f"{part}{k},{t},{wave[t]:.4f}" for t in range(length)]
        (tmp_path / f"{part}.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "c.yaml").write_text(
        "name: c\ndata: {kind: file, path: train.csv, validation_path: validation.csv, test_path:"
        " test.csv, target_length: 3}\nmodel: {hidden_dim: 4}\ntraining: {epochs: 1}\n"
    )
    done = seqattn("train", "c.yaml", "--plots", "none")
    assert done.code == 0, done.err
    summary = summary_of(tmp_path, "c")
    assert summary["metrics"]["season"] == 7
    assert summary["baselines"].keys() == summary["validation_baselines"].keys()
    assert not any("seasonal" in name for name in summary["baselines"])
    words = "No seasonal naive forecast: a source has only 5 points, the season 7."
    assert words in " ".join(done.out.split())
