"""Graphs of models with `model.skip: linear`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqattn.config import resolve
from seqattn.errors import UsageError
from seqattn.experiments import train_one
from seqattn.export import export
from seqattn.export.check import build_session, check_graphs, step_by_step
from seqattn.export.onnx import trace_graphs
from seqattn.models import FeatureSpec, Lengths, build_model
from seqattn.training import LoadedModel
from tests.export.test_export import FAR, MAX_DIFFERENCE, RELATIVE, trained_as

S, T = 7, 5
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"attention": None},
    "shift": {"attention": {"location": {"kind": "location_shift"}}, "input_feeding": True},
    "fast_weights": {"kind": "fast_weights"},
    "transformer": {
        "kind": "transformer", "model_dim": 22, "heads": 2, "layers": 2, "feedforward_dim": 13,
        "positions": "learned", "longest": 9,
    },
}  # fmt: skip


def trained_with_skip(kind: dict[str, Any], relative: bool) -> LoadedModel:
    """A model that has learned nothing, with numbers in what starts at zero."""
    trained = trained_as(kind, RELATIVE if relative else FAR)
    config = trained.config.model.model_copy(update={"skip": "linear"})
    model = build_model(config, FeatureSpec.of(trained.spec), 1, Lengths(S, T))
    numbers = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.uniform_(-0.3, 0.3, generator=numbers)
    whole = trained.config.model_copy(update={"model": config})
    return replace(trained, model=model, config=whole)


@pytest.mark.parametrize("name", KINDS)
def test_graphs_say_network_plus_skip(name: str) -> None:
    trained = trained_with_skip(KINDS[name], relative=name in ("plain", "transformer"))
    graphs = trace_graphs(trained, T)
    rows = check_graphs(graphs, trained, T, None, trained.model.max_length)
    assert len(rows) == 2
    for row in rows:
        assert row.largest <= MAX_DIFFERENCE, (row.graph, row.sources, row.differences)
    assert trained.model.skip is not None
    with torch.no_grad():  # the check sees a skip that is not the graphs'
        trained.model.skip.bias += 0.01
    assert not any(
        row.is_within_tolerance
        for row in check_graphs(graphs, trained, T, None, trained.model.max_length)
    )


def test_a_graph_has_no_number_for_what_the_map_has_no_weights_for() -> None:
    trained = trained_with_skip(KINDS["plain"], relative=False)
    graphs = trace_graphs(trained, T)
    given = {
        "source": np.random.default_rng(1).normal(size=(3, S, 2)),
        "source_lengths": np.array([S, S - 1, S], dtype=np.int64),
    }
    parts = build_session(graphs.encoder), build_session(graphs.step)
    forecast = step_by_step(*parts, given, T + 1, graphs.state)["forecast"]
    assert np.isfinite(forecast[[0, 2], :T]).all()
    assert np.isnan(forecast[1]).all()
    assert np.isnan(forecast[:, T:]).all()
    with pytest.raises(Exception, match="invalid dimensions"):
        build_session(graphs.encoder).run(None, {**given, "source": given["source"][:, 1:]})


def test_an_exported_run_refuses_other_lengths(tmp_path: Path) -> None:
    sets = ["data.n_train=12", "data.n_validation=6", "data.n_test=5", "training.epochs=1",
            "model.hidden_dim=4", "model.skip=linear", "name=small"]  # fmt: skip
    folder, _ = train_one(resolve(None, sets).config, tmp_path, plots=False)
    with pytest.raises(UsageError, match="forecast 2 steps and has weights for no more; 3"):
        export(folder.path, tmp_path / "onnx", steps=3)
    made = export(folder.path, tmp_path / "onnx")
    assert all(row.is_within_tolerance for row in made.rows)
    runner = [sys.executable, str(tmp_path / "onnx" / "run.py")]
    done = subprocess.run(runner, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sources = np.zeros((2, 2, 2))
    sources[1, 1] = np.nan
    np.save(tmp_path / "short.npy", sources)
    words = [*runner, str(tmp_path / "short.npy"), str(tmp_path / "out.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "takes sources of 2 points only" in done.stderr
    assert not (tmp_path / "out.npz").exists()
