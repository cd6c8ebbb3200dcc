"""A run's pictures, drawn from its data files. No torch: a picture can be drawn again anywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.errors import UsageError
from seqattn.plots import (
    LossHistory,
    as_bytes,
    as_moving,
    attention_figure,
    formats,
    loss_figure,
    paths_figure,
)
from seqattn.plots.attention import AXES, first_points
from seqattn.plots.style import shortened
from seqattn.runs import RunFolder
from seqattn.runs.output_files import write_output
from seqattn.runs.storage import atomic_write

Arrays = Mapping[str, NDArray[Any]]
EXAMPLES = 10
MOST_PANELS = 20
MOST_IN_GRID = 144
STRIP = 8  # epochs of a film side by side
MOST_STRIPS = 4
MOST_FRAMES = 60
KINDS = {"cross": "weights", "encoder_self": "encoder_self", "decoder_self": "decoder_self"}


def draw_each(folder: RunFolder) -> Iterator[Path]:
    """Draw every picture that the folder has data for, one when the next is asked for."""
    summary = folder.read_results()
    atomic_write(folder.loss_picture, as_bytes(loss_picture(folder, summary)))
    yield folder.loss_picture
    predictions = folder.read_predictions(EXAMPLES)
    drawn = predictions_picture(predictions, scaled=summary["scaled"], units=summary.get("units"))
    atomic_write(folder.predictions_picture, as_bytes(drawn))
    yield folder.predictions_picture
    if folder.attention.exists():
        titles = panel_titles(predictions)
        picture, _ = attention_picture(folder.read_attention(EXAMPLES), titles, EXAMPLES)
        atomic_write(folder.attention_picture, as_bytes(picture))
        yield folder.attention_picture


def save(figure: Figure, path: Path) -> None:
    """Write a figure where a user wants it, in the format that the file's ending names.

    Raises:
        UsageError: an ending that is no picture's.
    """
    write_output(path, as_bytes(figure, picture_ending(path)))


def picture_ending(path: Path) -> str:
    """png, svg or pdf.

    Raises:
        UsageError: the path ends in something else.
    """
    ending = path.suffix.lower().removeprefix(".")
    if ending not in formats():
        raise UsageError(
            f"{path}: cannot tell what kind of picture to draw. End its name in"
            f" {', '.join('.' + known for known in formats())}."
        )
    return ending


def loss_picture(folder: RunFolder, summary: Mapping[str, Any]) -> Figure:
    records = folder.read_metrics()
    best = summary["best_baseline"]
    return loss_figure(
        LossHistory(
            [record.epoch for record in records],
            [record.train_loss for record in records],
            [record.validation_loss for record in records],
            [record.validation_loss_teacher_forced for record in records],
        ),
        best_epoch=summary["best_epoch"],
        noise_floor=summary["validation_noise_floor"],
        baseline=(best, summary["validation_baselines"][best]),
        title=f"{summary['name']}, seed {summary['seed']}: loss while training",
        scaled=summary["scaled"],
    )


def predictions_picture(
    predictions: Arrays,
    examples: int = EXAMPLES,
    *,
    scaled: bool = False,
    units: Mapping[str, str] | None = None,
) -> Figure:
    """The first test sequences with their forecasts and errors: mean squared, as the loss is, or
    where training worked in scaled units its root, in the data's own.

    Args:
        units: of the features that have one.
    """
    n = min(examples, len(predictions["ids"]))
    source, forecast = ([_real(rows) for rows in predictions[key][:n]]
                        for key in ("source", "forecast"))  # fmt: skip
    # A target may have points that were not observed, which are no padding.
    target = [
        rows[: len(steps)] for rows, steps in zip(predictions["target"][:n], forecast, strict=True)
    ]
    said = predictions.get("said")
    return paths_figure(
        source, target, forecast, titles=panel_titles(predictions)[:n], rooted=scaled, units=units,
        features=[str(name) for name in predictions["features"]],
        said=None if said is None else [str(name) for name in said],
    )  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """A heatmap of one sequence, layer and head.

    Attributes:
        weights: (rows, columns), without padding.
        title: of the sequence, with its layer and head.
        source_length: real source points.
        alignment: for each row the column where it should look, or None.
        first_row, first_column: points before the first of each.
    """

    weights: NDArray[Any]
    title: str
    source_length: int
    alignment: NDArray[Any] | None
    first_row: int
    first_column: int


def panels(
    attention: Arrays,
    titles: Sequence[str],
    examples: int,
    *,
    kind: str = "cross",
    layer: int | None = None,
    head: int | None = None,
) -> list[Panel]:
    """The first sequences, a panel for each of their layers and heads.

    Args:
        attention: arrays of an attention file, weights (N, layers, A, T, S).
        titles: one a sequence.
        examples: sequences, at most.
        kind: cross, encoder_self or decoder_self.
        layer, head: only this one, counted from 0; None: all.

    Raises:
        UsageError: there is no such kind, layer or head.
    """
    weights = attention[_key(attention, kind)]
    _, layers, heads, _, _ = weights.shape
    maps = list(
        itertools.product(_chosen("--layer", layer, layers), _chosen("--head", head, heads))
    )
    rows, columns = (attention[f"{side}_lengths"] for side in AXES[kind])
    alignment = attention.get("alignment") if kind == "cross" else None
    found = []
    for k, title in zip(range(min(examples, len(weights))), titles, strict=False):
        source_length = int(attention["source_lengths"][k])
        first_row, first_column = first_points(kind, source_length)
        for i, j in maps:
            of_map = [f"layer {i}"] * (layers > 1) + [f"head {j}"] * (heads > 1)
            found.append(
                Panel(
                    weights[k, i, j, : int(rows[k]), : int(columns[k])],
                    title + (f"\n{', '.join(of_map)}" if of_map else ""),
                    source_length,
                    None if alignment is None else alignment[k][: int(rows[k])],
                    first_row,
                    first_column,
                )
            )
    return found


def _key(attention: Arrays, kind: str) -> str:
    found = {name: key for name, key in KINDS.items() if key in attention}
    if kind not in found:
        raise UsageError(f"--kind {kind}: this model has {', '.join(found)}.")
    return found[kind]


def attention_picture(
    attention: Arrays,
    titles: Sequence[str],
    examples: int,
    *,
    kind: str = "cross",
    layer: int | None = None,
    head: int | None = None,
    as_grid: bool = False,
) -> tuple[Figure, str]:
    """Heatmaps of the first sequences, a panel for each of their layers and heads.

    Where there are several of these, no more than some twenty panels are drawn.

    Args:
        attention: arrays of an attention file, weights (N, layers, A, T, S).
        titles: one a sequence.
        examples: sequences, at most.
        kind: cross, encoder_self or decoder_self.
        layer, head: only this one, counted from 0; None: all.
        as_grid: a row a layer and a column a head, all of them.

    Returns:
        the figure, and what was left out of it, in a sentence; empty where nothing was.

    Raises:
        UsageError: there is no such kind, layer or head, or a grid of too many panels.
    """
    _, layers, heads, _, _ = attention[_key(attention, kind)].shape
    rows, columns = len(_chosen("--layer", layer, layers)), len(_chosen("--head", head, heads))
    if as_grid and rows * columns > MOST_IN_GRID:
        raise UsageError(
            f"--grid: {layers} layers of {heads} heads are more than {MOST_IN_GRID} panels. Choose"
            " with --layer and --head."
        )
    asked = min(examples, len(attention["weights"]))
    n, maps, left_out = _panel_budget(asked, rows * columns, as_grid)
    drawn = panels(attention, titles, n, kind=kind, layer=layer, head=head)[: n * maps]
    figure = _figure_of(drawn, attention, kind=kind, columns=columns if as_grid else None)
    return figure, left_out


def _figure_of(drawn: Sequence[Panel], arrays: Arrays, **layout: Any) -> Figure:
    """
    Args:
        arrays: the file that the panels are of.
        layout: see `attention_figure`.
    """
    alignment = [panel.alignment for panel in drawn if panel.alignment is not None]
    return attention_figure(
        [panel.weights for panel in drawn], titles=[panel.title for panel in drawn],
        signed=str(arrays["meaning"]) == "strength", alignment=alignment or None,
        source_lengths=[panel.source_length for panel in drawn], **layout,
    )  # fmt: skip


def _panel_budget(examples: int, maps: int, as_grid: bool) -> tuple[int, int, str]:
    """How many sequences are drawn, how many layers and heads of each, and what that leaves out.

    Args:
        maps: layers and heads that could be drawn of a sequence.
    """
    drawn = maps if as_grid else min(maps, MOST_PANELS)
    n = min(examples, max(1, MOST_PANELS // drawn)) if drawn > 1 else examples
    if drawn < maps:
        return n, drawn, f"Drew {drawn} of {maps} layers and heads of the first sequence."
    if n < examples:
        return n, drawn, f"Drew {n} of {examples} sequences, with {drawn} panels each."
    return n, drawn, ""


def film_picture(film: Arrays, examples: int, *, layer: int = 0, head: int = 0) -> Figure:
    """The film as a strip: a row a sequence, a column an epoch.

    Args:
        film: arrays of a film file, weights (frames, P, layers, A, T, S).
        examples: sequences, at most.

    Raises:
        UsageError: there is no such layer or head.
    """
    frames = _frames(film, STRIP, min(examples, MOST_STRIPS), layer, head)
    in_rows = [panel for of_sequence in zip(*frames, strict=True) for panel in of_sequence]
    return _figure_of(in_rows, film, columns=len(frames))


def save_moving(film: Arrays, path: Path, *, layer: int = 0, head: int = 0) -> None:
    """The film of the first sequences as an animated GIF.

    Raises:
        UsageError: there is no such layer or head.
    """
    frames = _frames(film, MOST_FRAMES, MOST_STRIPS, layer, head)
    largest = float(np.nanmax(np.abs(film["weights"][:, :MOST_STRIPS, layer, head])))
    write_output(path, as_moving([_figure_of(frame, film, largest=largest) for frame in frames]))


def _frames(film: Arrays, most: int, examples: int, layer: int, head: int) -> list[list[Panel]]:
    """The panels of at most so many frames, evenly spaced, and the first and the last among them.

    Raises:
        UsageError: there is no such layer or head.
    """
    count, titles = len(film["weights"]), panel_titles(film, "validation")
    frames = []
    for k in np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)):
        frame = {**film, "weights": film["weights"][k]}
        drawn = panels(frame, titles, examples, layer=layer, head=head)
        epoch = int(film["epochs"][k])
        name = f"after epoch {epoch}" if epoch else "before training"
        frames.append([replace(panel, title=f"{panel.title}\n{name}") for panel in drawn])
    return frames


def _chosen(option: str, one: int | None, count: int) -> list[int]:
    if one is not None and one >= count:
        raise UsageError(f"{option} {one}: this model has {count}, counted from 0.")
    return list(range(count)) if one is None else [one]


def panel_titles(predictions: Arrays, word: str = "test") -> list[str]:
    """What each sequence is called in a picture: its id and what the task says of it."""
    ids = [str(name) for name in predictions["ids"]]
    labels = [str(label) for label in predictions["labels"]] or [""] * len(ids)
    return [
        f"{word} {_short(name)}" + (f"\n{label}" if label else "")
        for name, label in zip(ids, labels, strict=True)
    ]


def _short(name: str) -> str:
    printable = "".join(sign if sign.isprintable() else "?" for sign in name)
    return shortened(printable, 20)


def _real(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """The rows that are no padding."""
    real: NDArray[np.floating] = rows[np.isfinite(rows).all(axis=-1)]
    return real
