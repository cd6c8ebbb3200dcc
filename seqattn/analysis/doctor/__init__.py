"""The doctor, which diagnoses a trained run from its attention weights and losses.

Each finding contains measured values, or the reason why a check could not decide. If a check finds
a problem, the finding also states the consequence and suggests what to change.

The letters in shapes are N (sequences), L (layers), A (heads), T (target steps) and S (source
steps).
"""

from collections.abc import Callable

from seqattn.analysis.doctor import losses, weights
from seqattn.analysis.doctor.check import Check, Finding, Verdict, findings_as_plain, summarize
from seqattn.analysis.doctor.collect import (
    Evidence,
    collect_evidence,
    measure_overrides,
    read_history,
    sibling_losses,
)
from seqattn.analysis.doctor.losses import SEED_SPREAD, check_seed_spread
from seqattn.analysis.doctor.weights import entropy_share
from seqattn.config import plugins

CHECKS: tuple[Check, ...] = (
    weights.mass_on_padding, losses.worse_than_baseline, weights.nearly_uniform,
    weights.stuck_on_one_step, weights.alignment_off_by_one, weights.saturated_softmax,
    weights.dead_heads, weights.identical_heads, weights.attention_does_not_matter,
    losses.exposure_bias, losses.seed_spread, losses.overfitting,
)  # fmt: skip
"""The checks of seqattn, in order of priority. Of several problems, the first in this order is the
most important."""
CHECK_NAMES = tuple(check.name for check in CHECKS)
WEIGHT_CHECK_NAMES = tuple(check.name for check in CHECKS if check.needs_weights)


PLUGIN_CHECKS: list[Check] = []
"""The checks of plugins, which follow the other checks."""


def register_check(
    name: str, *, needs_weights: bool = False
) -> Callable[[Callable[[Evidence], Verdict]], Callable[[Evidence], Verdict]]:
    """Return a decorator that registers a check of the doctor.

    A check is a function that takes an `Evidence` object. The function returns a tuple of the
    fields of a `Finding` that follow the name: ("fine", number), ("unknown", reason) or ("found",
    number, meaning, change).

    Args:
        name: the name of the problem. The name may contain spaces.
        needs_weights: whether the check reads attention weights.

    Raises:
        PluginError: if the name is not valid or exists already. The decorator raises this error.
    """

    def register(judge: Callable[[Evidence], Verdict]) -> Callable[[Evidence], Verdict]:
        def apply() -> None:
            PLUGIN_CHECKS.append(Check(name, needs_weights, judge))

        plugins.register("check", name, judge.__module__, apply, CHECK_NAMES)
        return judge

    return register


def examine(evidence: Evidence) -> list[Finding]:
    """Run all checks, and return their findings. If the model has no attention, leave out the
    checks of attention weights."""
    return [
        check(evidence)
        for check in (*CHECKS, *PLUGIN_CHECKS)
        if evidence.weights is not None or not check.needs_weights
    ]


__all__ = [
    "CHECKS", "CHECK_NAMES", "PLUGIN_CHECKS", "SEED_SPREAD", "WEIGHT_CHECK_NAMES", "Check",
    "Evidence", "Finding",
    "check_seed_spread", "collect_evidence", "entropy_share", "examine", "findings_as_plain",
    "measure_overrides", "read_history", "register_check", "sibling_losses", "summarize",
]  # fmt: skip
