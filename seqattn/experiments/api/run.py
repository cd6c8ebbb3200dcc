"""A trained run: forecasts, attention weights, evaluation, tables and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqattn.experiments.api import run_results
from seqattn.experiments.api.arguments import DataFrame, OverrideArgument
from seqattn.experiments.api.dataframes import Library
from seqattn.experiments.api.labelled import ArrayLibrary, LabelledWeights
from seqattn.experiments.api.paths import absolute_folder, path_in_repr
from seqattn.experiments.source_arrays import is_single_sequence
from seqattn.runs import EpochRecord, RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqattn.analysis.doctor import Finding
    from seqattn.analysis.evaluation import Evaluation
    from seqattn.config import Config
    from seqattn.data import Splits
    from seqattn.training import LoadedModel

RunTable = Literal["metrics", "predictions"]


@dataclass(frozen=True)
class Run:
    """A trained run.

    If the run was opened at another epoch than the best one, the methods compute the forecasts and
    weights of its test sequences, and raise a DataError if its data are missing or have changed.

    Attributes:
        folder: the run folder.
        trained: the model, config and scaling from the checkpoint.
    """

    folder: RunFolder
    trained: LoadedModel

    @classmethod
    def open(cls, path: str | Path, *, epoch: int | None = None) -> Run:
        """Open a run from its folder, or from a checkpoint file; see `load`."""
        from seqattn.analysis.evaluation.load_run import open_run

        folder, trained = open_run(Path(path), epoch)
        return cls(absolute_folder(folder), trained)

    def __repr__(self) -> str:
        return f"<seqattn run {path_in_repr(self.folder.path)!r}, epoch {self.trained.epoch}>"

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
        """The content of `summary.json`. The summary of a diverged run has no test loss. Its key
        `diverged` contains the reason.

        Raises:
            CheckpointError: if the run has not ended, or if the file is damaged.
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
        observed: ArrayLike | None = None,
        attention_override: OverrideArgument = None) -> NDArray[np.float64]:  # fmt: skip
        """Compute a free-running forecast of the steps after each source.

        Args:
            source: array (N, S, F), or (S, F) for one sequence, in the units of the data, with NaN
                or masked elements at the end of shorter sequences. If the run was trained with
                `data.missing: interpolate`, NaN before the end of a sequence is an empty cell. A
                DataFrame is read in the same way as `seqattn predict --input` reads a file with the
                same content.
            steps: number of steps T; None for the length of the longest training target.
            observed: booleans of the shape of the array, False at cells that are missing or whose
                value was filled, such as `source_observed` of `predictions.npz`; None if every
                number in the array was observed. Needs `data.missing: interpolate`.
            attention_override: see `OverrideArgument`; None for the model's own weights.

        Returns:
            array (N, T, F), or (T, F) for one sequence, in the units of the data. For a DataFrame,
            the array is (N, T, F), and the series are in the order of their first rows.

        Raises:
            DataError: if a shape is wrong, if a value inside a sequence is infinite, or missing and
                not to be filled, or if `seqattn predict` would reject a file with the content of
                the DataFrame.
            UsageError: if `steps` is not a whole number above 0, if the override does not fit the
                model or a sequence, or if `observed` is given for a DataFrame.
        """
        result, _ = run_results.forecast_sources(
            self, source, steps, attention_override, observed=observed
        )
        return result.values[0] if is_single_sequence(source) else result.values

    def predict_frame(self, source: DataFrame, steps: int | None = None) -> DataFrame:
        """Compute a free-running forecast of the steps after each series in a DataFrame.

        Args:
            source, steps: see `predict`.

        Returns:
            a DataFrame of the same library. It has one row for each forecast step of each series,
            and the columns that `seqattn predict` writes. Dates are in UTC, without a time zone.

        Raises:
            DataError: if `source` is not a DataFrame, or in the cases that `predict` lists.
            UsageError: if `steps` is not a whole number above 0.
        """
        return run_results.forecast_frame(self, source, steps)

    def attention(
        self, source: ArrayLike | DataFrame, steps: int | None = None, *,
        observed: ArrayLike | None = None,
        attention_override: OverrideArgument = None) -> dict[str, NDArray[Any]]:  # fmt: skip
        """Forecast the steps after each source, and return the attention weights.

        Args:
            source, steps, observed, attention_override: see `predict`.

        Returns:
            the weights by kind of attention. The kind "cross" has weights (N, layers, heads, T, S).
            A Transformer also has the kinds "encoder_self" (N, layers, heads, S, S) and
            "decoder_self" (N, layers, heads, T, T). For one sequence, the arrays have no axis N.

        Raises:
            DataError: see `predict`.
            UsageError: if the model has no attention, and in the cases that `predict` lists.
        """
        result, _ = run_results.forecast_sources(
            self, source, steps, attention_override, observed=observed, with_attention=True
        )
        is_single = is_single_sequence(source)
        return {str(kind): maps[0] if is_single else maps for kind, maps in result.maps.items()}

    def attention_weights(
        self, kind: str = "cross", *, source: ArrayLike | DataFrame | None = None,
        steps: int | None = None, observed: ArrayLike | None = None,
        attention_override: OverrideArgument = None,
        library: ArrayLibrary | None = None) -> LabelledWeights:  # fmt: skip
        """Return attention weights with named axes.

        The axes of the kind "cross" are `sequence`, `layer`, `head`, `target_step` and
        `source_step`. The axes of the kinds "encoder_self" and "decoder_self" are `sequence`,
        `layer`, `head`, `query_step` and `key_step`. Sequences have their ids as labels. Steps
        count from 1, layers and heads from 0. A weight is NaN if one of its steps is after the end
        of the sequence, or in "decoder_self" if its key step is after its query step.

        Args:
            kind: "cross", "encoder_self" or "decoder_self".
            source: sources as for `predict`; None for the test sequences of the run.
            steps, observed, attention_override: see `predict`. They need `source`.
            library: "xarray" for an `xarray.DataArray`, "numpy" for a `LabelledArray`. With None,
                the result is a DataArray if xarray is installed, and otherwise a `LabelledArray`.

        Raises:
            UsageError: if the model has no attention, or no attention of this kind, or if xarray is
                not installed.
            DataError: see `predict`.
            CheckpointError: if the files of the run cannot be read.
        """
        return run_results.attention_weights(
            self, kind, source, steps, observed, attention_override, library
        )

    def evaluate(self, source: DataFrame | None = None) -> Evaluation:
        """Compute the errors of the model and of the baselines, and the noise floor if it is known.

        Args:
            source: a DataFrame, which is read in the same way as `seqattn evaluate --input` reads a
                file with the same content. With None, the test part of the run's data is evaluated.

        Raises:
            DataError: if `seqattn evaluate` would reject a file with the content of the DataFrame,
                or if the training data are missing or have changed.
        """
        return run_results.evaluation(self, source)

    def doctor(self) -> list[Finding]:
        """Diagnose the run from its attention weights and losses; see `seqattn doctor`."""
        return run_results.diagnose(self)

    def plot_attention(
        self,
        example: int | Sequence[int] = 0,
        *,
        kind: str = "cross",
        layer: int | None = None,
        head: int | None = None,
    ) -> Figure:
        """Plot the attention weights of test sequences.

        Each row of a heatmap is a step that attends, and each column is a step that is attended to.

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
        return run_results.weights_figure(self, example, kind, layer, head)

    def plot_loss(self) -> Figure:
        """Plot the losses of each epoch, with the best baseline and, if known, the noise floor.

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
        return run_results.predictions_figure(self, examples)

    def report(self, output: str | Path | None = None) -> Path:
        """Write the HTML report of the run folder, which shows the best epoch; see `seqattn
        report`. Return the path of the page.

        Args:
            output: path of the page. The default is `report.html` in the run folder.
        """
        from seqattn.report import report

        return report(self.folder.path, None if output is None else Path(output))

    def to_dataframe(self, table: RunTable = "metrics", *,
                     library: Library | None = None) -> DataFrame:  # fmt: skip
        """Return a table of the run as a DataFrame.

        Args:
            table: "metrics" has a row for each epoch, as in `metrics.csv`. "predictions" has a row
                for each test sequence, target step and target feature, with the columns `sequence`
                (the id), `label` (if the sequences have labels), `step` (counted from 1),
                `feature`, `target` and `forecast`. Targets and forecasts are in the units of the
                data. A target that was not observed is NaN in pandas and null in polars.
            library: "pandas" or "polars"; None for pandas, or polars if pandas is not installed.

        Raises:
            UsageError: if the library is not installed, or if the table is unknown.
            CheckpointError: if a file of the run cannot be read.
        """
        return run_results.run_frame(self, table, library)

    def _repr_html_(self) -> str:
        return run_results.run_html(self)
