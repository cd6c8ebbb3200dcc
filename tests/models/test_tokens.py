"""Models of symbols: embeddings, cross-entropy, and outputs that do not depend on their batch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import Tensor

from seqattn.config import Model
from seqattn.data.tokens import BEGIN, END, PAD
from seqattn.models import FeatureSpec, Seq2SeqModel, build_model
from seqattn.models.layers import Embedding, TiedLinear
from seqattn.models.modality import TokenModality
from seqattn.training.state import StackedParams

N, S, T, V, W, E, H = 5, 7, 6, 11, 13, 3, 4
COPIED = (3, 3, 3, 3, 10, 4, 3, 7, 3, 5, 9, 3, 6)  # of each source symbol, the target symbol
SYMBOLS = FeatureSpec(1, 1, (0,), W, V, COPIED)
MODELS: dict[str, dict[str, Any]] = {
    "additive": {"hidden_dim": H, "attention": {"score": "additive"}},
    "additive, two heads": {"hidden_dim": H, "attention": {"score": "additive", "heads": 2}},
    "two-way lstm, input feeding": {"hidden_dim": H, "cell": "lstm", "bidirectional": True,
                                    "input_feeding": True},
    "context in the input, tied": {"hidden_dim": H, "context": "input",
                                   "embedding": {"dim": E, "tied": True}},
    "location": {"hidden_dim": H, "attention": {"score": "dot", "location": {"window": 2,
                                                                             "kind": "local"}}},
    "coverage": {"hidden_dim": H, "attention": {"score": "coverage"}},
    "copying": {"hidden_dim": H, "copying": True, "attention": {"score": "coverage"}},
    "copying, deep, input feeding": {"hidden_dim": H, "copying": True, "input_feeding": True,
                                     "layers": 2, "embedding": {"dim": E, "tied": True}},
    "copying, location, context in the input": {
        "hidden_dim": H, "copying": True, "context": "input", "cell": "lstm",
        "attention": {"score": "dot", "location": {"window": 2, "kind": "local"}},
    },
    "no attention": {"hidden_dim": H, "attention": None},
    "fast weights": {"kind": "fast_weights", "hidden_dim": H},
    "transformer, tied": {"kind": "transformer", "model_dim": H, "heads": 2, "layers": 2,
                          "feedforward_dim": 5, "embedding": {"tied": True}},
    "transformer": {"kind": "transformer", "model_dim": H, "heads": 1, "layers": 1,
                    "feedforward_dim": 5, "embedding": {"dim": E}},
}  # fmt: skip


def built(name: str, seed: int = 1, features: FeatureSpec = SYMBOLS) -> Seq2SeqModel:
    config = TypeAdapter[Any](Model).validate_python({"kind": "recurrent"} | MODELS[name])
    return build_model(config, features, seed).double()


def batch() -> tuple[Tensor, Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(0)
    source = torch.randint(4, W, (N, S, 1), generator=numbers)
    target = torch.randint(4, V, (N, T, 1), generator=numbers)
    lengths = torch.tensor([7, 3, 1, 5, 7])
    for n, length in enumerate(lengths.tolist()):
        source[n, length:] = PAD
    return source, target, lengths


def test_the_error_of_a_symbol_is_its_cross_entropy() -> None:
    modality = TokenModality(V, E)
    outputs, (_, target, _) = torch.randn(N, T, V, dtype=torch.float64), batch()
    errors = modality.errors(outputs, target)
    for n in range(N):
        for t in range(T):
            probabilities = outputs[n, t].exp() / outputs[n, t].exp().sum()
            expected = -probabilities[target[n, t, 0]].log()
            assert float(errors[n, t, 0]) == pytest.approx(float(expected), rel=1e-12)
    keep = torch.arange(T) < torch.tensor([1, 6, 2, 3, 5])[:, None]
    loss = modality.loss(outputs, target, keep)
    assert float(loss) == pytest.approx(float(errors[..., 0][keep].mean()))
    kept = modality.observe(outputs, target)
    assert torch.equal(kept[..., 1:], errors)


def test_padding_and_begin_are_never_read() -> None:
    modality = TokenModality(V, E)
    outputs = torch.zeros(2, 3, V)
    outputs[..., PAD], outputs[..., BEGIN] = 9, 9
    outputs[0, :, 5], outputs[1, :, END] = 1, 1
    assert modality.read(outputs)[..., 0].tolist() == [[5] * 3, [END] * 3]
    assert modality.has_ended(modality.read(outputs)).tolist() == [[False] * 3, [True] * 3]
    assert modality.start_token(torch.ones(4, 1, dtype=torch.int64)).tolist() == [[BEGIN]] * 4


def test_a_tied_output_layer_has_the_vectors_of_the_embedding() -> None:
    embedding = Embedding(V, E)
    torch.nn.init.normal_(embedding.weight)
    layer = TiedLinear(embedding, E)
    torch.nn.init.normal_(layer.bias)
    x = torch.randn(N, E)
    assert torch.allclose(layer(x), x @ embedding.weight.T + layer.bias)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    model = built("context in the input, tied")
    names = dict(model.named_parameters())
    assert "output.weight" not in names
    assert names["output.inner.weight"].shape == (E, H)
    assert copy.deepcopy(model).output.weight.shape == (V, E)


@pytest.mark.parametrize("name", MODELS)
def test_runs_side_by_side_are_runs_alone(name: str) -> None:
    models = [built(name, seed) for seed in (1, 2, 3)]
    source, target, lengths = batch()
    forced = torch.ones(T, dtype=torch.bool)
    alone = [model(source, target, source_lengths=lengths, teacher_forcing=forced).values
             for model in models]  # fmt: skip
    stack = StackedParams(models)
    three = [tensor.expand(3, *tensor.shape) for tensor in (source, target, lengths)]
    together = stack.model(
        three[0], three[1], source_lengths=three[2], teacher_forcing=forced
    ).values
    assert torch.allclose(together, torch.stack(alone), atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_an_output_does_not_depend_on_its_batch(name: str) -> None:
    """The same symbols alone, in another order, and with other sequences that end later."""
    model = built(name)
    source, _, lengths = batch()
    read = model.target_modality.read
    with torch.no_grad():
        whole = read(model.forecast(source, 9, source_lengths=lengths).values)
        for n in range(N):
            only = source[n : n + 1, : int(lengths[n])]
            alone = read(model.forecast(only, 9).values)
            ends = (alone[0, :, 0] == END).nonzero()
            length = int(ends[0]) + 1 if len(ends) else alone.shape[1]
            assert torch.equal(whole[n, :length], alone[0, :length]), n
        order = torch.tensor([4, 2, 0, 1, 3])
        moved = read(model.forecast(source[order], 9, source_lengths=lengths[order]).values)
    steps = min(moved.shape[1], whole.shape[1])
    assert torch.equal(moved[:, :steps], whole[order][:, :steps])


@pytest.mark.parametrize("name", MODELS)
def test_free_running_is_teacher_forcing_with_its_own_symbols(name: str) -> None:
    model = built(name)
    source, _, lengths = batch()
    with torch.no_grad():
        free = model.forecast(source, T, source_lengths=lengths).values
        own = model.target_modality.read(free)
        forced = model(source, own, source_lengths=lengths,
                       teacher_forcing=torch.ones(own.shape[1], dtype=torch.bool)).values  # fmt: skip
    assert torch.allclose(free, forced, atol=1e-10)
    ends = (own[..., 0] == END).cumsum(dim=1) > 0  # it stops when all have ended, and not before
    assert free.shape[1] == T or bool(ends[:, -1].all())
    assert not bool(ends[:, :-1].all(dim=0).any())


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_is_the_slope_of_the_loss(name: str) -> None:
    model = built(name)
    source, target, lengths = batch()
    forced = torch.ones(T, dtype=torch.bool)

    def loss() -> Tensor:
        outputs = model(source, target, source_lengths=lengths, teacher_forcing=forced).values
        return model.target_modality.loss(outputs, target, None)

    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss(), parameters)
    numbers = torch.Generator().manual_seed(4)
    directions = [torch.randn(p.shape, generator=numbers, dtype=p.dtype) for p in parameters]
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    losses = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            for p, d in zip(parameters, directions, strict=True):
                p.add_(d, alpha=step)
            losses.append(float(loss()))
            for p, d in zip(parameters, directions, strict=True):
                p.sub_(d, alpha=step)
    assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(slope, rel=1e-4)
