"""Runs from Python, in a notebook say: train, read, forecast, draw.

run = seqattn.train("configs/my.yaml", data=frame)
run = seqattn.load("outputs/squares")
run.predict(points)          # arrays in, arrays out
run.plot_attention(3)        # a matplotlib figure
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqattn.errors import DataError, UsageError
from seqattn.runs import EpochRecord, RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqattn.analysis.doctor import Finding
    from seqattn.analysis.evaluation import Evaluation, FreeRunningForecast
    from seqattn.config import Config
    from seqattn.data import Sequences, Splits
    from seqattn.training import LoadedModel

DataFrame: TypeAlias = Any
"""A DataFrame of pandas or polars, or a table of pyarrow; none of them is needed by seqattn."""


class DataNote(UserWarning):
    """What the reader of a DataFrame found, as the command line prints it for a file."""


def train(
    config: Config | str | Path | None,
    data: DataFrame | None = None,
    *,
    validation: DataFrame | None = None,
    test: DataFrame | None = None,
    overrides: Sequence[str] = (),
    output_dir: str | Path = "outputs",
    resume: bool = False,
    overwrite: bool = False,
) -> Run:
    """Train what a config describes, and open the run.

    Args:
        config: a YAML file, what `seqattn.config.resolve` made of one, or None for the defaults.
        data: takes the place of data.path. It is written to a Parquet file beside the run's folder,
            which config.yaml then names, so that every command works on the run.
        validation, test: likewise of data.validation_path and data.test_path.
        overrides: "PATH=VALUE" each, as `--set` takes them; not with a Config.
        output_dir: where the run's folder goes.
        resume, overwrite: go on with the run that is there, or replace it.

    Raises:
        SeqattnError: what a user can mend, with the sentence that the command line would print.
    """
    from seqattn.experiments.frames import train_on_frames

    frames = {"path": data, "validation_path": validation, "test_path": test}
    folder = train_on_frames(
        config, frames, overrides, Path(output_dir), _note, resume=resume, overwrite=overwrite
    )
    return load(folder.path)


def load(path: str | Path) -> Run:
    """Open a trained run.

    Args:
        path: a run folder (its best checkpoint is meant), or a checkpoint file.

    Raises:
        CheckpointError: there is none, or it is broken.
    """
    from seqattn.analysis.evaluation.load_run import open_run

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
        return self.trained.spec.source_features

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
        from seqattn.analysis.evaluation.load_run import load_splits

        return load_splits(self.trained)

    def predict(
        self, source: ArrayLike | DataFrame, steps: int | None = None
    ) -> NDArray[np.float64]:
        """Continue sequences.

        Args:
            source: (N, S, F) in the data's own units, or (S, F) for one; NaN behind the end. Or a
                DataFrame, which is read as `seqattn predict --input` reads the same table in a
                file.
            steps: points to forecast; as trained without.

        Returns:
            (N, T, F) or (T, F), in the data's own units; of a DataFrame (N, T, F), its series in
            the order of their first rows.

        Raises:
            DataError: another shape, or numbers that are not finite inside a sequence; what a
                reader of a file would refuse.
        """
        return self._free_run(source, steps, with_attention=False)[1]

    def predict_frame(self, source: DataFrame, steps: int | None = None) -> DataFrame:
        """Continue the sequences of a DataFrame.

        Args:
            source, steps: as for `predict`.

        Returns:
            a frame of the same library: a row a step, with the columns that `seqattn predict`
            writes. Dates are in UTC, without a time zone.

        Raises:
            DataError: as `predict`; `source` is no DataFrame.
        """
        from seqattn.analysis.evaluation.frames import FrameReader, forecast_columns

        given = FrameReader.of(self.trained, source, _note)
        return given.make_frame(forecast_columns(given, self.trained, _checked(steps)))

    def attention(
        self, source: ArrayLike | DataFrame, steps: int | None = None
    ) -> dict[str, NDArray[Any]]:
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
        one = _is_one(source)
        return {str(kind): maps[0] if one else maps for kind, maps in result.maps.items()}

    def evaluate(self, source: DataFrame | None = None) -> Evaluation:
        """Score it beside baselines and noise floor.

        Args:
            source: a DataFrame, which is read as `seqattn evaluate --input` reads the same table in
                a file; None: its test sequences.

        Raises:
            DataError: what a reader of a file would refuse; its training data are gone.
        """
        from seqattn.analysis.evaluation import ReferenceLosses, evaluate

        data = self.data
        part = data.test
        if source is not None:
            from seqattn.analysis.evaluation.frames import FrameReader

            part = FrameReader.of(self.trained, source, _note).read_with_targets()
        against = ReferenceLosses.from_splits(part, data)
        return evaluate(self.trained.model, part, against, data.scaling)

    def doctor(self) -> list[Finding]:
        """What its weights and losses show."""
        from seqattn.analysis import doctor

        losses, history = doctor.sibling_losses(self.folder), doctor.read_history(self.folder)
        seen = doctor.collect_evidence(self.trained, self.data, losses, history)
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
        from seqattn.plots import run_pictures

        if not self.trained.has_attention:
            raise UsageError(f"{self.folder.path}: its model has no attention.")
        weights = self.folder.read_attention()
        titles = run_pictures.sequence_titles(self.folder.read_predictions())
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
        chosen_titles = [titles[k] for k in chosen]
        return run_pictures.attention_picture(
            some, chosen_titles, len(chosen), kind=kind, layer=layer, head=head
        )[0]

    def plot_loss(self) -> Figure:
        """The losses by epoch, with noise floor and best baseline.

        Raises:
            CheckpointError: the training has not finished, or diverged.
        """
        from seqattn.plots import run_pictures

        return run_pictures.loss_picture(self.folder, self.folder.read_results())

    def plot_predictions(self, examples: int = 10) -> Figure:
        """The first test sequences with their forecasts.

        Raises:
            UsageError: not one or more.
            CheckpointError: its files cannot be read.
        """
        from seqattn.plots import run_pictures

        if _whole(examples, "examples") < 1:
            raise UsageError(f"examples {examples}: expected 1 or more.")
        summary, predictions = self.folder.read_results(), self.folder.read_predictions()
        return run_pictures.predictions_picture(
            predictions, examples, scaled=summary["scaled"], units=summary.get("units")
        )

    def report(self, output: str | Path | None = None) -> Path:
        """Write the page of the run; see `seqattn report`."""
        from seqattn.report import report

        return report(self.folder.path, None if output is None else Path(output))

    def _free_run(
        self, source: ArrayLike | DataFrame, steps: int | None, *, with_attention: bool
    ) -> tuple[FreeRunningForecast, NDArray[np.float64]]:
        from seqattn.analysis.evaluation import free_run

        steps = _checked(steps)
        part = _sequences(source, self.trained)
        result = free_run(
            self.trained.model, part, steps or self.trained.spec.target_length,
            with_attention=with_attention, scaling=self.trained.spec.scaling,
        )  # fmt: skip
        one = _is_one(source)
        return result, result.values[0] if one else result.values


def _note(line: str) -> None:
    warnings.warn(line, DataNote, stacklevel=2)


def _is_one(source: Any) -> bool:
    """Whether a source is an array of one sequence."""
    from seqattn.data.frames import frame_kind

    return frame_kind(source) is None and np.ndim(source) == 2


def _checked(steps: int | None) -> int | None:
    """
    Raises:
        UsageError: it is no number of steps.
    """
    if steps is not None and _whole(steps, "steps") < 1:
        raise UsageError(f"steps {steps}: expected 1 or more.")
    return steps


def _whole(number: Any, what: str) -> int:
    """
    Raises:
        UsageError: it is no whole number.
    """
    try:
        return operator.index(number)
    except TypeError:
        raise UsageError(f"{what} {number!r}: expected a whole number.") from None


def _sequences(source: ArrayLike | DataFrame, trained: LoadedModel) -> Sequences:
    """Arrays or a DataFrame of any user as sources.

    Raises:
        DataError: no numbers, another shape, or some that are not finite inside a sequence.
    """
    from seqattn.data import Sequences
    from seqattn.data.frames import frame_kind

    if frame_kind(source) is not None:
        from seqattn.analysis.evaluation.frames import FrameReader

        return FrameReader.of(trained, source, _note).read_sources()
    spec = trained.spec
    try:
        points = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"expected an array of numbers: {error}.") from None
    points = points[None] if points.ndim == 2 else points
    F = len(spec.source_features)
    if points.ndim != 3 or points.shape[2] != F or 0 in points.shape:
        raise DataError(
            f"expected an array (N, S, {F}) or (S, {F}), its features"
            f" {', '.join(spec.source_features)};"
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
    return Sequences(
        np.where(real[:, :, None], points, 0.0), lengths,
        np.zeros((N, 0, len(spec.target_features))), np.zeros(N, dtype=np.int64),
        spec.source_features, tuple(str(k) for k in range(N)), target_features=spec.target_features,
    )  # fmt: skip
