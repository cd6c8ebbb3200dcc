"""Functions that draw the pictures of a comparison from the files of its runs."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.analysis.comparison.columns import alignment_accuracies
from seqattn.analysis.comparison.measures import name_measure
from seqattn.analysis.comparison.result import (
    OWN_UNITS,
    ComparisonResult,
    VariantResult,
    describe_seed_counts,
)
from seqattn.analysis.comparison.tables import NO_INTERVAL_REASON, reference_losses
from seqattn.data.baselines import TRAINING_MEAN
from seqattn.plots import (
    as_bytes,
    attention_figure,
    band_figure,
    comparison_figure,
    sweep_figure,
)
from seqattn.runs import read_lengths
from seqattn.runs.array_files import shorten_names
from seqattn.runs.storage import atomic_write

MAX_TITLE_LETTERS = 24  # longer names of variants are shortened
MAX_DISTANCE = 8  # largest distance from the true step in a picture of attention weights


def draw_comparison(result: ComparisonResult) -> None:
    """Write `comparison.png`, `curves.png`, `attention.png` and `along.png`.

    `attention.png` needs a variant with attention weights that are not signed read strengths, and
    `along.png` needs a sweep over a config key. All four pictures need at least one finished run
    that did not diverge. If a picture cannot be drawn, the function deletes the old picture file,
    because the old picture is outdated.
    """
    variants = [variant for variant in result.variants if variant.losses]
    has_losses = any(variant.summaries for variant in variants)
    for path in result.pictures:
        content = PICTURES[path.name](result, variants) if has_losses else None
        if content is None:
            path.unlink(missing_ok=True)
        else:
            atomic_write(path, content)


def _loss_picture(result: ComparisonResult, variants: Sequence[VariantResult]) -> bytes | None:
    """Draw the first measure that is tested. The result is None if no variant has it."""
    measure = result.questions.measures[0]
    variants = [variant for variant in variants if variant.values_of(measure)]
    if not variants:
        return None
    lines = reference_losses(result) if measure == "loss" else []
    seeds = describe_seed_counts(len(variant.losses) for variant in variants)
    summaries = [summary for each in variants if (summary := each.summary_of(measure))]
    if result.data_of_seeds == "new":
        lines = [(f"{name} (median)", loss) for name, loss in lines]
    return as_bytes(comparison_figure(
        [variant.name for variant in variants],
        [np.array(list(variant.values_of(measure).values())) for variant in variants],
        [(each.median, *(each.median_interval or (math.nan, math.nan))) for each in summaries],
        lines=lines, title=f"{result.name}: test {name_measure(measure)} of {seeds}",
        no_interval_reason=NO_INTERVAL_REASON, **_axis(result),
    ))  # fmt: skip


def _axis(result: ComparisonResult) -> dict[str, Any]:
    """Return the arguments of a figure that describe the first measure that is tested."""
    measure = result.questions.measures[0]
    if measure == "loss":
        return {"loss_name": result.loss_name, "unit": result.unit_text}
    return {"loss_name": name_measure(measure), "is_rate": True}


def _curve_picture(result: ComparisonResult, variants: Sequence[VariantResult]) -> bytes:
    early = any(
        summary["stopped_early"] for variant in variants for summary in variant.summaries.values()
    )
    return as_bytes(band_figure(
        [variant.name for variant in variants],
        [validation_losses(variant) for variant in variants],
        title=f"{result.name}: validation loss, free running"
        + " (runs that stopped early keep their last loss)" * early,
        unit=result.unit_text if result.same_training_units else OWN_UNITS,
        loss_name=result.loss_name,
    ))  # fmt: skip


def _attention_picture(_: ComparisonResult, variants: Sequence[VariantResult]) -> bytes | None:
    figure = median_attention_figure(variants)
    return None if figure is None else as_bytes(figure)


def median_attention_figure(variants: Sequence[VariantResult]) -> Figure | None:
    """Draw the median attention weights of each variant. Return None if no variant has such
    weights.

    If the true step of a target step differs between sequences or seeds, and each drawn variant has
    a known alignment, the columns are the distances to the true step. If the columns were source
    steps, the averages would mix weights on the true step with weights on other steps.
    """
    medians = [median for variant in variants if (median := median_attention(variant)) is not None]
    if not medians:
        return None
    titles = _titles(medians)
    relative = [each.relative_weights for each in medians if each.relative_weights is not None]
    differs = any(median.has_different_true_steps for median in medians)
    if differs and len(relative) == len(medians):
        middles = [np.full(len(panel), panel.shape[1] // 2) for panel in relative]
        return attention_figure(relative, titles=titles, alignment=middles, kind="relative")
    alignments = [median.alignment for median in medians]
    return attention_figure(
        [median.weights for median in medians], titles=titles,
        alignment=alignments if any((places >= 0).any() for places in alignments) else None,
    )  # fmt: skip


def _titles(medians: Sequence[MedianAttention]) -> list[str]:
    names = shorten_names([median.name for median in medians], MAX_TITLE_LETTERS)
    return [f"{name}\n{each.caption}" for name, each in zip(names, medians, strict=True)]


def _sweep_picture(result: ComparisonResult, variants: Sequence[VariantResult]) -> bytes | None:
    """Draw the first measure that is tested against the values of the swept key. Losses have the
    mean baseline as a reference.

    The result is None if the comparison is not a sweep, or if no variant has the measure.
    """
    if not result.sweep_key:
        return None
    measure = result.questions.measures[0]
    lines = _lines_of([variant for variant in variants if variant.values_of(measure)])
    if not lines:
        return None
    means = _mean_baseline_losses(result)
    lost = sum(len(variant.diverged) for variant in variants)
    return as_bytes(sweep_figure(
        [group[0].sweep_group or result.name for group in lines],
        [np.array([_sweep_value(variant) for variant in group]) for group in lines],
        [[np.array(list(each.values_of(measure).values())) for each in group] for group in lines],
        [[np.array(alignment_accuracies(variant)) for variant in group] for group in lines],
        key=result.sweep_key,
        reference=(TRAINING_MEAN, np.array(list(means)), np.array(list(means.values())))
        if means else None,
        title=f"{result.name}: medians over seeds" + f"; {lost} runs diverged" * bool(lost),
        **_axis(result),
    ))  # fmt: skip


def _lines_of(variants: Sequence[VariantResult]) -> list[list[VariantResult]]:
    """Group the variants that differ only in the value of the swept key, in ascending order."""
    groups: dict[str, list[VariantResult]] = {}
    for variant in variants:
        groups.setdefault(variant.sweep_group, []).append(variant)
    return [sorted(group, key=_sweep_value) for group in groups.values()]


def _mean_baseline_losses(result: ComparisonResult) -> dict[float, float]:
    """Return the median loss of the mean baseline for each value of the swept key.

    The mean baseline forecasts the mean of the training targets. The median is over the finished
    seeds of all variants with this value, because each seed may have its own data. The values of
    the key are in ascending order. The result is empty if variants with the same value have
    different data, if the variants have losses in different units, if the steps are symbols, or if
    the picture shows another measure.
    """
    is_shown = result.questions.measures[0] == "loss"
    if not (is_shown and result.same_data_in_pairs and result.same_units):
        return {}
    losses: dict[float, dict[int, float]] = {}
    for variant in sorted(result.variants, key=_sweep_value):
        for seed, summary in variant.summaries.items():
            if TRAINING_MEAN in summary["baselines"]:
                of_value = losses.setdefault(_sweep_value(variant), {})
                of_value[seed] = summary["baselines"][TRAINING_MEAN]
    return {value: float(np.median(list(of_seeds.values()))) for value, of_seeds in losses.items()}


PICTURES: dict[str, Callable[[ComparisonResult, Sequence[VariantResult]], bytes | None]] = {
    "comparison.png": _loss_picture,
    "curves.png": _curve_picture,
    "attention.png": _attention_picture,
    "along.png": _sweep_picture,
}
"""The functions that draw the pictures, by file name. A function returns None if there is nothing
to draw."""


def _sweep_value(variant: VariantResult) -> float:
    assert variant.sweep_value is not None
    return variant.sweep_value


def validation_losses(variant: VariantResult) -> NDArray[np.float64]:
    """Return the validation losses of a variant, (seeds, epochs).

    A run that stopped early keeps its last loss. A diverged run has the loss inf after its last
    epoch.
    """
    histories = {
        seed: [record.validation_loss for record in variant.folders[seed].read_metrics()]
        if variant.folders[seed].metrics.exists() else []
        for seed in variant.losses
    }  # fmt: skip
    histories = {seed: losses for seed, losses in histories.items()
                 if losses or seed in variant.diverged}  # fmt: skip
    if not histories:  # metrics.csv is missing from all run folders
        return np.full((1, 1), np.inf)
    longest = max(1, *map(len, histories.values()))
    found = np.full((len(histories), longest), np.inf)
    for row, (seed, losses) in zip(found, histories.items(), strict=True):
        row[: len(losses)] = losses
        if seed not in variant.diverged:
            row[len(losses) :] = losses[-1]
    return found


@dataclass(frozen=True)
class MedianAttention:
    """The median attention weights of a variant.

    Attributes:
        weights: (T, S), the median over seeds.
        relative_weights: (T, 2 D + 1), the median over seeds of the weights on the source steps at
            the distances -D, ..., D from the true step; None if the alignment is unknown. A cell is
            NaN if no sequence has a source step at this distance.
        alignment: (T,), the true source step of each target step, or -1 if it is unknown or differs
            between sequences or seeds.
        has_different_true_steps: whether the true source step of a target step differs between
            sequences or seeds.
        name: the name of the variant.
        caption: a description of the seeds and the averages.
    """

    weights: NDArray[np.float64]
    relative_weights: NDArray[np.float64] | None
    alignment: NDArray[np.int64]
    has_different_true_steps: bool
    name: str
    caption: str


def median_attention(variant: VariantResult) -> MedianAttention | None:
    """Compute the mean attention weights of each seed of a variant, and the median over the seeds.

    The mean is over layers, heads, and the test sequences with the most common pair of source
    length and target length. A seed without such sequences is left out.

    Returns:
        The median weights; None if no seed has finished, if a finished seed has no attention file,
        or if the weights are signed read strengths. The sign of a read strength is arbitrary in
        each seed, so a median over seeds has no meaning.
    """
    if not variant.summaries:
        return None
    if not all(variant.folders[seed].attention.exists() for seed in variant.summaries):
        return None
    lengths = list[list[tuple[int, int]]]()
    for seed in variant.summaries:
        lengths.append(read_lengths(variant.folders[seed].attention))
    S, T = _most_common_lengths(list(itertools.chain(*lengths)))
    means, relative_means = list[NDArray[Any]](), list[NDArray[Any]]()
    alignments, counts = list[NDArray[Any]](), list[int]()
    for seed in variant.summaries:  # only one file is in memory at a time
        arrays = variant.folders[seed].read_attention()
        if str(arrays["meaning"]) == "strength":
            return None
        _, L, A, *_ = arrays["weights"].shape
        commonest = (arrays["source_lengths"] == S) & (arrays["target_lengths"] == T)
        if not commonest.any():
            continue
        weights = arrays["weights"][commonest, :, :, :T, :S].mean(axis=(1, 2))
        means.append(weights.mean(axis=0))
        counts.append(len(weights))
        if (alignment := arrays.get("alignment")) is not None:
            alignments.append(alignment[commonest, :T])
            relative_means.append(_mean_by_distance(weights, alignments[-1]))
    alignment, is_known = np.full(T, -1), len(alignments) == len(means)
    if is_known:
        joined = np.concatenate(alignments)
        alignment = np.where((joined == joined[0]).all(axis=0), joined[0], -1)
    averaged = " and ".join(["layers"] * (L > 1) + ["heads"] * (A > 1))
    total = "" if len(means) == len(variant.folders) else f" of {len(variant.folders)}"
    span = f"{min(counts):,}" + f" to {max(counts):,}" * (min(counts) < max(counts))
    several_lengths = len(set(itertools.chain(*lengths))) > 1
    caption = [
        f"median of {len(means)}{total} seeds" if len(means) > 1 else "of one seed",
        "one sequence" if span == "1" else f"mean of {span} sequences",
        *[f"of {S} and {T} points"] * several_lengths,
        *[f"mean of its {averaged}"] * bool(averaged),
    ]
    return MedianAttention(
        np.median(np.array(means, dtype=np.float64), axis=0),
        _median_of_known(relative_means) if is_known else None,
        alignment, is_known and bool((joined != joined[0]).any()),
        variant.name, "\n".join(caption),
    )  # fmt: skip


def _median_of_known(means: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return the median of each cell over the seeds for which it is not NaN. A cell that is NaN for
    all seeds is NaN."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")
        return np.asarray(np.nanmedian(np.array(means, dtype=np.float64), axis=0))


def _mean_by_distance(
    weights: NDArray[np.floating], alignment: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the mean weights by distance from the true step, over the sequences that have a source
    step at this distance.

    Args:
        weights: (N, T, S), the weights.
        alignment: (N, T), the true source step of each target step, or -1.

    Returns:
        The means (T, 2 D + 1) for the distances -D, ..., D, where D is the smaller of S - 1 and
        `MAX_DISTANCE`. A mean is NaN if no sequence has a source step at this distance.
    """
    S = weights.shape[-1]
    D = min(S - 1, MAX_DISTANCE)
    steps = alignment[:, :, None] + np.arange(-D, D + 1)
    exists = (alignment[:, :, None] >= 0) & (steps >= 0) & (steps < S)
    found = np.take_along_axis(weights, np.clip(steps, 0, S - 1), axis=2)
    totals, counts = np.where(exists, found, 0.0).sum(axis=0), exists.sum(axis=0)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)


def _most_common_lengths(lengths: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the most common pair of source length and target length.

    Of several equally common pairs, the function returns the pair with the longest sequences.
    """
    counts = Counter(lengths)
    return max(counts, key=lambda pair: (counts[pair], sum(pair), pair))
