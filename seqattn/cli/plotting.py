"""The command `seqattn plot-attention`, which draws heatmaps of attention weights as pictures or
text."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from seqattn.cli.argument_checks import protected_files
from seqattn.cli.options import InputOptions, RunArgument, grouped_options
from seqattn.cli.output import note
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.runs import RunFolder


AttentionKind = Literal["cross", "encoder_self", "decoder_self"]
Shown = Literal["weights", "rollout", "flow"]
PictureFormat = Literal["png", "svg", "pdf", "gif"]


@dataclass(frozen=True)
class PictureFile:
    """The options for the file and the format of the picture."""

    heading: ClassVar = "Output options"

    output: Annotated[Path | None, typer.Option(
        "--output", metavar="FILE.png|svg|pdf", help="File of the picture.",
        show_default="a file in the run folder",
    )] = None  # fmt: skip
    form: Annotated[PictureFormat | None, typer.Option(
        "--format", help="Format of the picture; gif only with --epochs.",
        show_default="suffix of --output, or png",
    )] = None  # fmt: skip

    @property
    def is_gif(self) -> bool:
        suffix = None if self.output is None else self.output.suffix.lower()
        return self.form == "gif" or suffix == ".gif"

    def path(self, folder: Path, name_parts: Sequence[str]) -> Path:
        """Return the path of the picture.

        Args:
            folder: the folder of the picture if `--output` is not given.
            name_parts: the parts of the file name if `--output` is not given.
        """
        return self.output or folder / f"{'-'.join(name_parts)}.{self.form or 'png'}"


@dataclass(frozen=True)
class MapOptions:
    """The options that select attention weights."""

    heading: ClassVar = "Attention options"

    show: Annotated[Shown, typer.Option(
        "--show", help="Weights, or what reaches an output step from the source through all layers"
        " of a Transformer: attention rollout, or attention flow.",
    )] = "weights"  # fmt: skip
    kind: Annotated[AttentionKind, typer.Option(
        "--kind", help="Cross-attention, or self-attention of a Transformer."
    )] = "cross"  # fmt: skip
    layer: Annotated[int | None, typer.Option(
        "--layer", metavar="L", min=1, help="Layer, from 1.", show_default="all"
    )] = None  # fmt: skip
    head: Annotated[int | None, typer.Option(
        "--head", metavar="A", min=1, help="Head, from 1.", show_default="all"
    )] = None  # fmt: skip

    @property
    def indices(self) -> tuple[int | None, int | None]:
        """The index of the layer and the index of the head, from 0; None for all of them."""
        layer = None if self.layer is None else self.layer - 1
        return layer, None if self.head is None else self.head - 1

    @property
    def name_parts(self) -> list[str]:
        """The parts of a file name that describe the selected weights."""
        show = [self.show] if self.show != "weights" else []
        kind = [self.kind] if self.kind != "cross" else []
        layer = [f"layer{self.layer}"] if self.layer is not None else []
        head = [f"head{self.head}"] if self.head is not None else []
        return [*show, *kind, *layer, *head]

    def combine(
        self, weights: Mapping[str, Any], titles: list[str], examples: int
    ) -> tuple[Mapping[str, Any], list[str]]:
        """Return the arrays and titles of the first sequences with the rollout or the flow in place
        of the weights, or those of all sequences if weights are shown."""
        if self.show == "weights":
            return weights, titles
        from seqattn.analysis.attention_flow import attribute_to_sources
        from seqattn.runs.array_files import select_sequences

        first = titles[:examples]
        return attribute_to_sources(select_sequences(weights, range(len(first))), self.show), first

    def check_shown(self, view: ViewOptions) -> None:
        """Check that `--show rollout` and `--show flow`, which combine all layers and heads, are
        not combined with options for some of them.

        Raises:
            UsageError: if such an option is given.
        """
        given = {"--kind": self.kind != "cross", "--layer": self.layer, "--head": self.head,
                 "--grid": view.grid, "--epochs": view.epochs}  # fmt: skip
        for option, value in given.items():
            if self.show != "weights" and value:
                raise UsageError(
                    f"--show {self.show}: combines all layers and heads; leave out {option}."
                )


@dataclass(frozen=True)
class ViewOptions:
    """The options for the number of sequences and the way they are drawn."""

    heading: ClassVar = "View options"

    examples: Annotated[int, typer.Option(
        "--examples", metavar="N", min=1, max=100, help="Number of sequences."
    )] = 10  # fmt: skip
    grid: Annotated[bool, typer.Option(
        "--grid", help="Draw the first sequence: one row for each layer, one column for each head."
    )] = False  # fmt: skip
    epochs: Annotated[bool, typer.Option(
        "--epochs", help="Draw the recorded weights over the epochs (training.record_attention)."
    )] = False  # fmt: skip
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Print text instead of drawing a picture.")
    ] = False


@grouped_options
def plot_attention(
    run: RunArgument,
    source: InputOptions,
    view: ViewOptions,
    maps: MapOptions,
    picture: PictureFile,
    steps: Annotated[int | None, typer.Option(
        "--steps", metavar="N", min=1, max=64, help="With --input: number of steps to forecast.",
        show_default="target length of the training data",
    )] = None,
) -> None:  # fmt: skip
    """Draw attention weights as heatmaps.

    Rows are target steps, and columns are source steps. With --kind encoder_self or decoder_self,
    both are steps of the same sequence. The command draws the test sequences of RUN, or your own
    sequences (--input).
    """
    from seqattn.cli.weights import read_weights
    from seqattn.runs import find_run
    from seqattn.runs.storage import check_outputs, folder_lock

    input_file, examples = source.input_file, 1 if view.grid else view.examples
    source.check()
    # If `--epochs` is given, check that the other options can be combined with it.
    others = view.grid or input_file is not None
    if view.epochs and (others or maps.kind != "cross"):
        raise UsageError(
            "--epochs draws the recorded weights of the run's probe sequences; it can be combined"
            " with --layer, --head, --examples, --terminal, --output and --format only."
        )
    maps.check_shown(view)
    _check_picture(picture, maps, view)
    check_outputs({"--output": picture.output}, protected_files(run, input_file))
    if steps is not None and input_file is None:
        raise UsageError("--steps needs --input; the test sequences of a run have a fixed length.")
    folder, _ = find_run(run)
    with contextlib.ExitStack() as locks:
        if picture.output is None and not view.terminal and folder.is_run:
            # The lock keeps other processes from replacing the run while the picture is drawn.
            locks.enter_context(
                folder_lock(folder.path, remedy="write elsewhere with --output FILE")
            )
        if view.epochs:
            _draw_film(folder, picture, maps, view)
            return
        weights, titles, name_parts, output_folder = read_weights(
            run, input_file, view.examples, steps, every_sequence=view.terminal,
            overrides=source.reading,
        )  # fmt: skip
        weights, titles = maps.combine(weights, titles, examples)
        if view.terminal:
            _print_maps(weights, titles, examples, maps)
            return
        name_parts += [*maps.name_parts, *(["grid"] if view.grid else [])]
        _draw_maps(weights, titles, examples, maps, as_grid=view.grid,
                   target=picture.path(output_folder, name_parts))  # fmt: skip


def _check_picture(picture: PictureFile, maps: MapOptions, view: ViewOptions) -> None:
    """Check the options of the picture.

    Raises:
        UsageError: if two options contradict each other, if a GIF is requested without `--epochs`,
            or if the file name does not have the suffix of a picture format.
    """
    from seqattn.plots import run_pictures

    output, form = picture.output, picture.form
    if view.terminal and (output is not None or form is not None):
        raise UsageError("--terminal prints text; leave --output and --format out.")
    if view.grid and (maps.layer is not None or maps.head is not None):
        raise UsageError("--grid draws every layer and head; leave --layer and --head out.")
    if form == "gif" and not view.epochs:
        raise UsageError("--format gif is an animation and needs --epochs.")
    if output is not None and form is not None and output.suffix.lower() != f".{form}":
        raise UsageError(f"--output {output}: contradicts --format {form}. Leave one of them out.")
    if output is not None and not (view.epochs and picture.is_gif):
        run_pictures.picture_ending(output)


def _draw_film(
    folder: RunFolder, picture: PictureFile, maps: MapOptions, view: ViewOptions
) -> None:
    from seqattn.plots import run_pictures

    if not folder.film.exists():
        raise UsageError(
            f"{folder.path}: has no recorded attention weights. Train with --set"
            " training.record_attention=10 to record them; this does not change the training."
        )
    film = folder.read_film()
    target = picture.path(folder.path, ["attention_film", *maps.name_parts])
    layer, head = (index or 0 for index in maps.indices)
    examples = view.examples
    if view.terminal:
        from seqattn.cli.text_heatmap import print_panels

        frames, left_out = run_pictures.history_frames(
            film, run_pictures.STRIP_EPOCHS, examples, layer, head
        )
        signed = str(film["meaning"]) == "strength"
        print_panels({frame.epoch: frame.panels for frame in frames}, maps.kind, signed=signed)
        if left_out:
            note(left_out)
        return
    if picture.is_gif:
        left_out = run_pictures.save_animation(film, target, examples, layer=layer, head=head)
    else:
        figure, left_out = run_pictures.attention_history_picture(
            film, examples, layer=layer, head=head
        )
        run_pictures.save(figure, target)
    if left_out:
        note(left_out)
    note(f"Drew {target}")


def _print_maps(
    weights: Mapping[str, Any], titles: list[str], examples: int, maps: MapOptions
) -> None:
    from seqattn.cli.text_heatmap import print_largest_weights, print_weights

    print_weights(weights, titles[:examples], maps.kind, *maps.indices)
    if maps.kind == "cross" and len(titles) > examples:
        print_largest_weights(weights, titles, *maps.indices)


def _draw_maps(
    weights: Mapping[str, Any], titles: list[str], examples: int, maps: MapOptions, *,
    as_grid: bool, target: Path,
) -> None:  # fmt: skip
    from seqattn.plots import run_pictures

    layer, head = maps.indices
    figure, left_out = run_pictures.attention_picture(
        weights, titles, examples, kind=maps.kind, layer=layer, head=head, as_grid=as_grid
    )
    run_pictures.save(figure, target)
    if lacking := run_pictures.characters_without_font(figure):
        note(f"No installed font has {lacking}; boxes take their place.")
    if left_out:
        note(left_out)
    note(f"Drew {target}")
