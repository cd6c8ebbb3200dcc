"""What `explain` prints, typed into a calculator, gives what it prints; and a hand on the weights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter

from seqattn.analysis.explanation import Explanation, explain
from seqattn.cli.explaining import print_explanation
from seqattn.config import Model
from seqattn.data.tokens import BEGIN, END, PAD, SPECIAL
from seqattn.errors import UsageError
from seqattn.models import FeatureSpec, Seq2SeqModel, build_model
from seqattn.models.attention import Override
from seqattn.models.attention.arithmetic import as_printed, format_printed
from seqattn.models.decoding import log_probabilities
from seqattn.plots import as_bytes, vectors_figure
from tests.conftest import S, T

STEP, F = 3, 2
LAST_DIGIT = 0.5001e-4
Table = dict[str, NDArray[np.float64]]

KINDS: dict[str, dict[str, Any]] = {
    "dot": {"attention": {"score": "dot"}},
    "scaled": {"attention": {"score": "scaled_dot"}},
    "bare": {"attention": {"score": "scaled_dot", "project_query_key": False}},
    "general": {"attention": {"score": "general", "project_values": True}},
    "additive": {"attention": {"score": "additive", "key_dim": 5}},
    "linear": {"attention": {"score": "linear"}},
    "linear heads": {"attention": {"score": "linear", "heads": 2, "project_query_key": False}},
    "coverage": {"attention": {"score": "coverage", "key_dim": 5}},
    "coverage heads": {"attention": {"score": "coverage", "heads": 2}},
    "cosine": {"attention": {"score": "cosine"}},
    "uniform": {"attention": {"score": "uniform"}},
    "two heads": {"attention": {"score": "scaled_dot", "heads": 2}},
    "additive heads": {"attention": {"score": "additive", "heads": 2}},
    "sparsemax": {"attention": {"score": "dot", "normalizer": "sparsemax"}},
    "entmax": {"attention": {"score": "dot", "normalizer": "entmax"}},
    "entmax heads": {"attention": {"heads": 2, "normalizer": "entmax", "alpha": "learned"}},
    "hard": {"attention": {"score": "dot", "normalizer": "hard", "estimator": "reinforce"}},
    "local": {"attention": {"score": "dot", "location": {"kind": "local", "window": 3}}},
    "shift": {"attention": {"location": {"kind": "location_shift", "shift_range": 5}}},
    "shift heads": {"attention": {"heads": 2, "location": {"kind": "location_shift"}}},
    "monotonic": {"attention": {"location": {"kind": "monotonic", "offset": 0.16}}},
    "monotonic heads": {
        "attention": {"heads": 2, "location": {"kind": "monotonic", "offset": 0.5}}
    },
    "context input": {"context": "input", "cell": "lstm"},
    "input feeding": {"input_feeding": True, "layers": 2},
    "readout tanh": {"readout": "tanh", "attention": {"heads": 2}},
    "fast weights": {"kind": "fast_weights", "inner_steps": 2},
    "fast weights, plain": {"kind": "fast_weights", "layer_norm": False},
    "transformer": {"kind": "transformer", "model_dim": 12, "heads": 3},
    "transformer, post": {"kind": "transformer", "model_dim": 12, "heads": 3, "norm": "post"},
}


def model_of(kind: dict[str, Any]) -> Seq2SeqModel:
    width = {} if kind.get("kind") == "transformer" else {"hidden_dim": 6}
    config: Model = TypeAdapter(Model).validate_python(kind | width)
    return build_model(config, F, 3).double()


def explanation_of(kind: dict[str, Any], **options: int) -> Explanation:
    source = np.random.default_rng(2).normal(size=(S, F))
    return explain(model_of(kind), source, step=STEP, features=["x", "y"], title="one", **options)


def read_back(text: str) -> dict[str, Table]:
    """The tables of a Markdown page: stage -> row -> numbers; those on their side set upright."""
    found = dict[str, Table]()
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        name, *lines = section.splitlines()
        cells = [[cell.strip() for cell in line.strip("|").split("|")]
                 for line in lines if line.startswith("|") and "---" not in line]  # fmt: skip
        if cells[1][0] == "1" and cells[0][1] != "1":  # rows are numbered: it lies on its side
            cells = [list(column) for column in zip(*cells, strict=True)]
        found[name] = {row[0]: np.array([float(x) for x in row[1:]]) for row in cells[1:]}
        found[name]["columns"] = np.array(cells[0][1:])
    return found


def column(table: Table, name: str) -> NDArray[np.float64]:
    place = list(table["columns"]).index(name)
    return np.array([row[place] for key, row in table.items() if key != "columns"])


def rows(table: Table) -> NDArray[np.float64]:
    return np.array([row for key, row in table.items() if key != "columns"])


def same(typed_in: Any, printed: Any) -> None:
    np.testing.assert_allclose(printed, typed_in, atol=LAST_DIGIT, rtol=0)


@pytest.mark.parametrize("name", KINDS)
def test_a_calculator_gives_what_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    kind = KINDS[name]
    made = explanation_of(kind, head=1 if "heads" in str(kind) else 0)
    print_explanation(made, "markdown")
    text = capsys.readouterr().out
    table = read_back(text)
    fast = kind.get("kind") == "fast_weights"
    by_place = kind.get("attention", {}).get("location")

    # scores
    if fast:
        query = rows(table["Query state"])[0]
        keys = rows(table["States in memory"])
        assert len(keys) == S + STEP - 1
        same(keys @ query, column(table["Strengths"], "h(tau) . h"))
        product = column(table["Strengths"], "h(tau) . h")
        factor = column(table["Strengths"], "rate decay^age")
        same(product * factor, column(table["Strengths"], "strength"))
        weights = column(table["Strengths"], "strength")
        parts, total = table["Weighted states"], table["Read vector"]
        values = keys
    else:
        scores = table["Scores"]
        if "cos" in scores["columns"]:
            query, keys = rows(table["Query, at length 1"])[0], rows(table["Keys, at length 1"])
            same(keys @ query, column(scores, "cos"))
            same(column(scores, "cos") * column(scores, "strength"), column(scores, "score"))
        elif "phi(q) . phi(k)" in scores["columns"]:
            q, k = rows(table["Query"])[0], rows(table["Keys"])
            query, keys = rows(table["Query, positive"])[0], rows(table["Keys, positive"])
            same(np.where(q > 0, q + 1, np.exp(q)), query)
            same(np.where(k > 0, k + 1, np.exp(k)), keys)
            same(keys @ query, column(scores, "phi(q) . phi(k)"))
            same(np.log(column(scores, "phi(q) . phi(k)")), column(scores, "score"))
        elif "q . k" in scores["columns"]:
            query, keys = rows(table["Query"])[0], rows(table["Keys"])
            same(keys @ query, column(scores, "q . k"))
            same(column(scores, "q . k") / column(scores, "sqrt(K)"), column(scores, "score"))
            same(np.sqrt(len(query)), column(scores, "sqrt(K)")[0])
        elif name.startswith("coverage"):
            w, c = rows(table["Vector w"])[0], rows(table["Coverage"])
            assert c.sum() == pytest.approx(STEP - 1, abs=1e-3)
            inside = rows(table["Query"])[0] + rows(table["Keys"]) + c * w
            same(np.tanh(inside), rows(table["Hidden layer"]))
            v = rows(table["Vector v"])[0]
            same(rows(table["Hidden layer"]) @ v, column(scores, "score"))
        elif name.startswith("additive"):
            met = np.tanh(rows(table["Query"])[0] + rows(table["Keys"]))
            same(met, rows(table["Hidden layer"]))
            v = rows(table["Vector v"])[0]
            same(rows(table["Hidden layer"]) @ v, column(scores, "score"))
        elif name != "uniform":
            same(rows(table["Keys"]) @ rows(table["Query"])[0], column(scores, "score"))

        # weights
        score = column(scores, "score")
        is_monotonic = name.startswith("monotonic")
        contents = table["Content weights" if by_place and not is_monotonic else "Weights"]
        if is_monotonic:
            p, previous = column(contents, "p"), column(contents, "previous")
            same(1 / (1 + np.exp(-(score + column(contents, "r")))), p)
            later = np.flatnonzero((p > 0.5) & (np.arange(S) >= previous.argmax()))
            assert previous.sum() == 1
            same(np.arange(S) == later[0], column(contents, "weight"))
        elif "tau" in contents["columns"]:
            tau = column(contents, "tau")
            less = column(contents, "alpha") - 1 if "alpha" in contents["columns"] else 1
            same(np.maximum(less * score - tau, 0) ** (1 / less), column(contents, "weight"))
            assert column(contents, "weight").sum() == pytest.approx(1, abs=1e-3)
        elif "exp(score - largest)" in contents["columns"]:
            raised = column(contents, "exp(score - largest)")
            same(raised / raised.sum(), column(contents, "weight"))
            inside = raised > 0
            if not by_place or by_place["kind"] != "local":
                inside = np.ones(S, dtype=bool)
            same(np.exp(score - score[inside].max())[inside], raised[inside])
        else:
            same(np.eye(S)[score.argmax()], column(contents, "weight"))
        weights = column(table["Weights"], "weight")
        if by_place and by_place["kind"] == "local":
            away = np.arange(S) - rows(table["Window center"])[0, 0]
            bell = np.exp(-(away**2) / (2 * 1.5**2))
            same(bell, column(table["Weights"], "window"))
            same(column(contents, "weight") * column(table["Weights"], "window"), weights)
            assert (column(contents, "weight")[np.abs(away) > 3] == 0).all()
        elif by_place and not is_monotonic:
            g, gamma, *s = rows(table["Gate, sharpness and shift"])[0]
            final = table["Weights"]
            gated = g * column(contents, "weight") + (1 - g) * column(final, "previous")
            same(gated, column(final, "gated"))
            reach = len(s) // 2
            moved = sum(p * np.roll(column(final, "gated"), j - reach) for j, p in enumerate(s))
            same(moved, column(final, "shifted"))
            same(column(final, "shifted") ** gamma, column(final, "shifted^gamma"))
            power = column(final, "shifted^gamma")
            same(power / power.sum(), weights)
        values, parts, total = rows(table["Values"]), table["Weighted values"], table["Context"]
    same(weights[:, None] * values, rows(parts))
    same(rows(parts).sum(axis=0), rows(total)[0])

    # what is said
    if kind.get("kind") == "transformer":
        assert made.prediction == []
        assert "The final output of the model is" in text
        return
    if fast:
        z = rows(table["Input to the inner loop"])[0] + rows(total)[0]
        if "Mean and deviation of z" in table:
            z, gain, bias = rows(table["Layer norm's input, gain and bias"])
            mean, deviation = rows(table["Mean and deviation of z"])[0]
            same(z.mean(), mean)
            same(np.sqrt(z.var() + 1e-5), deviation)
            z = (z - mean) / deviation * gain + bias
        np.testing.assert_allclose(rows(table["New state"])[0], np.tanh(z), atol=1.1e-4)
        read = rows(table["New state"])[0]
    elif "Attentional vector a" in table:
        read = rows(table["Attentional vector a"])[0]
    elif "New state h'" in table:
        read = rows(table["New state h'"])[0]
    else:
        heads = table.get("Contexts of all heads")
        context = rows(total)[0] if heads is None else rows(heads).reshape(-1)
        h = next(rows(table[stage])[0] for stage in table if stage.startswith("Decoder state h"))
        read = rows(table["Joined"])[0]
        same(np.concatenate([context, h]), read)
    layer = rows(table["Output layer W, b"])
    forecast = rows(table["Predicted point"])[0]
    same(layer[:, :-1] @ read + layer[:, -1], forecast)
    assert made.prediction == forecast.tolist()
    np.testing.assert_allclose(made.model_prediction, forecast, atol=5e-3)
    assert "Every number above follows" in text


def test_the_model_says_what_its_forecast_says() -> None:
    for kind in KINDS.values():
        source = np.random.default_rng(2).normal(size=(S, F))
        forecast = model_of(kind).forecast(torch.as_tensor(source)[None], STEP).values[0, -1]
        made = explanation_of(kind)
        np.testing.assert_allclose(made.model_prediction, forecast.detach(), atol=LAST_DIGIT)


def test_a_transformers_context_is_its_own() -> None:
    """The weights that `explain` works out against those of the forecast, layer by layer."""
    kind = KINDS["transformer"]
    source = torch.as_tensor(np.random.default_rng(2).normal(size=(S, F)))[None]
    maps = model_of(kind).forecast(source, STEP).attention
    for layer in range(2):
        for head in range(3):
            made = explanation_of(kind, layer=layer, head=head)
            expected = maps[layer].weights[0, head, STEP - 1].detach()
            np.testing.assert_allclose(made.vectors["weights"], expected, atol=2e-4)


def test_layers_and_heads_that_are_not_there() -> None:
    for kind, options, words in (
        ("scaled", {"head": 1}, "--head 2: this model has 1, counted from 1"),
        ("two heads", {"head": 2}, "--head 3: this model has 2"),
        ("scaled", {"layer": 1}, "--layer 2: this model has 1"),
        ("transformer", {"layer": 2}, "--layer 3: this model has 2"),
        ("transformer", {"head": 3}, "--head 4: this model has 3"),
        ("fast weights", {"head": 1}, "--head 2: this model has 1"),
    ):
        with pytest.raises(UsageError, match=words):
            explanation_of(KINDS[kind], **options)
    with pytest.raises(UsageError, match="no attention"):
        explanation_of({"attention": None})


SYMBOL_KINDS: dict[str, dict[str, Any]] = {
    "additive": {"attention": {"score": "additive"}, "embedding": {"dim": 3}},
    "context input": {"context": "input", "cell": "lstm"},
    "tied": {"readout": "tanh", "embedding": {"dim": 3, "tied": True}},
    "fast weights": {"kind": "fast_weights"},
    "transformer": {"kind": "transformer", "model_dim": 12, "heads": 3},
}
SOURCE_SYMBOLS = (*SPECIAL, *"abcdefg")
TARGET_SYMBOLS = (*SPECIAL, *"uvwxyz")


@pytest.mark.parametrize("name", SYMBOL_KINDS)
def test_a_calculator_gives_the_probabilities_of_symbols(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = SYMBOL_KINDS[name]
    width = {} if kind.get("kind") == "transformer" else {"hidden_dim": 6}
    config: Model = TypeAdapter(Model).validate_python({"kind": "recurrent"} | kind | width)
    features = FeatureSpec(1, 1, (0,), len(SOURCE_SYMBOLS), len(TARGET_SYMBOLS))
    model = build_model(config, features, 3).double()
    with torch.no_grad():
        model.output.bias[END] = -9.0  # type: ignore[index, operator, union-attr]
    source = np.array([[4], [9], [6], [4], [10]])
    made = explain(
        model, source, step=STEP, features=["symbol"], symbols=(SOURCE_SYMBOLS, TARGET_SYMBOLS),
        title="abc",
    )  # fmt: skip
    outputs = model.forecast(torch.as_tensor(source)[None], STEP)
    logits = outputs.values[0, -1].detach()
    order = [k for k in logits.argsort(descending=True).tolist() if k not in (PAD, BEGIN)]
    assert made.symbols == [TARGET_SYMBOLS[k] for k in order[:5]]
    expected = log_probabilities(logits)[order[:5]].exp().numpy()
    np.testing.assert_allclose(made.model_prediction, expected, atol=LAST_DIGIT)
    np.testing.assert_allclose(made.prediction, expected, atol=5e-3)

    print_explanation(made, "markdown")
    table = read_back(capsys.readouterr().out)
    assert [key for key in table["Source symbols"] if key != "columns"] == [
        "1 a", "2 f", "3 c", "4 a", "5 g",
    ]  # fmt: skip
    embedding = model.source_modality.embed(torch.as_tensor(source)).detach().numpy()
    np.testing.assert_allclose(rows(table["Source symbols"]), embedding, atol=LAST_DIGIT)
    logit = column(table["Probabilities"], "logit")
    possible = [k for k in range(len(logits)) if k not in (PAD, BEGIN)]
    log_z = float(torch.logsumexp(logits[possible], 0))
    same([log_z] * 5, column(table["Probabilities"], "log Z"))
    same(np.exp(logit - column(table["Probabilities"], "log Z")),
         column(table["Probabilities"], "probability"))  # fmt: skip
    if name == "transformer":
        return
    inputs = {"context input": "New state h'", "tied": "Input of the output layer",
              "fast weights": "New state"}  # fmt: skip
    read = rows(table[inputs.get(name, "Joined")]).ravel()
    layer = table["Output layer W, b: rows of the best symbols"]
    numbers = rows(layer) if len(layer) == 6 else rows(layer).T
    same(numbers[:, :-1] @ read + numbers[:, -1], logit)
    fed = model.target_modality.read(outputs.values)[0, STEP - 2]
    np.testing.assert_allclose(
        rows(table["Decoder input"]).ravel(), model.target_modality.embed(fed).detach(),
        atol=LAST_DIGIT,
    )  # fmt: skip
    if name != "fast weights":
        weights = outputs.attention[0].weights[0, 0, -1].detach()
        np.testing.assert_allclose(made.vectors["weights"], weights, atol=5e-4)


COPYING: dict[str, dict[str, Any]] = {
    "gate printed": {"hidden_dim": 2, "embedding": {"dim": 3}},
    "local, input feeding, tied": {
        "input_feeding": True, "embedding": {"dim": 3, "tied": True},
        "attention": {"score": "dot", "location": {"kind": "local", "window": 1}},
    },
    "context input": {"context": "input", "attention": {"score": "coverage"}},
    "no weight": {"attention": {"score": "dot", "location": {"kind": "monotonic", "offset": -99}}},
}  # fmt: skip


@pytest.mark.parametrize("name", COPYING)
def test_a_calculator_gives_the_mixture_of_generated_and_copied(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    section = {"kind": "recurrent", "hidden_dim": 6, "copying": True} | COPYING[name]
    copied = (3, 3, 3, 3, 5, 7, 3, 4, 9, 5, 8)
    features = FeatureSpec(1, 1, (0,), len(SOURCE_SYMBOLS), len(TARGET_SYMBOLS), copied)
    model = build_model(TypeAdapter[Any](Model).validate_python(section), features, 3).double()
    with torch.no_grad():
        model.output.bias[END] = -9.0  # type: ignore[index, operator, union-attr]
    source = np.array([[4], [9], [8], [4], [10]])  # three steps stand for the symbol 5
    made = explain(
        model, source, step=STEP, features=["symbol"], symbols=(SOURCE_SYMBOLS, TARGET_SYMBOLS),
        title="abc",
    )  # fmt: skip
    outputs = model.forecast(torch.as_tensor(source)[None], STEP)
    best = [TARGET_SYMBOLS.index(symbol) for symbol in made.symbols]
    expected = log_probabilities(outputs.values[0, -1].detach())[best].exp().numpy()
    np.testing.assert_allclose(made.model_prediction, expected, atol=LAST_DIGIT)
    np.testing.assert_allclose(made.prediction, expected, atol=2e-3)

    print_explanation(made, "markdown")
    table = read_back(capsys.readouterr().out)
    logit, log_z, generated = (
        column(table["Generated"], k) for k in ("logit", "log Z", "generated")
    )
    same(np.exp(logit - log_z), generated)
    if name == "gate printed":  # a row of 7 weights and the bias
        numbers = rows(table["Gate: the map"]).ravel()
        h, x = (rows(table[k]).ravel() for k in ("Joined", "Decoder input"))
        same([numbers[:-1] @ np.concatenate([h, x]) + numbers[-1]], rows(table["Gate"]).ravel())
    (z, g) = rows(table["Probability of generating"]).ravel()
    same([1 / (1 + np.exp(-z))], [g])
    weights = outputs.attention[0].weights[0, 0, -1].detach().numpy()
    for k, row in zip(best, rows(table["Copied"]).reshape(len(best), 3), strict=True):
        own = weights[[copied[s] == k for s in source[:, 0]]].sum()
        share = own / weights.sum() if name != "no weight" else 0
        np.testing.assert_allclose(row, [own, weights.sum(), share], atol=1e-3)
    same(g * generated + (1 - g) * column(table["Copied"], "copied"),
         column(table["Mixture"], "mixture"))  # fmt: skip
    same(column(table["Mixture"], "mixture") / column(table["Probabilities"], "Z"),
         column(table["Probabilities"], "probability"))  # fmt: skip


@pytest.mark.parametrize("name", ["scaled", "uniform", "fast weights", "transformer"])
def test_the_picture_of_vectors(name: str) -> None:
    made = explanation_of(KINDS[name])
    drawn = made.vectors
    figure = vectors_figure(
        drawn.get("query"), drawn["keys"], drawn["values"], drawn["context"], drawn["weights"],
        title=made.title, scores=made.score_columns,
    )  # fmt: skip
    left, right = figure.axes
    assert as_bytes(figure).startswith(b"\x89PNG")
    wide = drawn["keys"].shape[1] > 2
    assert ("on their two main directions" in left.get_title()) == wide
    words = [text.get_text() for text in right.texts]
    assert "context" in words
    assert any(word.startswith("weight of value\n") for word in words)
    two = vectors_figure(
        np.array([1.0, 0.0]), np.eye(2), np.eye(2), np.array([0.5, 0.5]), np.array([0.5, 0.5]),
        title="t",
        scores=("score = q . k / sqrt(K), K = 2", {
            "q . k": np.array([1.0, 0.0]), "sqrt(K)": np.full(2, 1.4142),
            "score": np.array([0.7071, 0.0]),
        }),
    )  # fmt: skip
    assert two.axes[0].get_title() == "Query and keys"
    (listed,) = (text.get_text() for text in two.axes[0].texts if "score" in text.get_text())
    formula, numbers = listed.split("\nq . k, score\n")
    assert " ".join(formula.split()) == "score = q . k / sqrt(K), K = 2"
    assert numbers == "1:  1.00  0.71\n2:  0.00  0.00"


@pytest.mark.parametrize("name", ["scaled", "transformer"])
def test_the_picture_prints_what_a_scaled_product_is_made_of(name: str) -> None:
    made = explanation_of(KINDS[name])
    scores = made.score_columns
    assert scores is not None
    formula, columns = scores
    K = made.vectors["keys"].shape[1]
    assert formula == f"score = q . k / sqrt(K), K = {K}"
    np.testing.assert_allclose(columns["q . k"], made.vectors["keys"] @ made.vectors["query"],
                               atol=1e-4)  # fmt: skip
    np.testing.assert_allclose(columns["score"], columns["q . k"] / np.sqrt(K), atol=2e-4)


def test_no_more_digits_are_printed_than_float32_has() -> None:
    for number, text in ((0.123456, "0.1235"), (-1.5, "-1.5000"), (99.123456, "99.1235"),
                         (123.456789, "123.457"), (-12345.6789, "-12345.7"),
                         (1234567.8, "1234570"), (0.0, "0.0000")):  # fmt: skip
        assert format_printed(float(as_printed(np.array(number)))) == text


def test_explain_on_the_command_line(
    seqattn: Callable[..., Any], attention_run: Path, tmp_path: Path
) -> None:
    done = seqattn("explain", attention_run, "--example", "2", "--step", "2", "--format", "json",
                   "--figure", "step.svg")  # fmt: skip
    assert done.code == 0, done.err
    described = json.loads(done.out)
    assert [stage["name"] for stage in described["stages"]][:2] == [
        "Source points", "Decoder input",
    ]  # fmt: skip
    assert (tmp_path / "step.svg").exists()
    table = seqattn("explain", attention_run)
    assert table.code == 0
    assert "softmax: weight = exp(score - largest) / sum of these" in table.out
    for words, message in (
        (["--step", "9"], "Give a step of 1 to"),
        (["--step", "0"], "Give a step of 1 to"),
        (["--example", "9999"], "the run has test sequences 0 to"),
        (["--figure", "a.bmp"], "End the file name in"),
    ):
        refused = seqattn("explain", attention_run, *words)
        assert refused.code == 2
        assert message in refused.err


# --- a hand on the weights ------------------------------------------------------------------------

HANDED: dict[str, dict[str, Any]] = {
    "one head": {"attention": {"score": "dot"}},
    "two heads": {"attention": {"score": "general", "heads": 2}},
    "context input": {"context": "input"},
    "transformer": {"kind": "transformer", "model_dim": 12, "heads": 3},
}


@pytest.mark.parametrize("name", HANDED)
def test_an_override_takes_the_place_of_the_weights(name: str) -> None:
    model = model_of(HANDED[name])
    numbers = torch.Generator().manual_seed(4)
    source = torch.randn(3, S, F, generator=numbers, dtype=torch.float64)
    lengths = torch.tensor([S, 4, 6])
    keep = (torch.arange(S) < lengths[:, None])[:, None, None]

    def weights(way: str | None) -> Any:
        override = None if way is None else Override.parse(way)
        forecast = model.forecast(source, T, source_lengths=lengths, override=override)
        crossed = [shown.weights for shown in forecast.attention if shown.kind == "cross"]
        return forecast.values, torch.stack(crossed).detach()

    values, own = weights(None)
    uniform_values, uniform = weights("uniform")
    expected = (keep / lengths.view(-1, 1, 1, 1)).expand(uniform.shape)
    torch.testing.assert_close(uniform, expected.double(), rtol=0, atol=1e-7)
    assert not torch.allclose(uniform_values, values)
    _, one = weights("one_hot:4")
    assert (one[..., 3] == 1).all()
    assert one.sum() == one[..., 3].numel()
    _, dealt = weights("shuffled")
    # The first step has seen nothing yet, so its weights are the model's own, in another order.
    torch.testing.assert_close(
        dealt[0, ..., 0, :].sort(-1).values, own[0, ..., 0, :].sort(-1).values
    )
    assert not torch.equal(dealt, own)
    assert (dealt.masked_select(~keep.expand(dealt.shape)) == 0).all()
    torch.testing.assert_close(dealt, weights("shuffled")[1])
    _, late = weights("previous")
    torch.testing.assert_close(late[0, ..., 0, :], own[0, ..., 0, :])
    torch.testing.assert_close(late[0, ..., 1, :], own[0, ..., 0, :])


def test_previous_is_the_step_before() -> None:
    override = Override.parse("previous").start()
    steps = torch.rand(2, 5, 3)
    found = [override(steps[:, t : t + 1], None) for t in range(5)]
    torch.testing.assert_close(torch.cat(found, dim=1), steps[:, [0, 0, 1, 2, 3]])
    torch.testing.assert_close(
        Override.parse("previous").start()(steps, None), steps[:, [0, 0, 1, 2, 3]]
    )


def test_what_cannot_be_overridden() -> None:
    for text in (
        "",
        "uniforn",
        "one_hot",
        "one_hot:",
        "one_hot:-1",
        "one_hot:0",
        "one_hot:1.5",
        "uniform:2",
    ):
        with pytest.raises(
            UsageError, match="expected uniform, shuffled, previous, one_hot:K, zeros"
        ):
            Override.parse(text)
    with pytest.raises(UsageError, match="has 4 points, so K must lie within 1 and 4"):
        Override.parse("one_hot:5").check(4, (1, 1))
    Override.parse("one_hot:4").check(4, (1, 1))
    with pytest.raises(UsageError, match="signed read strengths"):
        model_of(KINDS["fast weights"]).forecast(
            torch.zeros(1, S, F, dtype=torch.float64), 2, override=Override.parse("uniform")
        )


def test_predict_says_what_an_override_costs(
    seqattn: Callable[..., Any], attention_run: Path
) -> None:
    done = seqattn("predict", attention_run, "--attention-override", "shuffled", "--attention",
                   "w.npz", "--output", "said.csv")  # fmt: skip
    assert done.code == 0, done.err
    own, forced = re.search(
        r"error: (\S+) with the model's attention, (\S+) with shuffled", done.err
    ).groups()  # type: ignore[union-attr]
    assert float(own) != float(forced)
    refused = seqattn("predict", attention_run, "--attention-override", "one_hot:7")
    assert refused.code == 2
    assert "so K must lie within 1 and" in refused.err
    again = seqattn("predict", attention_run, "--attention-override", "sideways")
    assert again.code == 2
