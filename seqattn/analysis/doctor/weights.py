"""Checks that are based on attention weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.attention_metrics import largest_weight_shares
from seqattn.analysis.doctor.check import UndecidableError, Verdict, define_check
from seqattn.analysis.doctor.collect import Evidence

MIN_UNIFORM_SHARE = 0.95  # entropy / maximum entropy
MIN_DEAD_SHARE = 0.99  # entropy / maximum entropy
MIN_STUCK_SHARE = 0.95  # share of the steps with the largest weight at the same source step
MAX_IDENTICAL_DISTANCE = 0.02  # mean fraction of the weight that two heads do not share
SATURATED_WEIGHT = 0.999  # a step is saturated if its largest weight exceeds this value
MIN_SATURATED_SHARE = 0.95  # share of saturated steps
MAX_PADDING_MASS = 1e-6
MAX_SYMBOL_ERROR_RATE = 0.5  # above, errors with other weights say little
MAX_LOSS_RATIO = 1.02  # error with overridden weights / error with the model's own weights
NO_CHOICE = "no source has two or more points"
NO_WEIGHT = "all weights are 0"


@define_check("mass on padding", needs_weights=True)
def mass_on_padding(evidence: Evidence) -> Verdict:
    number = f"up to {evidence.padding_mass:.2g} of a step's weight lies on padding"
    if evidence.padding_mass <= MAX_PADDING_MASS:
        return "fine", number
    return (
        "found", number,
        "The mask fails: padding after the end of a sequence is read as data.",
        "an error in the model, not in the config: compare with --set"
        " model.attention.score=dot; to train without padding, data.variable_length: false",
    )  # fmt: skip


@define_check("nearly uniform", needs_weights=True)
def nearly_uniform(evidence: Evidence) -> Verdict:
    _require_unsigned(evidence)
    shares = [entropy_share(rows) for rows in _rows_of_heads(evidence).values()]
    share = float(np.mean(shares))
    number = f"entropy {share:.0%} of the maximum{_note_division(evidence)}"
    if share < MIN_UNIFORM_SHARE:
        return "fine", number
    return (
        "found", number,
        "The weights are almost equal, so the context is the mean of the values for every query.",
        "model.attention.score: general (or additive); with dot scores model.hidden_dim: (wider);"
        " training.epochs: (more)",
    )  # fmt: skip


@define_check("stuck on one source step", needs_weights=True)
def stuck_on_one_step(evidence: Evidence) -> Verdict:
    if _require_unsigned(evidence).shape[-2] < 2:
        return "unknown", "there is only one target step, so one query"
    stuck, shares = list[str](), list[float]()
    for head, rows in _rows_of_heads(evidence).items():
        share, position = _most_common_position(rows)
        shares.append(share)
        if share >= MIN_STUCK_SHARE and entropy_share(rows) < MIN_UNIFORM_SHARE:
            name = evidence.head_name(*head)
            stuck.append(f"{share:.0%} of the steps at {position}" + f" ({name})" * bool(name))
    if len(stuck) == len(shares):
        return (
            "found", _list_first(stuck, 4),
            "The largest weight is at one source step for every query, so the weights do not depend"
            " on the target step.",
            "model.input_feeding: true, or model.attention.score: additive, so that queries differ;"
            " training.learning_rate: (lower) if this began early in training",
        )  # fmt: skip
    if len(shares) > 1:
        return "fine", f"{len(stuck)} of {len(shares)} heads have their largest weight at one place"
    if shares[0] >= MIN_STUCK_SHARE:
        return "fine", "the weights are almost equal, see nearly uniform"
    return "fine", f"{shares[0]:.0%} of the steps have their largest weight at one place"


def _most_common_position(rows: NDArray[np.float32]) -> tuple[float, str]:
    """Return the source position that most often has the largest weight. Equal largest weights
    share their step.

    Args:
        rows: (n, S), the weights of n target steps, with NaN at padding.

    Returns:
        The share of the n target steps with the largest weight at this position, and the name of
        the position.
    """
    n, S = rows.shape
    shares = largest_weight_shares(rows)
    # The positions are also counted from the end, because the last points of sources with different
    # lengths have different indices.
    from_end = np.maximum(np.isfinite(rows).sum(axis=1, keepdims=True) - np.arange(S), 0)
    counts = shares.sum(axis=0)
    counts_from_end = np.bincount(from_end.ravel(), shares.ravel())
    position, distance = int(counts.argmax()), int(counts_from_end.argmax())
    count, count_from_end = float(counts[position]), float(counts_from_end[distance])
    name = f"source point {position + 1}" if count >= count_from_end else f"{distance} from the end"
    return max(count, count_from_end) / n, name


@define_check("alignment off by one", needs_weights=True)
def alignment_off_by_one(evidence: Evidence) -> Verdict:
    if evidence.true_steps is None:
        return "unknown", "the task has no known alignment"
    weights, at_true = _require_unsigned(evidence), _alignment_accuracy(evidence)
    true = evidence.true_steps[evidence.true_steps.any(axis=-1)]
    neighbour = (0.0, 0)
    for layer, head in evidence.heads():
        shares = largest_weight_shares(weights[:, layer, head][evidence.true_steps.any(axis=-1)])
        for shift in (-1, 1):
            neighbors = np.zeros_like(true)
            if shift < 0:
                neighbors[:, :-1] = true[:, 1:]
            else:
                neighbors[:, 1:] = true[:, :-1]
            share = float(shares[neighbors & ~true].sum() / len(true))
            neighbour = max(neighbour, (share, shift))
    share, shift = neighbour
    if share <= at_true or share < 0.5:
        return "fine", (
            f"{share:.0%} of the steps have their largest weight next to the true source step,"
            f" {at_true:.0%} at it"
        )
    side = "before" if shift < 0 else "after"
    return (
        "found",
        f"{share:.0%} of the steps have their largest weight {side} the true source step,"
        f" {at_true:.0%} at it",
        "The neighboring recurrent state holds the same information, or the data are shifted by"
        " one step. A heatmap of these weights is misleading.",
        "model.bidirectional: false, or model.kind: transformer, where each state belongs to"
        " one point; for your own data check the first step of the target",
    )  # fmt: skip


@define_check("saturated softmax", needs_weights=True)
def saturated_softmax(evidence: Evidence) -> Verdict:
    _require_unsigned(evidence)
    if evidence.normalizer != "softmax":
        sharp = evidence.normalizer in ("sparsemax", "entmax", "hard", "monotonic")
        reason = "weights are sharp by design" if sharp else "is not softmax"
        return "unknown", f"{evidence.normalizer} {reason}"
    heads = [_distributions(rows).max(axis=1) for rows in _rows_of_heads(evidence).values()]
    share = float(np.mean([np.mean(largest > SATURATED_WEIGHT) for largest in heads]))
    number = f"{share:.0%} of the steps have a weight above {SATURATED_WEIGHT}"
    number += _note_division(evidence)
    if share < MIN_SATURATED_SHARE:
        return "fine", number
    if _alignment_accuracy(evidence) >= MIN_UNIFORM_SHARE:
        return "fine", f"{number}, at the true source step"
    return (
        "found", number,
        "The softmax is saturated: its gradient is almost zero, so the weights hardly change any"
        " more.",
        "model.attention.score: scaled_dot (or cosine), training.clip_norm: 1.0, or"
        " training.learning_rate: (lower)",
    )  # fmt: skip


def _alignment_accuracy(evidence: Evidence) -> float:
    """Return the share of the aligned target steps at which the best head has its largest weight at
    a true source step. The result is 0 if the alignment is unknown."""
    weights, true = evidence.weights, evidence.true_steps
    if weights is None or true is None:
        return 0.0
    count = true.any(axis=-1).sum()
    return max(
        float(largest_weight_shares(weights[:, i, j])[true].sum() / count)
        for i, j in evidence.heads()
    )


@define_check("dead heads", needs_weights=True)
def dead_heads(evidence: Evidence) -> Verdict:
    _, L, A, *_ = _require_several_heads(evidence).shape
    heads = _rows_of_heads(evidence)
    dead = [head for head, rows in heads.items() if entropy_share(rows) >= MIN_DEAD_SHARE]
    if not dead or len(dead) == len(heads):
        of_all = ", see nearly uniform" if dead else ""
        return "fine", f"{len(dead)} of {L * A} heads have almost equal weights{of_all}"
    names = _list_first([evidence.head_name(*head) for head in dead], 6)
    return (
        "found", f"{len(dead)} of {L * A} heads have almost equal weights ({names})",
        "A head with equal weights gives every step the same mean of the values.",
        "heads: (fewer), or training.epochs: (more)",
    )  # fmt: skip


@define_check("identical heads", needs_weights=True)
def identical_heads(evidence: Evidence) -> Verdict:
    weights = _require_several_heads(evidence)
    _, L, A, *_ = weights.shape
    distances = dict[tuple[int, int, int], float]()
    for layer in range(L):
        known = np.nan_to_num(weights[evidence.source_lengths > 1, layer], nan=0.0)
        for i, j in itertools.combinations(range(A), 2):
            found = _unshared_weight(known[:, i], known[:, j])
            if len(found):
                distances[layer, i, j] = float(found.mean())
    if not distances:
        raise UndecidableError(NO_WEIGHT)
    number = f"the two most similar heads share {1 - min(distances.values()):.1%} of their weight"
    same = [pair for pair, distance in distances.items() if distance < MAX_IDENTICAL_DISTANCE]
    if not same:
        return "fine", number
    names = _list_first([f"layer {i + 1}: heads {j + 1} and {k + 1}" for i, j, k in same], 4)
    return (
        "found", f"{number} ({names})",
        "Heads with equal weights do what one head would do, with more parameters.",
        "heads: (fewer), or training.epochs: (more) if they are similar at the start",
    )  # fmt: skip


def _unshared_weight(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the fraction of the weight that two heads do not share, at n target steps.

    At each source point, two heads share the smaller of their two weights. The fraction is relative
    to the mean of the sums of the two rows. The fraction is 0 only if the weights are equal; it is
    above 0 for rows that are merely proportional to each other. If both rows sum to 1, the fraction
    is the total variation distance.

    Args:
        one, other: (N, T, S), the weights of two heads, with 0 at padding.

    Returns:
        (n,), the fraction at each target step at which at least one head has a weight that is not
        0.
    """
    first, second = (weights.astype(np.float64) for weights in (one, other))
    total = (first + second).sum(axis=-1)
    difference = np.abs(first - second).sum(axis=-1)
    return np.asarray(difference[total > 0] / total[total > 0])


@define_check("attention does not matter", needs_weights=True)
def attention_does_not_matter(evidence: Evidence) -> Verdict:
    if not evidence.override_errors:
        return "unknown", "these weights cannot be overridden"
    if not (evidence.source_lengths > 1).any():
        raise UndecidableError(NO_CHOICE)
    errors = [f"{error:.4g} {mode}" for mode, error in evidence.override_errors.items()]
    mode, lowest = min(evidence.override_errors.items(), key=lambda item: item[1])
    own = evidence.errors[0]
    if evidence.symbol_errors is not None and own > MAX_SYMBOL_ERROR_RATE:
        raise UndecidableError(f"the symbol error rate is {own:.4g}: the task is not learned yet")
    number = ", ".join([f"{evidence.error_name} {own:.4g} with its own weights", *errors])
    if lowest > MAX_LOSS_RATIO * own:
        return "fine", number
    return (
        "found", number,
        f"The forecasts are as good with {mode} weights: the task is solved without attention, and"
        " the heatmap explains nothing.",
        "model.hidden_dim: (narrower), longer sequences, or a task that needs attention: recall",
    )  # fmt: skip


def entropy_share(rows: NDArray[np.float32]) -> float:
    """Return the mean ratio of the entropy of a row to the largest possible entropy of this row.

    Each row is divided by its sum. The largest possible entropy is the logarithm of the number of
    weights in the row.

    Args:
        rows: (n, S), the weights of n target steps, with NaN at padding.
    """
    p = _distributions(rows)
    logs = np.log(np.where(p > 0, p, 1.0))
    return float(np.mean(-(p * logs).sum(axis=1) / np.log(np.isfinite(rows).sum(axis=1))))


def _distributions(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Divide each row by its sum, because a row of partial weights may sum to less than 1.

    Args:
        rows: (n, S), the weights of n target steps, with NaN at padding.

    Returns:
        (n, S), with 0 at padding; a row of zeros stays unchanged.
    """
    weights = np.where(np.isfinite(rows), rows, 0.0).astype(np.float64)
    sums = weights.sum(axis=1, keepdims=True)
    return np.asarray(weights / np.where(sums > 0, sums, 1.0))


def _rows_of_heads(evidence: Evidence) -> dict[tuple[int, int], NDArray[np.float32]]:
    """Return the result of `Evidence.rows` for each head, by layer index and head index. A head
    whose weights are all 0 has no entry.

    Raises:
        UndecidableError: if no head has rows.
    """
    found = {head: rows for head in evidence.heads() if len(rows := evidence.rows(*head))}
    if not found:
        raise UndecidableError(NO_WEIGHT if (evidence.source_lengths > 1).any() else NO_CHOICE)
    return found


def _list_first(names: Sequence[str], count: int) -> str:
    """Return a list of the first names, and the number of the other names."""
    others = len(names) - count
    return "; ".join(names[:count]) + (f"; and {others} more" if others > 0 else "")


def _note_division(evidence: Evidence) -> str:
    """Return a note that each row was divided by its sum; "" unless the weights are partial."""
    return " (each row divided by its sum)" if evidence.meaning == "partial" else ""


def _require_unsigned(evidence: Evidence) -> NDArray[np.float32]:
    """Return the unsigned weights, (N, L, A, T, S). If the weights are partial, each row sums to at
    most 1.

    Raises:
        UndecidableError: if the weights are signed read strengths.
    """
    assert evidence.weights is not None
    if evidence.meaning == "strength":
        raise UndecidableError("read strengths are not a distribution")
    return evidence.weights


def _require_several_heads(evidence: Evidence) -> NDArray[np.float32]:
    """Return the weights, (N, L, A, T, S), of a model with several heads in each layer.

    Raises:
        UndecidableError: if the weights are signed read strengths, if each layer has only one head,
            or if no source has two or more points.
    """
    weights = _require_unsigned(evidence)
    if weights.shape[2] < 2:
        raise UndecidableError("there is only one head")
    if not (evidence.source_lengths > 1).any():
        raise UndecidableError(NO_CHOICE)
    return weights
