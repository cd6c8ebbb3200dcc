"""What a run's weights and losses show, in plain words: each finding with its number, what it means
and the line to change.

Letters: N sequences, L layers, A heads, T target steps, S source steps. NumPy only.
"""

from seqattn.analysis.doctor import losses, weights
from seqattn.analysis.doctor.check import Check, Finding, as_plain, told
from seqattn.analysis.doctor.collect import Evidence, evidence, history_of, losses_beside
from seqattn.analysis.doctor.losses import SEEDS_APART, seeds_apart
from seqattn.analysis.doctor.weights import entropy_share

CHECKS: tuple[Check, ...] = (
    weights.mass_on_padding, losses.worse_than_baseline, weights.nearly_uniform,
    weights.stuck_on_one_step, weights.off_by_one, weights.saturated_softmax, weights.dead_heads,
    weights.identical_heads, weights.attention_does_not_matter, losses.exposure_bias,
    losses.seeds_of_run_apart, losses.overfitting,
)  # fmt: skip
"""In the order of what to mend first."""
NAMES = tuple(check.name for check in CHECKS)
ABOUT_WEIGHTS = tuple(check.name for check in CHECKS if check.needs_weights)


def examine(seen: Evidence) -> list[Finding]:
    """The finding of every check; those about weights only where the model has attention."""
    return [check(seen) for check in CHECKS if seen.weights is not None or not check.needs_weights]


__all__ = [
    "ABOUT_WEIGHTS", "CHECKS", "NAMES", "SEEDS_APART", "Check", "Evidence", "Finding", "as_plain",
    "entropy_share", "evidence", "examine", "history_of", "losses_beside", "seeds_apart", "told",
]  # fmt: skip
