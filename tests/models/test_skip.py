"""`model.skip: linear`: what it computes, where it starts, what it refuses, and every verb with it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor

import seqattn as package
from seqattn.analysis.evaluation import free_run
from seqattn.analysis.explanation import MAX_PRINTED_SIDE, explain
from seqattn.cli.explaining import print_explanation
from seqattn.config import Model, resolve
from seqattn.errors import DataError, UsageError
from seqattn.experiments import train_one
from seqattn.experiments.memory_estimate import estimate_training_memory, generated_counts
from seqattn.experiments.verify_resume import verify_resume
from seqattn.models import (
    FeatureSpec,
    Lengths,
    LinearSkip,
    Seq2SeqModel,
    build_model,
    count_parameters,
    manual_backward,
)
from seqattn.runs import RunFolder
from seqattn.training.batches import Batch
from seqattn.training.objective import AutogradLoss, build_loss
from tests.conftest import Ended

N, S, T, F, G, H = 3, 7, 5, 2, 4, 11
POINTS = FeatureSpec(F, G, (1, -1, 0, -1))
KINDS: dict[str, dict[str, Any]] = {
    "recurrent": {"kind": "recurrent", "hidden_dim": H},
    "plain": {"kind": "recurrent", "hidden_dim": H, "attention": None},
    "input feeding": {"kind": "recurrent", "hidden_dim": H, "input_feeding": True},
    "fast_weights": {"kind": "fast_weights", "hidden_dim": H},
    "transformer": {"kind": "transformer", "model_dim": H, "heads": 1, "layers": 1},
}
SMALL = ["data.n_train=12", "data.n_validation=6", "data.n_test=5", "training.epochs=2",
         "training.batch_size=5", "model.hidden_dim=4", "model.skip=linear"]  # fmt: skip


def model_of(name: str, *, seed: int = 1, skip: str = "linear") -> Seq2SeqModel:
    config: Model = TypeAdapter(Model).validate_python(KINDS[name] | {"skip": skip})
    return build_model(config, POINTS, seed, Lengths(S, T)).double()


def filled(model: Seq2SeqModel) -> Seq2SeqModel:
    """The model with numbers in what starts at zero."""
    numbers = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.uniform_(-0.4, 0.4, generator=numbers)
    return model


def sequences(seed: int = 0) -> tuple[Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(seed)
    return (torch.randn(N, S, F, generator=numbers, dtype=torch.float64),
            torch.randn(N, T, G, generator=numbers, dtype=torch.float64))  # fmt: skip


def series(path: Path, lengths: list[int]) -> Path:
    """A CSV of sequences with two features."""
    numbers = np.random.default_rng(3)
    rows = [
        f"s{k},{t},{numbers.normal():.4f},{numbers.normal():.4f}"
        for k, length in enumerate(lengths)
        for t in range(length)
    ]
    path.write_text("\n".join(["sequence,step,a,b", *rows]) + "\n", encoding="utf-8")
    return path


def test_the_map_is_the_sum_in_its_docstring() -> None:
    skip = LinearSkip(Lengths(S, T), F, G).double()
    numbers = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in skip.parameters():
            parameter.uniform_(-1, 1, generator=numbers)
    source, _ = sequences()
    found = skip(source, None, T)
    assert found.shape == (N, T, G)
    for n, t, g in itertools.product(range(N), range(T), range(G)):
        total = skip.bias[t, g]
        for s, f in itertools.product(range(S), range(F)):
            total = total + skip.weight[t, g, s, f] * source[n, s, f]
        torch.testing.assert_close(found[n, t, g], total)


@pytest.mark.parametrize("name", KINDS)
def test_the_map_and_the_output_layer_start_at_zero_and_nothing_else_changes(name: str) -> None:
    model, without = model_of(name), model_of(name, skip="none")
    zero = {"output.weight", "output.bias", "skip.weight", "skip.bias"}
    started = dict(without.named_parameters())
    for key, parameter in model.named_parameters():
        if key in zero:
            assert not parameter.any(), key
        else:
            assert torch.equal(parameter, started[key]), key
    assert {key for key, _ in model.named_parameters()} >= zero
    assert without.skip is None
    assert started["output.weight"].any()
    source, target = sequences()
    assert not model.forecast(source, T).values.any()
    stack, objective = build_loss([model])
    objective.value_and_grad(Batch(source, target), torch.ones(T, dtype=torch.bool))
    moved = {key for key, grad in stack.as_named(stack.gradient).items() if grad.any()}
    assert moved == zero


@pytest.mark.parametrize("name", KINDS)
def test_a_forecast_is_network_plus_skip_and_the_sum_is_fed_back(name: str) -> None:
    """With the skip's share taken from each target, a network that is always told the truth makes
    the rest; with weights of zero the skip leaves the network as it is."""
    model = filled(model_of(name))
    source, target = sequences()
    assert model.skip is not None
    share = model.skip(source, None, T)
    forced = torch.ones(T, dtype=torch.bool)
    both = model(source, target, source_lengths=None, teacher_forcing=forced).values
    free = model.forecast(source, T).values
    again = model(source, free, source_lengths=None, teacher_forcing=forced).values
    torch.testing.assert_close(again, free)  # so what was fed back is the whole forecast
    with torch.no_grad():
        for parameter in model.skip.parameters():
            parameter.zero_()
    network = model(source, target, source_lengths=None, teacher_forcing=forced).values
    torch.testing.assert_close(both, network + share)
    assert not torch.allclose(free - share, model.forecast(source, T).values)


@pytest.mark.parametrize("name", KINDS)
def test_gradients_of_map_and_network_are_those_of_differences(name: str) -> None:
    model = filled(model_of(name))
    source, target = sequences()
    forced = torch.ones(T, dtype=torch.bool)
    if name != "transformer":
        forced[2] = forced[4] = False
    objective = AutogradLoss(model)
    parameters = dict(model.named_parameters())
    grads = torch.autograd.grad(objective.loss(Batch(source, target), forced), parameters.values())
    for (key, parameter), grad in zip(parameters.items(), grads, strict=True):
        if not key.startswith(("skip", "output", "decoder")):
            continue
        flat, at = parameter.data.view(-1), int(grad.abs().argmax())
        before, losses = float(flat[at]), []
        for change in (1e-6, -1e-6):
            flat[at] = before + change
            losses.append(float(objective.loss(Batch(source, target), forced).detach()))
        flat[at] = before
        measured = (losses[0] - losses[1]) / 2e-6
        assert measured == pytest.approx(float(grad.view(-1)[at]), rel=1e-6, abs=1e-9), key


def test_passes_by_hand_leave_it_to_autograd() -> None:
    config: Model = TypeAdapter(Model).validate_python(KINDS["recurrent"] | {"skip": "linear"})
    model = build_model(config, 2, 1, Lengths(S, T))
    assert not manual_backward.supports(model)
    plain = build_model(config.model_copy(update={"skip": "none"}), 2, 1)
    assert manual_backward.supports(plain)
    assert build_loss([model])[1].name == "autograd"


def test_under_autocast_the_map_stays_in_float32() -> None:
    model = filled(model_of("recurrent")).float()
    assert model.skip is not None
    source = sequences()[0].float()
    right = model.skip(source, None, T)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.skip(source, None, T), right)


@pytest.mark.parametrize("name", KINDS)
def test_other_lengths_are_refused_and_padding_beyond_the_window_is_not(name: str) -> None:
    model = filled(model_of(name))
    source, _ = sequences()
    padded = torch.cat([source, torch.full((N, 2, F), torch.nan, dtype=torch.float64)], dim=1)
    lengths = torch.full((N,), S)
    torch.testing.assert_close(
        model.forecast(padded, T, source_lengths=lengths).values, model.forecast(source, T).values
    )
    with pytest.raises(DataError, match=r"skip: linear .* sources of 7 points .* a source has 6"):
        model.forecast(source[:, 1:], T)
    with pytest.raises(DataError, match="a source has 3"):
        model.forecast(source, T, source_lengths=torch.tensor([S, 3, S]))
    with pytest.raises(UsageError, match="skip: linear .* forecast 5 steps .* 6 were requested"):
        model.forecast(source, T + 1)


def test_memory_and_parameters_count_the_map() -> None:
    without, with_skip = (
        resolve(None, [f"model.skip={skip}", "data.source_length=3"]).config
        for skip in ("none", "linear")
    )
    more = count_parameters(with_skip.model, 2, Lengths(3, 1)) - count_parameters(without.model, 2)
    assert more == 1 * 2 * (3 * 2 + 1)
    estimates = [
        estimate_training_memory(config, 3, 1, generated_counts(config.data))
        for config in (without, with_skip)
    ]
    assert estimates[1]["the parameters"] - estimates[0]["the parameters"] == 4 * 24 * more


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["data.variable_length=true"], "sources have 1 to 2 points and targets 1 to 2"),
        (["data.kind=copy", "data.length=5", "data.min_length=2"],
         "sources have 2 to 5 points and targets 2 to 5"),
    ],
)  # fmt: skip
def test_sequences_of_several_lengths_are_refused_before_training(
    sets: list[str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"model\.skip: linear needs one length") as caught:
        train_one(resolve(None, [*SMALL, *sets]).config, tmp_path, plots=False)
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run with a skip, of sequences of three given points and two to be said."""
    home = tmp_path_factory.mktemp("skip")
    path = series(home / "a.csv", [5] * 30)
    sets = ["data.kind=file", f"data.path={path}", "data.source_length=3", "model.skip=linear",
            "training.epochs=2", "model.hidden_dim=4", "name=run"]  # fmt: skip
    folder, _ = train_one(resolve(None, sets).config, home, plots=False)
    return folder.path


def test_verbs_refuse_what_the_map_has_no_weights_for(
    small: Path, tmp_path: Path, seqattn: Callable[..., Ended]
) -> None:
    short = series(tmp_path / "short.csv", [3, 2])
    refused = seqattn("predict", str(small), "--input", str(short))
    assert refused.code == 3
    assert "sequence 's1' has 2. Give each source 3 points" in refused.err
    refused = seqattn("predict", str(small), "--steps", "3")
    assert refused.code == 2
    assert "was trained to forecast 2 steps" in refused.err
    longer = series(tmp_path / "longer.csv", [6, 6])
    refused = seqattn("evaluate", str(small), "--input", str(longer))
    assert refused.code == 2, refused.err
    assert "3 were requested" in refused.err
    fine = series(tmp_path / "fine.csv", [3, 3])
    assert seqattn("predict", str(small), "--input", str(fine), "--steps", "1").code == 0
    with pytest.raises(DataError, match="has 4"):
        package.load(small).predict(np.zeros((4, 2)))


def test_a_checkpoint_reads_back_and_says_what_it_holds(
    small: Path, seqattn: Callable[..., Ended]
) -> None:
    summary = json.loads((small / "summary.json").read_text())
    assert summary["model"]["skip"] == "linear"
    loaded = package.load(small)
    assert isinstance(loaded.trained.model.skip, LinearSkip)
    assert loaded.trained.model.skip.weight.any()
    saved = RunFolder(small).read_predictions()
    again = free_run(loaded.trained.model, loaded.data.test, 2)
    np.testing.assert_allclose(saved["forecast"], again.values, rtol=1e-6)
    assert "gradients: autograd" in RunFolder(small).log.read_text()
    shown = seqattn("inspect", str(small), "--json")
    shapes = {each["name"]: each["shape"] for each in json.loads(shown.out)["tensors"]}
    assert shapes["skip.weight"] == [2, 2, 3, 2]
    assert shapes["skip.bias"] == [2, 2]


@pytest.mark.parametrize("name", ["recurrent", "input feeding", "fast_weights", "transformer"])
@pytest.mark.parametrize("points", [S, 3])
def test_explain_says_the_shares_of_network_and_skip(
    name: str, points: int, capsys: pytest.CaptureFixture[str]
) -> None:
    config: Model = TypeAdapter(Model).validate_python(KINDS[name] | {"skip": "linear"})
    model = filled(build_model(config, 2, 1, Lengths(points, T)).double())
    source = np.random.default_rng(4).normal(size=(points, 2))
    made = explain(model, source, step=3, features=["x", "y"], title="one")
    stages = {stage.name: stage for stage in made.stages}
    shares = dict(stages["Parts of the forecast"].rows)
    assert model.skip is not None
    right = model.skip(torch.from_numpy(source)[None], None, 3)[0, -1].detach().numpy()
    np.testing.assert_allclose(shares["skip"], right, atol=5e-4)
    summed = np.add(shares["network"], shares["skip"])
    np.testing.assert_allclose(shares["forecast"], summed, atol=1e-9)
    assert made.prediction == shares["forecast"]
    np.testing.assert_allclose(made.prediction, made.model_prediction, atol=2e-3)
    assert np.abs(shares["network"]).max() > 0.01
    assert np.abs(shares["skip"]).max() > 0.01
    assert ("Skip's share" in made.computed_by_model) == (2 * points > MAX_PRINTED_SIDE)
    if 2 * points <= MAX_PRINTED_SIDE:  # then the map is printed, and gives the share
        table = np.array([numbers for _, numbers in stages["Skip: the map"].rows])
        ((_, x),) = stages["Source points in one row"].rows
        typed_in = table[:, :-1] @ np.array(x) + table[:, -1]
        np.testing.assert_allclose(shares["skip"], typed_in, atol=0.5001e-4)
    print_explanation(made, "markdown")
    assert "forecast = network + skip" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["recurrent", "fast_weights"])
def test_a_stopped_run_goes_on_to_the_same_bytes(kind: str, tmp_path: Path) -> None:
    config = resolve(None, [*SMALL, f"model.kind={kind}"]).config
    found = verify_resume(config, tmp_path, stops=2, message=lambda line: None)
    assert found.difference is None
