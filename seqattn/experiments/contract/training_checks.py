"""Checks of gradients, of stacked runs, of a resumed training run and of the export to ONNX.

Gradients are compared with finite differences, and the losses and gradients of stacked runs with
those of each run alone.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from seqattn.config import Config
from seqattn.data import DataSpec, load_data
from seqattn.errors import SeqattnError
from seqattn.experiments.contract.case import (
    RUNS,
    SOURCE_DIM,
    TARGET_DIM,
    CheckFailedError,
    CheckWarningError,
    ContractCase,
    N,
    NotApplicableError,
    S,
    T,
    probes_of,
    tensor_difference,
)
from seqattn.experiments.verify_resume import verify_resume
from seqattn.models import FeatureSpec, Lengths, build_model
from seqattn.models.layers import MAX_INNERMOST_WIDTH
from seqattn.training import LoadedModel
from seqattn.training.batches import Batch
from seqattn.training.learner import StepRNG
from seqattn.training.objective import AutogradLoss
from seqattn.training.state import StackedParams

STEPS = (1e-5, 1e-6, 1e-7)
"""Half the distance between the two points of a central difference. The smaller steps are for
points close to a kink."""
MAX_RELATIVE_ERROR = 1e-5
LARGE_STEP = 0.5
"""Size of the change of a tensor that shows whether the tensor has any effect."""
MIN_EFFECT = 1e-7
RUN_REMEDY = (
    f"(R, ...) with R = {RUNS}. Use seqattn.Linear, LearnedVector.broadcast_to and, in a cell,"
    " seqattn.recurrent_term, and count axes from the last axis (-1)."
)
NAN_GRADIENT = (
    "The likely mistake is an operation on scores of -inf, as at padding: 0 times -inf is NaN in a"
    " gradient. Replace them by 0 before the operation, and put -inf back after it."
)
MIN_GRADIENT = 1e-6


@dataclass(frozen=True)
class GradientTest:
    """A scalar function of tensors, with the gradient from autograd.

    Attributes:
        tensors: the tensors by name, which the test changes in place and restores.
        gradients: the gradient of each tensor; None if the function does not depend on the tensor
            in a differentiable way.
    """

    function: Callable[[], Tensor]
    tensors: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor | None]

    @classmethod
    def of(cls, function: Callable[[], Tensor], tensors: Mapping[str, Tensor]) -> GradientTest:
        """Compute the gradients of a function with autograd."""
        value = function()
        if not value.requires_grad:
            return cls(function, tensors, dict.fromkeys(tensors))
        found = torch.autograd.grad(value, list(tensors.values()), allow_unused=True)
        return cls(function, tensors, dict(zip(tensors, found, strict=True)))

    def change(self, name: str, direction: Tensor, size: float) -> float:
        """Return f(x + size * direction) - f(x - size * direction) for the function f and the
        current value x of a tensor."""
        tensor = self.tensors[name]
        kept = tensor.detach().clone()
        values = []
        with torch.no_grad():
            for sign in (1, -1):
                tensor.copy_(kept + sign * size * direction)
                values.append(float(self.function()))
            tensor.copy_(kept)
        return values[0] - values[1]

    def check(self, name: str) -> float:
        """Compare the gradient of a tensor along a random direction with finite differences, and
        return the relative difference."""
        tensor, gradient = self.tensors[name], self.gradients[name]
        rng = torch.Generator().manual_seed(7)
        direction = torch.randn(tensor.shape, generator=rng, dtype=torch.float64)
        slope = 0.0 if gradient is None else float((gradient * direction).sum())
        error, numeric = math.inf, math.nan
        for step in STEPS:
            numeric = self.change(name, direction, step) / (2 * step)
            scale = max(abs(numeric), abs(slope), 1e-2)
            error = min(error, abs(numeric - slope) / scale)
            if error <= MAX_RELATIVE_ERROR:
                break
        if not error <= MAX_RELATIVE_ERROR:
            self._fail(name, slope, numeric)
        if gradient is None or not gradient.any():
            effect = abs(self.change(name, direction, LARGE_STEP))
            if effect > MIN_EFFECT:
                raise CheckFailedError(
                    f"{name}: the step is not differentiable: the gradient is exactly 0, and so are"
                    f" small differences, but a change by {2 * LARGE_STEP:g} changes the result by"
                    f" {effect:.3g}. The likely mistake is a step function, such as round or"
                    " argmax; soft + (hard - soft).detach() has a gradient."
                )
        return error

    def _fail(self, name: str, slope: float, numeric: float) -> None:
        gradient = self.gradients[name]
        if math.isnan(slope):
            raise CheckFailedError(f"The gradient of {name} is NaN. {NAN_GRADIENT}")
        if gradient is None or not gradient.any():
            mistake = (
                "the step is not differentiable: no gradient reaches it. The likely mistake is"
                " detach(), torch.no_grad() or .item()."
            )
        else:
            mistake = (
                "the gradient is wrong. The likely mistake is a detach() of a part of the"
                " computation, an operation in place, or a backward method of your own."
            )
        raise CheckFailedError(
            f"The gradient of {name} along a random direction is {slope:.6g}, but the central"
            f" difference in float64 is {numeric:.6g}: {mistake}"
        )


def check_gradients(case: ContractCase) -> str:
    """Compare the gradients of the mechanism and of the whole model with finite differences."""
    case.require_finite()
    if case.is_stochastic:
        _check_that_samples_have_gradients(case)
        raise NotApplicableError(
            "the weights depend on random numbers in training, so a training step has no finite"
            " differences."
        )
    worst = 0.0
    model = case.build().train()
    for probe in probes_of(case, model) if case.part != "model" else ():
        inputs = {name: tensor.clone().requires_grad_() for name, tensor in probe.inputs.items()}
        with torch.no_grad():
            upstream = _random(11, tuple(probe(inputs).shape))
        parameters = dict(probe.module.named_parameters())
        reached = {
            f"`{probe.name}`, {name}": tensor for name, tensor in (inputs | parameters).items()
        }
        test = GradientTest.of(lambda p=probe, u=upstream, x=inputs: (p(x) * u).sum(), reached)  # type: ignore[misc]
        worst = max(worst, *(test.check(name) for name in test.tensors))
    source, target = case.random_sequences(2)
    always = torch.ones(case.T, dtype=torch.bool)
    upstream = _random(13, (N, case.T, TARGET_DIM))

    def forecast() -> Tensor:
        output = model(source, target, source_lengths=case.lengths, teacher_forcing=always,
                       with_attention=False)  # fmt: skip
        total: Tensor = (output.values * upstream).sum()
        return total

    test = GradientTest.of(forecast, dict(model.named_parameters()))
    worst = max(worst, *(test.check(name) for name in test.tensors))
    unused = [
        name for name, gradient in test.gradients.items() if gradient is None and case.owns(name)
    ]
    if unused:
        # A model may leave out a part that another config uses.
        error = CheckWarningError if case.part == "model" else CheckFailedError
        raise error(
            f"The parameter {unused[0]} never gets a gradient, and no forecast depends on it. Use"
            " the parameter, or remove it."
        )
    return f"largest relative difference {worst:.1e}"


def _check_that_samples_have_gradients(case: ContractCase) -> None:
    """Check that the score, if it has parameters, gets a gradient in a training step with sampled
    positions."""
    stack = StackedParams([case.build().train()])
    source, target = case.random_sequences(2)
    AutogradLoss(stack.model, stack).value_and_grad(
        Batch(source, target, case.lengths), torch.ones(case.T, dtype=torch.bool),
        StepRNG([1], 0, 0, stack.weights),
    )  # fmt: skip
    gradients = stack.as_named(stack.gradient)
    of_score = {
        name: grad for name, grad in gradients.items() if name.startswith("attention.score")
    }
    if of_score and not any(bool(grad.abs().max() > 1e-12) for grad in of_score.values()):
        raise CheckFailedError(
            "No parameter of the score gets a gradient from sampled positions: the largest is 0."
            " Return log_prob, or a straight-through gradient: hard + (soft - soft.detach())."
        )


def _random(seed: int, shape: tuple[int, ...]) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=rng, dtype=torch.float64)


# --- stacked runs ---------------------------------------------------------------------------------


def check_runs(case: ContractCase) -> str:
    """Check that each of several stacked runs has the same loss and the same gradient as the run
    alone. Each run has its own teacher forcing, dropout and sampled positions.

    If all sources have the same length, narrow states of stacked runs have another layout in
    memory. For a model with narrow states, a batch without padding is therefore checked as well.
    """
    case.require_finite()
    lengths = torch.stack([case.lengths, case.lengths.flip(0)])
    worst = _compare_runs(case, lengths)
    if getattr(case.section, "hidden_dim", MAX_INNERMOST_WIDTH + 1) <= MAX_INNERMOST_WIDTH:
        worst = max(worst, _compare_runs(case, None))
    return f"largest difference {worst:.1e}"


def _compare_runs(case: ContractCase, lengths: Tensor | None) -> float:
    """Compare a training step of stacked runs with a step of each run alone.

    Args:
        lengths: the source lengths of each run, (RUNS, N); None for sources without padding.
    """
    rng = torch.Generator().manual_seed(3)
    source = torch.randn(RUNS, N, S, SOURCE_DIM, generator=rng, dtype=torch.float64)
    target = torch.randn(RUNS, N, T, TARGET_DIM, generator=rng, dtype=torch.float64)
    keep = torch.arange(T) < torch.tensor([[5, 2, 3], [1, 5, 4]]).unsqueeze(-1)
    forcing = torch.rand(RUNS, N, T, generator=rng) < 0.5
    if lengths is not None:
        source[torch.arange(S) >= lengths[..., None]] = math.nan
    if case.forces_every_step:
        forcing = torch.ones(RUNS, N, T, dtype=torch.bool)
    seeds = [4, 9]
    stack = StackedParams([case.build(seed).train() for seed in seeds])
    batch = Batch(source, target, lengths, keep)
    try:
        losses = AutogradLoss(stack.model, stack).value_and_grad(
            batch, forcing, StepRNG(seeds, 2, 3, stack.weights)
        )
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        first = (str(error).strip() or "no reason given").splitlines()[0]
        raise CheckWarningError(
            f"A training step of {RUNS} stacked runs raises {type(error).__name__}: {first} seqattn"
            " then trains the seeds one after another, which is slower. The parameters of"
            f" {RUNS} runs have a leading axis of runs, {RUN_REMEDY}"
        ) from error
    together, worst = stack.gradient.clone(), 0.0
    for k, seed in enumerate(seeds):
        alone = StackedParams([case.build(seed).train()])
        batch = Batch(source[k], target[k], None if lengths is None else lengths[k], keep[k])
        loss = AutogradLoss(alone.model, alone).value_and_grad(
            batch, forcing[k], StepRNG([seed], 2, 3, alone.weights)
        )
        difference = tensor_difference(losses[k], loss)
        if not difference.is_equal:
            raise CheckFailedError(
                f"The loss of run {k + 1} of {RUNS} stacked runs is {float(losses[k]):.6g}, but"
                f" {float(loss):.6g} if the run is alone: the mechanism combines runs, or uses the"
                f" parameters of another run. Parameters have a leading axis, {RUN_REMEDY}"
            )
        worst = max(worst, difference.value, _compare_gradients(stack, together, alone, k))
    return worst


def _compare_gradients(
    stack: StackedParams, together: Tensor, alone: StackedParams, k: int
) -> float:
    """Compare the gradient of run k in the stack with the gradient of this run alone."""
    if together[k].isnan().any():
        raise CheckFailedError(
            f"The gradient of run {k + 1} of {RUNS} stacked runs contains NaN. {NAN_GRADIENT}"
        )
    if not float(together[k].abs().max()) > MIN_GRADIENT:
        raise CheckFailedError(
            f"The largest gradient of run {k + 1} of {RUNS} stacked runs is"
            f" {float(together[k].abs().max()):.2g}: no gradient reaches the parameters."
        )
    worst, expected = 0.0, alone.as_named(alone.gradient)
    for name, gradient in stack.get_row(together, k).items():
        difference = tensor_difference(gradient, expected[name])
        worst = max(worst, difference.value)
        if not difference.is_equal:
            raise CheckFailedError(
                f"The gradient of {name} {difference.index} in run {k + 1} of {RUNS} stacked runs"
                f" differs by {difference} from the run alone: the parameter is not used with its"
                f" leading axis, {RUN_REMEDY}"
            )
    return worst


# --- resume ---------------------------------------------------------------------------------------


STOPS = 2
"""The number of training steps after which training is stopped and resumed."""
EXPORTABLE = "exportable"
"""The class attribute with which a plugin's mechanism claims that it can be exported."""


def check_resume(config: Config) -> str:
    """Check that a stopped and resumed training run gives the same losses and weights as an
    uninterrupted run, bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        result = verify_resume(config, Path(folder), stops=STOPS)
    if result.difference is not None:
        raise CheckFailedError(
            f"A training run that stops after steps {', '.join(map(str, result.stops))} and is"
            f" resumed differs from the uninterrupted run: {result.difference}. The mechanism"
            " depends on something that is not in the checkpoint, such as an attribute that forward"
            " changes, or random numbers of its own."
        )
    return f"{result.compared} tensors, values and files have equal bits"


# --- export ---------------------------------------------------------------------------------------


def check_export(case: ContractCase, config: Config) -> str:
    """Check that exported ONNX graphs give the forecasts of the model."""
    if not claims_export(case.component()):
        raise NotApplicableError(
            f"not claimed. The class attribute `{EXPORTABLE} = True` claims that the mechanism can"
            " be exported."
        )
    from seqattn.export import LIBRARIES, missing_libraries

    try:
        for library in LIBRARIES:
            __import__(library)
    except ImportError:
        raise NotApplicableError(f"{missing_libraries()}.") from None
    from seqattn.export.check import MAX_DIFFERENCE, check_graphs
    from seqattn.export.onnx import trace_graphs

    spec = DataSpec.of_splits(load_data(config.data))
    lengths = Lengths(spec.source_length, spec.target_length)
    model = build_model(config.model, FeatureSpec.of(spec), config.seed, lengths)
    trained = LoadedModel(model, config, spec, 1)
    try:
        graphs = trace_graphs(trained, spec.target_length)
    except SeqattnError as error:
        raise CheckFailedError(
            f"The mechanism claims `{EXPORTABLE} = True`, but the export failed: {error}"
        ) from error
    rows = check_graphs(graphs, trained, spec.target_length, None, model.max_length)
    for row in rows:
        if not row.is_within_tolerance:
            raise CheckFailedError(
                f"The graph {row.graph} differs from the model by {row.largest:.2g} on"
                f" {row.sources}; the tolerance is {MAX_DIFFERENCE:.0e}. The likely mistake is a"
                " Python number or a condition that was computed once, while the graph was traced."
            )
    return f"largest difference {max(row.largest for row in rows):.1e}"


def claims_export(module: nn.Module) -> bool:
    """Return whether a mechanism claims that it can be exported. All built-in mechanisms do."""
    is_own = type(module).__module__.startswith("seqattn.")
    return bool(getattr(type(module), EXPORTABLE, is_own))
