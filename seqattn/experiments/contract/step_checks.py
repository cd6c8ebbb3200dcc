"""Checks of decoder steps: all steps at once, single steps, and teacher forcing."""

from __future__ import annotations

import torch
from torch import Tensor

from seqattn.experiments.contract.case import ContractCase, N
from seqattn.experiments.contract.forecast_checks import size_of
from seqattn.experiments.contract.probes import probes_of
from seqattn.experiments.contract.result import CheckFailedError, largest, tensor_difference
from seqattn.models import RecurrentModel

MIN_FORCING_EFFECT = 1e-9
"""Smallest difference between two forecasts that shows an effect of the decoder inputs."""


def check_decoder_steps(case: ContractCase) -> str:
    """Check that computing all decoder steps at once gives the same results as computing them one
    at a time, and that free running equals teacher forcing on the model's own forecast.

    Raises:
        CheckFailedError: if the compared forecasts differ, if teacher forcing has no effect, if a
            step reads later steps, or if a forecast without weights differs or contains weights.
    """
    case.require_finite()
    worst = max(_check_lengths_of_forecasts(case), _check_forcing(case))
    if isinstance(case.model, RecurrentModel):
        worst = max(worst, _check_single_steps(case, case.model))
    if mixing := _mixed_steps(case):
        raise CheckFailedError(mixing)
    return f"largest difference {worst:.1e}"


def _check_lengths_of_forecasts(case: ContractCase) -> float:
    """Compare the forecast with a shorter forecast, and with a forecast without weights. Return the
    largest difference."""
    source, T = case.sequences[0], case.T
    with torch.no_grad():
        blind = case.model.forecast(source, T, source_lengths=case.lengths, with_attention=False)
        shorter = case.model.forecast(source, T - 1, source_lengths=case.lengths)
    if blind.attention:
        raise CheckFailedError("A forecast with with_attention=False contains weights.")
    without = tensor_difference(blind.values, case.free.values)
    difference = tensor_difference(shorter.values, case.free.values[:, :-1])
    if not without.is_equal:
        raise CheckFailedError(
            f"Without weights in the output (with_attention=False), the forecast changes by"
            f" {size_of(without)} ({without.place('sequence', 'step')})."
        )
    if not difference.is_equal:
        raise CheckFailedError(
            f"A forecast of {T - 1} steps differs from the first {T - 1} of {T} steps by"
            f" {size_of(difference)} ({difference.place('sequence', 'step')}): a step reads later"
            " steps."
        )
    return max(without.value, difference.value)


def _check_forcing(case: ContractCase) -> float:
    """Compare free running with teacher forcing, and return the largest difference."""
    (source, target), T = case.sequences, case.T
    always = torch.ones(T, dtype=torch.bool)

    def run(inputs: Tensor, teacher_forcing: Tensor) -> Tensor:
        with torch.no_grad():
            output = case.model(
                source, inputs, source_lengths=case.lengths, teacher_forcing=teacher_forcing
            )
        values: Tensor = output.values
        return values

    worst = tensor_difference(run(case.free.values, always), case.free.values)
    if not worst.is_equal:
        raise CheckFailedError(
            "All steps at once, with teacher forcing on the model's own forecast, differ from free"
            f" running by {size_of(worst)} ({worst.place('sequence', 'step')}):"
            f" {_step_mistake(case)}"
        )
    forced = run(target, always)
    if tensor_difference(forced[:, 1:], case.free.values[:, 1:]).value < MIN_FORCING_EFFECT:
        raise CheckFailedError(
            "Teacher forcing has no effect: with other decoder inputs, the forecast is the same to"
            f" {MIN_FORCING_EFFECT:.0e}. The step ignores its input."
        )
    if case.forces_every_step:
        return worst.value
    never = tensor_difference(run(target, ~always), case.free.values)
    mixed = torch.arange(N * T).view(N, T) % 3 == 0
    partly = run(target, mixed)
    first = tensor_difference(partly[:, 0], forced[:, 0])
    if tensor_difference(partly[:, 1:], forced[:, 1:]).value < MIN_FORCING_EFFECT:
        raise CheckFailedError(
            "Teacher forcing at some steps gives the forecast of teacher forcing at all steps. The"
            " model ignores the mask `teacher_forcing`."
        )
    for difference, name in ((never, "no step"), (first, "some steps")):
        if not difference.is_equal:
            raise CheckFailedError(
                f"With teacher forcing at {name}, the forecast changes by {size_of(difference)}"
                f" ({difference.place('sequence')}): {_step_mistake(case)}"
            )
    return max(worst.value, never.value, first.value)


def _check_single_steps(case: ContractCase, model: RecurrentModel) -> float:
    (source, target), T = case.sequences, case.T
    always, worst = torch.ones(T, dtype=torch.bool), 0.0
    with torch.no_grad():
        whole = model(source, target, source_lengths=case.lengths, teacher_forcing=always)
        memory, state, x = model.encode(source, case.lengths)
        skips = model.skip_outputs(source, case.lengths, [1] * T)
        for t in range(T):
            output, attended, state = model.step(x, state, memory)
            added = skips[t]
            output = output if added is None else output + added
            differences = [tensor_difference(whole.values[:, [t]], output)]
            if attended is not None:
                weights = whole.attention[0].weights[..., [t], :]
                differences.append(tensor_difference(weights, attended.weights.view_as(weights)))
            _, difference = largest(differences)
            worst = max(worst, difference.value)
            if not difference.is_equal:
                raise CheckFailedError(
                    f"Step {t + 1} of {T} steps at once differs from the single step by"
                    f" {size_of(difference)} ({difference.place('sequence')}):"
                    f" {_step_mistake(case)}"
                )
            x = target[:, t]
    return worst


def _step_mistake(case: ContractCase) -> str:
    """Return the likely reason why several steps at once differ from single steps."""
    return _mixed_steps(case) or (
        "the computation of a step depends on the number of steps that are computed at once."
    )


def _mixed_steps(case: ContractCase) -> str:
    """Return a message about a probe in which a later step affects earlier steps; "" if there is no
    such probe."""
    for probe in probes_of(case):
        if probe.step_axis is None:
            continue
        effect = probe.effect_of_later_steps()
        if not effect.is_equal:
            return (
                f"`{probe.name}` of an earlier step changes by {size_of(effect)} if only the last"
                " step changes. The method combines decoder steps, for example with a mean or a"
                " softmax over the axis T. Compute each step from its own query."
            )
    return ""
