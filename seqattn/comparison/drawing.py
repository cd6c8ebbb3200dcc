"""A comparison's pictures, from the files of its runs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqattn.comparison.outcome import Arm, Outcome
from seqattn.comparison.tables import accuracies, references
from seqattn.data.baselines import TRAINING_MEAN
from seqattn.figures import (
    along_figure,
    as_bytes,
    attention_figure,
    band_figure,
    comparison_figure,
)
from seqattn.storage import read_arrays, write_whole


def draw_all(outcome: Outcome) -> None:
    """comparison.png, curves.png, and where some variant attends, attention.png."""
    arms = [arm for arm in outcome.arms if arm.summaries]
    if not arms:
        return
    seeds = max(len(arm.summaries) for arm in arms)
    lines = references(outcome)
    write_whole(outcome.path / "comparison.png", as_bytes(comparison_figure(
        [arm.name for arm in arms],
        [np.array(list(arm.losses.values())) for arm in arms],
        [(arm.spread.median, *arm.spread.median_interval) for arm in arms if arm.spread],
        lines=lines, title=f"{outcome.name}: test loss of {seeds} seeds each",
    )))  # fmt: skip
    write_whole(outcome.path / "curves.png", as_bytes(band_figure(
        [arm.name for arm in arms], [validation_losses(arm) for arm in arms],
        title=f"{outcome.name}: validation loss, free running",
    )))  # fmt: skip
    looked = [(arm, weights) for arm in arms if (weights := median_weights(arm)) is not None]
    if looked:
        told = [shared_alignment(arm, len(weights)) for arm, weights in looked]
        write_whole(outcome.path / "attention.png", as_bytes(attention_figure(
            [weights for _, weights in looked], titles=[arm.name for arm, _ in looked],
            alignment=told if any((places >= 0).any() for places in told) else None,
        )))  # fmt: skip
    if outcome.along:
        write_whole(outcome.path / "along.png", draw_along(outcome, arms))


def draw_along(outcome: Outcome, arms: Sequence[Arm]) -> bytes:
    """The variants over the numbers they were trained at, beside the mean of the targets;
    a PNG file's content."""
    series: dict[str, list[Arm]] = {}
    for arm in arms:
        series.setdefault(arm.series, []).append(arm)
    lines = [sorted(group, key=_number) for group in series.values()]
    means = {_number(arm): arm.any_summary["baselines"][TRAINING_MEAN] for arm in arms}
    at = np.array(sorted(means))
    return as_bytes(along_figure(
        [name or outcome.name for name in series],
        [np.array([_number(arm) for arm in group]) for group in lines],
        [[np.array(list(arm.losses.values())) for arm in group] for group in lines],
        [[np.array(accuracies(arm)) for arm in group] for group in lines],
        key=outcome.along,
        reference=(TRAINING_MEAN, at, np.array([means[x] for x in at])),
        title=f"{outcome.name}: medians over seeds",
    ))  # fmt: skip


def _number(arm: Arm) -> float:
    assert arm.at is not None
    return arm.at


def shared_alignment(arm: Arm, steps: int) -> NDArray[np.int64]:
    """(T,) true source step of each target step, where it is the same in all test sequences; -1
    elsewhere."""
    none = np.full(steps, -1)
    arrays = read_arrays(next(iter(arm.folders[seed] for seed in arm.summaries)).attention)
    told = arrays.get("alignment")
    if told is None:
        return none
    return np.where((told == told[0]).all(axis=0), told[0], none)


def validation_losses(arm: Arm) -> NDArray[np.float64]:
    """(seeds, epochs); a run that stopped early keeps its last loss."""
    histories = [
        [record.validation_loss for record in arm.folders[seed].read_metrics()]
        for seed in arm.summaries
    ]
    longest = max(map(len, histories))
    return np.array([losses + losses[-1:] * (longest - len(losses)) for losses in histories])


def median_weights(arm: Arm) -> NDArray[np.float64] | None:
    """(T, S): of each seed the mean over test sequences, layers and heads; of these the median.

    None without attention, and for signed strengths: a memory may as well learn the opposite
    sign with another seed, so their median over seeds would mean nothing.
    """
    means = []
    for seed in arm.summaries:
        folder = arm.folders[seed]
        if not folder.attention.exists():
            return None
        arrays = read_arrays(folder.attention)
        if str(arrays["meaning"]) == "strength":
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of cells that are padding everywhere
            means.append(np.nanmean(arrays["weights"], axis=(0, 1, 2)))
    median: NDArray[np.float64] = np.median(np.array(means, dtype=np.float64), axis=0)
    return median
