"""Graphs of models with `data.normalize: instance` take and give the units of the data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seqattn import experiments
from seqattn.analysis.evaluation import free_run
from seqattn.config import resolve
from seqattn.data import Scaling, Sequences, Vectors
from seqattn.export import export
from seqattn.export.check import MAX_DIFFERENCE, build_session, check_graphs
from seqattn.export.graphs import FORECAST, LENGTHS, SOURCE
from seqattn.export.onnx import trace_graphs
from tests.export.test_export import FEATURES, MECHANISMS, TARGET_FEATURES, trained_as

INSTANCE = (
    Vectors(FEATURES, Scaling(np.zeros(2), np.array([300.0, 0.5]), instance=True)),
    Vectors(TARGET_FEATURES,
            Scaling(np.array([0.0, 7.0, 0.0]), np.array([0.5, 2.0, 300.0]), instance=True)),
)  # fmt: skip


@pytest.mark.parametrize(
    "name", ["plain", "additive input lstm", "fast_weights", "transformer learned post"]
)
def test_graphs_normalize_each_source(name: str) -> None:
    trained = trained_as(MECHANISMS[name], INSTANCE)
    graphs = trace_graphs(trained, 5)
    assert {"offset", "scale"} <= set(graphs.memory)
    for row in check_graphs(graphs, trained, 5, None, trained.model.max_length):
        assert row.largest <= MAX_DIFFERENCE, (row.graph, row.sources, row.differences)


def test_sources_of_any_level_and_size_are_forecast_alike() -> None:
    """Far levels, tiny sizes, constant features, and padding that is no number."""
    trained = trained_as({}, INSTANCE)
    graph = trace_graphs(trained, 3).free_running
    numbers = np.random.default_rng(4)
    source = numbers.normal(size=(5, 7, 2))
    source[1] = 1e7 + 1e-2 * source[1]
    source[2, :, 0] = 0.1
    source[3] *= 1e-12
    source[4, :, 1] = np.where(np.arange(7) % 2, 0.1 + 0.2, 0.3)
    lengths = np.array([7, 7, 7, 7, 5])
    source[4, 5:] = 0
    part = Sequences(
        source, lengths, np.zeros((5, 0, 3)), np.zeros(5, dtype=np.int64), FEATURES,
        tuple("abcde"), target_features=TARGET_FEATURES,
        source_space=INSTANCE[0], target_space=INSTANCE[1],
    )  # fmt: skip
    right = free_run(trained.model, part, 3).values
    padded = source.copy()
    padded[4, 5:] = np.nan
    session = build_session(graph)
    (found,) = session.run([FORECAST], {SOURCE: padded, LENGTHS: lengths})
    # The level of the second rounds off some 1e-7 of its size.
    assert np.abs((found - right) / part.target_unit()).max() < 1e-5
    (moved,) = session.run([FORECAST], {SOURCE: 7 * padded + 1000, LENGTHS: lengths})
    of_given = [0, 2]
    assert moved[0][:, of_given] - 1000 == pytest.approx(7 * found[0][:, of_given], rel=1e-4)


@pytest.mark.parametrize("normalize", ["instance", "global"])
def test_a_graph_of_a_run_with_filled_cells_gives_the_forecasts_of_the_run(
    normalize: str, tmp_path: Path
) -> None:
    numbers = np.random.default_rng(1)
    points = numbers.normal(size=(40, 9)).cumsum(axis=1)
    empty = numbers.random(points.shape) < 0.2
    empty[:, 0] = False
    rows = [f"s{k},{t + 1},{'' if empty[k, t] else points[k, t]}\n"
            for k in range(40) for t in range(9)]  # fmt: skip
    (tmp_path / "gaps.csv").write_text("sequence,step,x\n" + "".join(rows))
    config = resolve(None, [
        "name=run", "data.kind=file", f"data.path={tmp_path / 'gaps.csv'}", "data.source_length=6",
        f"data.normalize={normalize}", "data.missing=interpolate", "training.epochs=1",
    ]).config  # fmt: skip
    folder, _ = experiments.train_one(config, tmp_path, plots=False)
    out = tmp_path / "out"
    made = export(folder.path, out)
    assert made.rows and max(row.largest for row in made.rows) <= MAX_DIFFERENCE
    card = json.loads((out / "card.json").read_text())
    assert card["missing"] == "interpolate"
    for name, graph in card["graphs"].items():
        inputs = [one["name"] for one in graph["inputs"]]
        has_mask = normalize == "instance" and name != "step"
        assert ("source_observed" in inputs) is has_mask
    assert ("source_observed" in card["units"]) is (normalize == "instance")

    known = folder.read_predictions()
    assert not known["source_observed"].all()
    empty = np.where(known["source_observed"], known["source"], np.nan)
    np.save(tmp_path / "empty.npy", empty)
    for given, rows in ((folder.predictions, slice(None)),
                        (tmp_path / "empty.npy", known["source_observed"][:, -1, 0])):  # fmt: skip
        words = [sys.executable, out / "run.py", given, tmp_path / "found.npz"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found = np.load(tmp_path / "found.npz")["forecast"]
        np.testing.assert_allclose(found[rows], known["forecast"][rows], atol=1e-4)
    example = np.load(out / "example.npz")
    np.testing.assert_allclose(example["forecast"], known["forecast"][:4], atol=1e-5)
