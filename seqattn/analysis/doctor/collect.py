"""The measurements of a trained model that the checks of the doctor use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation import (
    FreeRunningForecast,
    Maps,
    ReferenceLosses,
    evaluate_and_forecast,
    free_run,
    free_running_error,
)
from seqattn.analysis.evaluation.forecasts import teacher_forced_chunks
from seqattn.config import Monotonic, name_of
from seqattn.data import Sequences, Splits
from seqattn.data.file_dataset import check_observed
from seqattn.errors import UsageError
from seqattn.models import Seq2SeqModel, WeightSemantics
from seqattn.models.attention import Override
from seqattn.runs import EpochRecord, RunFolder, seed_of_folder
from seqattn.training import LoadedModel, teacher_forcing_probability

MAX_SEQUENCES = 512


@dataclass(frozen=True)
class Evidence:
    """Measurements of a model on N test sequences.

    Attributes:
        weights: (N, L, A, T, S), the cross-attention weights, with NaN at padding; None if the
            model has no attention. For symbols, they are those with teacher forcing.
        meaning: "distribution", "partial" or "strength"; see `seqattn.models.AttentionMap`.
        source_lengths: (N,), the number of source steps of each sequence.
        true_steps: (N, T, S), True at the true source steps of each target step, which are the
            linked ones of symbols; None if they are unknown.
        padding_mass: the largest total weight that a head puts on padding at one target step.
        normalizer: the name of the normalizer, or of the location if this computes the weights
            itself; "softmax" if the config names none, and "" if the model has no attention.
        loss: the free-running mean squared error, or the cross-entropy of symbols.
        loss_teacher_forced: the teacher-forced mean squared error, or the cross-entropy of symbols.
        override_errors: the free-running errors with replaced attention weights, by override mode
            ("uniform" or "shuffled"); empty if the weights cannot be replaced.
        baseline: the name and the loss of the best parameter-free baseline.
        seeds: the test losses of this run and of the other seeds that were trained together with
            this run; empty for a single run.
        kind: the kind of model, such as "recurrent".
        teacher_forcing: the schedule of teacher forcing, and the teacher-forcing probability in
            the last epoch.
        fitted: the name and the loss of the best fitted baseline; None if there is no fitted
            baseline.
        history: the records of the training epochs; empty if the records are unknown.
        symbol_errors: the symbol error rate in free running, and the share of wrong symbols with
            teacher forcing; None for vectors.
    """

    weights: NDArray[np.float32] | None
    meaning: str
    source_lengths: NDArray[np.int64]
    true_steps: NDArray[np.bool_] | None
    padding_mass: float
    normalizer: str
    loss: float
    loss_teacher_forced: float
    override_errors: dict[str, float]
    baseline: tuple[str, float]
    seeds: tuple[float, ...] = ()
    kind: str = "recurrent"
    teacher_forcing: tuple[str, float] = ("constant", 1.0)
    fitted: tuple[str, float] | None = None
    history: tuple[EpochRecord, ...] = ()
    symbol_errors: tuple[float, float] | None = None

    @property
    def errors(self) -> tuple[float, float]:
        """The error in free running and with teacher forcing: the losses, or those of symbols."""
        return self.symbol_errors or (self.loss, self.loss_teacher_forced)

    @property
    def error_name(self) -> str:
        """The name of the errors."""
        return "loss" if self.symbol_errors is None else "symbol error rate"

    def heads(self) -> Iterator[tuple[int, int]]:
        """Yield the layer index and the head index of every head.

        A model without attention has no heads.
        """
        if self.weights is not None:
            yield from np.ndindex(*self.weights.shape[1:3])

    def head_name(self, layer: int, head: int) -> str:
        """Return the name of a head, such as `layer 1, head 2`, counted from 1.

        The name contains the layer only if there are several layers, and the head only if there
        are several heads. If there is one layer with one head, the name is "".
        """
        assert self.weights is not None
        _, L, A, *_ = self.weights.shape
        return ", ".join([f"layer {layer + 1}"] * (L > 1) + [f"head {head + 1}"] * (A > 1))

    def rows(self, layer: int, head: int) -> NDArray[np.float32]:
        """Return the weights of a head, (n, S), at n target steps.

        The n target steps are the valid target steps of all sequences with two or more source
        steps, without the steps at which all weights of this head are 0. Two heads may therefore
        have different target steps.
        """
        assert self.weights is not None
        has_choice = self.source_lengths > 1
        rows = self.weights[has_choice, layer, head].reshape(-1, self.weights.shape[-1])
        has_weight = (np.isfinite(rows) & (rows != 0)).any(axis=1)
        return np.asarray(rows[has_weight], dtype=np.float32)


def collect_evidence(
    trained: LoadedModel,
    data: Splits,
    seeds: Sequence[float] = (),
    history: Sequence[EpochRecord] = (),
) -> Evidence:
    """Run a model on the first `MAX_SEQUENCES` test sequences, and collect the measurements.

    The model computes free-running forecasts, teacher-forced forecasts and, if its attention
    weights can be replaced, free-running forecasts with replaced weights. The attention weights of
    symbols are those with teacher forcing, because the known links are those of the target.

    Args:
        trained: the model.
        data: the data on which the model was trained.
        seeds: the test losses of this run and of the other seeds that were trained together with
            this run; empty for a single run.
        history: the records of the training epochs; empty if the records are unknown.

    Raises:
        DataError: if these test sequences contain no observed target.
    """
    part = data.test.select(slice(0, MAX_SEQUENCES))
    check_observed(part, f"the first {len(part)} test sequences")
    references = ReferenceLosses.from_splits(part, data)
    scored, forecast = evaluate_and_forecast(trained.model, part, references)
    weights = None
    if scored.symbol_errors is not None:
        forecast = _read_targets(trained.model, part)
    if forecast.maps:
        weights = np.asarray(
            forecast.attention_arrays(part, steps_real=True)["weights"], np.float32
        )
    attention = getattr(trained.config.model, "attention", None)
    training = trained.config.training
    final_forcing = teacher_forcing_probability(
        training.teacher_forcing, training.epochs - 1, training.epochs
    )
    return Evidence(
        weights=weights,
        meaning=forecast.meaning,
        source_lengths=part.source_lengths,
        true_steps=None if weights is None else true_steps_of(part, *weights.shape[-2:]),
        padding_mass=_padding_mass(forecast.maps.get("cross"), part),
        normalizer="" if weights is None else normalizer_name(attention),
        loss=scored.loss,
        loss_teacher_forced=scored.loss_teacher_forced,
        override_errors=_override_errors(trained, part) if weights is not None else {},
        baseline=(scored.best_baseline, references.baselines[scored.best_baseline]),
        seeds=tuple(seeds),
        kind=trained.config.model.kind,
        teacher_forcing=(training.teacher_forcing.schedule, final_forcing),
        fitted=min(references.fitted.items(), key=lambda item: item[1], default=None),
        history=tuple(history),
        symbol_errors=scored.symbol_errors,
    )


def true_steps_of(part: Sequences, T: int, S: int) -> NDArray[np.bool_] | None:
    """Return the true source steps (N, T, S) of each target step; None if they are unknown.

    Linked steps are true, whether their links are sure or possible, as in the measure `hit` of
    `evaluate` (`seqattn.analysis.alignment`).
    """
    if part.links is not None:
        return part.links.linked(T, S)
    if part.alignment is None or not (part.alignment >= 0).any():
        return None
    return np.asarray(part.alignment[..., None] == np.arange(S))


def _read_targets(model: Seq2SeqModel, part: Sequences) -> FreeRunningForecast:
    """Return the targets of a part, and the attention weights of a decoder that reads them."""
    kept = list[Maps]()
    meaning: WeightSemantics = "distribution"

    def keep(of_weights: WeightSemantics, maps: Maps, *_: object) -> None:
        nonlocal meaning
        meaning = of_weights
        kept.append(maps)

    for _ in teacher_forced_chunks(model, part, keep):
        pass
    kinds = kept[0] if kept else ()
    maps = {kind: np.concatenate([one[kind] for one in kept]) for kind in kinds}
    return FreeRunningForecast(part.target.astype(np.float64), maps, meaning)


def measure_overrides(trained: LoadedModel, data: Splits) -> tuple[float, dict[str, float], int]:
    """Measure how the replacement of the attention weights changes the error on the first
    `MAX_SEQUENCES` test sequences.

    Returns:
        The free-running error with the model's own weights; a dictionary of the errors with
        replaced weights, by override mode, which is empty if the weights cannot be replaced; and
        the number of sequences.

    Raises:
        DataError: if these test sequences contain no observed target.
    """
    part = data.test.select(slice(0, MAX_SEQUENCES))
    check_observed(part, f"the first {len(part)} test sequences")
    forecast = free_run(trained.model, part, part.target_steps, with_attention=False)
    error = free_running_error(forecast, part)
    assert error is not None
    return error, _override_errors(trained, part), len(part)


def normalizer_name(attention: object) -> str:
    """Return the name of what turns the scores of an attention section into weights."""
    location = getattr(attention, "location", None)
    if isinstance(location, Monotonic):
        return location.kind
    return name_of(getattr(attention, "normalizer", "softmax"))


def _padding_mass(weights: NDArray[np.float32] | None, part: Sequences) -> float:
    if weights is None:
        return 0.0
    on_padding = (
        ~part.source_keep[:, None, None, None, :] & part.target_keep[:, None, None, :, None]
    )
    return float(np.abs(np.where(on_padding, weights, 0.0)).sum(axis=-1).max(initial=0.0))


def _override_errors(trained: LoadedModel, part: Sequences) -> dict[str, float]:
    """Return the free-running errors with replaced attention weights, by override mode.

    The result is empty if the weights of the model cannot be replaced.
    """
    found = dict[str, float]()
    for mode in ("uniform", "shuffled"):
        try:
            forecast = free_run(
                trained.model, part, part.target_steps, Override.parse(mode),
                with_attention=False,
            )  # fmt: skip
        except UsageError:  # the model does not support this override mode
            return {}
        error = free_running_error(forecast, part)
        assert error is not None
        found[mode] = error
    return found


def read_history(folder: RunFolder) -> list[EpochRecord]:
    """Return the records of the training epochs.

    The list is empty if the folder has no `metrics.csv`.
    """
    return folder.read_metrics() if folder.metrics.exists() else []


def sibling_losses(folder: RunFolder) -> list[float]:
    """Return the test losses of all finished seeds in the parent folder of a run folder `seed-K`.

    The loss of a diverged seed is inf. If the name of the folder is not `seed-K` with a number K,
    the list is empty.
    """
    path = folder.path
    if seed_of_folder(path) is None:
        return []
    runs = [RunFolder(found) for found in sorted(path.parent.glob("seed-*"))
            if seed_of_folder(found) is not None]  # fmt: skip
    summaries = [run.read_summary() for run in runs if run.summary.exists()]
    return [
        math.inf if summary.get("diverged") else float(summary["test_loss"])
        for summary in summaries
    ]
