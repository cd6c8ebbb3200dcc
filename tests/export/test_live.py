"""The live graph against the model: forecasts, weights, forced weights and intermediate results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray

from seqattn import experiments
from seqattn.analysis.evaluation import free_run
from seqattn.analysis.evaluation.load_run import open_run
from seqattn.config import resolve
from seqattn.data import Sequences
from seqattn.export.live import LiveGraph, attention_shape, flatten_parameters, trace_live
from seqattn.models import build_model
from seqattn.models.attention import Override
from seqattn.training import LoadedModel
from tests.export.test_export import FAR, MECHANISMS, RELATIVE, trained_as
from tests.models.numpy_reference import softmax_forward

Arrays = dict[str, NDArray[Any]]
NAMES = {"cross": "weights"}


def random_source(trained: LoadedModel, S: int) -> Sequences:
    spec = trained.spec
    scaler, rng = spec.vectors[0].scaling, np.random.default_rng(S)
    source = rng.normal(size=(1, S, len(scaler.shift))) * scaler.scale + scaler.shift
    return Sequences(
        source, np.array([S]), np.zeros((1, 0, len(spec.target_features))), np.array([0]),
        spec.source_features, ["x"], target_features=spec.target_features,
        source_space=spec.source, target_space=spec.target,
    )  # fmt: skip


def run(
    live: LiveGraph, trained: LoadedModel, part: Sequences, T: int, force: Any = np.nan
) -> Arrays:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(live.graph.SerializeToString(), options)
    layers, heads = attention_shape(trained)
    parameters = flatten_parameters(dict(trained.model.named_parameters()), live.shapes)
    inputs = {
        "source": part.source.astype(np.float64), "source_lengths": part.source_lengths,
        "parameters": parameters.numpy(), "steps": np.array(T),
    }  # fmt: skip
    if "force" in {value.name for value in session.get_inputs()}:
        rows = np.full((T, 1, layers, heads, part.source.shape[1]), np.nan, np.float32)
        rows[...] = force
        inputs["force"] = rows
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def of_model(trained: LoadedModel, part: Sequences, T: int, override: Any = None) -> Arrays:
    found = free_run(trained.model, part, T, override=override)
    return {"forecast": found.values} | {
        NAMES.get(kind, kind): weights for kind, weights in found.maps.items()
    }


def assert_same(found: Arrays, expected: Arrays, trained: LoadedModel, part: Sequences) -> None:
    unit = part.target_unit()
    for name, array in expected.items():
        scale = unit if name == "forecast" else 1.0
        assert found[name].shape == array.shape, name
        assert np.abs((found[name] - array) / scale).max() <= 1e-5, name


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_live_graph_equals_the_model(name: str) -> None:
    scaling = (FAR, RELATIVE)[[*MECHANISMS].index(name) % 2]
    trained = trained_as(MECHANISMS[name], scaling)
    live = trace_live(trained)
    part = random_source(trained, 6)
    found = run(live, trained, part, 5)
    assert_same(found, of_model(trained, part, 5), trained, part)

    # Other parameters, another source length and another number of steps in the same graph.
    torch.manual_seed(1)
    model = build_model(trained.config.model, trained.model.features, 7)
    other = LoadedModel(model.eval(), trained.config, trained.spec, 1)
    short = random_source(other, 3)
    again = run(live, other, short, 4)
    assert_same(again, of_model(other, short, 4), other, short)

    if trained.has_attention and trained.config.model.kind != "fast_weights":
        forced = np.zeros(6, np.float32)
        forced[2] = 1
        changed = run(live, trained, part, 5, forced)
        assert_same(changed, of_model(trained, part, 5, Override("one_hot", 2)), trained, part)
        one_row = np.full((5, 1, 1, 1, 6), np.nan, np.float32)
        one_row[2] = forced = np.eye(6, dtype=np.float32)[found["weights"][0, 0, 0, 2].argmin()]
        partly = run(live, trained, part, 5, one_row)
        assert (partly["weights"][:, :, :, 2] == forced).all()
        assert (partly["weights"][:, :, :, :2] == found["weights"][:, :, :, :2]).all()
        assert (partly["forecast"][:, :2] == found["forecast"][:, :2]).all()
        assert (partly["forecast"][:, 2] != found["forecast"][:, 2]).any()
        own = run(live, trained, part, 5, np.moveaxis(found["weights"], 3, 0))
        assert_same(own, found, trained, part)


@pytest.mark.parametrize("name", ["dot sparsemax two-way", "deep lstm two-way shift heads",
                                  "transformer", "fast_weights"])  # fmt: skip
def test_intermediate_results_add_up(name: str) -> None:
    trained = trained_as(MECHANISMS[name])
    part = random_source(trained, 6)
    found = run(trace_live(trained), trained, part, 5)
    traced = {key.removeprefix("trace/"): rows[0] for key, rows in found.items() if "trace/" in key}
    weights = found["weights"][0]  # (layers, A, T, S)
    if name == "fast_weights":
        strengths = traced["factors"][0, 0] * (traced["query"][0] @ traced["states"].T)
        assert np.abs(strengths - weights[0, 0]).max() <= 1e-5
        return
    context = weights @ traced["values"]
    assert np.abs(context - traced["context"]).max() <= 1e-5
    if name == "transformer":
        K = traced["keys"].shape[-1]
        scores = traced["query"] @ np.swapaxes(traced["keys"], -1, -2) / np.sqrt(K)
        assert np.abs(scores - traced["scores"]).max() <= 1e-5
        assert np.abs(softmax_forward(scores)[0] - weights).max() <= 1e-5
    if name == "dot sparsemax two-way":
        scores = traced["query"][0] @ traced["states"].T
        assert np.abs(scores - traced["scores"][0, 0]).max() <= 1e-5
        joined = np.concatenate([context[0, 0], traced["query"][0]], axis=1)
        assert np.abs(joined - traced["readout"]).max() <= 1e-5
        output = trained.model.output
        values = joined @ output.weight.detach().numpy().T + output.bias.detach().numpy()
        assert np.abs(values - traced["output"]).max() <= 1e-5


def test_a_graph_does_not_depend_on_the_graphs_before_it(tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    lines = [f"{k},{t},{(k + t * t) % 7}\n" for k in range(30) for t in range(8)]
    table.write_text("sequence,step,speed\n" + "".join(lines))
    small = ["training.epochs=1", "data.n_train=16", "data.n_validation=8", "data.n_test=8"]
    own = ["data.kind=file", f"data.path={table}", "data.source_length=5", "training.epochs=1"]
    sets = {
        "fixed": [*own, "model.hidden_dim=4", "model.skip=linear"],
        "varying": [*small, "data.kind=copy", "data.length=16"],
    }
    for name, values in sets.items():
        config = resolve(None, [*values, f"name={name}"]).config
        folder, _ = experiments.train_one(config, tmp_path, plots=False)
        _, trained = open_run(folder.path)
        graph = trace_live(trained)
    part = random_source(trained, 9)
    found = run(graph, trained, part, 16)
    assert_same(found, of_model(trained, part, 16), trained, part)
