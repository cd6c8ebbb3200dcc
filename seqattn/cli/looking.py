"""To look at: pictures of attention, the page of a run, and what the doctor says."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqattn.cli.arguments import InputFile, Run, files_read
from seqattn.cli.output import leave_with_the_reader, note, show
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.doctor import Finding
    from seqattn.runs import RunFolder


class AttentionKind(StrEnum):
    """Who looks at whom."""

    cross = "cross"
    encoder_self = "encoder_self"
    decoder_self = "decoder_self"


class PictureFormat(StrEnum):
    png = "png"
    svg = "svg"
    pdf = "pdf"
    gif = "gif"


def plot_attention(
    context: typer.Context,
    run: Run,
    input_file: InputFile = None,
    examples: Annotated[
        int, typer.Option("--examples", min=1, max=100, help="How many sequences to draw.")
    ] = 10,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE.png|svg|pdf", help="Where to draw; the run folder without."
        ),
    ] = None,
    form: Annotated[
        PictureFormat | None,
        typer.Option("--format", help="Instead of --output's ending; gif is for --epochs."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, max=64, help="With --input: points to forecast."),
    ] = None,
    kind: Annotated[
        AttentionKind,
        typer.Option("--kind", help="Who looks at whom; a Transformer has all three."),
    ] = AttentionKind.cross,
    layer: Annotated[
        int | None, typer.Option("--layer", min=0, help="One layer, counted from 0.")
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", min=0, help="One head, counted from 0.")
    ] = None,
    grid: Annotated[
        bool,
        typer.Option("--grid", help="The first sequence, a row a layer and a column a head."),
    ] = False,
    epochs: Annotated[
        bool,
        typer.Option(
            "--epochs", help="The film: where it looked while it learned, a column an epoch."
        ),
    ] = False,
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Print blocks and numbers instead of a picture.")
    ] = False,
) -> None:
    """Draw where the model looked, target rows against source columns: in the run's test
    sequences, or in your own (--input)."""
    from seqattn import pictures
    from seqattn.runs import find_run
    from seqattn.storage import locked
    from seqattn.user_files import check_outputs

    if epochs and (grid or terminal or input_file is not None or kind is not AttentionKind.cross):
        raise UsageError(
            "--epochs draws the film of the run's probe sequences; it goes with --layer, --head,"
            " --examples, --output and --format only."
        )
    if terminal and (output is not None or form is not None):
        raise UsageError("--terminal prints; --output and --format are for pictures.")
    if grid and (layer is not None or head is not None):
        raise UsageError("--grid draws every layer and head; leave --layer and --head out.")
    if form is PictureFormat.gif and not epochs:
        raise UsageError("--format gif moves; it is for --epochs.")
    if output is not None and form is not None and output.suffix.lower() != f".{form}":
        raise UsageError(f"--output {output} and --format {form} say different things.")
    moving = form is PictureFormat.gif or (
        output is not None and output.suffix.lower() == ".gif" and epochs
    )
    if output is not None and not moving:
        pictures.picture_ending(output)
    check_outputs({"--output": output}, files_read(run, input_file))
    if steps is not None and input_file is None:
        raise UsageError("--steps goes with --input; the run's test sequences have their targets.")
    folder, _ = find_run(run)
    if output is None and not terminal and folder.is_run:
        # A picture in the folder is of what is in the folder, so no training may go on there.
        held = locked(folder.path, remedy="write elsewhere with --output FILE")
        context.with_resource(held)
    if epochs:
        _draw_film(folder, output, form, moving=moving, layer=layer, head=head,
                   examples=examples)  # fmt: skip
        return
    weights, titles, words, home = _weights(
        run, input_file, examples, steps, every_sequence=terminal
    )
    if grid:
        examples = 1
    if terminal:
        _print_weights(weights, titles[:examples], kind.value, layer, head)
        if kind is AttentionKind.cross and len(titles) > examples:
            _print_largest_weights(weights, titles, layer, head)
        return
    chosen = [kind.value] if kind is not AttentionKind.cross else []
    chosen += [f"layer{layer}"] if layer is not None else []
    chosen += [f"head{head}"] if head is not None else []
    chosen += ["grid"] if grid else []
    target = output or home / f"{'-'.join([*words, *chosen])}.{form or 'png'}"
    figure, left_out = pictures.attention_picture(
        weights, titles, examples, kind=kind.value, layer=layer, head=head, as_grid=grid
    )
    pictures.save(figure, target)
    if left_out:
        note(f"{left_out} Choose with --layer and --head.")
    note(f"Drew {target}")


def _weights(
    run: Path, input_file: Path | None, examples: int, steps: int | None, *, every_sequence: bool
) -> tuple[Mapping[str, Any], list[str], list[str], Path]:
    """Arrays of weights, a title a sequence, words for a file's name, and the folder for it.

    Args:
        every_sequence: read a large file whole, not only the examples.
    """
    from seqattn import pictures
    from seqattn.runs import find_run

    folder, checkpoint = find_run(run)
    if input_file is None and checkpoint.resolve() == folder.best.resolve():
        if not folder.attention.exists() and not folder.read_results()["model"].get(
            "attention", True
        ):
            raise UsageError(f"{run}: its model has no attention (model.attention: null).")
        most = None if every_sequence else examples
        weights = folder.read_attention(most)
        titles = pictures.panel_titles(folder.read_predictions(most))
        return weights, titles, ["attention"], folder.path
    from seqattn.cli import inputs
    from seqattn.data.files.writing import forecast_arrays
    from seqattn.evaluation import free_run
    from seqattn.experiment import data_of, open_run

    _, trained = open_run(run)
    if not trained.has_attention:
        raise UsageError(f"{run}: its model has no attention (model.attention: null).")
    own = input_file is not None
    if input_file is not None:
        parts, count = [], 0
        for _, some, _ in inputs.sources(input_file, trained):
            parts.append(some)
            count += len(some)
            if count >= examples:
                break
        part = inputs.joined_sources(parts)
    else:
        part = data_of(trained).test
    part = part.at(slice(0, examples))
    result = free_run(
        trained.model, part, steps or trained.layout.target_length, scaling=trained.layout.scaling
    )
    weights = result.attention_arrays(part, steps_real=not own)
    described = forecast_arrays(part, result.values, with_target=False)
    titles = pictures.panel_titles(described, "sequence" if own else "test")
    home = folder.path if folder.is_run else checkpoint.parent
    return weights, titles, ["attention", "input" if own else checkpoint.stem], home


def _draw_film(
    folder: RunFolder, output: Path | None, form: PictureFormat | None, *, moving: bool,
    layer: int | None, head: int | None, examples: int,
) -> None:  # fmt: skip
    from seqattn import pictures

    if not folder.film.exists():
        raise UsageError(
            f"{folder.path}: has no film. Train with --set training.record_attention=10 to record"
            " one; it changes nothing that is learned."
        )
    film = folder.read_film()
    words = ["attention_film"]
    words += [f"layer{layer}"] if layer is not None else []
    words += [f"head{head}"] if head is not None else []
    target = output or folder.path / f"{'-'.join(words)}.{form or 'png'}"
    chosen = {"layer": layer or 0, "head": head or 0}
    if moving:
        pictures.save_moving(film, target, **chosen)
    else:
        pictures.save(pictures.film_picture(film, examples, **chosen), target)
    note(f"Drew {target}")


BLOCKS, SIGNS = " ░▒▓█", " .:*#"
MOST_COLUMNS, LONG = 12, 16


def _print_weights(
    weights: Mapping[str, Any], titles: list[str], kind: str, layer: int | None, head: int | None
) -> None:
    """Heatmaps of characters: a block for each weight, darker for more, and its number beside it
    where there is room."""
    from seqattn import pictures

    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
        blocks = BLOCKS
    except UnicodeEncodeError:
        blocks = SIGNS
    leave_with_the_reader()
    panels = pictures.panels(weights, titles, len(titles), kind=kind, layer=layer, head=head)
    signed = str(weights["meaning"]) == "strength"
    for panel in panels:
        show(panel.title.replace("\n", ", "))
        rows, columns = panel.weights.shape
        largest = max((abs(float(w)) for w in panel.weights.ravel() if w == w), default=0.0)
        widest = largest if signed or columns > LONG else 1.0
        numbers = columns <= MOST_COLUMNS
        across = [f"{panel.first_column + c + 1}" for c in range(columns)]
        fits = 14 + 2 * columns <= shutil.get_terminal_size().columns
        cell = 9 if numbers else 2 if fits else 1
        if numbers:
            show("  looks     at " + "".join(f"{name:>{cell}}" for name in across))
        else:
            show(f"  looks     at {across[0]} to {across[-1]}")
        for r in range(rows):
            line = ""
            for w in panel.weights[r]:
                if w != w:
                    line += " " * (cell - 1) + "/"
                    continue
                share = min(1.0, abs(float(w)) / (widest or 1.0))
                block = blocks[min(4, int(share * 4 + 0.5))] * min(cell, 2)
                line += f"{block:>3}{float(w):6.2f}" if numbers else block
            show(f"  point {panel.first_row + r + 1:<7}{line}".rstrip())
        show()
    if kind == "decoder_self":
        show("A decoder step is named by the point it forecasts; it has read the point before.")
    meant = "strength, from little to the largest of either sign"
    if not signed:
        rounded = "weight, to the nearest quarter"
        wide = any(panel.weights.shape[1] > LONG for panel in panels)
        meant = f"{rounded} of the largest" if wide else rounded
    show(f"{blocks[1]} to {blocks[4]}: {meant}")


def _print_largest_weights(
    weights: Mapping[str, Any], titles: list[str], layer: int | None, head: int | None
) -> None:
    """For each step of the forecast, in what share of all sequences each source step has the
    largest weight: a few examples need not be typical.

    Nothing where sequences have different lengths, weights are signed, or a row has no room.
    """
    import numpy as np

    from seqattn import pictures
    from seqattn.attention_metrics import largest_weight_shares

    panels = pictures.panels(weights, titles, len(titles), layer=layer, head=head)
    shapes = {panel.weights.shape for panel in panels}
    ((_, columns), *others) = shapes
    if others or columns > MOST_COLUMNS or str(weights["meaning"]) == "strength":
        return
    each = len(panels) // len(titles)  # panels of a sequence: its layers and heads
    show(f"\nall {len(titles)} sequences: share in which a point has the largest weight")
    for k in range(each):
        if where := panels[k].title.removeprefix(titles[0]).strip():  # its layer and head
            show(f"  {where}")
        show("  looks     at " + "".join(f"{panels[k].first_column + c + 1:>9}"
                                          for c in range(columns)))  # fmt: skip
        for r, row in enumerate(largest_weight_shares(
            np.stack([panel.weights for panel in panels[k::each]])
        )):  # fmt: skip
            shares = "".join(f"{share:9.0%}" for share in row)
            show(f"  point {panels[k].first_row + r + 1:<7}{shares}")


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, of many seeds, or a comparison's.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE.html", help="Where to; the folder without."),
    ] = None,
) -> None:
    """Write one page with everything about RUN: losses, attention to explore, errors, what the
    doctor says. It works offline, from a double-click."""
    from seqattn.report import report as write_report
    from seqattn.user_files import check_outputs

    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--output {output}: a page's name ends in .html.")
    check_outputs({"--output": output}, files_read(run))
    note(f"Wrote {write_report(run, output)}")


def doctor(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or one with many seeds.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say in words what the weights and losses of RUN show: each finding with its number, what it
    means and what to change."""
    from seqattn.comparison import MARK, checked_seeds, is_comparison
    from seqattn.doctor import ABOUT_WEIGHTS, as_plain, told
    from seqattn.errors import CheckpointError
    from seqattn.runs import RunFolder

    leave_with_the_reader()
    if run.is_dir() and is_comparison(run) and not RunFolder(run).is_run:
        if (run / MARK).is_file():
            raise CheckpointError(
                f"{run}: is a comparison; give the doctor one of its variants, such as"
                f" {next((p for p in sorted(run.iterdir()) if p.is_dir()), run / 'VARIANT')}."
            )
        _of_seeds(run, checked_seeds(run), as_json)
        return
    findings = _findings(run, ())
    if as_json:
        show(json.dumps(as_plain(findings), indent=2))
        return
    show(f"{run}: {told(findings)}")
    width = max(len(finding.name) for finding in findings)
    for state in ("found", "fine", "unknown"):
        for finding in findings:
            if finding.state == state:
                show(f"  {state:<8}{finding.name:<{width}}  {finding.number}")
                if state == "found":
                    show(f"  {'':<8}{'':<{width}}  {finding.meaning}")
                    show(f"  {'':<8}{'':<{width}}  try: {finding.change}")
    if not any(finding.name in ABOUT_WEIGHTS for finding in findings):
        show("The model has no attention, so there are no weights to look at.")


def _findings(run: Path, losses: tuple[float, ...]) -> list[Finding]:
    from seqattn import doctor as rules
    from seqattn.experiment import data_of, open_run

    folder, trained = open_run(run)
    beside = losses or tuple(rules.losses_beside(folder))
    history = rules.history_of(folder)
    return rules.examine(rules.evidence(trained, data_of(trained), beside, history))


def _of_seeds(home: Path, seeds: Mapping[int, RunFolder], as_json: bool) -> None:
    """Every seed examined, and how many show what."""
    from seqattn.comparison import Variant
    from seqattn.doctor import SEEDS_APART, as_plain

    arm = Variant.read(home.name, seeds)
    losses = tuple(arm.losses.values())
    found = {seed: _findings(seeds[seed].path, losses) for seed in arm.summaries}
    if as_json:
        show(json.dumps({str(seed): as_plain(each) for seed, each in found.items()}, indent=2))
        return
    lost = f", {len(arm.diverged)} diverged" if arm.diverged else ""
    show(f"{home}: {len(found)} of {len(seeds)} seeds have ended and were examined{lost}.")
    names = [finding.name for finding in next(iter(found.values()), [])]
    for place, name in enumerate(names):
        states = [each[place].state for each in found.values()]
        sick = [seed for seed, each in found.items() if each[place].state == "found"]
        if not sick:
            word = "unknown" if all(state == "unknown" for state in states) else "fine"
            show(f"  {word:<8}{name}")
            continue
        first = found[sick[0]][place]
        if name == SEEDS_APART:  # of all of them together
            show(f"  {'found':<8}{name}: {first.number}")
            show(f"          {first.meaning}")
            show(f"          try: {first.change}")
            continue
        show(f"  {'found':<8}{name}: {len(sick)} of {len(states)} seeds, as in seed"
                        f" {sick[0]}: {first.number}")  # fmt: skip
        show(f"          {first.meaning}")
        show(f"          try: {first.change}")
