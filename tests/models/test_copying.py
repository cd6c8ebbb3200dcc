"""Copying by pointing (See, Liu and Manning 2017, eq. 8 and 9) against plain torch code with loops
over sequences and steps: outputs, loss, gradient and greedy decoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from seqattn.config import Config, Training, resolve
from seqattn.data import DataSpec, load_data
from seqattn.data.tokens import BEGIN, END, PAD, UNKNOWN, Tokens
from seqattn.errors import ConfigError, UsageError
from seqattn.experiments.prepare import check_fit
from seqattn.models import FeatureSpec, Seq2SeqModel, build_model, functions
from seqattn.models.attention import Override, Softmax
from seqattn.models.copying import Copier
from seqattn.models.decoding import GREEDY, decode, log_probabilities
from seqattn.training import TrainingRun, to_tensors
from seqattn.training.batches import Batch
from seqattn.training.objective import AutogradLoss, ManualBackwardLoss, build_loss
from tests.models.test_tokens import COPIED, E, H, N, T, V, W, batch, built
from tests.training_session import trained

Weights = Mapping[str, Tensor]
KEEP = torch.arange(T) < torch.tensor([6, 2, 1, 4, 6])[:, None]
CONTEXTS: dict[str, dict[str, Any]] = {
    "context in the output": {},
    "tanh": {"readout": "tanh"},
    "input feeding": {"input_feeding": True},
    "context in the input": {"context": "input"},
    "local": {"attention": {"score": "general", "location": {"kind": "local", "window": 1}}},
}


def model_of(name: str = "context in the output", seed: int = 1) -> Seq2SeqModel:
    config = Config.model_validate(
        {
            "model": {
                "hidden_dim": H, "copying": True, "embedding": {"dim": E},
                "attention": {"score": "general"},
            } | CONTEXTS[name]
        }
    ).model  # fmt: skip
    model = build_model(config, FeatureSpec(1, 1, (0,), W, V, COPIED), seed).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that gates and weights are far from uniform
    return model


def gru(w: Weights, side: str, x: Tensor, h: Tensor) -> Tensor:
    gi = w[f"{side}.weight_ih"] @ x + w[f"{side}.bias_ih"]
    gh = w[f"{side}.weight_hh"] @ h + w[f"{side}.bias_hh"]
    r, z = (gi[:H] + gh[:H]).sigmoid(), (gi[H : 2 * H] + gh[H : 2 * H]).sigmoid()
    return (1 - z) * (gi[2 * H :] + r * gh[2 * H :]).tanh() + z * h


class Reader:
    """The decoder of one source, one step after another."""

    def __init__(self, w: Weights, source: list[int], name: str) -> None:
        self.w, self.source, self.name = w, source, name
        h, self.states = torch.zeros(H, dtype=torch.float64), list[Tensor]()
        for symbol in source:
            h = gru(w, "encoder", w["source_modality.embedding.weight"][symbol], h)
            self.states.append(h)
        self.h, self.fed = h, torch.zeros(H, dtype=torch.float64)

    def attend(self, h: Tensor) -> tuple[Tensor, list[Tensor]]:
        w, S = self.w, len(self.states)
        scores = torch.stack([h @ w["attention.score.key.weight"] @ s for s in self.states])
        weights = list(scores.softmax(dim=0))
        if self.name == "local":
            inner = (w["attention.location.predict.weight"] @ h).tanh()
            center = (S - 1) * (w["attention.location.combine.weight"][0] @ inner).sigmoid()
            inside = (torch.arange(S) - center.detach()).abs() <= 1
            content = scores.masked_fill(~inside, -torch.inf).softmax(dim=0)
            weights = [w_k * (-((k - center) ** 2) / 0.5).exp() for k, w_k in enumerate(content)]
        pairs = zip(weights, self.states, strict=True)
        return torch.stack([weight * s for weight, s in pairs]).sum(0), weights

    def probabilities(self, symbol: int) -> Tensor:
        """Return the probabilities (V,) after reading a symbol."""
        w, name = self.w, self.name
        x = w["target_modality.embedding.weight"][symbol]
        if name == "context in the input":
            context, weights = self.attend(self.h)
            readout = self.h = gru(w, "decoder", torch.cat([x, context]), self.h)
        else:
            fed = [self.fed] if name == "input feeding" else []
            self.h = gru(w, "decoder", torch.cat([x, *fed]), self.h)
            context, weights = self.attend(self.h)
            readout = torch.cat([context, self.h])
            if name in ("tanh", "input feeding"):
                readout = (w["combine.weight"] @ readout + w["combine.bias"]).tanh()
                self.fed = readout
        gate = w["copier.gate.weight"][0] @ torch.cat([context, self.h, x])
        g = (gate + w["copier.gate.bias"][0]).sigmoid()
        generated = (w["output.weight"] @ readout + w["output.bias"]).softmax(dim=0)
        found, mass = [], torch.stack(weights).sum()
        for k in range(V):
            of_k = [x for x, s in zip(weights, self.source, strict=True) if COPIED[s] == k]
            found.append(g * generated[k] + (1 - g) * sum(of_k) / mass)
        return torch.stack(found)


def sources() -> list[list[int]]:
    source, _, lengths = batch()
    return [row[:n].flatten().tolist() for row, n in zip(source, lengths.tolist(), strict=True)]


def plain_loss(w: Weights, name: str) -> Tensor:
    """The mean of -log P over all valid target steps, with the true symbols as inputs."""
    _, target, _ = batch()
    errors = []
    for n, source in enumerate(sources()):
        reader, before = Reader(w, source, name), BEGIN
        for symbol in target[n, : int(KEEP[n].sum()), 0].tolist():
            errors.append(-reader.probabilities(before)[symbol].log())
            before = symbol
    return torch.stack(errors).mean()


def weights_of(model: Seq2SeqModel) -> dict[str, Tensor]:
    return {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}


def gradient_of(loss: Tensor, parameters: list[Tensor]) -> Tensor:
    found = torch.autograd.grad(loss, parameters, materialize_grads=True)
    return torch.cat([each.flatten() for each in found])


def set_gate(model: Seq2SeqModel | Copier, value: float) -> None:
    """Set the bias of the gate."""
    with torch.no_grad():
        named = dict(model.named_parameters())
        next(each for name, each in named.items() if name.endswith("gate.bias")).fill_(value)


@pytest.mark.parametrize("name", CONTEXTS)
def test_outputs_are_the_logarithms_of_the_mixture(name: str) -> None:
    model, (source, target, lengths) = model_of(name), batch()
    truth = torch.ones(T, dtype=torch.bool)
    outputs = model(source, target, source_lengths=lengths, teacher_forcing=truth).values
    torch.testing.assert_close(outputs.exp().sum(-1), torch.ones(N, T, dtype=torch.float64))
    weights = weights_of(model)
    for n, one in enumerate(sources()):
        reader, before = Reader(weights, one, name), BEGIN
        for t in range(T):
            expected = reader.probabilities(before)
            torch.testing.assert_close(outputs[n, t].exp(), expected, atol=1e-12, rtol=1e-9)
            before = int(target[n, t, 0])


@pytest.mark.parametrize("name", CONTEXTS)
def test_the_gradient_of_a_training_step_is_that_of_plain_torch(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is large enough for the loss of states must not skip the mixture."""
    monkeypatch.setattr(functions, "MIN_LOGITS", 1)
    models = [model_of(name, seed) for seed in (1, 2, 3)]
    expected, truth = [], torch.ones(T, dtype=torch.bool)
    for model in models:
        weights = weights_of(model)
        loss = plain_loss(weights, name)
        expected.append((loss.detach(), gradient_of(loss, list(weights.values()))))
    losses, gradients = (torch.stack(each) for each in zip(*expected, strict=True))
    assert gradients.any(0).float().mean() > 0.9
    three = [x.expand(3, *x.shape) for x in (*batch(), KEEP)]
    stack, objective = build_loss(models)
    assert not isinstance(objective, ManualBackwardLoss)
    stack.model.train()
    found = objective.value_and_grad(Batch(*three), truth)
    torch.testing.assert_close(found, losses)
    torch.testing.assert_close(stack.gradient, gradients, atol=1e-9, rtol=1e-6)
    for k, model in enumerate(models):
        stack, objective = build_loss([model])
        stack.model.train()
        found = objective.value_and_grad(Batch(*batch(), KEEP), truth)
        torch.testing.assert_close(found, losses[k])
        torch.testing.assert_close(stack.gradient[0], gradients[k], atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("name", CONTEXTS)
def test_greedy_decoding_reads_the_largest_probabilities(name: str) -> None:
    model, (source, _, lengths) = model_of(name), batch()
    found = decode(model, source, lengths, 9, GREEDY)
    weights = {key: each.detach() for key, each in model.named_parameters()}
    for n, one in enumerate(sources()):
        reader, symbol, log_prob, written = Reader(weights, one, name), BEGIN, 0.0, list[int]()
        while symbol != END and len(written) < 9:
            probabilities = reader.probabilities(symbol)[END:]
            symbol = int(probabilities.argmax()) + END
            log_prob += float((probabilities / probabilities.sum()).log()[symbol - END])
            written.append(symbol)
        assert found.symbols[n, 0, : len(written)].tolist() == written
        assert not found.symbols[n, 0, len(written) :].any()
        assert float(found.log_probs[n, 0]) == pytest.approx(log_prob, abs=1e-9)


def test_a_forced_weight_is_a_forced_copy() -> None:
    """With all weight on one source step and a closed gate, its symbol is written."""
    model, (source, _, lengths) = model_of(), batch()
    set_gate(model, -40)
    override = Override.parse("one_hot:1")
    outputs = model.forecast(source, 4, source_lengths=lengths, override=override).values
    first = torch.tensor([COPIED[one[0]] for one in sources()])
    steps = log_probabilities(outputs).exp()
    assert (steps.argmax(-1) == first.unsqueeze(-1)).all() and (steps.amax(-1) > 1 - 1e-9).all()


def test_extreme_gates_and_logits_stay_finite_and_have_gradients() -> None:
    """A symbol that is neither generated nor copied; and a gate that float32 rounds to 1."""
    copier = Copier(1, COPIED)
    for bias, expected in ((30.0, 1.0), (-30.0, 0.0)):
        torch.nn.init.zeros_(copier.gate.weight)
        set_gate(copier, bias)
        logits = torch.zeros(1, 1, V)
        logits[..., 5] = 200
        logits.requires_grad_()
        weights = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
        out = copier(logits, torch.zeros(1, 1, 1), weights, torch.tensor([[6, 4]]))
        assert out.isfinite().all()
        assert out[0, 0, 5].exp().item() == pytest.approx(expected, abs=1e-6)
        assert out[0, 0, 4].exp().item() == pytest.approx(1 - expected, abs=1e-6)
        (-out[0, 0, 4]).backward()
        assert logits.grad is not None and logits.grad.isfinite().all()
        gate = dict(copier.named_parameters())["gate.bias"].grad
        assert gate is not None and gate.isfinite().all()
        assert bias < 0 or gate[0] > 0.5  # a lower gate copies more
        copier.zero_grad()


@pytest.mark.parametrize("scale", [0.0, 1e-40])
def test_vanished_weights_have_a_finite_gradient(scale: float) -> None:
    """In training, the weights of monotonic attention can be almost 0. The true symbol has almost
    no probability."""
    copier = Copier(1, [6, 5])
    with torch.no_grad():
        for parameter in copier.parameters():
            parameter.zero_()
    logits = torch.tensor([[[0.0] * 6 + [-18.0]]])
    shares = torch.full((1, 1, 2), 0.5, requires_grad=True)
    out = copier(logits, torch.zeros(1, 1, 1), shares * scale, torch.tensor([[6, 5]]))
    (-out[0, 0, 6]).backward()
    assert shares.grad is not None and shares.grad.isfinite().all()


def test_source_symbols_stand_for_target_symbols_with_the_same_text() -> None:
    source, target = Tokens.of_symbols(["b", "x", "a"]), Tokens.of_symbols(["a", "b", "c"])
    spec = DataSpec(source, target, 3, 3)
    assert FeatureSpec.of(spec).copied_symbols == (*[UNKNOWN] * 4, 5, UNKNOWN, 4)


def test_copying_puts_no_probability_on_padding_and_begin() -> None:
    model = built("copying")
    source, _, lengths = batch()
    set_gate(model, -40)
    with torch.no_grad():
        steps = model.forecast(source, 5, source_lengths=lengths).values.exp()
    assert (steps[..., [PAD, BEGIN]] < 1e-15).all()


@pytest.mark.parametrize("attention", [None, {"heads": 2}])
def test_a_model_that_cannot_point_is_refused(attention: dict[str, Any] | None) -> None:
    with pytest.raises(ValidationError, match="needs attention with one head to point") as caught:
        Config.model_validate({"model": {"copying": True, "attention": attention}})
    assert caught.value.errors()[0]["ctx"]["key"] == "copying"


def test_negative_weights_do_not_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Softmax, "meaning", "strength")
    with pytest.raises(UsageError, match="model.copying: true needs weights that are a distr"):
        model_of()


def test_vectors_are_not_copied() -> None:
    config = Config.model_validate({"data": {"n_train": 20}, "model": {"copying": True}})
    with pytest.raises(ConfigError, match="model.copying: true copies symbols of the source"):
        check_fit(config, load_data(config.data))


def share_of_new_symbols(copying: bool) -> float:
    """Train a model to repeat its source, and return the share of right outputs of the test symbols
    that no training target contains."""
    sets = ["data.kind=copy", "data.symbols=300", "data.length=4", "data.min_length=2",
            "data.n_train=200", "data.n_validation=10", "data.n_test=100", "training.epochs=40",
            "training.batch_size=20", "training.teacher_forcing.probability=1",
            "model.hidden_dim=24", "model.bidirectional=true",
            "model.attention.score=additive", f"model.copying={str(copying).lower()}"]  # fmt: skip
    config = resolve(None, sets).config
    data = load_data(config.data)
    train, validation, test = map(to_tensors, (data.train, data.validation, data.test))
    features = FeatureSpec.of(DataSpec.of_splits(data))
    model = build_model(config.model, features, config.seed)
    trained([TrainingRun(model, train, validation, config.training, config.seed)])
    true, T = test.target[..., 0], test.target.shape[1]
    found = decode(model.eval(), test.source, test.source_lengths, T, GREEDY).symbols[:, 0]
    is_right = torch.nn.functional.pad(found, (0, T - found.shape[1])) == true
    is_new = (true > UNKNOWN) & ~torch.isin(true, train.target)
    assert is_new.sum() > 30
    return float(is_right[is_new].float().mean())


def test_only_copying_writes_symbols_that_no_training_target_contains() -> None:
    assert share_of_new_symbols(copying=False) == 0
    assert share_of_new_symbols(copying=True) > 0.7


# --- the coverage loss ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_copying", [True, False])
def test_the_coverage_loss_by_its_equation(is_copying: bool, monkeypatch: Any) -> None:
    """See et al. 2017, eq. 12 and 13, one target step at a time; not in validation."""
    monkeypatch.setattr(functions, "MIN_LOGITS", 1)
    source, target, lengths = batch()
    truth, rate = torch.ones(T, dtype=torch.bool), 0.7
    names = "copying" if is_copying else "coverage"
    models, expected = [built(names, seed) for seed in (1, 2)], []
    for model in models:
        out = model(source, target, source_lengths=lengths, teacher_forcing=truth)
        weights, repeated = out.attention[0].weights[:, 0], []
        for n in range(N):
            coverage = torch.zeros_like(weights[n, 0])
            for t in range(int(KEEP[n].sum())):
                repeated.append(torch.minimum(weights[n, t], coverage).sum())
                coverage = coverage + weights[n, t]
        loss = model.target_modality.loss(out.values, target, KEEP)
        total = loss + rate * torch.stack(repeated).mean()
        expected.append((total.detach(), gradient_of(total, list(model.parameters()))))
        validation, _ = AutogradLoss(model, coverage_loss=rate).eval_losses(
            Batch(source, target, lengths, KEEP)
        )
        torch.testing.assert_close(validation, loss.detach())
    losses, gradients = (torch.stack(each) for each in zip(*expected, strict=True))
    stack, objective = build_loss(models, coverage_loss=rate)
    stack.model.train()
    two = Batch(*(x.expand(2, *x.shape) for x in (source, target, lengths, KEEP)))
    torch.testing.assert_close(objective.value_and_grad(two, truth), losses)
    torch.testing.assert_close(stack.gradient, gradients)


def test_the_coverage_loss_needs_coverage() -> None:
    with pytest.raises(ValidationError, match="only attention with score: coverage sums"):
        Config(training=Training(coverage_loss=1.0))
