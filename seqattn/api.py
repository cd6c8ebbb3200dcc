"""Runs from Python, in a notebook say: read, forecast, draw.

run = seqattn.load("outputs/squares")
run.predict(points)          # arrays in, arrays out
run.plot_attention(3)        # a matplotlib figure
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqattn.errors import DataError, UsageError
from seqattn.runs import EpochRecord, RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqattn.config import Config
    from seqattn.data import Sequences, Splits
    from seqattn.doctor import Finding
    from seqattn.evaluation import Evaluation, FreeRunningForecast
    from seqattn.training import LoadedModel


def load(path: str | Path) -> Run:
    """Open a trained run.

    Args:
        path: a run folder (its best checkpoint is meant), or a checkpoint file.

    Raises:
        CheckpointError: there is none, or it is broken.
    """
    from seqattn.experiment import open_run

    folder, trained = open_run(Path(path))
    return Run(folder, trained)


@dataclass(frozen=True)
class Run:
    """A trained run.

    Attributes:
        folder: where its files lie.
        trained: its model, config and scaling.
    """

    folder: RunFolder
    trained: LoadedModel

    def __repr__(self) -> str:
        return f"<seqattn run {str(self.folder.path)!r}, epoch {self.trained.epoch}>"

    @property
    def config(self) -> Config:
        return self.trained.config

    @property
    def features(self) -> tuple[str, ...]:
        """Names of a source point's features."""
        return self.trained.layout.features

    @property
    def history(self) -> list[EpochRecord]:
        """A record an epoch.

        Raises:
            CheckpointError: metrics.csv cannot be read.
        """
        return self.folder.read_metrics()

    @property
    def summary(self) -> dict[str, Any]:
        """The content of summary.json. Of a run that diverged it has `diverged`, a sentence, and no
        test loss.

        Raises:
            CheckpointError: the training has not finished.
        """
        return self.folder.read_summary()

    @cached_property
    def data(self) -> Splits:
        """The sequences it was trained, validated and tested on.

        Raises:
            DataError: files that are not there, or have changed.
        """
        from seqattn.experiment import data_of

        return data_of(self.trained)

    def predict(self, source: ArrayLike, steps: int | None = None) -> NDArray[np.float64]:
        """Continue sequences.

        Args:
            source: (N, S, F) in the data's own units, or (S, F) for one; NaN behind the end.
            steps: points to forecast; as trained without.

        Returns:
            (N, T, F) or (T, F), in the data's own units.

        Raises:
            DataError: another shape, or numbers that are not finite inside a sequence.
        """
        return self._free_run(source, steps, with_attention=False)[1]

    def attention(self, source: ArrayLike, steps: int | None = None) -> dict[str, NDArray[Any]]:
        """Where the model looks while it continues sequences.

        Args:
            source, steps: as for `predict`.

        Returns:
            kind -> weights: "cross" (N, layers, heads, T, S), and for a Transformer
            "encoder_self" (N, layers, heads, S, S) and "decoder_self" (N, layers, heads, T, T).
            For one sequence without N.

        Raises:
            DataError: as `predict`.
            UsageError: the model has no attention.
        """
        if not self.trained.has_attention:
            raise UsageError(f"{self.folder.path}: its model has no attention.")
        result, _ = self._free_run(source, steps, with_attention=True)
        one = np.ndim(source) == 2
        return {str(kind): maps[0] if one else maps for kind, maps in result.maps.items()}

    def evaluate(self) -> Evaluation:
        """Score it on its test sequences, beside baselines and noise floor."""
        from seqattn.evaluation import References, evaluate

        data = self.data
        against = References.of_data(data.test, data)
        return evaluate(self.trained.model, data.test, against, data.scaling)

    def doctor(self) -> list[Finding]:
        """What its weights and losses show."""
        from seqattn import doctor

        seen = doctor.evidence(
            self.trained,
            self.data,
            doctor.losses_beside(self.folder),
            doctor.history_of(self.folder),
        )
        return doctor.examine(seen)

    def plot_attention(
        self,
        example: int | Sequence[int] = 0,
        *,
        kind: str = "cross",
        layer: int | None = None,
        head: int | None = None,
    ) -> Figure:
        """Where it looked in test sequences, target rows against source columns.

        Args:
            example: a test sequence, counted from 0, or several.
            kind: cross, encoder_self or decoder_self.
            layer, head: only this one; None: all.

        Raises:
            UsageError: no such sequence, kind, layer or head, or no attention.
            CheckpointError: its files cannot be read.
        """
        from seqattn import pictures

        if not self.trained.has_attention:
            raise UsageError(f"{self.folder.path}: its model has no attention.")
        weights = self.folder.read_attention()
        titles = pictures.panel_titles(self.folder.read_predictions())
        chosen = [_whole(k, "example") for k in np.atleast_1d(np.asarray(example, dtype=object))]
        if not chosen:
            raise UsageError("example: expected a test sequence, counted from 0, or several.")
        for k in chosen:
            if not 0 <= k < len(titles):
                raise UsageError(
                    f"example {k}: there are {len(titles)} test sequences, counted from 0."
                )
        each = ("weights", "encoder_self", "decoder_self", "source_lengths", "target_lengths",
                "alignment")  # fmt: skip
        some = {name: array[chosen] if name in each else array for name, array in weights.items()}
        figure, _ = pictures.attention_picture(
            some, [titles[k] for k in chosen], len(chosen), kind=kind, layer=layer, head=head
        )
        return figure

    def plot_loss(self) -> Figure:
        """The losses by epoch, with noise floor and best baseline.

        Raises:
            CheckpointError: the training has not finished, or diverged.
        """
        from seqattn import pictures

        return pictures.loss_picture(self.folder, self.folder.read_results())

    def plot_predictions(self, examples: int = 10) -> Figure:
        """The first test sequences with their forecasts.

        Raises:
            UsageError: not one or more.
            CheckpointError: its files cannot be read.
        """
        from seqattn import pictures

        if _whole(examples, "examples") < 1:
            raise UsageError(f"examples {examples}: expected 1 or more.")
        scaled = self.folder.read_results()["scaled"]
        predictions = self.folder.read_predictions()
        return pictures.predictions_picture(predictions, examples, scaled=scaled)

    def report(self, output: str | Path | None = None) -> Path:
        """Write the page of the run; see `seqattn report`."""
        from seqattn.report import report

        return report(self.folder.path, None if output is None else Path(output))

    def _free_run(
        self, source: ArrayLike, steps: int | None, *, with_attention: bool
    ) -> tuple[FreeRunningForecast, NDArray[np.float64]]:
        from seqattn.evaluation import free_run

        if steps is not None and _whole(steps, "steps") < 1:
            raise UsageError(f"steps {steps}: expected 1 or more.")
        part = _sequences(source, self.trained)
        result = free_run(
            self.trained.model, part, steps or self.trained.layout.target_length,
            with_attention=with_attention, scaling=self.trained.layout.scaling,
        )  # fmt: skip
        one = np.ndim(source) == 2
        return result, result.values[0] if one else result.values


def _whole(number: Any, what: str) -> int:
    """
    Raises:
        UsageError: it is no whole number.
    """
    try:
        return operator.index(number)
    except TypeError:
        raise UsageError(f"{what} {number!r}: expected a whole number.") from None


def _sequences(source: ArrayLike, trained: LoadedModel) -> Sequences:
    """Arrays of any user as sources.

    Raises:
        DataError: no numbers, another shape, or some that are not finite inside a sequence.
    """
    from seqattn.data import Sequences

    layout = trained.layout
    try:
        points = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"expected an array of numbers: {error}.") from None
    points = points[None] if points.ndim == 2 else points
    F = len(layout.features)
    if points.ndim != 3 or points.shape[2] != F or 0 in points.shape:
        raise DataError(
            f"expected an array (N, S, {F}) or (S, {F}), its features {', '.join(layout.features)};"
            f" got {np.shape(source)}."
        )
    real: NDArray[np.bool_] = np.asarray(np.isfinite(points).all(axis=2))
    lengths = real.sum(axis=1)
    within = np.arange(points.shape[1]) < lengths[:, None]
    wrong = (real != within) | (np.isfinite(points).any(axis=2) != real)
    broken = wrong.any(axis=1) | np.isinf(points).any(axis=(1, 2)) | (lengths == 0)
    if np.any(broken):
        raise DataError(
            f"sequence {int(np.argmax(broken))}: not all numbers before its end are finite. NaN"
            " may only fill up what stands behind a shorter sequence."
        )
    N = len(points)
    no_target = np.zeros((N, 0, len(layout.target_features)))
    return Sequences(
        np.where(real[:, :, None], points, 0.0), lengths, no_target,
        np.zeros(N, dtype=np.int64), layout.features, tuple(str(k) for k in range(N)),
        target_features=layout.target_features,
    )  # fmt: skip
