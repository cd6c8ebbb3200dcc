"""Passes that are written by hand are for the classes they were written for, and for no subclass."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqattn.config import Recurrent
from seqattn.models import ModelOutput, RecurrentModel, build_model, manual_backward
from seqattn.models.attention import (
    AdditiveScore,
    Attention,
    AttentionOutput,
    DotScore,
    GeneralScore,
    ScaledDotScore,
    Softmax,
    UniformScore,
)
from seqattn.models.attention.normalizers import NormalizerOutput
from seqattn.models.cells import GRU, LSTM, RNN
from seqattn.models.layers import Linear
from seqattn.models.modality import Modality, VectorModality
from seqattn.training import Batch
from seqattn.training.objective import AutogradLoss, LossFn, ManualBackwardLoss, build_loss
from seqattn.training.state import StackedParams
from tests.conftest import F, H, K, N, S, T


class ChangedModel(RecurrentModel):
    def forward(self, *args: Any, **options: Any) -> ModelOutput:
        forecast = super().forward(*args, **options)
        return ModelOutput(forecast.values.sin(), forecast.attention, forecast.actions)


class ChangedGRU(GRU):
    def forward(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs, last = super().forward(inputs, lengths)
        return outputs, last.sin()

    def output(self, state: Tensor) -> Tensor:
        return state.sin()


class ChangedLSTM(LSTM):
    def forward(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs, last = super().forward(inputs, lengths)
        return outputs, last.sin()

    def output(self, state: Tensor) -> Tensor:
        return super().output(state).sin()


class ChangedRNN(RNN):
    def forward(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs, last = super().forward(inputs, lengths)
        return outputs, last.sin()

    def output(self, state: Tensor) -> Tensor:
        return state.sin()


class ChangedAttention(Attention):
    def attend(self, *args: Any, **options: Any) -> AttentionOutput:
        attended = super().attend(*args, **options)
        return attended._replace(context=attended.context.sin())


class ChangedSoftmax(Softmax):
    def normalize(self, scores: Tensor, keep: Tensor | None, u: Tensor | None) -> NormalizerOutput:
        positions = torch.arange(scores.shape[-1]).to(scores)
        return super().normalize(3 * (scores + positions).sin(), keep, u)


class ChangedDot(DotScore):
    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return 3 * super().scores(queries, keys).sin()


class ChangedScaledDot(ScaledDotScore):
    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return 3 * super().scores(queries, keys).sin()


class ChangedGeneral(GeneralScore):
    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return 3 * super().scores(queries, keys).sin()


class ChangedUniform(UniformScore):
    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return super().scores(queries, keys) + keys.sum(-1).unsqueeze(-2).sin()


class ChangedAdditive(AdditiveScore):
    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        return 3 * super().scores(queries, keys).sin()


class ChangedAffine(Linear):
    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x).sin()


class ChangedModality(VectorModality):
    def errors(self, outputs: Tensor, target: Tensor) -> Tensor:
        return super().errors(outputs, target).sqrt()

    def loss(self, outputs: Tensor, target: Tensor, keep: Tensor | None) -> Tensor:
        return Modality.loss(self, outputs, target, keep)

    def embed(self, steps: Tensor) -> Tensor:
        return steps.sin()


CHANGED: dict[type[nn.Module], type[nn.Module]] = {
    changed.__mro__[1]: changed
    for changed in (ChangedModel, ChangedGRU, ChangedLSTM, ChangedRNN, ChangedAttention, ChangedSoftmax, ChangedDot,
                    ChangedScaledDot, ChangedGeneral, ChangedUniform, ChangedAdditive,
                    ChangedAffine, ChangedModality)
}  # fmt: skip
COVERED: dict[str, dict[str, Any]] = {
    "dot": {"attention": {"score": "dot"}},
    "projected": {"attention": {"score": "scaled_dot", "key_dim": K, "project_values": True}},
    "general": {"attention": {"score": "general"}},
    "uniform": {"attention": {"score": "uniform"}},
    "additive": {"attention": {"score": "additive"}},
    "plain": {"attention": None},
    "lstm": {"cell": "lstm"},
    "rnn": {"cell": "rnn"},
}


def covered_model(name: str) -> RecurrentModel:
    config = Recurrent.model_validate({"hidden_dim": H} | COVERED[name])
    model = build_model(config, F, 1).double()
    assert isinstance(model, RecurrentModel)
    return model


def places() -> list[tuple[str, str]]:
    """Covered config and path of every part of its model."""
    return [
        (name, path)
        for name in COVERED
        for path, part in covered_model(name).named_modules()
        if not isinstance(part, nn.ModuleList)
    ]


def batch() -> Batch:
    numbers = torch.Generator().manual_seed(3)
    source = torch.randn(N, S, F, generator=numbers, dtype=torch.float64)
    target = torch.randn(N, T, F, generator=numbers, dtype=torch.float64)
    return Batch(source, target)


def loss_and_gradient(stack: StackedParams, objective: LossFn) -> tuple[float, Tensor]:
    forced = torch.arange(T) % 3 > 0
    loss = objective.value_and_grad(batch(), forced)
    return float(loss.sum()), stack.gradient[0].clone()


def test_every_covered_class_is_tested() -> None:
    parts = {type(part) for name in COVERED for part in covered_model(name).modules()}
    assert parts - {nn.ModuleList} == set(CHANGED)
    assert {*manual_backward.SUPPORTED_CLASSES} == parts


@pytest.mark.parametrize(("name", "path"), places())
def test_a_subclass_is_differentiated_by_autograd(name: str, path: str) -> None:
    """Its gradient is the slope of its own loss, along a random direction."""
    model = covered_model(name)
    original, derived_objective = build_loss([copy.deepcopy(model)])
    assert isinstance(derived_objective, ManualBackwardLoss)
    of_parent = loss_and_gradient(original, derived_objective)
    part = model.get_submodule(path)
    part.__class__ = CHANGED[type(part)]
    assert not manual_backward.supports(model)
    stack, objective = build_loss([model])
    assert isinstance(objective, AutogradLoss)
    loss, gradient = loss_and_gradient(stack, objective)
    assert abs(loss - of_parent[0]) > 1e-9, "the subclass computes something else"
    direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(5)).double()
    ends = []
    for step in (1e-5, -1e-5):
        stack.weights[0] += step * direction
        ends.append(loss_and_gradient(stack, objective)[0])
        stack.weights[0] -= step * direction
    assert float(gradient @ direction) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)
