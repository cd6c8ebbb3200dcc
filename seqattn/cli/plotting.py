"""`seqattn plot-attention`: pictures of attention weights, the film of a training, or text."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seqattn.cli.checks import files_read, refuse_overrides_alone
from seqattn.cli.options import InputFile, ReadingOverrides, Run, grouped_options
from seqattn.cli.output import note
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.runs import RunFolder


AttentionKind = Literal["cross", "encoder_self", "decoder_self"]
PictureFormat = Literal["png", "svg", "pdf", "gif"]


@dataclass(frozen=True)
class PictureFile:
    """Where to draw, and in which format."""

    output: Annotated[Path | None, typer.Option(
        "--output", metavar="FILE.png|svg|pdf", help="Where to draw; the run folder without."
    )] = None  # fmt: skip
    form: Annotated[PictureFormat | None, typer.Option(
        "--format", help="Instead of --output's ending; gif is for --epochs."
    )] = None  # fmt: skip

    @property
    def is_gif(self) -> bool:
        ending = None if self.output is None else self.output.suffix.lower()
        return self.form == "gif" or ending == ".gif"

    def path(self, folder: Path, words: Sequence[str]) -> Path:
        """The file: the one that was named, or in the folder one with a name of these words."""
        return self.output or folder / f"{'-'.join(words)}.{self.form or 'png'}"


@dataclass(frozen=True)
class MapOptions:
    """Which attention weights of a model."""

    kind: Annotated[AttentionKind, typer.Option(
        "--kind", help="Who looks at whom; a Transformer has all three."
    )] = "cross"  # fmt: skip
    layer: Annotated[
        int | None, typer.Option("--layer", min=0, help="One layer, counted from 0.")
    ] = None
    head: Annotated[int | None, typer.Option("--head", min=0, help="One head, counted from 0.")] = (
        None
    )

    @property
    def words(self) -> list[str]:
        """What is chosen, for a file's name."""
        kind = [self.kind] if self.kind != "cross" else []
        layer = [f"layer{self.layer}"] if self.layer is not None else []
        head = [f"head{self.head}"] if self.head is not None else []
        return [*kind, *layer, *head]


@dataclass(frozen=True)
class ViewOptions:
    """What is drawn instead of a panel for each sequence."""

    grid: Annotated[
        bool, typer.Option("--grid", help="The first sequence, a row a layer and a column a head.")
    ] = False
    epochs: Annotated[bool, typer.Option(
        "--epochs", help="The film: where it looked while it learned, a column an epoch."
    )] = False  # fmt: skip
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Print blocks and numbers instead of a picture.")
    ] = False


@grouped_options
def plot_attention(
    run: Run,
    input_file: InputFile = None,
    examples: Annotated[
        int, typer.Option("--examples", min=1, max=100, help="How many sequences to draw.")
    ] = 10,
    *,
    picture: PictureFile,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, max=64, help="With --input: points to forecast.")
    ] = None,
    maps: MapOptions,
    view: ViewOptions,
    overrides: ReadingOverrides = None,
) -> None:
    """Draw where the model looked, target rows against source columns: in the run's test
    sequences, or in your own (--input)."""
    from seqattn.cli.weights import read_weights
    from seqattn.runs import find_run
    from seqattn.runs.output_files import check_outputs
    from seqattn.runs.storage import folder_lock

    refuse_overrides_alone(overrides, input_file)
    _check_film(view, maps, input_file)
    _check_picture(picture, maps, view)
    check_outputs({"--output": picture.output}, files_read(run, input_file))
    if steps is not None and input_file is None:
        raise UsageError("--steps goes with --input; the run's test sequences have their targets.")
    folder, _ = find_run(run)
    with contextlib.ExitStack() as held:
        if picture.output is None and not view.terminal and folder.is_run:
            # A picture in the folder is of what is in the folder, so no training may go on there.
            held.enter_context(
                folder_lock(folder.path, remedy="write elsewhere with --output FILE")
            )
        if view.epochs:
            _draw_film(folder, picture, maps, examples)
            return
        weights, titles, words, home = read_weights(
            run, input_file, examples, steps, every_sequence=view.terminal, overrides=overrides
        )
        if view.terminal:
            _print(weights, titles, 1 if view.grid else examples, maps)
            return
        words += [*maps.words, *(["grid"] if view.grid else [])]
        _draw(weights, titles, 1 if view.grid else examples, maps, as_grid=view.grid,
              target=picture.path(home, words))  # fmt: skip


def _check_film(view: ViewOptions, maps: MapOptions, input_file: Path | None) -> None:
    """
    Raises:
        UsageError: an option that goes with other pictures.
    """
    others = view.grid or view.terminal or input_file is not None
    if view.epochs and (others or maps.kind != "cross"):
        raise UsageError(
            "--epochs draws the film of the run's probe sequences; it goes with --layer, --head,"
            " --examples, --output and --format only."
        )


def _check_picture(picture: PictureFile, maps: MapOptions, view: ViewOptions) -> None:
    """
    Raises:
        UsageError: options that do not go together, or an ending that no picture has.
    """
    from seqattn.plots import run_pictures

    output, form = picture.output, picture.form
    if view.terminal and (output is not None or form is not None):
        raise UsageError("--terminal prints; --output and --format are for pictures.")
    if view.grid and (maps.layer is not None or maps.head is not None):
        raise UsageError("--grid draws every layer and head; leave --layer and --head out.")
    if form == "gif" and not view.epochs:
        raise UsageError("--format gif moves; it is for --epochs.")
    if output is not None and form is not None and output.suffix.lower() != f".{form}":
        raise UsageError(f"--output {output} and --format {form} say different things.")
    if output is not None and not (view.epochs and picture.is_gif):
        run_pictures.picture_ending(output)


def _draw_film(folder: RunFolder, picture: PictureFile, maps: MapOptions, examples: int) -> None:
    from seqattn.plots import run_pictures

    if not folder.film.exists():
        raise UsageError(
            f"{folder.path}: has no film. Train with --set training.record_attention=10 to record"
            " one; it changes nothing that is learned."
        )
    film = folder.read_film()
    target = picture.path(folder.path, ["attention_film", *maps.words])
    layer, head = maps.layer or 0, maps.head or 0
    if picture.is_gif:
        run_pictures.save_animation(film, target, layer=layer, head=head)
    else:
        run_pictures.save(
            run_pictures.attention_history_picture(film, examples, layer=layer, head=head), target
        )
    note(f"Drew {target}")


def _print(weights: Mapping[str, Any], titles: list[str], examples: int, maps: MapOptions) -> None:
    from seqattn.cli.text_heatmap import print_largest_weights, print_weights

    print_weights(weights, titles[:examples], maps.kind, maps.layer, maps.head)
    if maps.kind == "cross" and len(titles) > examples:
        print_largest_weights(weights, titles, maps.layer, maps.head)


def _draw(
    weights: Mapping[str, Any], titles: list[str], examples: int, maps: MapOptions, *,
    as_grid: bool, target: Path,
) -> None:  # fmt: skip
    from seqattn.plots import run_pictures

    figure, left_out = run_pictures.attention_picture(
        weights, titles, examples, kind=maps.kind, layer=maps.layer, head=maps.head,
        as_grid=as_grid,
    )  # fmt: skip
    run_pictures.save(figure, target)
    if left_out:
        note(f"{left_out} Choose with --layer and --head.")
    note(f"Drew {target}")
