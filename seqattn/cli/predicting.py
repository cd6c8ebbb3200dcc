"""`seqattn predict` and `seqattn evaluate`: a trained model on sequences, its run's or your own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqattn.cli.arguments import (
    InputFile,
    ReadingOverrides,
    Run,
    checked_example,
    files_read,
    refuse_overrides_alone,
)
from seqattn.cli.output import leave_with_the_reader, note, show
from seqattn.cli.terminal import print_evaluation
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.cli.inputs import Forecasts
    from seqattn.data import Sequences
    from seqattn.training import LoadedModel


class Format(StrEnum):
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    npz = "npz"
    parquet = "parquet"
    arrow = "arrow"


def predict(
    run: Run,
    input_file: InputFile = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Where to write; standard output without."),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="The ending of --output, or csv."),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option("--attention", metavar="FILE.npz", help="Write the weights as data, too."),
    ] = None,
    example: Annotated[
        int | None, typer.Option("--example", metavar="K", help="Test sequence K of the run.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, max=100_000, help="Points to forecast; as trained without."),
    ] = None,
    attention_override: Annotated[
        str | None,
        typer.Option(
            "--attention-override",
            metavar="WAY",
            help="Look elsewhere than the model would: uniform, shuffled, previous or one_hot:K.",
        ),
    ] = None,
    overrides: ReadingOverrides = None,
) -> None:
    """Continue sequences: your own (--input), one of the run's test sequences (--example K), or
    all of these."""
    if input_file is not None and example is not None:
        raise UsageError("--input and --example both name sequences; give one of them.")
    refuse_overrides_alone(overrides, input_file)
    to_stdout = output is None or str(output) == "-"
    if to_stdout and attention is None:  # else a file is still to be written
        leave_with_the_reader()
    chosen = form or _format_of(output)
    if chosen in (Format.npz, Format.parquet, Format.arrow) and to_stdout:
        raise UsageError(f"--format {chosen} is binary and needs --output FILE.{chosen}.")
    if attention is not None and attention.suffix.lower() != ".npz":
        raise UsageError(f"--attention {attention}: weights are written as NPZ; end it in .npz.")

    from seqattn.user_files import check_outputs

    where = None if to_stdout else output
    check_outputs({"--output": where, "--attention": attention}, files_read(run, input_file))

    from seqattn.attention import Override
    from seqattn.cli import inputs
    from seqattn.experiment import data_of, open_run

    override = None if attention_override is None else Override.parse(attention_override)
    _, trained = open_run(run)
    if (attention is not None or override is not None) and not trained.has_attention:
        raise UsageError(f"{run}: its model has no attention (model.attention: null).")
    length = steps or trained.spec.target_length
    if input_file is not None:
        given = inputs.own_input(trained, overrides)
        inputs.predict_file(given, input_file, where, chosen.value, length, override, attention)
        return
    part = data_of(trained).test
    if example is not None:
        part = part.at(checked_example(example, len(part)))
    forecasts = inputs.Forecasts(where, chosen.value, trained, part.target_features)
    _continue(trained, part, length, attention_override, attention, forecasts)


def _continue(
    trained: LoadedModel, part: Sequences, steps: int, way: str | None, attention: Path | None,
    forecasts: Forecasts,
) -> None:  # fmt: skip
    """Forecast sequences of a run, and write what comes of it.

    Args:
        way: of looking elsewhere, as it was typed; None: the model looks for itself.
        attention: a file for the weights; None: they are not asked for.
    """
    from seqattn.attention import Override
    from seqattn.data.files.writing import Steps
    from seqattn.evaluation import free_run, loss_of
    from seqattn.experiment.attention_file import spool_for

    override, scaling = None if way is None else Override.parse(way), trained.spec.scaling
    with spool_for(attention) as spool:
        if spool is not None:
            spool.begin(part, steps)
        result = free_run(
            trained.model, part, steps, override, with_attention=False, scaling=scaling,
            watch=None if spool is None else spool.add,
        )  # fmt: skip
        if override is not None:
            by_itself = free_run(trained.model, part, steps, with_attention=False, scaling=scaling)
            own, forced = (loss_of(found, part, scaling) for found in (by_itself, result))
            if own is not None and forced is not None:
                note(f"Mean squared error: {own:.4g} by its own attention, {forced:.4g} with"
                     f" {way}.")  # fmt: skip
        with forecasts.opened() as writer:
            writer.write(part, result, Steps.of_sources(part))


def evaluate(
    run: Run,
    input_file: InputFile = None,
    overrides: ReadingOverrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Score a run beside the baselines and the noise floor: on its test sequences, or on your own
    (--input), whose first points are given and the rest held against the forecast."""
    import json

    from seqattn.cli import inputs
    from seqattn.evaluation import References
    from seqattn.evaluation import evaluate as score
    from seqattn.experiment import data_of, open_run

    refuse_overrides_alone(overrides, input_file)
    leave_with_the_reader()
    _, trained = open_run(run)
    data = data_of(trained)
    part = data.test
    if input_file is not None:
        part = inputs.own_input(trained, overrides).scored(input_file)
    scaling = trained.spec.scaling
    against = References.of_data(part, data)
    evaluation = score(trained.model, part, against, scaling)
    if as_json:
        show(json.dumps(evaluation.as_plain(), indent=2, allow_nan=False))
    else:
        what = "test sequences" if input_file is None else f"sequences of {input_file}"
        print_evaluation(evaluation.as_plain(), f"{run}: {len(part)} {what}, epoch {trained.epoch}")


def _format_of(output: Path | None) -> Format:
    """The format that a file's ending names; CSV where it names none."""
    ending = output.suffix.lower().removeprefix(".") if output is not None else ""
    if ending in ("", *Format):
        return Format(ending or "csv")
    raise UsageError(
        f"--output {output}: ends in none of {', '.join('.' + known for known in Format)}."
        " Give it one of these, or say --format."
    )
