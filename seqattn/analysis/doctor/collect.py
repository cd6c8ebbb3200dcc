"""What the doctor measures in a trained model: the input of every check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation import References, evaluate_and_forecast, free_run, loss_of
from seqattn.data import Sequences, Splits
from seqattn.data.file_dataset import check_observed
from seqattn.errors import UsageError
from seqattn.models.attention import Override
from seqattn.runs import EpochRecord, RunFolder
from seqattn.training import LoadedModel, teacher_forcing_probability

MOST_SEQUENCES = 512


@dataclass(frozen=True)
class Evidence:
    """What findings are made of.

    Attributes:
        weights: (N, L, A, T, S) of cross-attention, NaN at padding; None without attention.
        meaning: of the numbers; see `seqattn.models.AttentionMap`.
        source_lengths: (N,).
        alignment: (N, T) the source step that tells each target step, -1 where none does.
        padding_mass: the largest sum of a step's weights on padding.
        normalizer: what makes weights of scores: softmax, sparsemax, hard; "" elsewhere.
        loss, forced: free running, and teacher-forced.
        without: way -> loss where the weights are not the model's own.
        baseline: name and loss of the best parameter-free baseline.
        fitted: name and loss of the best baseline with fitted parameters; None: there is none.
        seeds: test losses of this run's seeds, where there are several.
        kind: of the model: recurrent, transformer, fast_weights.
        forcing: schedule of teacher forcing, and the chance of the truth in the last epoch.
        history: the epochs of the training; empty where they are not known.
    """

    weights: NDArray[np.float32] | None
    meaning: str
    source_lengths: NDArray[np.int64]
    alignment: NDArray[np.int64] | None
    padding_mass: float
    normalizer: str
    loss: float
    forced: float
    without: dict[str, float]
    baseline: tuple[str, float]
    seeds: tuple[float, ...] = ()
    kind: str = "recurrent"
    forcing: tuple[str, float] = ("constant", 1.0)
    fitted: tuple[str, float] | None = None
    history: tuple[EpochRecord, ...] = ()

    def heads(self) -> Iterator[tuple[int, int]]:
        """Every layer and head; none without attention."""
        if self.weights is not None:
            yield from np.ndindex(*self.weights.shape[1:3])

    def head_name(self, layer: int, head: int) -> str:
        """Which layer and head, where there are several; else ""."""
        assert self.weights is not None
        _, L, A, *_ = self.weights.shape
        return ", ".join([f"layer {layer}"] * (L > 1) + [f"head {head}"] * (A > 1))

    def rows(self, layer: int, head: int) -> NDArray[np.float32]:
        """(n, S) weights of all real steps over a source of two points or more."""
        assert self.weights is not None
        long = self.source_lengths > 1
        rows = self.weights[long, layer, head].reshape(-1, self.weights.shape[-1])
        return np.asarray(rows[np.isfinite(rows).any(axis=1)], dtype=np.float32)


def evidence(
    trained: LoadedModel,
    data: Splits,
    seeds: Sequence[float] = (),
    history: Sequence[EpochRecord] = (),
) -> Evidence:
    """Run a model over its test sequences, five hundred at most: on its own, fed the truth, and
    with weights that are not its own.

    Args:
        seeds: test losses of this run's seeds, where there are several.
        history: the epochs of its training, for trends; empty where they are not known.
    """
    part = data.test.select(slice(0, MOST_SEQUENCES))
    check_observed(part, f"the first {len(part)} test sequences")
    against = References.of_data(part, data)
    scored, free = evaluate_and_forecast(trained.model, part, against, data.scaling)
    weights = None
    if free.maps:
        weights = np.asarray(free.attention_arrays(part, steps_real=True)["weights"], np.float32)
    attention = getattr(trained.config.model, "attention", None)
    training = trained.config.training
    final_forcing = teacher_forcing_probability(
        training.teacher_forcing, training.epochs - 1, training.epochs
    )
    return Evidence(
        weights=weights,
        meaning=free.meaning,
        source_lengths=part.source_lengths,
        alignment=part.alignment,
        padding_mass=_padding_mass(free.maps.get("cross"), part),
        normalizer=str(getattr(attention, "normalizer", "softmax")) if weights is not None else "",
        loss=scored.loss,
        forced=scored.loss_teacher_forced,
        without=_without(trained, part, data) if weights is not None else {},
        baseline=(scored.best_baseline, against.baselines[scored.best_baseline]),
        seeds=tuple(seeds),
        kind=trained.config.model.kind,
        forcing=(training.teacher_forcing.schedule, final_forcing),
        fitted=min(against.fitted.items(), key=lambda item: item[1], default=None),
        history=tuple(history),
    )


def _padding_mass(weights: NDArray[np.float32] | None, part: Sequences) -> float:
    if weights is None:
        return 0.0
    on_padding = (
        ~part.source_keep[:, None, None, None, :] & part.target_keep[:, None, None, :, None]
    )
    return float(np.abs(np.where(on_padding, weights, 0.0)).sum(axis=-1).max(initial=0.0))


def _without(trained: LoadedModel, part: Sequences, data: Splits) -> dict[str, float]:
    """Way -> loss with weights that are not the model's own."""
    found = dict[str, float]()
    for way in ("uniform", "shuffled"):
        try:
            free = free_run(
                trained.model, part, part.target_steps, Override.parse(way),
                with_attention=False, scaling=data.scaling,
            )  # fmt: skip
        except UsageError:  # weights that nothing could stand in for
            return {}
        loss = loss_of(free, part, data.scaling)
        assert loss is not None
        found[way] = loss
    return found


def history_of(folder: RunFolder) -> list[EpochRecord]:
    """The epochs of a run's training; none beside a checkpoint that stands alone."""
    return folder.read_metrics() if folder.metrics.exists() else []


def losses_beside(folder: RunFolder) -> list[float]:
    """Test losses of the seeds that a run was trained with, inf of those that diverged; none of a
    run by itself."""
    path = folder.path
    if not path.name.startswith("seed-"):
        return []
    runs = [RunFolder(found) for found in sorted(path.parent.glob("seed-*"))]
    summaries = [run.read_summary() for run in runs if run.summary.exists()]
    return [
        math.inf if summary.get("diverged") else float(summary["test_loss"])
        for summary in summaries
    ]
