"""Python API for training and loading runs, for forecasts, evaluation and plots.

run = seqattn.train("configs/my.yaml", data=frame)
run = seqattn.load("outputs/squares")
run.predict(source)          # arrays in, arrays out
run.plot_attention(3)        # returns a matplotlib figure
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqattn.errors import UsageError
from seqattn.experiments.source_arrays import is_single_sequence, source_sequences
from seqattn.runs import EpochRecord, RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqattn.analysis.doctor import Finding
    from seqattn.analysis.evaluation import Evaluation, ForecastOverride, FreeRunningForecast
    from seqattn.config import Config
    from seqattn.data import Splits
    from seqattn.training import LoadedModel

DataFrame: TypeAlias = Any
"""A pandas or polars DataFrame, or a pyarrow table. seqattn requires none of these libraries."""
OverrideArgument: TypeAlias = "str | Sequence[Mapping[str, Any]] | ForecastOverride | None"
"""The attention weights that replace those of the model in a forecast. The argument is a value of
`--attention-override`, such as "uniform" or "forced:FILE.json", or a list of dicts, each of which
contains the forced weights of one query, as in that file. The sequences of an array have the ids
"0", "1", and so on."""


class DataNote(UserWarning):
    """A note about the columns of a DataFrame. The command line prints such notes for a file."""


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
    """Train a model from a config, and open the new run.

    Args:
        config: path of a YAML file, name of a shipped config such as "squares", a `Config` from
            `seqattn.config.resolve`, or None for the defaults.
        data: DataFrame that replaces the file in `data.path`. The DataFrame is written to a Parquet
            file in `output_dir`, and `config.yaml` contains the path of this file, so that every
            command works on the run.
        validation, test: DataFrames that replace the files in `data.validation_path` and
            `data.test_path`.
        overrides: texts of the form "PATH=VALUE", as in `--set`. Overrides are not allowed with a
            `Config`.
        output_dir: parent of the run folder.
        resume: whether to continue an existing run.
        overwrite: whether to replace an existing run.

    Raises:
        SeqattnError: if an error occurs that a user can correct. The command line prints the same
            message.
    """
    from seqattn.experiments.frames import train_on_frames

    frames = {"path": data, "validation_path": validation, "test_path": test}
    folder = train_on_frames(
        config, frames, overrides, Path(output_dir), _warn, resume=resume, overwrite=overwrite
    )
    return load(folder.path)


def load(path: str | Path, *, epoch: int | None = None) -> Run:
    """Open a trained run.

    Args:
        path: a checkpoint file, or a run folder, of which the best checkpoint is opened.
        epoch: number of an epoch that `training.record_attention` recorded, or 0 for the model
            before training. None means the epoch of the checkpoint.

    Raises:
        CheckpointError: if there is no checkpoint, or if the checkpoint is damaged.
        UsageError: if the epoch was not recorded.
    """
    from seqattn.analysis.evaluation.load_run import open_run

    folder, trained = open_run(Path(path), epoch)
    return Run(folder, trained)


@dataclass(frozen=True)
class Run:
    """A trained run.

    Attributes:
        folder: the run folder.
        trained: the model, config and scaling from the checkpoint.
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
        """Names of the source features, in the order of the last axis of a source."""
        return self.trained.spec.source_features

    @property
    def history(self) -> list[EpochRecord]:
        """The losses, learning rate and seconds of each epoch; see `EpochRecord`.

        Raises:
            CheckpointError: if `metrics.csv` cannot be read.
        """
        return self.folder.read_metrics()

    @property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`.

        The summary of a diverged run has no test loss. Its key `diverged` contains the reason.

        Raises:
            CheckpointError: if the run has not finished.
        """
        return self.folder.read_summary()

    @cached_property
    def data(self) -> Splits:
        """The sequences of the training, validation and test parts.

        Raises:
            DataError: if the data files are missing or have changed.
        """
        from seqattn.analysis.evaluation.load_run import load_splits

        return load_splits(self.trained)

    def predict(
        self, source: ArrayLike | DataFrame, steps: int | None = None, *,
        attention_override: OverrideArgument = None) -> NDArray[np.float64]:  # fmt: skip
        """Compute a free-running forecast of the steps after each source.

        Args:
            source: array (N, S, F), or (S, F) for one sequence, in the units of the data; shorter
                sequences are padded with NaN at the end. A DataFrame is read in the same way as
                `seqattn predict --input` reads a file with the same table.
            steps: number of steps T; None for the length of the longest training target.
            attention_override: see `OverrideArgument`; None for the model's own weights.

        Returns:
            array (N, T, F), or (T, F) for one sequence, in the units of the data. For a DataFrame,
            the array is (N, T, F), and the series are in the order of their first rows.

        Raises:
            DataError: if the shape is wrong, if a value inside a sequence is not finite, or if
                `seqattn predict` would not accept a file with the table of the DataFrame.
            UsageError: if the override does not fit the model or a sequence.
        """
        return self._forecast(source, steps, attention_override, with_attention=False)[1]

    def predict_frame(self, source: DataFrame, steps: int | None = None) -> DataFrame:
        """Compute a free-running forecast of the steps after each series in a DataFrame.

        Args:
            source, steps: see `predict`.

        Returns:
            a DataFrame of the same library, with one row for each step and the columns that
            `seqattn predict` writes. Dates are in UTC, without a time zone.

        Raises:
            DataError: if `source` is not a DataFrame, or in the cases described in `predict`.
        """
        from seqattn.analysis.evaluation.frames import FrameReader, forecast_columns

        frame = FrameReader.of(self.trained, source, _warn)
        return frame.make_frame(forecast_columns(frame, self.trained, _check_steps(steps)))

    def attention(
        self, source: ArrayLike | DataFrame, steps: int | None = None, *,
        attention_override: OverrideArgument = None) -> dict[str, NDArray[Any]]:  # fmt: skip
        """Forecast the steps after each source, and return the attention weights.

        Args:
            source, steps, attention_override: see `predict`.

        Returns:
            the weights by kind of attention. The kind "cross" has weights (N, layers, heads, T, S).
            A Transformer also has the kinds "encoder_self" (N, layers, heads, S, S) and
            "decoder_self" (N, layers, heads, T, T). For one sequence, the arrays have no axis N.

        Raises:
            DataError: see `predict`.
            UsageError: if the model has no attention, or if the override does not fit.
        """
        result, _ = self._forecast(source, steps, attention_override, with_attention=True)
        is_single = is_single_sequence(source)
        return {str(kind): maps[0] if is_single else maps for kind, maps in result.maps.items()}

    def evaluate(self, source: DataFrame | None = None) -> Evaluation:
        """Evaluate the model and its baselines, and compute the noise floor.

        Args:
            source: a DataFrame, which is read in the same way as `seqattn evaluate --input` reads a
                file with the same table. With None, the test part of the run's data is evaluated.

        Raises:
            DataError: if `seqattn evaluate` would not accept a file with the table, or if the
                training data are missing.
        """
        from seqattn.analysis.evaluation import ReferenceLosses, evaluate

        data = self.data
        sequences = data.test
        if source is not None:
            from seqattn.analysis.evaluation.frames import FrameReader

            sequences = FrameReader.of(self.trained, source, _warn).read_with_targets()
        baselines = ReferenceLosses.from_splits(sequences, data)
        return evaluate(self.trained.model, sequences, baselines, data.scaling)

    def doctor(self) -> list[Finding]:
        """Diagnose the run from its attention weights and losses; see `seqattn doctor`."""
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
        """Plot the attention weights of test sequences.

        Each row of a heatmap is a target step, and each column is a source step.

        Args:
            example: index of a test sequence, or several indices.
            kind: "cross", "encoder_self" or "decoder_self".
            layer: index of a layer; None for all layers.
            head: index of a head; None for all heads.

        Raises:
            UsageError: if the sequence, kind, layer or head does not exist, or if the model has no
                attention.
            CheckpointError: if the files of the run cannot be read.
        """
        from seqattn.plots import run_pictures
        from seqattn.runs.array_files import PER_SEQUENCE

        if not self.trained.has_attention:
            raise UsageError(f"{self.folder.path}: its model has no attention.")
        weights = self.folder.read_attention()
        titles = run_pictures.sequence_titles(self.folder.read_predictions())
        indices = [
            _as_integer(k, "example") for k in np.atleast_1d(np.asarray(example, dtype=object))
        ]
        if not indices:
            raise UsageError("example: expected a test sequence, counted from 0, or several.")
        if unknown := [k for k in indices if not 0 <= k < len(titles)]:
            text = f"there are {len(titles)} test sequences, counted from 0."
            raise UsageError(f"example {unknown[0]}: {text}")
        selected = {
            name: array[indices] if name in PER_SEQUENCE else array
            for name, array in weights.items()
        }
        return run_pictures.attention_picture(
            selected, [titles[k] for k in indices], len(indices), kind=kind, layer=layer, head=head
        )[0]

    def plot_loss(self) -> Figure:
        """Plot the losses of each epoch, with the noise floor and the best baseline.

        Raises:
            CheckpointError: if the run has not finished, or if it diverged.
        """
        from seqattn.plots import run_pictures

        return run_pictures.loss_picture(self.folder, self.folder.read_results())

    def plot_predictions(self, examples: int = 10) -> Figure:
        """Plot the first test sequences with their forecasts.

        Args:
            examples: number of sequences.

        Raises:
            UsageError: if `examples` is not a whole number above 0.
            CheckpointError: if the files of the run cannot be read.
        """
        from seqattn.plots import run_pictures

        if _as_integer(examples, "examples") < 1:
            raise UsageError(f"examples {examples}: expected 1 or more.")
        summary, predictions = self.folder.read_results(), self.folder.read_predictions()
        return run_pictures.predictions_picture(predictions, summary, examples)

    def report(self, output: str | Path | None = None) -> Path:
        """Write the HTML report of the run; see `seqattn report`.

        Args:
            output: path of the page. The default is `report.html` in the run folder.

        Returns:
            the path of the page.
        """
        from seqattn.report import report

        return report(self.folder.path, None if output is None else Path(output))

    def _forecast(
        self, source: ArrayLike | DataFrame, steps: int | None,
        attention_override: OverrideArgument, *, with_attention: bool
    ) -> tuple[FreeRunningForecast, NDArray[np.float64]]:  # fmt: skip
        from seqattn.analysis.evaluation import as_override, free_run

        steps = _check_steps(steps) or self.trained.spec.target_length
        override = None if attention_override is None else as_override(attention_override)
        if (override or with_attention) and not self.trained.has_attention:
            raise UsageError(f"{self.folder.path}: its model has no attention.")
        sequences = source_sequences(source, self.trained, _warn)
        result = free_run(
            self.trained.model, sequences, steps, override, with_attention=with_attention,
            scaling=self.trained.spec.scaling,
        )  # fmt: skip
        return result, result.values[0] if is_single_sequence(source) else result.values


def _warn(line: str) -> None:
    warnings.warn(line, DataNote, stacklevel=2)


def _check_steps(steps: int | None) -> int | None:
    """Check that a number of steps is None or a whole number above 0, and return it.

    Raises:
        UsageError: if `steps` is not a whole number above 0.
    """
    if steps is not None and _as_integer(steps, "steps") < 1:
        raise UsageError(f"steps {steps}: expected 1 or more.")
    return steps


def _as_integer(number: Any, name: str) -> int:
    """Convert an argument to an integer. The error message contains the name of the argument.

    Raises:
        UsageError: if the argument is not a whole number.
    """
    try:
        return operator.index(number)
    except TypeError:
        raise UsageError(f"{name} {number!r}: expected a whole number.") from None
