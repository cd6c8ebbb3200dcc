"""Every verb on a run whose test part lacks a feature, a step and a whole sequence of its targets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.training import load_model
from tests.conftest import Ended

pytestmark = pytest.mark.usefixtures("untraced_graphs")

CONFIG = """
name: m
data:
  kind: file
  path: train.csv
  validation_path: validation.csv
  test_path: test.csv
  source_length: 4
  missing: interpolate
model: {hidden_dim: 4}
training: {epochs: 2, teacher_forcing: {probability: 1}}
"""


def write(name: str, n: int, lacks: Callable[[int, int, int], bool]) -> None:
    numbers = np.random.default_rng(n)
    rows = ["sequence,step,x,y"]
    for k in range(n):
        walk = numbers.normal(size=(8, 2)).cumsum(axis=0)
        for t in range(8):
            random = (t > 0) & (numbers.random(2) < 0.2)
            cells = ["" if random[j] or lacks(k, t, j) else f"{walk[t, j]:.4f}" for j in (0, 1)]
            rows.append(f"s{k},{t},{','.join(cells)}")
    Path(name).write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize(
    "model", ["{hidden_dim: 4}", "{kind: transformer, model_dim: 8, heads: 2}"]
)
def test_what_was_not_observed_is_marked(
    model: str, seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    write("train.csv", 40, lambda k, t, j: False)
    write("validation.csv", 10, lambda k, t, j: False)
    write("test.csv", 9, lambda k, t, j: t == 7 or (t >= 4 and (j == 1 or k == 0)))
    Path("c.yaml").write_text(CONFIG.replace("{hidden_dim: 4}", model))
    done = seqattn("train", "c.yaml")
    assert done.code == 0, done.err
    assert "not observed" in done.out
    summary = json.loads(Path("outputs/m/summary.json").read_text())
    assert summary["loss_by_step"][3] is None
    scale = load_model(Path("outputs/m/checkpoints/best.safetensors")).spec.target.scale
    with np.load("outputs/m/predictions.npz") as saved:
        squares = np.square((saved["forecast"] - saved["target"]) / scale)
        assert np.isnan(saved["target"][0]).all()
        assert np.isfinite(saved["forecast"]).all()
    assert summary["test_loss"] == pytest.approx(np.nanmean(squares))
    for name, errors in summary["rmse"].items():
        assert errors[0] > 0, name
        assert errors[1] is None, name
    for words in (
        ["evaluate"], ["evaluate", "--json"], ["evaluate", "--input", "test.csv"], ["doctor"],
        ["report"], ["explain", "--example", "0", "--step", "2"], ["plot-attention"], ["inspect"],
        ["predict", "--example", "0", "--attention-override", "uniform"],
        ["predict", "--output", "next.csv"],
    ):  # fmt: skip
        verb, *options = words
        done = seqattn(verb, "outputs/m", *options)
        assert done.code == 0, (words, done.err)
        assert "nan" not in done.out.lower(), words
    done = seqattn("train", "c.yaml", "--seeds", "2", "--name", "two", "--plots", "none")
    assert done.code == 0, done.err
    done = seqattn("report", "outputs/two")
    assert done.code == 0, done.err
    (alone,) = {line for line in Path("test.csv").read_text().splitlines() if line[:5] == "s0,4,"}
    assert alone == "s0,4,,"
    rows = [
        line for line in Path("test.csv").read_text().splitlines() if line[:3] in ("seq", "s0,")
    ]
    Path("one.csv").write_text("\n".join(rows) + "\n")
    done = seqattn("evaluate", "outputs/m", "--input", "one.csv")
    assert done.code == 3
    assert "one.csv has no target that was observed" in " ".join(done.err.split())
