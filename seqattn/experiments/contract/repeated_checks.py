"""Checks that repeat other checks with longer sequences, and in train mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from seqattn.experiments.contract.case import LONG_S, LONG_T, ContractCase, N, S
from seqattn.experiments.contract.forecast_checks import (
    check_batch,
    check_output_shapes,
    check_padding,
    check_weights,
    size_of,
)
from seqattn.experiments.contract.gradient_checks import check_gradients
from seqattn.experiments.contract.probes import probes_of
from seqattn.experiments.contract.result import (
    CheckFailedError,
    CheckWarningError,
    Difference,
    NotApplicableError,
    largest,
    tensor_difference,
)
from seqattn.experiments.contract.state_checks import check_finite
from seqattn.experiments.contract.step_checks import check_decoder_steps

Check = Callable[[ContractCase], str]


def _repeat(checks: Sequence[Check], case: ContractCase, where: str) -> None:
    """Run checks on a case, and start the message of a failed check with `where`."""
    for check in checks:
        try:
            check(case)
        except CheckFailedError as error:
            raise CheckFailedError(f"{where}: {error}") from error
        except NotApplicableError:
            continue


def check_long(case: ContractCase) -> str:
    """Repeat the checks of shapes, weights, padding, batches, single steps and gradients with
    longer sources and targets. For a score or a normalizer, also check whether the order of the
    source steps has an effect on long sources only.

    Raises:
        CheckFailedError: if one of these checks fails.
        CheckWarningError: if the order of the source steps has an effect on long sources only; see
            also `check_gradients`.
        NotApplicableError: if the model does not accept sequences of this length.
    """
    limit = case.model.max_length
    if limit is not None and limit < LONG_S:
        raise NotApplicableError(f"the model accepts at most {limit} steps.")
    long = ContractCase(case.section, case.part, case.label, is_long=True)
    _repeat(
        (check_output_shapes, check_weights, check_padding, check_batch, check_decoder_steps,
         check_gradients),
        long, f"With sources of up to {LONG_S} steps and targets of {LONG_T} steps",
    )  # fmt: skip
    if case.part in ("score", "normalizer") and _effect_of_order(case, is_long=False).is_equal:
        effect = _effect_of_order(case, is_long=True)
        if not effect.is_equal:
            raise CheckWarningError(
                f"If the source steps are reversed, the results for {LONG_S} source steps change by"
                f" up to {size_of(effect)} ({effect.place('sequence')}), apart from their order,"
                f" and the results for {S} steps do not. The {case.part} computes late steps or"
                " long sources in another way. The likely mistake is a size that is written as a"
                " number."
            )
    return f"up to {LONG_S} source steps and {LONG_T} target steps"


def _effect_of_order(case: ContractCase, *, is_long: bool) -> Difference:
    """Reverse the source steps, and return how much the scores or the weights change, apart from
    their order."""
    valid = ContractCase(case.section, case.part, is_long=is_long)
    valid.lengths = torch.full((N,), valid.S)
    probe = probes_of(valid)[-1]
    name, axis = ("encoded", 1) if case.part == "score" else ("scores", -1)
    with torch.no_grad():
        reversed_steps = probe({**probe.inputs, name: probe.inputs[name].flip(axis)})
        return tensor_difference(reversed_steps.flip(-1), probe())


def check_modes(case: ContractCase) -> str:
    """Compare forecasts without random numbers in train mode with those in eval mode. The other
    checks of forecasts use eval mode; if the modes differ, repeat these checks in train mode.

    Raises:
        CheckFailedError: if one of these checks fails in train mode.
        CheckWarningError: if the forecasts differ between the modes.
    """
    case.require_finite()
    other = ContractCase(case.section, case.part, case.label, in_train_mode=True)
    _, difference = largest(
        [
            tensor_difference(one, two)
            for one, two in zip(_forecasts(other), _forecasts(case), strict=True)
        ]
    )
    if difference.is_equal:
        return f"largest difference {difference.value:.1e}"
    _repeat(
        (check_output_shapes, check_finite, check_weights, check_padding, check_batch,
         check_decoder_steps), other, "In train mode",
    )  # fmt: skip
    raise CheckWarningError(
        f"In train mode, forecasts differ from eval mode by up to {size_of(difference)}"
        f" ({difference.place('sequence', 'step')}), without random numbers. Training steps use"
        " train mode. Validation, tests, predictions and exports use eval mode. If the mechanism"
        " should be the same in both modes, do not read `self.training`. Noise that only training"
        " steps have needs no mode: draw it from `rng`, which is None everywhere else."
    )


def _forecasts(case: ContractCase) -> list[Tensor]:
    """Return the free-running and the teacher-forced forecast of the whole batch."""
    source, target = case.sequences
    with torch.no_grad():
        forced = case.model(
            source, target, source_lengths=case.lengths, with_attention=False,
            teacher_forcing=torch.ones(case.T, dtype=torch.bool),
        )  # fmt: skip
    return [case.free.values, forced.values]
