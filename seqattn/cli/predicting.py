"""The command `seqattn predict`, which writes forecasts of a trained model, and the command
`seqattn evaluate`, which prints the errors of forecasts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

import typer

from seqattn.cli.argument_checks import example_slice, protected_files, require_attention
from seqattn.cli.options import (
    DecodingOptions,
    InputOptions,
    JsonFlag,
    RunArgument,
    StepCount,
    grouped_options,
)
from seqattn.cli.output import check_stdout, note, show, write_data
from seqattn.cli.result_tables import print_evaluation, print_knock_out
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.errors import UsageError, counted, install_command

if TYPE_CHECKING:
    from seqattn.analysis.evaluation.forced_weights import ForecastOverride
    from seqattn.analysis.evaluation.texts import TextOutput
    from seqattn.analysis.knock_out import KnockOut
    from seqattn.cli.inputs import ForecastWriter
    from seqattn.data import Sequences
    from seqattn.training import LoadedModel


ForecastFormat = Literal["csv", "tsv", "jsonl", "npz", "parquet", "arrow"]


@dataclass(frozen=True)
class ForecastFiles:
    """The options for the files of the forecasts and the attention weights."""

    heading: ClassVar = "Output options"

    output: Annotated[Path | None, typer.Option(
        "--output", metavar="FILE", help="File of the forecasts.", show_default="standard output"
    )] = None  # fmt: skip
    form: Annotated[ForecastFormat | None, typer.Option(
        "--format", help="Format of the forecasts.", show_default="suffix of --output, or csv"
    )] = None  # fmt: skip
    attention: Annotated[Path | None, typer.Option(
        "--attention", metavar="FILE.npz", help="Also write the attention weights."
    )] = None  # fmt: skip

    def check_lines(self) -> None:
        """Check the options of a command that writes lines of text.

        Raises:
            UsageError: if an option does not apply to lines of text.
        """
        if self.form or self.attention:
            raise UsageError(
                "--format and --attention do not apply to lines of text."
                " plot-attention and --interactive show the weights of a line."
            )
        if self.path is not None and self.path.suffix.lower() != ".txt":
            raise UsageError(f"--output {self.path}: lines of text are written to a file .txt.")

    @property
    def given(self) -> bool:
        """Whether one of the options is given."""
        return bool(self.output or self.form or self.attention)

    @property
    def path(self) -> Path | None:
        """The file of the forecasts; None for standard output."""
        return None if str(self.output) == "-" else self.output

    def format(self) -> str:
        """Return the format of the forecasts.

        The format is the value of `--format`. If `--format` is not given, the format is the suffix
        of `--output`. If there is no suffix either, the format is "csv".

        Raises:
            UsageError: if the format is unknown, if a binary format is to be written to standard
                output, or if `--attention` does not name an NPZ file.
        """
        known = (*get_args(ForecastFormat), "txt")
        suffix = self.output.suffix.lower().removeprefix(".") if self.output is not None else ""
        form = self.form or suffix or "csv"
        if form not in known:
            raise UsageError(
                f"--output {self.output}: its suffix is none of .{', .'.join(known)}. Use one of"
                " these, or give --format."
            )
        if form in ("npz", "parquet", "arrow") and self.path is None:
            raise UsageError(f"--format {form}: is binary and needs --output FILE.{form}.")
        if self.attention is not None and self.attention.suffix.lower() != ".npz":
            raise UsageError(
                f"--attention {self.attention}: attention weights are written as NPZ. Give a"
                " file that ends in .npz."
            )
        return form


@dataclass(frozen=True)
class ForecastOptions:
    """The options for the sequences to forecast, the number of steps, and the attention weights."""

    heading: ClassVar = "Forecast options"

    example: Annotated[int | None, typer.Option(
        "--example", metavar="K", help="Test sequence K of the run, from 0.",
        show_default="all test sequences",
    )] = None  # fmt: skip
    steps: StepCount = None
    epoch: Annotated[int | None, typer.Option(
        "--epoch", metavar="K", min=0,
        help="Use the parameters after epoch K, recorded by training.record_attention; 0: before"
        " training.",
        show_default="the best epoch",
    )] = None  # fmt: skip
    attention_override: Annotated[str | None, typer.Option(
        "--attention-override", metavar="MODE",
        help="Replace the attention weights: uniform, shuffled, previous, one_hot:K,"
        " zeros[:LAYER[:HEAD]] (counted from 1), or forced:FILE.json for your own weights.",
    )] = None  # fmt: skip

    def check_no_files(self, files: ForecastFiles) -> None:
        """Check the options of a command that prints the output for one test sequence of symbols.

        Raises:
            UsageError: if an option has no effect.
        """
        if files.given or self.steps is not None:
            raise UsageError(
                "--example prints the output for a test sequence of symbols; leave out --output,"
                " --format, --attention and --steps."
            )

    @property
    def rows_file(self) -> Path | None:
        """The file of forced attention weights; None if no such file is given."""
        _, _, name = (self.attention_override or "").partition("forced:")
        return Path(name) if name else None


@dataclass(frozen=True)
class LineOptions(DecodingOptions):
    """The options for the outputs of a model that was trained on symbols."""

    n_best: Annotated[int, typer.Option(
        "--n-best", metavar="M", min=1, max=1000,
        help="Number of outputs of each line, after the number of the line and a tab.",
    )] = 1  # fmt: skip
    scores: Annotated[bool, typer.Option(
        "--scores", help="Write the score and a tab before each output."
    )] = False  # fmt: skip
    alignment: Annotated[Literal["pharaoh"] | None, typer.Option(
        "--alignment", show_default="none",
        help="Write a tab and the source symbol with the largest weight for each output symbol:"
        " 0-0 1-2.",
    )] = None  # fmt: skip
    forced: Annotated[Path | None, typer.Option(
        "--forced", metavar="FILE", show_default="none",
        help="Let the decoder read these outputs, one for each line, instead of its own.",
    )] = None  # fmt: skip
    interactive: Annotated[bool, typer.Option(
        "--interactive", help="Answer each line, with a heatmap of the attention."
    )] = False  # fmt: skip

    def check_none_given(self, run: Path, files: ForecastFiles, *, is_of_symbols: bool) -> None:
        """Check that all options are at their defaults, because the command reads no lines.

        Raises:
            UsageError: if an option is given.
        """
        given = self.given
        if files.path is not None and files.path.suffix.lower() == ".txt" and not files.form:
            raise UsageError("--output FILE.txt: lines of text are outputs of models of symbols.")
        if given and is_of_symbols:
            raise UsageError(f"{given[0]}: applies to lines of text; leave out --example.")
        if given:
            raise UsageError(
                f"{given[0]}: applies to models of symbols; {run} was trained on vectors."
            )

    @property
    def given(self) -> list[str]:
        """The names of the options that are not at their defaults."""
        return [f"--{one.name.replace('_', '-')}" for one in fields(self)
                if getattr(self, one.name) != one.default]  # fmt: skip

    def check_override(self) -> None:
        """Check that no option is given beside `--attention-override`.

        Raises:
            UsageError: if one is, because the outputs are the greedy ones.
        """
        if self.given:
            raise UsageError(
                f"{self.given[0]}: has no effect with --attention-override, which writes the"
                " output that takes the most probable symbol at each place."
            )

    def check_forced(self, steps: int | None) -> None:
        """Check the options beside `--forced`.

        Raises:
            UsageError: if one of them has no effect.
        """
        if self.forced is None:
            return
        if str(self.forced) == "-":
            raise UsageError("--forced -: give a file; standard input has the sources.")
        if steps is not None or not self.decoding().is_greedy:
            raise UsageError(
                "--forced gives the outputs, so --beam, --temperature and --steps have no effect."
            )

    def columns(self, output: TextOutput) -> str:
        """Return an output as a line with the columns that the options select."""
        columns = [str(output.line)] if self.n_best > 1 else []
        if self.scores:
            columns.append(f"{output.score:.4f}")
        columns.append(output.text)
        if self.alignment:
            columns.append(output.pharaoh)
        return "\t".join(columns)

    def print_heatmap(self, output: TextOutput) -> None:
        """Print the attention of an output, if the model has attention."""
        from seqattn.cli.text_heatmap import print_text_weights

        if output.weights is not None:
            way = "forced" if self.forced else str(self.decoding(self.n_best))
            print_text_weights(output.weights, output.source, output.target, way)


@grouped_options
def predict(
    run: RunArgument,
    source: InputOptions,
    options: ForecastOptions,
    files: ForecastFiles,
    texts: LineOptions,
) -> None:
    """Forecast sequences, or translate lines of text.

    The command forecasts all test sequences of RUN, test sequence K only (--example K), or your own
    sequences (--input). If RUN was trained on symbols, the command reads lines of text from a file
    (--input) or from standard input, and writes a line for each.
    """
    input_file = source.input_file
    if input_file is not None and options.example is not None:
        raise UsageError("--input and --example both select sequences; give one of them.")
    source.check()
    if files.path is None:
        check_stdout()
    if files.path is None and files.attention is None:  # the command writes no file
        end_on_closed_pipe()
    form = files.format()

    from seqattn.runs.storage import check_outputs

    check_outputs(
        {"--output": files.path, "--attention": files.attention},
        {**protected_files(run, input_file), "--attention-override": options.rows_file},
    )

    from seqattn.analysis.evaluation import free_run
    from seqattn.analysis.evaluation.forced_weights import parse_override
    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.analysis.evaluation.texts import longest_output
    from seqattn.cli import inputs

    mode = options.attention_override
    override = None if mode is None else parse_override(mode)
    _, trained = open_run(run, options.epoch)
    if files.attention is not None or override is not None:
        require_attention(run, trained.config.model)
    if trained.spec.target.symbols and options.example is None:
        _predict_lines(run, trained, input_file, override, files, options, texts)
        return
    texts.check_none_given(run, files, is_of_symbols=bool(trained.spec.target.symbols))
    steps = options.steps or trained.spec.target_length
    if input_file is not None:
        reader = inputs.input_reader(trained, source.reading)
        inputs.predict_file(reader, input_file, files.path, form, steps, override, files.attention)
        return
    part = load_splits(trained).test
    if options.example is not None:
        part = part.select(example_slice(options.example, len(part)))
    if trained.spec.target.symbols:
        options.check_no_files(files)
        most = longest_output(trained)
        result = free_run(trained.model, part, most, override, with_attention=False)
        show(trained.spec.target.text(result.values[0]))
        return
    writer = inputs.ForecastWriter(files.path, form, trained, part.target_features)
    _predict_part(trained, part, steps, (mode, override), files.attention, writer)


def _predict_lines(
    run: Path, trained: LoadedModel, input_file: Path | None, override: ForecastOverride | None,
    files: ForecastFiles, options: ForecastOptions, texts: LineOptions,
) -> None:  # fmt: skip
    """Write the outputs for each line of a file or of standard input. With an override, they are
    the outputs with replaced attention weights.

    Raises:
        UsageError: if an option applies to sequences of vectors only.
    """
    from seqattn.analysis.evaluation import free_run
    from seqattn.analysis.evaluation.texts import (
        LINES_AT_ONCE,
        longest_output,
        read_sources,
        translate,
    )  # fmt: skip
    from seqattn.cli import inputs

    files.check_lines()
    texts.check_forced(options.steps)
    if texts.alignment:
        require_attention(run, trained.config.model)
    lines, name, is_typed = inputs.lines_of(input_file)
    if override is not None:
        texts.check_override()
        part, most = read_sources(trained, lines, name, note), longest_output(trained)
        forecast = free_run(trained.model, part, options.steps or most, override,
                            with_attention=False)  # fmt: skip
        _write_texts(map(trained.spec.target.text, forecast.values), files.path)
        return
    if is_typed or texts.interactive:
        note("Type a line and press Enter; end with Ctrl+D.")
    outputs = translate(
        trained, lines, options.steps, note, decoding=texts.decoding(texts.n_best),
        forced=None if texts.forced is None else inputs.lines_of(texts.forced)[0],
        with_attention=texts.interactive or texts.alignment is not None,
        name=name, at_once=1 if is_typed or texts.interactive else LINES_AT_ONCE,
    )  # fmt: skip
    if files.path is not None:
        _write_texts(map(texts.columns, outputs), files.path)
        return
    for one in outputs:
        write_data(f"{texts.columns(one)}\n")
        if texts.interactive:
            texts.print_heatmap(one)


def _write_texts(texts: Iterable[str], path: Path | None) -> None:
    """Write lines to a file, or to standard output if the path is None."""
    from seqattn.runs.storage import write_output

    content = "".join(f"{text}\n" for text in texts)
    if path is None:
        write_data(content)
    else:
        write_output(path, content.encode())


def _predict_part(
    trained: LoadedModel, part: Sequences, steps: int,
    named_override: tuple[str | None, ForecastOverride | None], attention: Path | None,
    writer: ForecastWriter,
) -> None:  # fmt: skip
    """Write forecasts of the test sequences of a run.

    Args:
        trained: the model.
        part: the sequences.
        steps: the number of steps to forecast.
        named_override: the value of `--attention-override` as text, and the parsed value; (None,
            None) for the model's own weights.
        attention: the file for the attention weights; None to write no weights.
        writer: the writer of the forecasts.
    """
    from seqattn.analysis.evaluation import free_run, free_running_error
    from seqattn.analysis.evaluation.attention_file import open_attention_spool
    from seqattn.data.writing import ForecastSteps

    mode, override = named_override
    trained.spec.note_lengths(part.source_lengths, steps, note)
    with open_attention_spool(attention) as spool:
        if spool is not None:
            spool.start_part(part, steps)
        result = free_run(
            trained.model, part, steps, override, with_attention=False,
            on_attention=None if spool is None else spool.add,
        )  # fmt: skip
        if override is not None:
            normal = free_run(trained.model, part, steps, with_attention=False)
            errors = [free_running_error(each, part) for each in (normal, result)]
            if None not in errors:
                unit = ", scaled units" if not part.is_identity else ""
                name = part.target_space.error_name.capitalize()
                note(f"{name}{unit}: {errors[0]:.4g} with the model's attention,"
                     f" {errors[1]:.4g} with {mode}.")  # fmt: skip
        with writer.opened():
            writer.write(part, result, ForecastSteps.of_sources(part))


@dataclass(frozen=True)
class KnockOutOptions:
    """The options for the errors without single attention heads."""

    heading: ClassVar = "Attention options"

    knock_out_heads: Annotated[bool, typer.Option(
        "--knock-out-heads", help="Also measure the errors without each attention head."
    )] = False  # fmt: skip
    figure: Annotated[Path | None, typer.Option(
        "--figure", metavar="FILE.png|svg|pdf",
        help="With --knock-out-heads: draw the differences as a heatmap.", show_default="none",
    )] = None  # fmt: skip

    def check(self, run: Path, input_file: Path | None, decoding: DecodingOptions) -> None:
        """Check the options.

        Raises:
            UsageError: if the file does not have the suffix of a picture format, or if an option
                contradicts another one.
        """
        if not self.knock_out_heads and self.figure is not None:
            raise UsageError("--figure draws what --knock-out-heads measures; give both.")
        if self.knock_out_heads and not decoding.decoding().is_greedy:
            raise UsageError(
                "--knock-out-heads: heads are knocked out in greedy decoding; leave out --beam and"
                " --temperature."
            )
        if self.figure is not None:
            from seqattn.plots import run_pictures
            from seqattn.runs.storage import check_outputs

            run_pictures.picture_ending(self.figure)
            check_outputs({"--figure": self.figure}, protected_files(run, input_file))
        else:  # the command writes no file
            end_on_closed_pipe()

    def check_model(self, run: Path, trained: LoadedModel) -> None:
        """Check that the heads of the model can be knocked out, if this is asked for.

        Raises:
            UsageError: if the model has no attention weights that can be replaced.
        """
        if self.knock_out_heads:
            require_attention(run, trained.config.model)
            trained.model.attention_shape()  # raises the UsageError of fast weights

    def measure(self, run: Path, trained: LoadedModel, part: Sequences) -> KnockOut | None:
        """Measure the errors without each head, and draw them if `--figure` is given; None without
        `--knock-out-heads`."""
        if not self.knock_out_heads:
            return None
        from seqattn.analysis.knock_out import knock_out_heads

        found = knock_out_heads(trained.model, part)
        if self.figure is not None:
            from seqattn.plots import run_pictures
            from seqattn.plots.knock_out import knock_out_figure

            title = f"{run}: {counted(found.sequences, 'sequence')}, without one head"
            figure = knock_out_figure(
                found.differences(), found.main_measure, title=title,
                is_significant=found.significant(), scaled=found.scaled,
            )  # fmt: skip
            run_pictures.save(figure, self.figure)
            note(f"Drew {self.figure}")
        return found


@grouped_options
def evaluate_command(
    run: RunArgument,
    source: InputOptions,
    decoding: DecodingOptions,
    heads: KnockOutOptions,
    as_json: JsonFlag = False,
) -> None:
    """Compare the errors of a run with baselines.

    The command forecasts the test sequences of RUN, or your own sequences (--input). The first
    steps of your own sequences are the source, and the other steps are the true target. If RUN was
    trained on symbols, the file has pairs of texts. For test sequences, the command also prints the
    noise floor if it is known. With --knock-out-heads, it repeats the forecasts once for each
    attention head, without this head.
    """
    import json

    from seqattn.analysis.alignment import alignments_of_rules
    from seqattn.analysis.evaluation import ReferenceLosses
    from seqattn.analysis.evaluation import evaluate as score
    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.data.text_measures import has_words

    source.check()
    heads.check(run, source.input_file, decoding)
    _, trained = open_run(run)
    heads.check_model(run, trained)
    data, input_file = load_splits(trained), source.input_file
    part = data.test if input_file is None else _read_with_targets(trained, input_file, source)
    trained.spec.note_lengths(part.source_lengths, part.target_lengths, note)
    found = decoding.decoding()
    if not found.is_greedy and not trained.spec.target.symbols:
        raise UsageError(f"{run} was trained on vectors; --beam and --temperature are for symbols.")
    references = ReferenceLosses.from_splits(part, data)
    evaluation = score(trained.model, part, references, decoding=found)
    scored = evaluation.as_plain()
    if trained.spec.target.symbols:
        scored["decoding"] = str(found)
    if evaluation.alignment is not None:
        rules = alignments_of_rules(data.train, part)
        scored["alignment"]["baselines"] = {name: one.as_plain() for name, one in rules.items()}
    costs = heads.measure(run, trained, part)
    if costs is not None:
        scored["knock_out"] = costs.as_plain()
    if has_words(part.target_space) and "bleu" not in scored["measures"]:
        note(f"BLEU and chrF need sacrebleu: {install_command('text')}")
    if as_json:
        show(json.dumps(scored, indent=2, allow_nan=False))
    else:
        name = "test sequences" if input_file is None else f"sequences of {input_file}"
        way = f", {found}" if trained.spec.target.symbols else ""
        print_evaluation(scored, f"{run}: {len(part)} {name}, epoch {trained.epoch}{way}")
        if costs is not None:
            overlapping = input_file is None and _has_overlapping_windows(trained)
            print_knock_out(costs, overlapping=overlapping)


def _has_overlapping_windows(trained: LoadedModel) -> bool:
    window = getattr(trained.config.data, "window", None)
    return window is not None and window.stride < window.source + window.target


def _read_with_targets(trained: LoadedModel, input_file: Path, source: InputOptions) -> Sequences:
    """Read the user's own sequences together with their targets."""
    from seqattn.cli import inputs

    if trained.spec.target.symbols:
        return inputs.pairs_of_file(trained, input_file, source.reading)
    return inputs.input_reader(trained, source.reading).read_with_targets(input_file)
