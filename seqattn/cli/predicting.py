"""`seqattn predict` and `seqattn evaluate`: a trained model on sequences, its run's or your own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from seqattn.cli.checks import checked_example, files_read, refuse_overrides_alone
from seqattn.cli.options import AsJson, InputFile, ReadingOverrides, Run, StepCount, grouped_options
from seqattn.cli.output import leave_with_the_reader, note, show
from seqattn.cli.terminal import print_evaluation
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.cli.inputs import Forecasts
    from seqattn.data import Sequences
    from seqattn.training import LoadedModel


Format = Literal["csv", "tsv", "jsonl", "npz", "parquet", "arrow"]


@dataclass(frozen=True)
class ForecastFiles:
    """What is written, and where."""

    output: Annotated[Path | None, typer.Option(
        "--output", metavar="FILE", help="Where to write; standard output without."
    )] = None  # fmt: skip
    form: Annotated[
        Format | None, typer.Option("--format", help="The ending of --output, or csv.")
    ] = None
    attention: Annotated[Path | None, typer.Option(
        "--attention", metavar="FILE.npz", help="Write the weights as data, too."
    )] = None  # fmt: skip

    @property
    def path(self) -> Path | None:
        """The file of the forecasts; None: standard output."""
        return None if str(self.output) == "-" else self.output

    def format(self) -> str:
        """The format of the forecasts; CSV where none is named.

        Raises:
            UsageError: the format is unknown or needs a file; or weights go to no NPZ file.
        """
        known = get_args(Format)
        ending = self.output.suffix.lower().removeprefix(".") if self.output is not None else ""
        form = self.form or ending or "csv"
        if form not in known:
            raise UsageError(
                f"--output {self.output}: ends in none of .{', .'.join(known)}. Give it one of"
                " these, or say --format."
            )
        if form in ("npz", "parquet", "arrow") and self.path is None:
            raise UsageError(f"--format {form} is binary and needs --output FILE.{form}.")
        if self.attention is not None and self.attention.suffix.lower() != ".npz":
            raise UsageError(
                f"--attention {self.attention}: weights are written as NPZ; end it in .npz."
            )
        return form


@dataclass(frozen=True)
class ForecastOptions:
    """Which forecasts are made."""

    example: Annotated[
        int | None, typer.Option("--example", metavar="K", help="Test sequence K of the run.")
    ] = None
    steps: StepCount = None
    attention_override: Annotated[str | None, typer.Option(
        "--attention-override", metavar="WAY",
        help="Look elsewhere than the model would: uniform, shuffled, previous or one_hot:K."
    )] = None  # fmt: skip


@grouped_options
def predict(
    run: Run,
    input_file: InputFile = None,
    *,
    files: ForecastFiles,
    wanted: ForecastOptions,
    overrides: ReadingOverrides = None,
) -> None:
    """Continue sequences: your own (--input), one of the run's test sequences (--example K), or
    all of these."""
    if input_file is not None and wanted.example is not None:
        raise UsageError("--input and --example both name sequences; give one of them.")
    refuse_overrides_alone(overrides, input_file)
    if files.path is None and files.attention is None:  # else a file is still to be written
        leave_with_the_reader()
    form = files.format()

    from seqattn.runs.output_files import check_outputs

    check_outputs(
        {"--output": files.path, "--attention": files.attention}, files_read(run, input_file)
    )

    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.cli import inputs
    from seqattn.models.attention import Override

    way = wanted.attention_override
    override = None if way is None else Override.parse(way)
    _, trained = open_run(run)
    if (files.attention is not None or override is not None) and not trained.has_attention:
        raise UsageError(f"{run}: its model has no attention (model.attention: null).")
    steps = wanted.steps or trained.spec.target_length
    if input_file is not None:
        given = inputs.own_input(trained, overrides)
        inputs.predict_file(given, input_file, files.path, form, steps, override, files.attention)
        return
    part = load_splits(trained).test
    if wanted.example is not None:
        part = part.select(checked_example(wanted.example, len(part)))
    forecasts = inputs.Forecasts(files.path, form, trained, part.target_features)
    _continue(trained, part, steps, way, files.attention, forecasts)


def _continue(
    trained: LoadedModel, part: Sequences, steps: int, way: str | None, attention: Path | None,
    forecasts: Forecasts,
) -> None:  # fmt: skip
    """Forecast sequences of a run, and write what comes of it.

    Args:
        way: of looking elsewhere, as it was typed; None: the model looks for itself.
        attention: a file for the weights; None: they are not asked for.
    """
    from seqattn.analysis.evaluation import forecast_loss, free_run
    from seqattn.analysis.evaluation.attention_file import open_attention_spool
    from seqattn.data.files.writing import ForecastSteps
    from seqattn.models.attention import Override

    override, scaling = None if way is None else Override.parse(way), trained.spec.scaling
    with open_attention_spool(attention) as spool:
        if spool is not None:
            spool.start_part(part, steps)
        result = free_run(
            trained.model, part, steps, override, with_attention=False, scaling=scaling,
            on_attention=None if spool is None else spool.add,
        )  # fmt: skip
        if override is not None:
            by_itself = free_run(trained.model, part, steps, with_attention=False, scaling=scaling)
            own, forced = (forecast_loss(found, part, scaling) for found in (by_itself, result))
            if own is not None and forced is not None:
                note(f"Mean squared error: {own:.4g} by its own attention, {forced:.4g} with"
                     f" {way}.")  # fmt: skip
        with forecasts.opened() as writer:
            writer.write(part, result, ForecastSteps.of_sources(part))


def evaluate(
    run: Run,
    input_file: InputFile = None,
    overrides: ReadingOverrides = None,
    as_json: AsJson = False,
) -> None:
    """Score a run beside the baselines and the noise floor: on its test sequences, or on your own
    (--input), whose first points are given and the rest held against the forecast."""
    import json

    from seqattn.analysis.evaluation import ReferenceLosses
    from seqattn.analysis.evaluation import evaluate as score
    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.cli import inputs

    refuse_overrides_alone(overrides, input_file)
    leave_with_the_reader()
    _, trained = open_run(run)
    data = load_splits(trained)
    part = data.test
    if input_file is not None:
        part = inputs.own_input(trained, overrides).read_with_targets(input_file)
    scaling = trained.spec.scaling
    against = ReferenceLosses.from_splits(part, data)
    evaluation = score(trained.model, part, against, scaling)
    if as_json:
        show(json.dumps(evaluation.as_plain(), indent=2, allow_nan=False))
    else:
        what = "test sequences" if input_file is None else f"sequences of {input_file}"
        print_evaluation(evaluation.as_plain(), f"{run}: {len(part)} {what}, epoch {trained.epoch}")
