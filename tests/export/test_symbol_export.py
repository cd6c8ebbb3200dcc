"""Exports of models of symbols, and `run.py`, which answers lines of text without torch."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from seqattn.analysis.evaluation.texts import translate
from seqattn.config import resolve
from seqattn.data import Space
from seqattn.data.tokens import SPECIAL, UNKNOWN, Tokens
from seqattn.errors import UsageError
from seqattn.experiments import train_many
from seqattn.export import export, text_runner
from seqattn.export.check import MAX_DIFFERENCE, check_graphs
from seqattn.export.kinds import export_kind
from seqattn.export.onnx import Graphs, trace_graphs
from seqattn.models.decoding import Decoding
from seqattn.runs import RunFolder
from seqattn.training import LoadedModel
from tests.conftest import Ended
from tests.export.test_export import FAR, environment_of, every_tensor
from tests.export.test_live_symbols import LEARNED, model_of

SETS = ["data.kind=dates", "data.n_train=300", "data.n_validation=20", "data.n_test=30",
        "model.hidden_dim=12", "model.attention={score: additive}", "training.epochs=2",
        "training.learning_rate=0.01", "training.teacher_forcing.probability=1"]  # fmt: skip
LINES = "9 march 2014\n31.12.1999\n3 juné 2020\n"
SUBWORDS = Tokens(
    (*SPECIAL, "▁", *"abcdé", "ab", "▁ab", "cd", "▁a", "abcd", "bc"), "bpe", lowercase=True
)  # fmt: skip
WORDS = Tokens.of_symbols(["the", "cat", "sat", "on"], "word")
STEPS = 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("runs") / "dates"
    train_many([(resolve(None, SETS).config, RunFolder(home))], threads=1, plots=False)
    return home


@pytest.fixture(scope="module")
def exported(run: Path) -> Path:
    result = export(run, run.parent / "exported", int8=True)
    assert {key for row in result.rows for key in row.differences} == {
        "forecast", "logits", "weights",
    }  # fmt: skip
    return result.path


def test_what_an_export_of_symbols_leaves(exported: Path, run: Path) -> None:
    graphs = ("encoder", "step", "free_running")
    assert {path.name for path in exported.iterdir()} == {
        "card.json", "run.py", "example.npz", "source_vocabulary.json", "target_vocabulary.json",
        *(f"{name}.onnx" for name in graphs), *(f"{name}.int8.onnx" for name in graphs),
    }  # fmt: skip
    card = json.loads((exported / "card.json").read_text())
    assert card["check"]["largest_difference"] <= MAX_DIFFERENCE
    assert card["longest_output"] == 2 * card["target_length"] == 2 * card["steps"]
    shapes = {
        name: {value["name"]: (value["type"], value["shape"]) for value in graph[side]}
        for name, graph in card["graphs"].items() for side in ("inputs", "outputs")
    }  # fmt: skip
    T, V = card["steps"], 15
    assert shapes["free_running"]["forecast"] == ("int64", ["N", T, 1])
    assert shapes["free_running"]["logits"] == ("float", ["N", T, V])
    assert shapes["step"]["logits"] == ("float", ["N", V])
    assert card["graphs"]["encoder"]["inputs"][0] == {
        "name": "source", "type": "int64", "shape": ["N", "S", 1],
    }  # fmt: skip
    errors = card["int8"]["test_symbol_error_rate"]
    measured = json.loads((run / "summary.json").read_text())["measures"]
    assert errors["float32"] == pytest.approx(measured["symbol_error_rate"])
    vocabulary = json.loads((exported / card["vocabularies"][1]).read_text())
    assert vocabulary == {
        "unit": "character", "lowercase": False, "symbols": [*SPECIAL, *"-0123456789"],
    }  # fmt: skip


def test_run_py_answers_as_predict_does(
    exported: Path, run: Path, tmp_path: Path, seqattn: Callable[..., Ended]
) -> None:
    python = environment_of(tmp_path / "bare", "numpy", "onnxruntime")

    def in_it(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, *map(str, words)], capture_output=True, text=True,
                              timeout=60, check=False, cwd=tmp_path, input=LINES)  # fmt: skip

    assert "ModuleNotFoundError" in in_it("-c", "import torch").stderr
    (tmp_path / "lines.txt").write_text(LINES)
    for options in (
        ("--scores",), ("--beam", "5", "--scores"),
        ("--beam", "4", "--n-best", "3", "--scores", "--length-penalty", "0"),
        ("--beam", "3", "--n-best", "3", "--scores", "--steps", "4"),
    ):  # fmt: skip
        right = seqattn("predict", run, "--input", tmp_path / "lines.txt", *options)
        found = in_it(exported / "run.py", *options)
        assert (found.returncode, right.code) == (0, 0), found.stderr + right.err
        assert found.stdout == right.out
        assert "line 3: unknown to the model: 'é'." in found.stderr
    assert (
        in_it(exported / "run.py", tmp_path / "lines.txt").stdout
        == in_it(exported / "run.py").stdout
    )
    shown = in_it(exported / "run.py", "--example").stdout
    differences = re.findall(r"(\w+): \(4, .*, (\S+) from the example", shown)
    assert [name for name, _ in differences] == ["forecast", "logits", "weights"]
    assert all(float(number) <= MAX_DIFFERENCE for _, number in differences)
    (tmp_path / "empty.txt").write_text("1 may 2000\n\n")
    assert "line 2: is empty" in in_it(exported / "run.py", tmp_path / "empty.txt").stderr
    assert "--n-best M: needs --beam M" in in_it(exported / "run.py", "--n-best", "2").stderr


def test_the_runner_splits_and_joins_as_the_model_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_runner, "HERE", tmp_path)
    texts = ["abcd  abab", "ab▁cd é", "The cat\tsat", "e\u0301A", "x abcdabcd bcd"]
    for space in (SUBWORDS, WORDS, Tokens.of_symbols("abé", "character"),
                  Tokens(WORDS.symbols, "symbol", lowercase=True)):  # fmt: skip
        known = {"unit": space.unit, "lowercase": space.lowercase, "symbols": space.symbols}
        (tmp_path / "x.json").write_text(json.dumps(known))
        vocabulary = text_runner.Vocabulary("x.json")
        for text in texts:
            symbols = vocabulary.split(text)
            assert symbols == space.split(text)
            numbers = space.numbers(symbols, ends=True)
            assert [vocabulary.number_of.get(one, 3) for one in symbols] == numbers[:-1].tolist()
            assert vocabulary.text(numbers.tolist()) == space.text(numbers)


@pytest.fixture(scope="module")
def subwords() -> tuple[LoadedModel, Graphs]:
    """A Transformer from subwords to words that has learned nothing."""
    trained = model_of(LEARNED, SUBWORDS, WORDS)
    return trained, trace_graphs(trained, STEPS)


def test_the_runner_translates_subwords_to_words(
    subwords: tuple[LoadedModel, Graphs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, graphs = subwords
    kind = export_kind(trained)
    card = {**kind.describe(), "state": graphs.state}
    assert card["longest_output"] == 9  # positions, which are fewer than twice the longest target
    for name, content in {"card.json": card, **kind.vocabularies()}.items():
        (tmp_path / name).write_text(json.dumps(content))
    for name, graph in graphs.by_name().items():
        onnx.save(graph, tmp_path / f"{name}.onnx")
    monkeypatch.setattr(text_runner, "HERE", tmp_path)
    model, line = text_runner.Translator(), "abcd Ab x"
    symbols = model.source.split(line)
    assert symbols == ["▁ab", "cd", "▁ab", "▁", "x"]

    def right(decoding: Decoding, steps: int) -> list[tuple[float, str]]:
        found = translate(trained, [line], steps, lambda _: None, decoding=decoding)
        return [(pytest.approx(one.score, abs=1e-5), one.text) for one in found]

    def texts(answers: list[text_runner.Answer]) -> list[tuple[float, str]]:
        return [(score, model.target.text(written)) for score, written in answers]

    for steps in (2, 9):
        assert texts(model.greedy(symbols, steps)) == right(Decoding(), steps)
        for beam, n_best, penalty in ((2, 1, 0.6), (5, 5, 0.0), (40, 30, 2.0)):
            found = model.beam_search(symbols, steps, beam, n_best, penalty)
            assert texts(found) == right(Decoding(beam, penalty, n_best), steps)


def test_the_check_sees_a_wrong_graph_of_symbols(subwords: tuple[LoadedModel, Graphs]) -> None:
    trained, graphs = subwords
    rows = check_graphs(graphs, trained, STEPS, None, trained.model.max_length)
    for row in rows:
        assert set(row.differences) == {
            "forecast", "logits", "weights", "encoder_self", "decoder_self",
        }  # fmt: skip
        assert row.largest <= MAX_DIFFERENCE, (row.graph, row.sources, row.differences)

    def differing(graph: str) -> set[str]:
        """Which outputs differ, in the rows of a pair of graphs that was changed."""
        found = check_graphs(graphs, trained, STEPS, None, trained.model.max_length)
        assert all(row.is_within_tolerance for row in found if row.graph != graph)
        return {key for row in found if row.graph == graph
                for key, value in row.differences.items() if value > MAX_DIFFERENCE}  # fmt: skip

    (bias,) = [t for t in every_tensor(graphs.step.graph) if t.name.endswith("output.bias")]
    right = numpy_helper.to_array(bias)
    bias.CopyFrom(numpy_helper.from_array(right + np.float32(1e-4), bias.name))
    assert differing("encoder and step") == {"logits"}
    bias.CopyFrom(numpy_helper.from_array(right, bias.name))
    (read,) = [node for node in graphs.step.graph.node if node.op_type == "ArgMax"]
    read.op_type = "ArgMin"
    assert differing("encoder and step") == {"forecast"}
    read.op_type = "ArgMax"
    assert differing("encoder and step") == set()


def test_rare_copies_have_the_logarithms_of_the_model() -> None:
    """The sigmoid of ONNX Runtime rounds a probability to copy as small as this one."""
    trained = model_of({"copying": True, "attention": {"score": "coverage"}})
    named = dict(trained.model.named_parameters())
    with torch.no_grad():
        named["copier.gate.bias"].fill_(14)
        named["output.bias"][UNKNOWN] = -30
    graphs = trace_graphs(trained, STEPS)
    for row in check_graphs(graphs, trained, STEPS, None, None):
        assert row.largest <= MAX_DIFFERENCE, (row.graph, row.sources, row.differences)


@pytest.mark.parametrize("sides", [(SUBWORDS, FAR[0]), (FAR[0], WORDS)])
def test_sides_of_different_kinds_are_refused(sides: tuple[Space, Space]) -> None:
    with pytest.raises(UsageError, match="symbols and the other of vectors"):
        export_kind(model_of({"attention": None}, *sides))


def test_weights_of_symbols_come_with_their_vocabularies(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "plain", export_format="safetensors")
    assert {path.name for path in (tmp_path / "plain").iterdir()} == {
        "weights.safetensors", "config.yaml", "card.json", "source_vocabulary.json",
        "target_vocabulary.json",
    }  # fmt: skip
