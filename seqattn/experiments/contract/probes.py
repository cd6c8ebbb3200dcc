"""Calls of the methods of a mechanism. A probe shows which method of the mechanism causes a
difference that a check of the whole model found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from seqattn.experiments.contract.case import SOURCE_DIM, TARGET_DIM, ContractCase, N
from seqattn.experiments.contract.result import Difference, tensor_difference
from seqattn.models import RecurrentModel, Seq2SeqModel
from seqattn.models.attention import Location, Normalizer, Score
from seqattn.models.cells import Cell
from seqattn.models.registration import check_output

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Probe:
    """A call of one method of a mechanism with random inputs.

    Attributes:
        name: the name of the method.
        module: the mechanism.
        function: the call, as a function of the inputs by name.
        inputs: the inputs by name, in float64. The first axis is the axis of sequences.
        shape: the shape that the result must have; None for an axis of any size.
        axes: the names of the axes of the result, for messages.
        padding: for each input that has padding, a mask of the padded values, which broadcasts to
            the input.
        valid: a mask of the results that must not depend on padding, which broadcasts to the
            result.
        steps: for each input with an axis of steps that are processed one after another, the index
            of this axis.
        step_axis: the index of the axis of steps in the result; None if there is no such axis.
    """

    name: str
    module: nn.Module
    function: Callable[[Tensors], Tensor]
    inputs: Tensors
    shape: tuple[int | None, ...]
    axes: tuple[str, ...]
    padding: Tensors = field(default_factory=dict)
    valid: Tensor = field(default_factory=lambda: torch.ones((), dtype=torch.bool))
    steps: Mapping[str, int] = field(default_factory=dict)
    step_axis: int | None = None

    def __call__(self, inputs: Tensors | None = None) -> Tensor:
        return self.function(self.inputs if inputs is None else inputs)

    @property
    def expected_shape(self) -> str:
        return "(" + ", ".join("K" if size is None else str(size) for size in self.shape) + ")"

    def _effect(self, masks: Tensors, observed: Tensor) -> Difference:
        """Return how much the observed results change if masked inputs are replaced."""
        rng = torch.Generator().manual_seed(5)
        changed = dict(self.inputs)
        for name, mask in masks.items():
            other = torch.randn(changed[name].shape, generator=rng, dtype=torch.float64)
            changed[name] = torch.where(mask, 3 * other, changed[name])
        with torch.no_grad():
            before, after = self(), self(changed)
        return tensor_difference(
            after.masked_fill(~observed, 0.0), before.masked_fill(~observed, 0.0)
        )

    def effect_of_padding(self) -> Difference:
        """Return how much the valid results change if the padding is replaced."""
        return self._effect(self.padding, self.valid)

    def effect_of_neighbours(self) -> Difference:
        """Return how much the results of the first sequence change if all other sequences are
        replaced."""
        others = {
            name: self._rows(tensor, torch.arange(len(tensor)) > 0)
            for name, tensor in self.inputs.items()
        }
        with torch.no_grad():
            result = self()
        return self._effect(others, self._rows(result, torch.arange(len(result)) == 0))

    def effect_of_later_steps(self) -> Difference:
        """Replace the last step, and return how much the results of the earlier steps change."""
        masks = {}
        for name, axis in self.steps.items():
            masks[name] = self._last(self.inputs[name], axis)
        assert self.step_axis is not None
        with torch.no_grad():
            result = self()
        return self._effect(masks, ~self._last(result, self.step_axis))

    @staticmethod
    def _rows(tensor: Tensor, rows: Tensor) -> Tensor:
        return rows.view(-1, *[1] * (tensor.dim() - 1)).expand(tensor.shape)

    @staticmethod
    def _last(tensor: Tensor, axis: int) -> Tensor:
        mask = torch.zeros(tensor.shape, dtype=torch.bool)
        mask.select(axis, -1).fill_(True)
        return mask


def probes_of(case: ContractCase, model: Seq2SeqModel | None = None) -> list[Probe]:
    """Return the probes of the mechanism of a case.

    Args:
        case: the case.
        model: the model that contains the mechanism; None for the model of the case.
    """
    model = case.model if model is None else model
    module = case.component(model)
    match case.part:
        case "score":
            assert isinstance(module, Score) and isinstance(model, RecurrentModel)
            return _probes_of_score(module, case, model.hidden)
        case "normalizer":
            assert isinstance(module, Normalizer)
            return [_probe_of_normalizer(module, case, case.attention_of(model).heads)]
        case "location":
            assert isinstance(module, Location) and isinstance(model, RecurrentModel)
            return [_probe_of_location(module, case, model)]
        case "cell":
            assert isinstance(module, Cell)
            return _probes_of_cell(module, case)
        case "model":
            return [_probe_of_model(model, case)]


def _random(seed: int, *shape: int) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def _valid_steps(case: ContractCase) -> Tensor:
    return torch.arange(case.S) < case.lengths[:, None]


def _heads(heads: int) -> tuple[int, ...]:
    return () if heads == 1 else (heads,)


def _probes_of_score(score: Score, case: ContractCase, hidden: int) -> list[Probe]:
    S, T = case.S, case.T
    valid, heads = _valid_steps(case), _heads(score.heads)
    axes = ("sequence", *("head" for _ in heads))
    states = {"encoded": _random(1, N, S, hidden)}
    outside = {"encoded": ~valid[..., None]}
    columns = valid.view(N, *[1] * len(heads), 1, S)
    keys = Probe(
        "keys", score, lambda x: score.keys(x["encoded"]), states, (N, *heads, S, None),
        (*axes, "source step"), outside, valid.view(N, *[1] * len(heads), S, 1),
    )  # fmt: skip
    scores = Probe(
        "scores", score, lambda x: score.scores(x["queries"], score.keys(x["encoded"])),
        {"queries": _random(2, N, T, hidden), **states}, (N, *heads, T, S),
        (*axes, "target step", "source step"), outside, columns, {"queries": 1}, -2,
    )  # fmt: skip
    return [keys, scores]


def _probe_of_normalizer(normalizer: Normalizer, case: ContractCase, A: int) -> Probe:
    S, T = case.S, case.T
    valid, heads = _valid_steps(case), _heads(A)
    keep = valid.view(N, *[1] * len(heads), S)
    return Probe(
        "normalize", normalizer,
        lambda x: normalizer(x["scores"], keep, None).weights,
        {"scores": _random(3, N, *heads, T, S)}, (N, *heads, T, S),
        ("sequence", *("head" for _ in heads), "target step", "source step"),
        {"scores": ~keep.unsqueeze(-2)}, keep.unsqueeze(-2), {"scores": -2}, -2,
    )  # fmt: skip


def _probe_of_location(location: Location, case: ContractCase, model: RecurrentModel) -> Probe:
    S, T = case.S, case.T
    attention = ContractCase.attention_of(model)
    valid, heads = _valid_steps(case), _heads(attention.heads)
    keep, normalizer = valid.view(N, *[1] * len(heads), S), attention.normalizer
    return Probe(
        "attention_weights", location,
        lambda x: location(normalizer, x["queries"], x["scores"], keep, None)[0],
        {"queries": _random(2, N, T, model.hidden), "scores": _random(3, N, *heads, T, S)},
        (N, *heads, T, S),
        ("sequence", *("head" for _ in heads), "target step", "source step"),
        {"scores": ~keep.unsqueeze(-2)}, keep.unsqueeze(-2), {"queries": 1, "scores": -2}, -2,
    )  # fmt: skip


def _probes_of_cell(cell: Cell, case: ContractCase) -> list[Probe]:
    S, valid = case.S, _valid_steps(case)
    inputs = {"inputs": _random(4, N, S, cell.weight_ih.shape[-1])}
    outside = {"inputs": ~valid[..., None]}
    W = cell.hidden * cell.num_state_tensors
    outputs = Probe(
        "forward (outputs)", cell, lambda x: cell.forward(x["inputs"], case.lengths)[0], inputs,
        (N, S, cell.hidden), ("sequence", "step"), outside, valid[..., None], {"inputs": 1}, 1,
    )  # fmt: skip
    last = Probe(
        "forward (last state)", cell, lambda x: cell.forward(x["inputs"], case.lengths)[1], inputs,
        (N, W), ("sequence",), outside,
    )  # fmt: skip
    return [outputs, last]


def _probe_of_model(model: Seq2SeqModel, case: ContractCase) -> Probe:
    S, T, valid = case.S, case.T, _valid_steps(case)
    return Probe(
        "forecast", model,
        lambda x: check_output(
            model.forecast(x["source"], T, source_lengths=case.lengths, with_attention=False),
            f"{type(model).__name__}.forecast",
        ).values,
        {"source": _random(6, N, S, SOURCE_DIM)}, (N, T, TARGET_DIM), ("sequence", "step"),
        {"source": ~valid[..., None]},
    )  # fmt: skip
