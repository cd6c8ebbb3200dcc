"""A trained run: forecasts, attention weights, evaluation, tables and plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqattn.analysis.attention_flow import AttributionMethod, attribute_to_sources
from seqattn.analysis.evaluation import (
    Evaluation,
    FreeRunningForecast,
    ReferenceLosses,
    as_override,
    evaluate,
    free_run,
)
from seqattn.analysis.evaluation.frames import FrameReader, forecast_columns
from seqattn.analysis.evaluation.load_run import load_splits, open_run
from seqattn.analysis.evaluation.texts import TextOutput, longest_output, translate
from seqattn.analysis.knock_out import KnockOut, knock_out_heads
from seqattn.config import Config
from seqattn.data import Sequences, Splits
from seqattn.data.writing import forecast_arrays
from seqattn.errors import SeqattnError, UsageError
from seqattn.experiments.api import formats
from seqattn.experiments.api.arguments import (
    DataFrame,
    OverrideArgument,
    as_integer,
    as_texts,
    check_count,
    is_single_sequence,
    source_sequences,
    warn,
)
from seqattn.experiments.api.formats import ArrayLibrary, LabelledWeights, Library, label_weights
from seqattn.models.decoding import Decoding
from seqattn.runs import EpochRecord, RunFolder
from seqattn.runs.array_files import select_sequences, sequence_titles
from seqattn.training import LoadedModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqattn.analysis.attributed_run import AttributedSequence
    from seqattn.analysis.doctor import Finding

Arrays = dict[str, NDArray[Any]]
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
        folder, trained = open_run(Path(path), epoch)
        # A run does not depend on the working directory.
        return cls(RunFolder(folder.path.absolute()), trained)

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
        return load_splits(self.trained)

    @overload
    def predict(  # type: ignore[overload-overlap]  # a text is also ArrayLike
        self, source: str, steps: int | None = None, *,
        attention_override: OverrideArgument = None) -> str: ...  # fmt: skip

    @overload
    def predict(
        self, source: list[str], steps: int | None = None, *,
        attention_override: OverrideArgument = None) -> list[str]: ...  # fmt: skip

    @overload
    def predict(
        self, source: ArrayLike | DataFrame, steps: int | None = None, *,
        observed: ArrayLike | None = None,
        attention_override: OverrideArgument = None) -> NDArray[np.float64]: ...  # fmt: skip

    def predict(
        self,
        source: Any,
        steps: int | None = None,
        *,
        observed: ArrayLike | None = None,
        attention_override: OverrideArgument = None,
    ) -> NDArray[np.float64] | str | list[str]:
        """Compute a free-running forecast of the steps after each source.

        Args:
            source: array (N, S, F), or (S, F) for one sequence, in the units of the data, with NaN
                or masked elements at the end of shorter sequences. If the run was trained with
                `data.missing: interpolate`, NaN before the end of a sequence is an empty cell. A
                DataFrame is read in the same way as `seqattn predict --input` reads a file with the
                same content. For a model of symbols, a text or a list of texts.
            steps: number of steps T; None for the length of the longest training target. For
                symbols, the maximum number of symbols; None for twice this length.
            observed: booleans of the shape of the array, False at cells that are missing or whose
                value was filled, such as `source_observed` of `predictions.npz`; None if every
                number in the array was observed. Needs `data.missing: interpolate`.
            attention_override: see `OverrideArgument`; None for the model's own weights.

        Returns:
            array (N, T, F), or (T, F) for one sequence, in the units of the data. For a DataFrame,
            the array is (N, T, F), and the series are in the order of their first rows. For texts,
            the outputs as texts; `translate` returns more about them.

        Raises:
            DataError: if a shape is wrong, if a value inside a sequence is infinite, or missing and
                not to be filled, or if `seqattn predict` would reject a file with the content of
                the DataFrame.
            UsageError: if `steps` is not a whole number above 0, if the override does not fit the
                model or a sequence, or if `observed` is given for a DataFrame.
        """
        result, _ = self._forecast(source, steps, observed, attention_override)
        if not self.trained.spec.target.symbols:
            return result.values[0] if is_single_sequence(source) else result.values
        texts = [self.trained.spec.target.text(one) for one in result.values]
        return texts[0] if isinstance(source, str) else texts

    def translate(
        self, source: str | Iterable[str], *, beam: int = 1, length_penalty: float = 0.6,
        n_best: int = 1, temperature: float | None = None, sampling_seed: int = 0,
        steps: int | None = None, forced: Iterable[str] | None = None,
    ) -> list[TextOutput]:  # fmt: skip
        """Compute the outputs of a model of symbols for texts, with their scores and attention.

        Args:
            source: a text, or several texts.
            beam, length_penalty, n_best, temperature, sampling_seed: how outputs are found; see
                `seqattn predict`. With `n_best`, each text has several outputs, the best first.
            steps: maximum number of symbols of an output; None for twice the length of the longest
                training target.
            forced: the output of each text, which the decoder then reads; None to find outputs.

        Raises:
            DataError: if a text has no symbol, or if there are not as many forced outputs as texts.
            UsageError: if the run was not trained on symbols, or if the arguments contradict each
                other.
        """
        decoding = Decoding(beam, length_penalty, n_best, temperature, sampling_seed)
        return list(translate(
            self.trained, as_texts(source), check_count(steps, "steps"), warn, decoding=decoding,
            forced=None if forced is None else as_texts(forced, "forced"), with_attention=True,
            name="source",
        ))  # fmt: skip

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
        frame = FrameReader.of(self.trained, source, warn)
        return frame.make_frame(forecast_columns(frame, self.trained, check_count(steps, "steps")))

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
        self._check_attention()
        result, _ = self._forecast(source, steps, observed, attention_override, with_attention=True)
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
        if source is None and not (steps is observed is attention_override is None):
            raise UsageError("steps, observed and attention_override: need a source.")
        self._check_attention()
        if source is not None:
            result, sequences = self._forecast(
                source, steps, observed, attention_override, with_attention=True
            )
            arrays = result.attention_arrays(sequences, steps_real=False)
        elif self._has_stored_results:
            arrays = self.folder.read_attention()
        else:
            arrays = self._compute_attention(self.data.test)
        return label_weights(arrays, kind, library)

    def evaluate(self, source: DataFrame | None = None) -> Evaluation:
        """Compute the errors of the model and of the baselines, and the noise floor if it is known.

        Args:
            source: a DataFrame, which is read in the same way as `seqattn evaluate --input` reads a
                file with the same content. With None, the test part of the run's data is evaluated.

        Raises:
            DataError: if `seqattn evaluate` would reject a file with the content of the DataFrame,
                or if the training data are missing or have changed.
        """
        data = self.data
        sequences = data.test
        if source is not None and self.trained.spec.target.symbols:
            raise UsageError("source: `seqattn evaluate --input FILE` measures pairs of texts.")
        if source is not None:
            sequences = FrameReader.of(self.trained, source, warn).read_with_targets()
        self.trained.spec.note_lengths(sequences.source_lengths, sequences.target_lengths, warn)
        baselines = ReferenceLosses.from_splits(sequences, data)
        return evaluate(self.trained.model, sequences, baselines)

    def knock_out_heads(self) -> KnockOut:
        """Compute the errors on the test sequences without each attention head; see `seqattn
        evaluate --knock-out-heads`.

        Raises:
            UsageError: if the model has no attention weights that can be replaced.
            DataError: if the training data are missing or have changed.
        """
        self._check_attention()
        return knock_out_heads(self.trained.model, self.data.test)

    def attribute(self, example: int = 0) -> AttributedSequence:
        """Compute which source steps the output for a test sequence depends on; see `seqattn
        attribute`.

        Args:
            example: index of a test sequence.

        Raises:
            UsageError: if the sequence does not exist.
        """
        from seqattn.analysis.attributed_run import attribute_sequence

        test = self.data.test
        return attribute_sequence(self.trained, test, _as_indices(example, len(test))[0])

    def doctor(self) -> list[Finding]:
        """Diagnose the run from its attention weights and losses; see `seqattn doctor`."""
        from seqattn.analysis import doctor

        losses, history = doctor.sibling_losses(self.folder), doctor.read_history(self.folder)
        return doctor.examine(doctor.collect_evidence(self.trained, self.data, losses, history))

    def plot_attention(
        self,
        example: int | Sequence[int] | str | Sequence[str] = 0,
        *,
        kind: str = "cross",
        layer: int | None = None,
        head: int | None = None,
        show: Literal["weights", "rollout", "flow"] = "weights",
    ) -> Figure:
        """Plot the attention weights of test sequences, or of a model of symbols for texts.

        Each row of a heatmap is a step that attends, and each column is a step that is attended to.

        Args:
            example: index of a test sequence, or several indices; or a text, or several texts.
            kind: "cross", "encoder_self" or "decoder_self".
            layer: index of a layer; None for all layers.
            head: index of a head; None for all heads.
            show: "rollout" or "flow" draws what reaches each output step of a Transformer from the
                source through all layers; see `seqattn.analysis.attention_flow`.

        Raises:
            UsageError: if the sequence, kind, layer or head does not exist, or if the model has no
                attention; if `show` is unknown, or not "weights" for another model than a
                Transformer or together with a kind, layer or head.
            CheckpointError: if the files of the run cannot be read.
        """
        from seqattn.plots import run_pictures

        self._check_attention()
        several: Any = example if isinstance(example, Sequence) else [example]
        if isinstance(example, str) or (len(several) and isinstance(several[0], str)):
            result, part = self._forecast(example, None, None, None, with_attention=True)
            arrays = forecast_arrays(part, result.values, with_target=False)
            weights = {**arrays, **result.attention_arrays(part, steps_real=False)}
            titles = sequence_titles(arrays, "sequence")
        elif self._has_stored_results:
            predictions = self.folder.read_predictions()
            indices = _as_indices(example, len(predictions["ids"]))
            weights = select_sequences({**predictions, **self.folder.read_attention()}, indices)
            titles = sequence_titles(weights)
        else:
            test = self.data.test
            part = test.select(np.array(_as_indices(example, len(test)), dtype=np.int64))
            result = free_run(self.trained.model, part, part.target_steps)
            arrays = forecast_arrays(part, result.values, with_target=True)
            weights = {**arrays, **result.attention_arrays(part, steps_real=True)}
            titles = sequence_titles(arrays)
        if show != "weights":
            if show not in get_args(AttributionMethod):
                raise UsageError(f"show: {show!r} is none of 'weights', 'rollout' and 'flow'.")
            if (kind, layer, head) != ("cross", None, None):
                raise UsageError(
                    f"show: {show!r} combines all layers and heads; leave out kind, layer and head."
                )
            weights = attribute_to_sources(weights, show)
        return run_pictures.attention_picture(
            weights, titles, len(titles), kind=kind, layer=layer, head=head
        )[0]

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
        from seqattn.plots import run_pictures

        check_count(as_integer(examples, "examples"), "examples")
        summary, predictions = self.folder.read_results(), self._predictions(examples)
        return run_pictures.predictions_picture(predictions, summary, examples)

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
        if formats.check_table(table, ("metrics", "predictions")) == "metrics":
            columns = formats.metrics_columns(self.folder)
        else:
            columns = formats.columns_of_predictions(self._predictions())
        return formats.make_frame(columns, library)

    def _repr_html_(self) -> str:
        section = self.config.model
        kinds = [section.kind, getattr(getattr(section, "attention", None), "score", "")]
        rows = [
            ["model", ", ".join(filter(None, kinds))],
            ["epoch of the weights", str(self.trained.epoch)],
        ]
        name = f"run {self.folder.path.resolve().name}"
        try:
            summary = self.folder.read_results()
        except SeqattnError as error:
            return formats.as_html(name, (), rows, [str(error)])
        rows += [["seed", str(summary["seed"])], *formats.run_rows(summary)]
        pictures = formats.run_pictures_of(
            self.folder, only_losses=self.trained.epoch != summary["best_epoch"]
        )
        return formats.as_html(name, (), rows, (), pictures)

    # --- forecasts and weights at the epoch of the opened run -------------------------------------

    def _check_attention(self) -> None:
        if not self.trained.has_attention:
            raise UsageError(f"{self.folder.path}: its model has no attention.")

    def _forecast(
        self, source: ArrayLike | DataFrame, steps: int | None, observed: ArrayLike | None,
        attention_override: OverrideArgument, *, with_attention: bool = False,
    ) -> tuple[FreeRunningForecast, Sequences]:  # fmt: skip
        """Forecast the steps after each source. Return also the sources as sequences."""
        spec = self.trained.spec
        longest = longest_output(self.trained) if spec.target.symbols else spec.target_length
        steps = check_count(steps, "steps") or longest
        override = None if attention_override is None else as_override(attention_override)
        if override:
            self._check_attention()
        sequences = source_sequences(source, self.trained, warn, observed)
        result = free_run(
            self.trained.model, sequences, steps, override, with_attention=with_attention,
        )  # fmt: skip
        lengths = spec.target.forecast_lengths(result.values, np.full(len(sequences), steps))
        result = result.first_steps(int(lengths.max(initial=1)))
        spec.note_lengths(sequences.source_lengths, lengths, warn)
        return result, sequences

    @property
    def _has_stored_results(self) -> bool:
        """Whether the result files in the run folder, which contain the forecasts and weights of
        the best epoch, describe the epoch of the opened run. A checkpoint outside a run folder has
        no result files."""
        return self.folder.is_run and bool(
            self.trained.epoch == self.folder.read_results()["best_epoch"]
        )

    def _predictions(self, max_rows: int | None = None) -> Arrays:
        """Return the arrays of `predictions.npz` for the first test sequences; None for all."""
        if self._has_stored_results:
            return self.folder.read_predictions(max_rows)
        return self._compute_predictions(max_rows)

    def _compute_attention(self, part: Sequences) -> Arrays:
        """Compute the arrays of an attention file with the model."""
        result = free_run(self.trained.model, part, part.target_steps)
        return result.attention_arrays(part, steps_real=True)

    def _compute_predictions(self, max_rows: int | None = None) -> Arrays:
        """Compute the arrays of `predictions.npz` with the model; see `_predictions`."""
        test, rows = self.data.test, slice(0, max_rows)
        part, times = test.select(rows), test.times(slice(0, len(range(len(test))[rows])))
        result = free_run(
            self.trained.model, part, part.target_steps, with_attention=False,
        )  # fmt: skip
        arrays: Arrays = {**forecast_arrays(part, result.values, with_target=True)}
        if times is not None:
            arrays["source_times"], arrays["target_times"] = times
        if part.alignment is not None:
            arrays["alignment"] = part.alignment
        return arrays


def path_in_repr(path: Path) -> str:
    """Return an absolute path as a `repr` shows it: relative if it is below the working
    directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _as_indices(example: Any, count: int) -> list[int]:
    """Check the indices of test sequences, and return them as a list."""
    indices = [as_integer(k, "example") for k in np.atleast_1d(np.asarray(example, dtype=object))]
    if not indices:
        raise UsageError("example: expected a test sequence, counted from 0, or several.")
    if unknown := [k for k in indices if not 0 <= k < count]:
        raise UsageError(f"example {unknown[0]}: there are {count} test sequences, counted from 0.")
    return indices
