"""The doctor, which diagnoses a trained run from its attention weights and losses.

Each finding contains measured values. If the doctor found a problem, the finding also explains the
consequence of the problem and names the config lines to change.

The letters in shapes are N (sequences), L (layers), A (heads), T (target steps) and S (source
steps).
"""

from seqattn.analysis.doctor import losses, weights
from seqattn.analysis.doctor.check import Check, Finding, findings_as_plain, summarize
from seqattn.analysis.doctor.collect import (
    Evidence,
    collect_evidence,
    measure_overrides,
    read_history,
    sibling_losses,
)
from seqattn.analysis.doctor.losses import SEED_SPREAD, check_seed_spread
from seqattn.analysis.doctor.weights import entropy_share

CHECKS: tuple[Check, ...] = (
    weights.mass_on_padding, losses.worse_than_baseline, weights.nearly_uniform,
    weights.stuck_on_one_step, weights.alignment_off_by_one, weights.saturated_softmax,
    weights.dead_heads, weights.identical_heads, weights.attention_does_not_matter,
    losses.exposure_bias, losses.seed_spread, losses.overfitting,
)  # fmt: skip
"""All checks, in order of priority. Of several problems, the first in this order is the most
important."""
CHECK_NAMES = tuple(check.name for check in CHECKS)
WEIGHT_CHECK_NAMES = tuple(check.name for check in CHECKS if check.needs_weights)


def examine(evidence: Evidence) -> list[Finding]:
    """Run all checks. If the model has no attention, leave out the checks of attention weights."""
    return [
        check(evidence)
        for check in CHECKS
        if evidence.weights is not None or not check.needs_weights
    ]


__all__ = [
    "CHECKS", "CHECK_NAMES", "SEED_SPREAD", "WEIGHT_CHECK_NAMES", "Check", "Evidence", "Finding",
    "check_seed_spread", "collect_evidence", "entropy_share", "examine", "findings_as_plain",
    "measure_overrides", "read_history", "sibling_losses", "summarize",
]  # fmt: skip
