"""The computations behind the methods of `Run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from seqattn.errors import SeqattnError, UsageError
from seqattn.experiments.api import dataframes, epoch_results, html
from seqattn.experiments.api.arguments import (
    DataFrame,
    OverrideArgument,
    as_integer,
    check_step_count,
    warn,
)
from seqattn.experiments.api.dataframes import Library
from seqattn.experiments.api.labelled import ArrayLibrary, LabelledWeights, label_weights
from seqattn.experiments.source_arrays import source_sequences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqattn.analysis.doctor import Finding
    from seqattn.analysis.evaluation import Evaluation, FreeRunningForecast
    from seqattn.data import Sequences
    from seqattn.experiments.api.run import Run


def forecast_sources(
    run: Run, source: ArrayLike | DataFrame, steps: int | None,
    attention_override: OverrideArgument, *, observed: ArrayLike | None = None,
    with_attention: bool = False,
) -> tuple[FreeRunningForecast, Sequences]:  # fmt: skip
    """Forecast the steps after each source. Return the forecast, and the sources as sequences."""
    from seqattn.analysis.evaluation import as_override, free_run

    steps = check_step_count(steps) or run.trained.spec.target_length
    override = None if attention_override is None else as_override(attention_override)
    if (override or with_attention) and not run.trained.has_attention:
        raise UsageError(f"{run.folder.path}: its model has no attention.")
    sequences = source_sequences(source, run.trained, warn, observed)
    result = free_run(
        run.trained.model, sequences, steps, override, with_attention=with_attention,
        scaling=run.trained.spec.scaling,
    )  # fmt: skip
    run.trained.spec.note_lengths(sequences.source_lengths, steps, warn)
    return result, sequences


def weights_figure(
    run: Run, example: int | Sequence[int], kind: str, layer: int | None, head: int | None
) -> Figure:
    """Plot the attention weights of test sequences; see `Run.plot_attention`."""
    from seqattn.plots import run_pictures

    if not run.trained.has_attention:
        raise UsageError(f"{run.folder.path}: its model has no attention.")
    weights, titles = epoch_results.attention_of_examples(run, example)
    return run_pictures.attention_picture(
        weights, titles, len(titles), kind=kind, layer=layer, head=head
    )[0]


def run_html(run: Run) -> str:
    """Return HTML with the results and the pictures of a run. If the run has no results, the HTML
    states why."""
    section = run.config.model
    kinds = [section.kind, getattr(getattr(section, "attention", None), "score", "")]
    rows = [
        ["model", ", ".join(filter(None, kinds))],
        ["epoch of the weights", str(run.trained.epoch)],
    ]
    name = f"run {run.folder.path.resolve().name}"
    try:
        summary = run.folder.read_results()
    except SeqattnError as error:
        return html.as_html(name, (), rows, [str(error)])
    rows += [["seed", str(summary["seed"])], *html.run_rows(summary)]
    other_epoch = run.trained.epoch != summary["best_epoch"]
    return html.as_html(
        name, (), rows, (), html.run_pictures_of(run.folder, only_losses=other_epoch)
    )


def attention_weights(
    run: Run, kind: str, source: ArrayLike | DataFrame | None, steps: int | None,
    observed: ArrayLike | None, attention_override: OverrideArgument, library: ArrayLibrary | None,
) -> LabelledWeights:  # fmt: skip
    """Return labeled attention weights; see `Run.attention_weights`."""
    if source is not None:
        result, sequences = forecast_sources(
            run, source, steps, attention_override, observed=observed, with_attention=True
        )
        return label_weights(result.attention_arrays(sequences, steps_real=False), kind, library)
    if not (steps is observed is attention_override is None):
        raise UsageError("steps, observed and attention_override: need a source.")
    if not run.trained.has_attention:
        raise UsageError(f"{run.folder.path}: its model has no attention.")
    return label_weights(epoch_results.attention_of(run), kind, library)


def forecast_frame(run: Run, source: DataFrame, steps: int | None) -> DataFrame:
    """Forecast the series of a DataFrame; see `Run.predict_frame`."""
    from seqattn.analysis.evaluation.frames import FrameReader, forecast_columns

    frame = FrameReader.of(run.trained, source, warn)
    return frame.make_frame(forecast_columns(frame, run.trained, check_step_count(steps)))


def diagnose(run: Run) -> list[Finding]:
    """Diagnose a run; see `Run.doctor`."""
    from seqattn.analysis import doctor

    losses, history = doctor.sibling_losses(run.folder), doctor.read_history(run.folder)
    return doctor.examine(doctor.collect_evidence(run.trained, run.data, losses, history))


def evaluation(run: Run, source: DataFrame | None) -> Evaluation:
    """Evaluate the model of a run; see `Run.evaluate`."""
    from seqattn.analysis.evaluation import ReferenceLosses, evaluate

    data = run.data
    sequences = data.test
    if source is not None:
        from seqattn.analysis.evaluation.frames import FrameReader

        sequences = FrameReader.of(run.trained, source, warn).read_with_targets()
    run.trained.spec.note_lengths(sequences.source_lengths, sequences.target_lengths, warn)
    baselines = ReferenceLosses.from_splits(sequences, data)
    return evaluate(run.trained.model, sequences, baselines, data.scaling)


def predictions_figure(run: Run, examples: int) -> Figure:
    """Plot test sequences with their forecasts; see `Run.plot_predictions`."""
    from seqattn.plots import run_pictures

    if as_integer(examples, "examples") < 1:
        raise UsageError(f"examples {examples}: expected 1 or more.")
    summary, predictions = run.folder.read_results(), epoch_results.predictions_of(run, examples)
    return run_pictures.predictions_picture(predictions, summary, examples)


def run_frame(run: Run, table: str, library: Library | None) -> DataFrame:
    """Return a table of a run as a DataFrame; see `Run.to_dataframe`."""
    if dataframes.check_table(table, ("metrics", "predictions")) == "metrics":
        columns = dataframes.metrics_columns(run.folder)
    else:
        columns = dataframes.columns_of_predictions(epoch_results.predictions_of(run))
    return dataframes.make_frame(columns, library)
