"""What an output depends on: contributions, removal of source steps, and exchanged states."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqattn import experiments
from seqattn.analysis import attribution
from seqattn.analysis.attributed_run import Faithfulness, mean_and_error
from seqattn.analysis.attribution import (
    GRADIENT,
    INTEGRATED,
    MAX_ERROR,
    RANDOM,
    WEIGHTS,
    EmbeddedSource,
    area_above,
    attribute,
    rank_correlation,
    recovered,
    removal_curves,
    trace_states,
)
from seqattn.cli.text_heatmap import print_shares
from seqattn.config import (
    AdditiveAttention,
    FastWeights,
    Model,
    Recurrent,
    ScaledDotAttention,
    Transformer,
    UniformAttention,
    resolve,
)
from seqattn.data.tokens import BEGIN, PAD
from seqattn.models import FeatureSpec, ModelOutput, Seq2SeqModel, build_model
from seqattn.models.decoding import force
from seqattn.models.modality import Modality
from tests.conftest import train_small

S, T, F, V = 5, 4, 2, 12
Array = np.ndarray[Any, Any]


class PolynomialModel(Seq2SeqModel):
    """Each number of the output is a linear form of the source, to a power."""

    def __init__(self, power: int) -> None:
        super().__init__()
        self.features, self.power = FeatureSpec.same(F), power
        modalities: tuple[Modality, Modality] = self.features.modalities()
        self.source_modality, self.target_modality = modalities
        self.form = nn.Parameter(torch.randn(T, F, S, F))

    def forward(self, source: Tensor, target: Tensor, **options: Any) -> ModelOutput:
        return ModelOutput(torch.einsum("tgsf,nsf->ntg", self.form, source) ** self.power)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(1)


def close(x: Any, y: Any) -> None:
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-9, atol=1e-9)


def polynomial(power: int) -> tuple[EmbeddedSource, Array, Array]:
    """Return a source, its terms (T, G, S) of the linear form, and their sum (T, G, 1)."""
    model, x = PolynomialModel(power), torch.randn(S, F)
    terms = (model.form * x).sum(-1).detach().double().numpy()
    return EmbeddedSource(model, x, torch.zeros(T, F)), terms, terms.sum(-1, keepdims=True)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_contributions_agree_with_closed_forms(power: int) -> None:
    """With y = (a . x)^n, the integral of n (a . k x)^(n - 1) over k is (a . x)^(n - 1)."""
    source, terms, sums = polynomial(power)
    found = attribute(source)
    np.testing.assert_allclose(found.integrated, terms * sums ** (power - 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        found.gradient, power * terms * sums ** (power - 1), rtol=1e-4, atol=1e-5
    )
    assert found.error < 1e-9


def test_removal_follows_the_order_of_each_output_step() -> None:
    source, terms, _ = polynomial(1)
    importance = {INTEGRATED: np.abs(terms).sum(axis=1)}
    curves = removal_curves(source, importance)
    expected = []
    for k in range(S + 1):
        gone = [terms[t][:, np.argsort(-importance[INTEGRATED][t])[:k]].sum(-1) for t in range(T)]
        expected.append(np.mean([np.linalg.norm(each) for each in gone]))
    np.testing.assert_allclose(curves[INTEGRATED][::2], expected, rtol=1e-5)
    close(curves[RANDOM][[0, -1]], curves[INTEGRATED][[0, -1]])
    assert area_above(curves[INTEGRATED], curves[RANDOM]) == pytest.approx(
        sum((curves[INTEGRATED] - curves[RANDOM])[1:-1]) / 10
    )


def test_steps_of_equal_importance_have_a_random_order() -> None:
    """Only the first step matters. A method without an order must not find it first each time."""
    source, *_ = polynomial(1)
    source.model.get_parameter("form")[:, :, 1:] = 0
    source.own = source.numbers(source.embedded[None])[0]
    equal = {WEIGHTS: np.full((T, S), 1 / S)}
    curves = [removal_curves(source, equal, seed) for seed in range(30)]
    areas = [area_above(each[WEIGHTS], each[RANDOM]) for each in curves]
    assert abs(np.mean(areas)) < 3 * np.std(areas) / np.sqrt(30)
    curve = removal_curves(source, {WEIGHTS: np.zeros((T, S)) - np.arange(S)})[WEIGHTS]
    close(curve[2:], curve[-1])  # the first step is removed first


MODELS: dict[str, Model] = {
    "recurrent": Recurrent(
        hidden_dim=8, layers=2, bidirectional=True, attention=AdditiveAttention()
    ),
    "input": Recurrent(hidden_dim=8, context="input", attention=ScaledDotAttention(heads=2)),
    "copying": Recurrent(hidden_dim=8, attention=AdditiveAttention(), copying=True),
    "plain": Recurrent(hidden_dim=8, attention=None),
    "transformer": Transformer(model_dim=8, layers=2, heads=2),
    "fast weights": FastWeights(hidden_dim=8),
}


def source_of(config: Model, *, symbols: bool) -> tuple[EmbeddedSource, Tensor, Tensor]:
    """Return a model as a function of its source, with larger parameters than at the start of
    training, and the source and the target."""
    features = FeatureSpec.same(F)
    if symbols:
        features = FeatureSpec(1, 1, (-1,), V, V, copied_symbols=(*range(4), *range(V - 1, 3, -1)))
    model = build_model(config, features, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    if symbols:
        source, target = torch.randperm(V - 4)[:S, None] + 4, torch.randint(4, V, (T, 1))
    else:
        source, target = torch.randn(S, F), torch.randn(T, F)
    return EmbeddedSource(model, source, target), source, target


@pytest.mark.parametrize(
    ("name", "symbols"), [(n, s) for n in MODELS for s in (False, True) if s or n != "copying"]
)
def test_integrated_gradients_sum_to_the_difference(name: str, symbols: bool) -> None:
    source, *_ = source_of(MODELS[name], symbols=symbols)
    found = attribute(source)
    difference = found.integrated.sum(axis=-1) - (found.numbers - found.at_baseline)
    assert found.error == pytest.approx(np.abs(difference).max())
    assert found.error < (0.01 if name == "transformer" else MAX_ERROR)  # relu has kinks
    assert (found.weights is None) == (name == "plain")


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_symbols_are_those_of_the_embedding(name: str) -> None:
    """The symbols of the source are all different, so each row of the table is one step."""
    source, numbers, target = source_of(MODELS[name], symbols=True)
    table = source.model.get_parameter("source_modality.embedding.weight").requires_grad_()
    output = force(source.model, numbers[None], None, target[None]).values[0]
    possible = [k for k in range(V) if k not in (PAD, BEGIN)]
    log_p = output.gather(-1, target) - output[:, possible].logsumexp(-1, keepdim=True)
    close(source.own.detach(), log_p.detach())
    (expected,) = torch.autograd.grad(log_p.sum(), table)
    found = source.gradients(source.embedded[None].detach()).sum(dim=(0, 1, 2))
    close(found, expected[numbers[:, 0]])


def test_restored_state_of_the_encoder() -> None:
    """With uniform weights over the states, a state of the last layer adds 1/S of its difference
    to each context."""
    config = Recurrent(hidden_dim=8, layers=2, attention=UniformAttention())
    source, own, target = source_of(config, symbols=False)
    other, model = torch.randn(S, F), source.model
    found = trace_states(source, other)
    assert found.shape == (4, S, T)

    def changes(x: Tensor, values: Tensor | None = None) -> Array:
        start = model.encode(x[None].double(), None)
        memory = start.memory
        assert memory.attention is not None
        if values is not None:
            memory = memory._replace(attention=replace(memory.attention, values=values))
        steps = torch.cat([start.start_token[None], target[None, :-1].double()], dim=1)
        state, outputs = start.state, []
        for step in steps.unbind(1):
            output, _, state = model.step(step, state, memory)
            outputs.append(output)
        return (torch.cat(outputs, dim=1)[0] - source.own).norm(dim=-1).detach().numpy()

    states = [model.encode_states(x[None].double(), None)[0] for x in (own, other)]
    for s in range(S):
        is_own = (torch.arange(S) == s).view(S, 1)
        close(found[0, s], changes(torch.where(is_own, own, other)))
        close(found[2, s], changes(other, torch.where(is_own, *states)))
        close(found[3, s], changes(other))
    close(recovered(found)[2], 1 - found[2].sum(-1) / found[3, 0].sum())
    assert "forward" not in vars(model.encoder)


def test_states_of_each_layer_of_a_transformer() -> None:
    """A restored input of the only step that differs restores the output. The first layer has
    already mixed the steps."""
    source, own, _ = source_of(MODELS["transformer"], symbols=False)
    other = torch.where((torch.arange(S) == 2).view(S, 1), torch.randn(S, F), own)
    found = trace_states(source, other)
    assert found.shape == (4, S, T)
    close(found[0, 2], np.zeros(T))
    assert found[1, 2].max() > 1e-3
    assert np.abs(found[1] - found[2]).max() > 1e-3
    assert np.isnan(recovered(trace_states(source, own))).all()


def test_trace_of_a_long_source_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    source, *_ = source_of(MODELS["transformer"], symbols=False)
    other = torch.randn(S, F)
    at_once = trace_states(source, other)
    monkeypatch.setattr(attribution, "ROWS_AT_ONCE", 2)
    close(trace_states(source, other), at_once)


def test_kendalls_tau_counts_pairs() -> None:
    x = np.array([[1.0, 2, 3, 4], [1, 2, 3, 4], [1, 1, 2, 3], [5, 5, 5, 5]])
    y = np.array([[1.0, 3, 2, 4], [4, 3, 2, 1], [1, 2, 2, 3], [1, 2, 3, 4]])
    tau = rank_correlation(x, y)
    # Third row: 4 pairs agree, and of the 6 pairs, one is tied in x, and another one in y.
    np.testing.assert_allclose(tau[:3], [4 / 6, -1, 4 / 5])
    assert np.isnan(tau[3])


def test_mean_over_sequences_leaves_out_what_is_unknown() -> None:
    mean, error = mean_and_error(np.array([1.0, np.nan, 3]))
    assert (mean, error) == (2, pytest.approx(1))
    assert np.isnan(mean_and_error(np.array([np.nan]))[0])
    assert np.isnan(mean_and_error(np.array([2.0]))[1])
    flat, half = np.zeros((2, 11)), np.full((2, 11), 0.5)
    assert Faithfulness({WEIGHTS: half, RANDOM: flat}, {}).areas()[WEIGHTS] == pytest.approx(0.5)


def test_command_on_vectors(attention_run: Path, tmp_path: Path, seqattn: Any) -> None:
    figure = tmp_path / "parts.svg"
    ended = seqattn("attribute", attention_run, "--examples", "3", "--figure", figure)
    for part in (WEIGHTS, GRADIENT, INTEGRATED, "encoder states", "the first 3 test sequences"):
        assert part in ended.out
    assert "step 2" in ended.out
    assert figure.stat().st_size > 1000
    ended = seqattn("attribute", attention_run, "--examples", "0", "--format", "json")
    content = json.loads(ended.out)
    sums = np.array(content["integrated_gradients"]).sum(-1)
    difference = np.array(content["numbers"]) - np.array(content["numbers_of_zeros"])
    np.testing.assert_allclose(sums, difference, atol=MAX_ERROR)
    assert "removal" not in content
    ended = seqattn("attribute", attention_run, "--example", "99999")
    assert ended.code == 2
    assert "--example 99999" in ended.err


def test_command_on_symbols(tmp_path: Path, seqattn: Any) -> None:
    run = train_small(tmp_path, "reverse", "data.kind=reverse", "data.symbols=6", "data.length=4")
    ended = seqattn("attribute", run, "--examples", "2")
    assert "log-probability of the written symbol" in ended.out
    assert "source: " in ended.out
    content = json.loads(seqattn("attribute", run, "--format", "json", "--examples", "2").out)
    assert len(content["source"]) == 4
    assert len(content["output"]) == len(content["attention_weights"])
    assert content["exchanged_with_example"] is not None
    assert len(content["removal"]["changes"][RANDOM]) == 2


def test_terminal_shows_small_and_negative_shares(capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks end at the largest share, and the legend says that they have no sign."""
    shares = np.full((2, 20), 0.05)
    shares[1, 3] = -0.1
    print_shares(shares, ["step 1", "step 2"], [], "output step")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[2:] == [2 * 20 * "▒"]
    assert lines[2].count("██") == 1
    assert "absolute shares of about 0.025, 0.05, 0.075 and 0.1, the largest" in " ".join(lines)


def test_words_of_one_letter_are_not_joined(tmp_path: Path, seqattn: Any) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a} {b}\t{b} {a}\n" for a in "abcdefgh" for b in "ijklm"))
    sets = ["name=words", "data.kind=text", f"data.path={pairs}", "data.source={unit: word}",
            "data.target={unit: word}", "model.hidden_dim=4", "training.epochs=1"]  # fmt: skip
    folder, _ = experiments.train_one(resolve(None, sets).config, tmp_path, plots=False)
    lines = seqattn("attribute", folder.path, "--examples", "0").out.splitlines()
    (source,) = (line for line in lines if line.startswith("source: "))
    assert len(source.split()) == 3
