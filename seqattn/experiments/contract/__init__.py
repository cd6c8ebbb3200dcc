"""Functions that check the contract: the properties that every mechanism must have.

A mechanism is a part that a plugin can add to seqattn, such as a score, a cell or a task.
`check_plugin` checks all mechanisms of a plugin. seqattn's own tests call the same functions for
the built-in mechanisms.
"""

from seqattn.experiments.contract.case import ContractCase
from seqattn.experiments.contract.forecast_checks import (
    check_batch,
    check_output_shapes,
    check_padding,
    check_weights,
)
from seqattn.experiments.contract.gradient_checks import check_gradients, check_runs
from seqattn.experiments.contract.mechanisms import MechanismReport, check_mechanism
from seqattn.experiments.contract.plugin import check_plugin
from seqattn.experiments.contract.repeated_checks import check_long, check_modes
from seqattn.experiments.contract.result import (
    CheckFailedError,
    CheckRow,
    CheckWarningError,
    NotApplicableError,
)
from seqattn.experiments.contract.state_checks import check_finite, check_scale, check_state
from seqattn.experiments.contract.step_checks import check_decoder_steps

__all__ = [
    "CheckFailedError",
    "CheckRow",
    "CheckWarningError",
    "ContractCase",
    "MechanismReport",
    "NotApplicableError",
    "check_batch",
    "check_decoder_steps",
    "check_finite",
    "check_gradients",
    "check_long",
    "check_mechanism",
    "check_modes",
    "check_output_shapes",
    "check_padding",
    "check_plugin",
    "check_runs",
    "check_scale",
    "check_state",
    "check_weights",
]  # fmt: skip
