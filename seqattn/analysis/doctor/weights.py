"""Checks of the attention weights."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.doctor.check import UndecidableError, Verdict, check
from seqattn.analysis.doctor.collect import Evidence

UNIFORM = 0.95  # of the entropy there could be
DEAD = 0.99
STUCK = 0.95  # of all steps have their largest weight on one source step
IDENTICAL = 0.02  # mean total variation distance between two heads
SATURATED = 0.999  # the largest weight of a step
MOST_SATURATED = 0.95  # of all steps
PADDED = 1e-6
MATTERS = 1.02  # loss without the model's own weights, of that with them
TOO_SHORT = "no source has two points or more"


@check("mass on padding", needs_weights=True)
def mass_on_padding(evidence: Evidence) -> Verdict:
    number = f"up to {evidence.padding_mass:.2g} of a step's weight lies on padding"
    if evidence.padding_mass <= PADDED:
        return "fine", number
    return (
        "found", number,
        "The mask does not hold: what stands behind a sequence's end is read as if it were data.",
        "a mistake in the model, not in the config: compare with --set"
        " model.attention.score=dot; to train around it, data.variable_length: false",
    )  # fmt: skip


@check("nearly uniform", needs_weights=True)
def nearly_uniform(evidence: Evidence) -> Verdict:
    _distribution(evidence)
    shares = _entropy_shares(evidence)
    if not shares:
        return "unknown", TOO_SHORT
    share = float(np.mean(list(shares.values())))
    number = f"entropy {share:.0%} of what it could be"
    if share < UNIFORM:
        return "fine", number
    return (
        "found", number,
        "The weights hardly prefer any source step: the context is their mean, whatever is asked.",
        "model.attention.score: general (or additive); with dot scores model.hidden_dim: (wider);"
        " training.epochs: (more)",
    )  # fmt: skip


@check("stuck on one source step", needs_weights=True)
def stuck_on_one_step(evidence: Evidence) -> Verdict:
    if _distribution(evidence).shape[-2] < 2:
        return "unknown", "there is one target step only, so one query"
    stuck, shares = list[str](), list[float]()
    for layer, head in evidence.heads():
        rows = evidence.rows(layer, head)
        if not len(rows):
            return "unknown", TOO_SHORT
        share, place = _commonest_place(rows)
        shares.append(share)
        if share >= STUCK and entropy_share(rows) < UNIFORM:
            name = evidence.head_name(layer, head)
            stuck.append(f"{share:.0%} of the steps at {place}" + f" ({name})" * bool(name))
    if len(stuck) == len(shares):
        return (
            "found", "; ".join(stuck[:4]),
            "It looks at one place whatever the query, so the weights carry nothing from step to"
            " step.",
            "model.input_feeding: true, or model.attention.score: additive, so that queries differ;"
            " training.learning_rate: (lower) if it went there early",
        )  # fmt: skip
    if len(shares) > 1:
        return "fine", f"{len(stuck)} of {len(shares)} heads look at one place"
    if shares[0] >= STUCK:
        return "fine", "it looks everywhere alike, see nearly uniform"
    return "fine", f"{shares[0]:.0%} of the steps have their largest weight at one place"


def _commonest_place(rows: NDArray[np.float32]) -> tuple[float, str]:
    """Where most rows (n, S) have their largest weight: the share of them, and the place."""
    places = np.nanargmax(rows, axis=1)
    # From the end too: in sources of several lengths the last point has many places.
    from_end = np.isfinite(rows).sum(axis=1) - places
    ((place, count),) = Counter(places.tolist()).most_common(1)
    ((distance, count_from_end),) = Counter(from_end.tolist()).most_common(1)
    name = f"source point {place + 1}" if count >= count_from_end else f"{distance} from the end"
    return max(count, count_from_end) / len(rows), name


@check("alignment off by one", needs_weights=True)
def off_by_one(evidence: Evidence) -> Verdict:
    if evidence.alignment is None or not (evidence.alignment >= 0).any():
        return "unknown", "no alignment is known for this task"
    weights, known = _distribution(evidence), evidence.alignment >= 0
    true, lengths = (
        np.broadcast_to(values, known.shape)[known]
        for values in (evidence.alignment,
                       np.minimum(evidence.source_lengths, weights.shape[-1])[:, None])
    )  # fmt: skip
    at_true, neighbour = 0.0, (0.0, 0)
    for layer, head in evidence.heads():
        largest = np.nan_to_num(weights[:, layer, head], nan=-1.0).argmax(axis=-1)[known]
        at_true = max(at_true, float(np.mean(largest == true)))
        for shift in (-1, 1):
            inside = (true + shift >= 0) & (true + shift < lengths)
            shifted = largest[inside] == true[inside] + shift
            neighbour = max(neighbour, (float(np.mean(shifted)) if inside.any() else 0.0, shift))
    share, shift = neighbour
    if share <= at_true or share < 0.5:
        return "fine", "no neighbour of the true step is looked at more often"
    side = "before" if shift < 0 else "after"
    return (
        "found",
        f"{share:.0%} of the steps look at the point {side} the true one, {at_true:.0%} at it",
        "A recurrent state beside the true one has what is wanted, too; or the data are shifted by"
        " a step. A heatmap would be read wrongly.",
        "model.bidirectional: false, or model.kind: transformer, with a state of each point;"
        " for your own data check the first step of the target",
    )  # fmt: skip


@check("saturated softmax", needs_weights=True)
def saturated_softmax(evidence: Evidence) -> Verdict:
    _distribution(evidence)
    if evidence.normalizer != "softmax":
        return "unknown", f"{evidence.normalizer} is meant to choose sharply"
    heads = [rows for place in evidence.heads() if len(rows := evidence.rows(*place))]
    if not heads:
        return "unknown", TOO_SHORT
    share = float(np.mean([np.mean(np.nanmax(rows, axis=1) > SATURATED) for rows in heads]))
    number = f"{share:.0%} of the steps have a weight above {SATURATED}"
    if share < MOST_SATURATED:
        return "fine", number
    if _alignment_accuracy(evidence) >= UNIFORM:
        return "fine", f"{number}, and it is the true step's"
    return (
        "found", number,
        "The softmax has gone to its end: its gradient is almost zero, so where it looks can hardly"
        " be learned any more.",
        "model.attention.score: scaled_dot (or cosine), training.clip_norm: 1.0, or"
        " training.learning_rate: (lower)",
    )  # fmt: skip


def _alignment_accuracy(evidence: Evidence) -> float:
    """In what share of the steps the best head has its largest weight on the true step."""
    weights, true = evidence.weights, evidence.alignment
    if weights is None or true is None or not (true >= 0).any():
        return 0.0
    largest = (np.nan_to_num(weights[:, i, j], nan=-1.0).argmax(axis=-1)
               for i, j in evidence.heads())  # fmt: skip
    return max(float(np.mean(steps[true >= 0] == true[true >= 0])) for steps in largest)


@check("dead heads", needs_weights=True)
def dead_heads(evidence: Evidence) -> Verdict:
    _several_heads(evidence)
    shares = _entropy_shares(evidence)
    dead = [place for place, share in shares.items() if share >= DEAD]
    if not dead or len(dead) == len(shares):
        of_all = ", see nearly uniform" if dead else ""
        return "fine", f"{len(dead)} of {len(shares)} heads look everywhere alike{of_all}"
    names = ", ".join(evidence.head_name(*place) for place in dead[:6])
    return (
        "found", f"{names} of {len(shares)} heads look everywhere alike",
        "A head that looks nowhere in particular gives every step the same mean.",
        "heads: (fewer), or training.epochs: (more)",
    )  # fmt: skip


@check("identical heads", needs_weights=True)
def identical_heads(evidence: Evidence) -> Verdict:
    _, L, A, *_ = _several_heads(evidence).shape
    distances = dict[tuple[int, int, int], float]()
    for layer in range(L):
        heads = [evidence.rows(layer, head) for head in range(A)]
        for i, j in itertools.combinations(range(A), 2):
            distance = np.nansum(np.abs(heads[i] - heads[j]), axis=1) / 2
            distances[layer, i, j] = float(distance.mean()) if len(distance) else np.nan
    number = f"the two heads most alike share {1 - min(distances.values()):.1%} of their weight"
    same = [place for place, distance in distances.items() if distance < IDENTICAL]
    if not same:
        return "fine", number
    names = "; ".join(f"layer {i}: heads {j} and {k}" for i, j, k in same[:4])
    return (
        "found", f"{number} ({names})",
        "Heads that look alike are one head with more parameters.",
        "heads: (fewer), or training.epochs: (more) if they all begin alike",
    )  # fmt: skip


@check("attention does not matter", needs_weights=True)
def attention_does_not_matter(evidence: Evidence) -> Verdict:
    if not evidence.without:
        return "unknown", "nothing can stand in for these weights"
    way, lowest = min(evidence.without.items(), key=lambda item: item[1])
    losses = [f"{loss:.4g} {known}" for known, loss in evidence.without.items()]
    number = ", ".join([f"loss {evidence.loss:.4g} by its own weights", *losses])
    if lowest > MATTERS * evidence.loss:
        return "fine", number
    return (
        "found", number,
        f"With {way} weights it forecasts as well: the task is solved without attention, and the"
        " heatmap explains nothing.",
        "model.hidden_dim: (narrower), longer sequences, or a task that needs it: recall",
    )  # fmt: skip


def entropy_share(rows: NDArray[np.float32]) -> float:
    """Mean entropy of rows of weights, as a share of the logarithm of how many there could be."""
    real = np.isfinite(rows)
    p = np.where(real, rows, 0.0).astype(np.float64)
    logs = np.log(np.where(p > 0, p, 1.0))
    return float(np.mean(-(p * logs).sum(axis=1) / np.log(real.sum(axis=1))))


def _entropy_shares(evidence: Evidence) -> dict[tuple[int, int], float]:
    """Layer and head -> `entropy_share`, where there are rows."""
    return {
        place: entropy_share(rows)
        for place in evidence.heads()
        if len(rows := evidence.rows(*place))
    }


def _distribution(evidence: Evidence) -> NDArray[np.float32]:
    """(N, L, A, T, S) weights that are a distribution over the source.

    Raises:
        UndecidableError: they are strengths of either sign.
    """
    assert evidence.weights is not None
    if evidence.meaning == "strength":
        raise UndecidableError("read strengths are no shares of a whole")
    return evidence.weights


def _several_heads(evidence: Evidence) -> NDArray[np.float32]:
    """(N, L, A, T, S) weights of heads that can be compared.

    Raises:
        UndecidableError: there is one head, or no source to choose from.
    """
    weights = _distribution(evidence)
    if weights.shape[2] < 2:
        raise UndecidableError("there is one head")
    if not (evidence.source_lengths > 1).any():
        raise UndecidableError(TOO_SHORT)
    return weights
