"""A comparison's pictures, from the files of its runs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.comparison.result import ComparisonResult, Variant, seeds_in_words
from seqattn.analysis.comparison.tables import NEEDS, accuracies, references
from seqattn.data.baselines import TRAINING_MEAN
from seqattn.plots import (
    along_figure,
    as_bytes,
    attention_figure,
    band_figure,
    comparison_figure,
    shortened,
)
from seqattn.runs import read_lengths
from seqattn.runs.storage import atomic_write

LONGEST = 24  # letters of a variant's name above its weights


def draw_all(outcome: ComparisonResult) -> None:
    """comparison.png, curves.png, where some variant attends attention.png, and along a key
    along.png. Where all runs diverged, none. A picture of an earlier state that is not drawn anew
    is removed."""
    arms = [arm for arm in outcome.arms if arm.losses]
    has_ended = any(arm.summaries for arm in arms)
    for name, draw in PICTURES.items():
        content = draw(outcome, arms) if has_ended else None
        if content is None:
            (outcome.path / name).unlink(missing_ok=True)
        else:
            atomic_write(outcome.path / name, content)


def _draw_losses(outcome: ComparisonResult, arms: Sequence[Variant]) -> bytes:
    lines, seeds = references(outcome), seeds_in_words([len(arm.losses) for arm in arms])
    if outcome.data_of_seeds == "new":
        lines = [(f"{name} (median)", loss) for name, loss in lines]
    return as_bytes(comparison_figure(
        [arm.name for arm in arms],
        [np.array(list(arm.losses.values())) for arm in arms],
        [(arm.spread.median, *(arm.spread.median_interval or (math.nan, math.nan)))
         for arm in arms if arm.spread],
        lines=lines, title=f"{outcome.name}: test loss of {seeds}", without=NEEDS,
    ))  # fmt: skip


def _draw_curves(outcome: ComparisonResult, arms: Sequence[Variant]) -> bytes:
    early = any(summary["stopped_early"] for arm in arms for summary in arm.summaries.values())
    return as_bytes(band_figure(
        [arm.name for arm in arms], [validation_losses(arm) for arm in arms],
        title=f"{outcome.name}: validation loss, free running"
        + " (the last one after a run stopped early)" * early
        + ", each variant in units of its own" * (not outcome.same_training_units),
    ))  # fmt: skip


def _draw_attention(_: ComparisonResult, arms: Sequence[Variant]) -> bytes | None:
    medians = [median for arm in arms if (median := median_attention(arm)) is not None]
    if not medians:
        return None
    alignments = [median.alignment for median in medians]
    return as_bytes(attention_figure(
        [median.weights for median in medians], titles=[median.title for median in medians],
        alignment=alignments if any((places >= 0).any() for places in alignments) else None,
    ))  # fmt: skip


def _draw_along(outcome: ComparisonResult, arms: Sequence[Variant]) -> bytes | None:
    """The variants over the numbers they were trained at, beside the mean of the targets."""
    if not outcome.along:
        return None
    series: dict[str, list[Variant]] = {}
    for arm in arms:
        series.setdefault(arm.series, []).append(arm)
    lines = [sorted(group, key=_number) for group in series.values()]
    means = _losses_of_mean(arms)
    lost = sum(len(arm.diverged) for arm in arms)
    return as_bytes(along_figure(
        [name or outcome.name for name in series],
        [np.array([_number(arm) for arm in group]) for group in lines],
        [[np.array(list(arm.losses.values())) for arm in group] for group in lines],
        [[np.array(accuracies(arm)) for arm in group] for group in lines],
        key=outcome.along,
        reference=(TRAINING_MEAN, np.array(list(means)), np.array(list(means.values()))),
        title=f"{outcome.name}: medians over seeds" + f"; {lost} runs diverged" * bool(lost),
    ))  # fmt: skip


def _losses_of_mean(arms: Sequence[Variant]) -> dict[float, float]:
    """Number -> median loss of forecasting the mean of the training targets; in order."""
    found = dict[float, float]()
    for arm in sorted(arms, key=_number):
        if losses := [summary["baselines"][TRAINING_MEAN] for summary in arm.summaries.values()]:
            found[_number(arm)] = float(np.median(losses))
    return found


PICTURES: dict[str, Callable[[ComparisonResult, Sequence[Variant]], bytes | None]] = {
    "comparison.png": _draw_losses,
    "curves.png": _draw_curves,
    "attention.png": _draw_attention,
    "along.png": _draw_along,
}
"""File -> what draws it; None where there is nothing to draw."""


def _number(arm: Variant) -> float:
    assert arm.at is not None
    return arm.at


def validation_losses(arm: Variant) -> NDArray[np.float64]:
    """(seeds, epochs); a run that stopped early keeps its last loss, one that diverged has inf
    after its last."""
    histories = {
        seed: [record.validation_loss for record in arm.folders[seed].read_metrics()]
        if arm.folders[seed].metrics.exists() else []
        for seed in arm.losses
    }  # fmt: skip
    histories = {seed: losses for seed, losses in histories.items()
                 if losses or seed in arm.diverged}  # fmt: skip
    if not histories:  # no metrics.csv is left
        return np.full((1, 1), np.inf)
    longest = max(1, *map(len, histories.values()))
    found = np.full((len(histories), longest), np.inf)
    for row, (seed, losses) in zip(found, histories.items(), strict=True):
        row[: len(losses)] = losses
        if seed not in arm.diverged:
            row[len(losses) :] = losses[-1]
    return found


@dataclass(frozen=True)
class MedianAttention:
    """The attention weights of a variant.

    Attributes:
        weights: (T, S).
        alignment: (T,) true source step of each target step, where it is the same in all sequences
            of all seeds that the weights are of; -1 elsewhere.
        title: the variant, and what the weights are of.
    """

    weights: NDArray[np.float64]
    alignment: NDArray[np.int64]
    title: str


def median_attention(arm: Variant) -> MedianAttention | None:
    """Of each seed the mean over layers, heads and the test sequences of the commonest lengths; of
    these the median. A seed without such sequences is left out.

    None without attention, and for signed strengths: a memory may as well learn the opposite
    sign with another seed, so their median over seeds would mean nothing.
    """
    if not arm.summaries:
        return None
    if not all(arm.folders[seed].attention.exists() for seed in arm.summaries):
        return None
    every = list[list[tuple[int, int]]]()
    for seed in arm.summaries:
        every.append(read_lengths(arm.folders[seed].attention))
    S, T = _commonest(list(itertools.chain(*every)))
    means, alignments = list[NDArray[Any]](), list[NDArray[Any]]()
    for seed in arm.summaries:  # one file's weights at a time
        arrays = arm.folders[seed].read_attention()
        if str(arrays["meaning"]) == "strength":
            return None
        _, L, A, *_ = arrays["weights"].shape
        commonest = (arrays["source_lengths"] == S) & (arrays["target_lengths"] == T)
        if not commonest.any():
            continue
        means.append(arrays["weights"][commonest, :, :, :T, :S].mean(axis=(0, 1, 2)))
        if (alignment := arrays.get("alignment")) is not None:
            alignments.append(alignment[commonest, :T])
    alignment = np.full(T, -1)
    if len(alignments) == len(means):
        joined = np.concatenate(alignments)
        alignment = np.where((joined == joined[0]).all(axis=0), joined[0], -1)
    several = " and ".join(["layers"] * (L > 1) + ["heads"] * (A > 1))
    of = "" if len(means) == len(arm.folders) else f" of {len(arm.folders)}"
    title = [
        shortened(arm.name, LONGEST),
        f"median of {len(means)}{of} seeds" if len(means) > 1 else "of one seed",
        *[f"of sequences of {S} and {T} points"] * any(len(set(pairs)) > 1 for pairs in every),
        *[f"mean of its {several}"] * bool(several),
    ]
    median = np.median(np.array(means, dtype=np.float64), axis=0)
    return MedianAttention(median, alignment, "\n".join(title))


def _commonest(lengths: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Source and target length of most sequences; the longest of those that are as common."""
    counts = Counter(lengths)
    return max(counts, key=lambda pair: (counts[pair], sum(pair), pair))
