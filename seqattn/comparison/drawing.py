"""A comparison's pictures, from the files of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.comparison.outcome import Arm, Outcome
from seqattn.comparison.tables import accuracies, references
from seqattn.data.baselines import TRAINING_MEAN
from seqattn.errors import CheckpointError
from seqattn.figures import (
    along_figure,
    as_bytes,
    attention_figure,
    band_figure,
    comparison_figure,
    shortened,
)
from seqattn.storage import write_whole

LONGEST = 24  # letters of a variant's name above its weights


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
    looked = [found for arm in arms if (found := median_look(arm)) is not None]
    if looked:
        told = [look.alignment for look in looked]
        write_whole(outcome.path / "attention.png", as_bytes(attention_figure(
            [look.weights for look in looked], titles=[look.title for look in looked],
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


def validation_losses(arm: Arm) -> NDArray[np.float64]:
    """(seeds, epochs); a run that stopped early keeps its last loss."""
    histories = [
        [record.validation_loss for record in arm.folders[seed].read_metrics()]
        for seed in arm.summaries
    ]
    longest = max(map(len, histories))
    return np.array([losses + losses[-1:] * (longest - len(losses)) for losses in histories])


@dataclass(frozen=True)
class Look:
    """Where a variant looked.

    Attributes:
        weights: (T, S).
        alignment: (T,) true source step of each target step, where it is the same in all sequences
            that the weights are of; -1 elsewhere.
        title: the variant, and what the weights are of.
    """

    weights: NDArray[np.float64]
    alignment: NDArray[np.int64]
    title: str


def median_look(arm: Arm) -> Look | None:
    """Of each seed the mean over layers, heads and the test sequences of the commonest lengths; of
    these the median.

    None without attention, and for signed strengths: a memory may as well learn the opposite
    sign with another seed, so their median over seeds would mean nothing.
    """
    if not all(arm.folders[seed].attention.exists() for seed in arm.summaries):
        return None
    seeds = [arm.folders[seed].read_attention() for seed in arm.summaries]
    if any(str(arrays["meaning"]) == "strength" for arrays in seeds):
        return None
    first = seeds[0]
    if len({arrays["weights"].shape for arrays in seeds}) > 1:
        raise CheckpointError(
            f"{arm.name}: the attention.npz of its seeds are of test sequences of other sizes, so"
            " they are not all of this variant."
        )
    lengths = list(zip(first["source_lengths"].tolist(), first["target_lengths"].tolist(),
                       strict=True))  # fmt: skip
    S, T = _commonest(lengths)
    here = np.array([pair == (S, T) for pair in lengths])
    means = [arrays["weights"][here, :, :, :T, :S].mean(axis=(0, 1, 2)) for arrays in seeds]
    alignment = np.full(T, -1)
    if (told := first.get("alignment")) is not None:
        told = told[here, :T]
        alignment = np.where((told == told[0]).all(axis=0), told[0], -1)
    _, L, A, *_ = first["weights"].shape
    several = " and ".join(["layers"] * (L > 1) + ["heads"] * (A > 1))
    title = [
        shortened(arm.name, LONGEST),
        f"median of {len(seeds)} seeds" if len(seeds) > 1 else "of one seed",
        *[f"of sequences of {S} and {T} points"] * (not here.all()),
        *[f"mean of its {several}"] * bool(several),
    ]
    median = np.median(np.array(means, dtype=np.float64), axis=0)
    return Look(median, alignment, "\n".join(title))


def _commonest(lengths: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Source and target length of most sequences; the longest of those that are as common."""
    counts = Counter(lengths)
    return max(counts, key=lambda pair: (counts[pair], sum(pair), pair))
