"""A mechanism in a small model, the random sequences on which the checks of the contract run, the
results of checks, and probes, which call single methods of the mechanism.

The sizes of the axes are prime numbers and nearly all different, so that a check notices transposed
axes. With two heads, the width of the state is twice a prime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from seqattn.config import Model
from seqattn.models import (
    FeatureSpec,
    Lengths,
    ModelOutput,
    RecurrentModel,
    Seq2SeqModel,
    build_model,
)
from seqattn.models.attention import Attention, Location, Normalizer, Score
from seqattn.models.cells import Bidirectional, Cell
from seqattn.models.registration import check_output

State = Literal["passed", "warning", "failed", "not applicable"]
TOLERANCE = 1e-11
"""Largest absolute difference between two float64 results that count as equal."""


class CheckFailedError(Exception):
    """The error of a check that found a mistake. The message of the error contains the
    measured numbers and the likely mistake."""


class CheckWarningError(Exception):
    """The error of a check that found a property that is often, but not always, a mistake."""


class NotApplicableError(Exception):
    """The error of a check that does not apply. The message of the error states the reason."""


@dataclass(frozen=True)
class CheckRow:
    """The result of one check of a mechanism.

    Attributes:
        message: measured numbers if the check passed, a description of the mistake if the check
            failed or gave a warning, or the reason why the check does not apply.
    """

    check: str
    state: State
    message: str

    def as_plain(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass(frozen=True, order=True)
class Difference:
    """The largest absolute difference between two tensors, and its index.

    The value is infinite if only one of the two elements is NaN, and 0 if both are NaN.
    """

    value: float
    index: tuple[int, ...]

    @property
    def is_equal(self) -> bool:
        return self.value <= TOLERANCE

    def __str__(self) -> str:
        return "NaN" if self.value == math.inf else f"{self.value:.2g}"

    def at(self, *axes: str) -> str:
        """Return the value and its place as text, such as "0.2 (sequence 2, step 1)"."""
        return f"{self} ({place_of(self.index, axes)})"


def place_of(index: Sequence[int], axes: Sequence[str]) -> str:
    """Return an index as text, with the names of its first axes. Positions count from 1."""
    return ", ".join(f"{axis} {k + 1}" for axis, k in zip(axes, index, strict=False))


def tensor_difference(found: Tensor, expected: Tensor) -> Difference:
    """Return the largest difference between two tensors of the same shape."""
    if not found.numel():
        return Difference(0.0, (0,) * found.dim())
    found, expected = found.detach().double(), expected.detach().double()
    gaps = (found - expected).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    gaps = gaps.masked_fill((found == expected) | (found.isnan() & expected.isnan()), 0.0)
    index = torch.unravel_index(gaps.argmax(), gaps.shape)
    return Difference(float(gaps.max()), tuple(int(position) for position in index))


N, S, T, H, A, RUNS = 3, 7, 5, 11, 2, 2
SOURCE_DIM, TARGET_DIM = 17, 13
FEATURES = FeatureSpec(SOURCE_DIM, TARGET_DIM, (1, -1, 0, 5, -1, 16, 3, -1, 2, 4, -1, 7, 6))
"""Features of source and target. The source lacks four target features."""
LENGTHS = torch.tensor([7, 1, 4])
LONG_S, LONG_T = 29, 19
LONG_LENGTHS = torch.tensor([29, 5, 17])
"""Sizes and lengths of a long case. In a batch, the source of 5 steps is padded to 29 steps, so a
result that depends on the length of the padded array differs from the result without padding."""
SKIP_SOURCE_LENGTH = 4
"""Number of valid steps of every source of a model with a linear skip."""

Part = Literal["score", "normalizer", "location", "cell", "model"]


class ContractCase:
    """A model in which one mechanism is checked.

    `model` and its forecasts are computed once, for all checks that use them.

    Args:
        label: a description of the other settings of the model, such as "heads: 2".
        is_long: whether the sequences have the sizes `LONG_S` and `LONG_T`.

    Attributes:
        S: the number of source steps, padding included.
        lengths: the number of valid steps of each source.
    """

    def __init__(
        self, section: Model, part: Part = "model", label: str = "", *,
        is_long: bool = False, in_train_mode: bool = False,
    ) -> None:  # fmt: skip
        self.section, self.part, self.label = section, part, label
        self.in_train_mode = in_train_mode
        self.S, self.T = (LONG_S, LONG_T) if is_long else (S, T)
        has_skip = getattr(section, "skip", "none") == "linear"
        of_case = LONG_LENGTHS if is_long else LENGTHS
        self.lengths = torch.full((N,), SKIP_SOURCE_LENGTH) if has_skip else of_case

    def build(self, seed: int = 1) -> Seq2SeqModel:
        """Build the model in float64. In a model with a linear skip, parameters that start at zero
        get random values, so that they have an effect."""
        lengths = Lengths(SKIP_SOURCE_LENGTH, self.T)
        model = build_model(self.section, FEATURES, seed, lengths).double()
        if model.skip is not None:
            rng = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for parameter in model.parameters():
                    if not parameter.any():
                        parameter.uniform_(-0.3, 0.3, generator=rng)
        return model.train(self.in_train_mode)

    @cached_property
    def model(self) -> Seq2SeqModel:
        return self.build()

    def random_sequences(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Return sources (N, S, SOURCE_DIM), with NaN in the padding, and targets
        (N, T, TARGET_DIM)."""
        S, T = self.S, self.T
        rng = torch.Generator().manual_seed(seed)
        source = torch.randn(N, S, SOURCE_DIM, generator=rng, dtype=torch.float64)
        target = torch.randn(N, T, TARGET_DIM, generator=rng, dtype=torch.float64)
        source[torch.arange(S) >= self.lengths[:, None]] = math.nan
        return source, target

    @cached_property
    def sequences(self) -> tuple[Tensor, Tensor]:
        return self.random_sequences()

    @cached_property
    def free(self) -> ModelOutput:
        """The free-running forecast of the whole batch."""
        with torch.no_grad():
            return self.model.forecast(self.sequences[0], self.T, source_lengths=self.lengths)

    @cached_property
    def alone(self) -> list[ModelOutput]:
        """The forecast of each sequence alone and without padding."""
        source, _ = self.sequences
        with torch.no_grad():
            return [
                self.model.forecast(source[n : n + 1, :length], self.T)
                for n, length in enumerate(self.lengths.tolist())
            ]

    def require_finite(self) -> None:
        """Check that the forecasts without padding are finite."""
        if not all(bool(output.values.isfinite().all()) for output in self.alone):
            raise NotApplicableError("the forecasts are not finite; see the check `finite`.")

    @cached_property
    def forces_every_step(self) -> bool:
        """Whether training the model requires teacher forcing at every step. This is the case for a
        Transformer."""
        source, target = self.sequences
        never = torch.zeros(self.T, dtype=torch.bool)
        try:
            with torch.no_grad():
                self.model(source, target, source_lengths=self.lengths, teacher_forcing=never)
        except ValueError:
            return True
        return False

    # --- the mechanism ----------------------------------------------------------------------------

    def component(self, model: Seq2SeqModel | None = None) -> nn.Module:
        """Return the module of the mechanism in a model. The default model is `self.model`."""
        model = self.model if model is None else model
        if self.part == "model":
            return model
        assert isinstance(model, RecurrentModel)
        if self.part == "cell":
            encoder = model.encoder
            return encoder.forwards if isinstance(encoder, Bidirectional) else encoder
        found = getattr(self.attention_of(model), self.part)
        assert isinstance(found, nn.Module)
        return found

    @staticmethod
    def attention_of(model: Seq2SeqModel) -> Attention:
        """Return the attention module of a recurrent model."""
        assert isinstance(model, RecurrentModel)
        assert model.attention is not None
        return model.attention

    @cached_property
    def is_stochastic(self) -> bool:
        """Whether the weights depend on random numbers during training."""
        model = self.model
        if not isinstance(model, RecurrentModel) or model.attention is None:
            return False
        return model.attention.numbers_per_query(self.S) > 0

    def owns(self, parameter: str) -> bool:
        """Return whether a parameter of the model belongs to the mechanism."""
        if self.part == "model":
            return True
        module: nn.Module = self.model
        for name in parameter.split(".")[:-1]:
            if module is self.component() or (self.part == "cell" and isinstance(module, Cell)):
                return True
            module = module.get_submodule(name)
        return module is self.component() or (self.part == "cell" and isinstance(module, Cell))


# --- probes ---------------------------------------------------------------------------------------


Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Probe:
    """A call of one method of a mechanism with random inputs.

    Attributes:
        function: the call, as a function of the inputs by name.
        inputs: the inputs by name, in float64. The first axis is the axis of sequences.
        shape: the shape that the result must have; None for an axis of any size.
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
    """Return the probes of the mechanism of a case."""
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
