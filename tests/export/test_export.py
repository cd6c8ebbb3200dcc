"""Runs for other programs: graphs against models, what is beside them, and who is refused."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy
import torch
from onnx import numpy_helper
from pydantic import TypeAdapter

from seqattn import export as exporting
from seqattn.analysis.evaluation import free_run
from seqattn.analysis.evaluation.load_run import open_run
from seqattn.config import Config, Model, resolve
from seqattn.data import DataSpec, Scaling, Sequences, Vectors
from seqattn.errors import CheckpointError, UsageError, install_command
from seqattn.experiments import train_many
from seqattn.export.check import MAX_DIFFERENCE, check_graphs
from seqattn.export.onnx import trace_graphs
from seqattn.export.quantization import quantize_int8
from seqattn.models import FeatureSpec, build_model
from seqattn.runs import RunFolder
from seqattn.training import LoadedModel
from tests.conftest import ROOT, Ended
from tests.project.test_docs import blocks

# Features that differ on both sides, far from 0 and 1, or taken from the last point on.
FEATURES, TARGET_FEATURES = ("a", "b"), ("b", "new", "a")
Spaces = tuple[Vectors, Vectors]
FAR = (
    Vectors(FEATURES, Scaling(np.array([1e6, -5.0]), np.array([300.0, 0.5]))),
    Vectors(TARGET_FEATURES, Scaling(np.array([-5.0, 7.0, 1e6]), np.array([0.5, 2.0, 300.0]))),
)
RELATIVE = (
    Vectors(FEATURES, Scaling(np.array([10.0, -0.1]), np.array([300.0, 0.5]), relative=True)),
    Vectors(TARGET_FEATURES,
            Scaling(np.array([-0.1, 7.0, 10.0]), np.array([0.5, 2.0, 300.0]), relative=True)),
)  # fmt: skip
SHIFT = {"kind": "location_shift", "shift_range": 3}
# Each mechanism once at least, together with others; uniform and the default are further below.
MECHANISMS: dict[str, dict[str, Any]] = {
    "plain": {"attention": None},
    "dot sparsemax two-way": {
        "bidirectional": True, "attention": {"score": "dot", "normalizer": "sparsemax"},
    },
    "entmax": {"attention": {"score": "dot", "normalizer": "entmax"}},
    "learned entmax heads": {
        "hidden_dim": 22,
        "attention": {"heads": 2, "normalizer": "entmax", "alpha": "learned"},
    },
    "general hard rnn input_feeding": {
        "cell": "rnn", "input_feeding": True,
        "attention": {"score": "general", "normalizer": "hard", "estimator": "reinforce"},
    },
    "additive input lstm": {
        "cell": "lstm", "context": "input", "attention": {"score": "additive"},
    },
    "cosine local heads readout": {
        "hidden_dim": 22, "readout": "tanh",
        "attention": {"score": "cosine", "heads": 2, "location": {"kind": "local", "window": 2}},
    },
    "deep lstm two-way shift heads": {
        "cell": "lstm", "layers": 2, "bidirectional": True, "hidden_dim": 22,
        "attention": {"score": "scaled_dot", "heads": 2, "location": SHIFT, "project_values": True},
    },
    "linear heads": {"hidden_dim": 22, "attention": {"score": "linear", "heads": 2}},
    "coverage heads": {"hidden_dim": 22, "attention": {"score": "coverage", "heads": 2}},
    "monotonic heads": {
        "hidden_dim": 22,
        "attention": {"heads": 2, "location": {"kind": "monotonic", "offset": 0.0}},
    },
    "as narrow as can be": {"hidden_dim": 1, "layers": 2, "attention": {"score": "general"}},
    "fast_weights": {"kind": "fast_weights"},
    "transformer": {
        "kind": "transformer", "model_dim": 22, "heads": 2, "layers": 2, "feedforward_dim": 13,
    },
    "transformer learned post": {
        "kind": "transformer", "model_dim": 11, "heads": 1, "layers": 1, "feedforward_dim": 13,
        "positions": "learned", "longest": 9, "norm": "post",
    },
    **{
        f"transformer {positions}": {
            "kind": "transformer", "model_dim": 12, "heads": 2, "layers": 1, "feedforward_dim": 13,
            "positions": positions,
        }
        for positions in ("relative", "alibi", "rotary")
    },
}  # fmt: skip
SETS = ["data.n_train=48", "data.n_validation=24", "data.n_test=12", "training.epochs=3",
        "model.hidden_dim=5", "name=small"]  # fmt: skip


def trained_as(model: dict[str, Any], spaces: Spaces = FAR) -> LoadedModel:
    """A model that has learned nothing, but has weights."""
    described = {"kind": "recurrent", "hidden_dim": 11} | model
    if described["kind"] == "transformer":
        del described["hidden_dim"]
    config = TypeAdapter[Any](Model).validate_python(described)
    spec = DataSpec(*spaces, 7, 5)
    made = build_model(config, FeatureSpec.of(spec), 1)
    training = {"teacher_forcing": {"probability": 1}}
    return LoadedModel(
        made, Config.model_validate({"model": config, "training": training}), spec, 1
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_graphs_say_what_the_model_says(name: str) -> None:
    spaces = (FAR, RELATIVE)[[*MECHANISMS].index(name) % 2]
    trained = trained_as(MECHANISMS[name], spaces)
    graphs = trace_graphs(trained, 5)
    rows = check_graphs(graphs, trained, 5, None, trained.model.max_length)
    assert len(rows) == 6
    kinds = {"forecast"} | ({"weights"} if name != "plain" else set())
    if "transformer" in name:
        kinds |= {"encoder_self", "decoder_self"}
    for row in rows:
        assert set(row.differences) == kinds
        assert row.largest <= MAX_DIFFERENCE, (row.graph, row.sources, row.differences)


def test_the_check_sees_a_wrong_weight() -> None:
    trained = trained_as({"attention": {"score": "uniform"}})
    graphs = trace_graphs(trained, 5)
    assert all(row.is_within_tolerance for row in check_graphs(graphs, trained, 5, None, None))
    for which, graph in (("free_running", graphs.free_running), ("encoder and step", graphs.step)):
        (bias,) = [t for t in every_tensor(graph.graph) if t.name.endswith("output.bias")]
        right = numpy_helper.to_array(bias)
        bias.CopyFrom(numpy_helper.from_array(right + np.float32(1e-4), bias.name))
        for row in check_graphs(graphs, trained, 5, None, None):
            assert row.is_within_tolerance == (row.graph != which)
        bias.CopyFrom(numpy_helper.from_array(right, bias.name))


def test_what_builds_up_is_held_against_the_models_own_noise() -> None:
    """Many steps of fast weights: more than 1e-5, and no more than float32 itself."""
    trained = trained_as({"kind": "fast_weights", "hidden_dim": 11})
    graphs = trace_graphs(trained, 40)
    rows = check_graphs(graphs, trained, 40, None, None)
    assert max(row.largest for row in rows) > MAX_DIFFERENCE
    assert all(row.is_within_tolerance for row in rows)


def every_tensor(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    """Of a graph and of those inside its loops."""
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [*graph.initializer, *(t for each in inner for t in every_tensor(each))]


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of squares of 2 or 3 points."""
    home = tmp_path_factory.mktemp("runs") / "small"
    config = resolve(None, [*SETS, "data.variable_length=true"]).config
    train_many([(config, RunFolder(home))], threads=1, plots=False)
    return home


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    output = run.parent / "exported"
    exporting.export(run, output, int8=True)
    return output


def test_what_an_export_leaves(exported: Path, run: Path) -> None:
    graphs = ("encoder", "step", "free_running")
    assert {path.name for path in exported.iterdir()} == {
        "card.json", "run.py", "example.npz",
        *(f"{name}.onnx" for name in graphs), *(f"{name}.int8.onnx" for name in graphs),
    }  # fmt: skip
    card = json.loads((exported / "card.json").read_text())
    assert card["features"] == ["x", "y"]
    assert card["steps"] == card["target_length"] == 2
    assert card["check"]["largest_difference"] <= MAX_DIFFERENCE
    losses = card["int8"]["test_loss"]
    summary = json.loads((run / "summary.json").read_text())
    assert losses["float32"] == pytest.approx(summary["test_loss"], rel=1e-5)
    assert losses["int8"] != losses["float32"]
    for name in graphs:
        session = onnxruntime.InferenceSession(exported / f"{name}.onnx")
        described = card["graphs"][name]
        for side, values in (
            ("inputs", session.get_inputs()), ("outputs", session.get_outputs()),
        ):  # fmt: skip
            assert [(v["name"], v["shape"]) for v in described[side]] == [
                (value.name, value.shape) for value in values
            ]
    step = {value["name"] for value in card["graphs"]["step"]["inputs"]}
    assert step == {"point", *card["memory"], *card["state"]}


def test_no_graph_says_where_it_was_made(exported: Path) -> None:
    for path in exported.glob("*.onnx"):
        raw = path.read_bytes()
        assert str(Path(__file__).parents[2]).encode() not in raw
        assert b"site-packages" not in raw
        assert b"stack_trace" not in raw


def test_the_same_run_is_exported_as_the_same_bytes(run: Path, exported: Path) -> None:
    again = run.parent / "again"
    exporting.export(run, again, check=False)
    for path in sorted(again.glob("*.onnx")):
        assert path.read_bytes() == (exported / path.name).read_bytes()
    assert "check" not in json.loads((again / "card.json").read_text())


def int8_weights(graph: onnx.GraphProto) -> Iterator[np.ndarray]:
    yield from (numpy_helper.to_array(each) for each in graph.initializer
                if each.data_type == onnx.TensorProto.INT8)  # fmt: skip
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from int8_weights(attribute.g)


def test_int8_weights_leave_room_for_the_sums_of_their_products(exported: Path) -> None:
    """Without VNNI instructions, sums of products with 8-bit weights overflow."""
    for name in ("encoder", "step", "free_running"):
        weights = [*int8_weights(onnx.load(exported / f"{name}.int8.onnx").graph)]
        sizes = [int(np.abs(each.astype(int)).max()) for each in weights if each.ndim == 2]
        assert sizes
        assert max(sizes) <= 64


def test_an_export_adds_no_log_handler(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime's quantization adds one, which prints the log of every later training."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    quantize_int8(onnx.load(exported / "step.onnx"))
    assert logging.getLogger().handlers == []


def test_onnx_runtime_writes_no_telemetry(run: Path, tmp_path: Path) -> None:
    """ONNX Runtime's telemetry leaves these files, and connects to a server."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home)}
    environment.pop("ORT_DISABLE_TELEMETRY", None)  # set when this process imported seqattn.export
    output = tmp_path / "exported"
    for command in (["-m", "seqattn", "export", run, "--output", output], [output / "run.py"]):
        subprocess.run([sys.executable, *map(str, command)], env=environment, check=True,
                       capture_output=True, cwd=ROOT)  # fmt: skip
    found = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert not {path for path in found if path == ".ses" or "onnxruntime" in path}


def test_the_runner_needs_no_torch(exported: Path, run: Path, tmp_path: Path) -> None:
    python = environment_of(tmp_path / "bare", "numpy", "onnxruntime")

    def in_it(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, *map(str, words)], capture_output=True, text=True,
                              timeout=60, check=False, cwd=tmp_path)  # fmt: skip

    for library in ("torch", "seqattn", "onnx"):
        assert "ModuleNotFoundError" in in_it("-c", f"import {library}").stderr
    shown = in_it(exported / "run.py")
    assert shown.returncode == 0, shown.stderr
    differences = re.findall(r"(\w+): \(4, .*, (\S+) from the example", shown.stdout)
    assert [name for name, _ in differences] == ["forecast", "weights"]
    assert all(float(number) <= MAX_DIFFERENCE for _, number in differences)

    source = np.array([[[0.1, 0.2], [0.3, -0.4]], [[-0.5, 0.6], [np.nan, np.nan]]])
    np.save(tmp_path / "sources.npy", source)
    forecast_run = in_it(exported / "run.py", tmp_path / "sources.npy", tmp_path / "forecast.npz")
    assert forecast_run.returncode == 0, forecast_run.stderr
    found = np.load(tmp_path / "forecast.npz")
    _, trained = open_run(run)
    part = Sequences(np.nan_to_num(source), np.array([2, 1]), np.zeros((2, 0, 2)),
                     np.zeros(2, dtype=np.int64), ("x", "y"), ("0", "1"))  # fmt: skip
    right = free_run(trained.model, part, 2)
    np.testing.assert_allclose(found["forecast"], right.values, atol=MAX_DIFFERENCE)
    np.testing.assert_allclose(found["weights"], right.maps["cross"], atol=MAX_DIFFERENCE)


def environment_of(home: Path, *wanted: str) -> Path:
    """A virtual environment with some installed packages and what they need, and nothing else."""
    venv.create(home, with_pip=False, symlinks=True)
    library = next(home.glob("lib/python*/site-packages"))
    names, todo = set[str](), [*wanted]
    while todo:
        name = todo.pop()
        if name in names:
            continue
        names.add(name)
        todo += [
            re.split(r"[^\w.-]", needed)[0]
            for needed in importlib.metadata.requires(name) or []
            if "extra ==" not in needed
        ]
    assert "torch" not in names
    for name in names:
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            if top != ".." and not (library / top).exists():
                (library / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 2]
                                           if len(file.parts) > 1 else Path(str(file.locate())))  # fmt: skip
    return home / "bin" / Path(sys.executable).name


def test_weights_for_other_frameworks(run: Path, seqattn: Callable[..., Ended]) -> None:
    done = seqattn("export", run, "--output", "plain", "--format", "safetensors")
    assert done.code == 0, done.err
    assert {path.name for path in Path("plain").iterdir()} == {
        "weights.safetensors", "config.yaml", "card.json",
    }  # fmt: skip
    tensors = safetensors.numpy.load_file(Path("plain/weights.safetensors"))
    _, trained = open_run(run)
    assert {name: list(array.shape) for name, array in tensors.items()} == json.loads(
        Path("plain/card.json").read_text()
    )["tensors"]
    for name, tensor in trained.model.state_dict().items():
        assert torch.equal(torch.from_numpy(tensors[name]), tensor)
    assert resolve(Path("plain/config.yaml")).config == trained.config


def test_no_export_says_where_data_lay(tmp_path: Path, seqattn: Callable[..., Ended]) -> None:
    rows = "".join(f"{k},{t},{k + t / 10}\n" for k in range(30) for t in range(4))
    (tmp_path / "secret.csv").write_text("sequence,step,x\n" + rows)
    sets = [f"data.path={tmp_path / 'secret.csv'}", "data.kind=file", "data.source_length=2",
            "training.epochs=1", "model.hidden_dim=3"]  # fmt: skip
    train_many([(resolve(None, sets).config, RunFolder(tmp_path / "r"))], threads=1, plots=False)
    assert seqattn("export", "r", "--output", "x", "--format", "safetensors").code == 0
    for path in Path("x").iterdir():
        assert b"secret" not in path.read_bytes(), path


def test_more_steps_than_were_trained(run: Path, seqattn: Callable[..., Ended]) -> None:
    done = seqattn("export", run, "--output", "long", "--steps", 8, "--int8")
    assert done.code == 0, done.err
    assert "free_running" in done.out
    assert "Test loss" not in done.out  # nobody knows the truth that far
    graph = onnx.load("long/free_running.onnx").graph
    assert graph.output[0].type.tensor_type.shape.dim[1].dim_value == 8


def test_an_export_is_replaced_only_with_overwrite(
    run: Path, exported: Path, seqattn: Callable[..., Ended]
) -> None:
    before = {path.name: path.read_bytes() for path in exported.iterdir()}
    refused = seqattn("export", run, "--output", exported, "--format", "safetensors")
    assert refused.code == 2
    assert "contains an export; --overwrite replaces it" in refused.err
    assert {path.name: path.read_bytes() for path in exported.iterdir()} == before

    assert seqattn("export", run, "--output", "x", "--format", "safetensors").code == 0
    done = seqattn("export", run, "--output", "x", "--format", "safetensors", "--overwrite", "-q")
    assert (done.code, done.out) == (0, "")
    Path("x/results.npz").write_text("mine")
    refused = seqattn("export", run, "--output", "x", "--overwrite")
    assert refused.code == 2
    assert "contains results.npz, which does not belong to an export" in refused.err
    assert Path("x/results.npz").read_text() == "mine"
    Path("x/results.npz").unlink()
    Path("link").symlink_to("x")
    assert seqattn("export", run, "--output", "link", "--format", "safetensors").code == 2
    done = seqattn("export", run, "--output", "link", "--format", "safetensors", "--overwrite")
    assert done.code == 0, done.err
    assert Path("link").is_symlink()
    assert Path("x/card.json").exists()
    Path("link").unlink()
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("years of work")
    refused = seqattn("export", run, "--output", "mine", "--overwrite")
    assert refused.code == 2
    assert "is not empty and not a seqattn export" in refused.err
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.tex"]
    assert sorted(path.name for path in Path().iterdir()) == ["mine", "x"]


def test_what_is_refused_leaves_nothing(
    run: Path, seqattn: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("")
    for words, code, message in (
        ((run, "--output", "file"), 2, "exists and is not a folder"),
        (("nowhere", "--output", "x"), 4, "no such run"),
        ((run, "--output", "x", "--format", "onx"), 2, "onnx"),
        ((run, "--output", "x", "--steps", "0"), 2, "steps"),
    ):
        refused = seqattn("export", *words)
        assert refused.code == code
        assert message in refused.err
    monkeypatch.setattr("seqattn.export.onnx.trace_graphs", lambda *_: untrue(run))
    with pytest.raises(CheckpointError, match="differ from the model: free_running on 12"):
        exporting.export(run, Path("x"))
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UsageError, match=re.escape(install_command("export"))):
        exporting.export(run, Path("x"))
    assert [path.name for path in Path().iterdir()] == ["file"]


def untrue(run: Path) -> Any:
    """Graphs of another seed."""
    _, trained = open_run(run)
    other = build_model(trained.config.model, FeatureSpec.of(trained.spec), 99)
    return trace_graphs(LoadedModel(other, trained.config, trained.spec, 1), 2)


def test_a_transformer_forecasts_no_further_than_its_positions(tmp_path: Path) -> None:
    sets = ["model.kind=transformer", "model.positions=learned", "model.longest=4", *SETS[:4],
            "training.teacher_forcing.probability=1"]  # fmt: skip
    home = tmp_path / "learned"
    train_many([(resolve(None, sets).config, RunFolder(home))], threads=1, plots=False)
    with pytest.raises(UsageError, match="has learned 4 positions"):
        exporting.export(home, tmp_path / "x", steps=5)
    assert not (tmp_path / "x").exists()
    exporting.export(home, tmp_path / "x", steps=4)


def test_the_loop_in_the_docs_runs(
    run: Path, exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks(ROOT / "docs" / "export.md", "python")
    monkeypatch.chdir(exported.parent)
    _, trained = open_run(run)
    numbers = np.random.default_rng(1)
    source, lengths = numbers.normal(size=(2, 3, 2)), np.array([3, 2])
    known: dict[str, Any] = {"source": source, "lengths": lengths}
    exec(compile(block, "docs/export.md", "exec"), known)
    part = Sequences(source, lengths, np.zeros((2, 0, 2)), np.zeros(2, dtype=np.int64),
                     ("x", "y"), ("0", "1"))  # fmt: skip
    right = free_run(trained.model, part, 20)
    np.testing.assert_allclose(
        known["made"]["next_point"], right.values[:, 19], atol=MAX_DIFFERENCE
    )
    assert capsys.readouterr().out.count("[[") >= 20
