"""A run's pictures, drawn from its data files. No torch: a picture can be drawn again anywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.errors import UsageError
from seqattn.figures import (
    as_bytes,
    as_moving,
    attention_figure,
    formats,
    loss_figure,
    paths_figure,
)
from seqattn.figures.style import shortened
from seqattn.runs import RunFolder
from seqattn.storage import atomic_write
from seqattn.user_files import write_output

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
    history = folder.read_metrics()
    best = summary["best_baseline"]
    return loss_figure(
        [record.epoch for record in history],
        [record.train_loss for record in history],
        [record.validation_loss for record in history],
        [record.validation_loss_teacher_forced for record in history],
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
    titles = panel_titles(predictions)[:n]
    source, said = ([_real(rows) for rows in predictions[key][:n]]
                    for key in ("source", "forecast"))  # fmt: skip
    # A target may have points that were not observed, which are no padding.
    target = [
        rows[: len(shown)] for rows, shown in zip(predictions["target"][:n], said, strict=True)
    ]
    return paths_figure(
        source, target, said, titles=titles, rooted=scaled, units=units,
        features=[str(name) for name in predictions["features"]],
        said=[str(name) for name in predictions["said"]] if "said" in predictions else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """A heatmap of one sequence, layer and head.

    Attributes:
        weights: (rows, columns), without padding.
        title: whose it is.
        given: real source points.
        alignment: for each row the column where it should look, or None.
        first_row, first_column: points before the first of each.
    """

    weights: NDArray[Any]
    title: str
    given: int
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
    down = "source_lengths" if kind == "encoder_self" else "target_lengths"
    across = "target_lengths" if kind == "decoder_self" else "source_lengths"
    places = list(
        itertools.product(_chosen("--layer", layer, layers), _chosen("--head", head, heads))
    )
    alignment = attention.get("alignment") if kind == "cross" else None
    found = []
    for k, title in zip(range(min(examples, len(weights))), titles, strict=False):
        given = int(attention["source_lengths"][k])
        real = int(attention[down][k]), int(attention[across][k])
        for i, j in places:
            where = [f"layer {i}"] * (layers > 1) + [f"head {j}"] * (heads > 1)
            found.append(
                Panel(
                    weights[k, i, j, : real[0], : real[1]],
                    title + (f"\n{', '.join(where)}" if where else ""),
                    given,
                    None if alignment is None else alignment[k][: real[0]],
                    0 if kind == "encoder_self" else given,
                    given if kind == "decoder_self" else 0,
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
    chosen_layers = _chosen("--layer", layer, layers)
    chosen_heads = _chosen("--head", head, heads)
    each = len(chosen_layers) * len(chosen_heads)
    if as_grid and each > MOST_IN_GRID:
        raise UsageError(
            f"--grid: {layers} layers of {heads} heads are more than {MOST_IN_GRID} panels. Choose"
            " with --layer and --head."
        )
    asked = n = min(examples, len(attention["weights"]))
    drawn = each if as_grid else min(each, MOST_PANELS)
    if drawn > 1:
        n = min(n, max(1, MOST_PANELS // drawn))
    left_out = ""
    if drawn < each:
        left_out = f"Drew {drawn} of {each} layers and heads of the first sequence."
    elif n < asked:
        left_out = f"Drew {n} of {asked} sequences, with {drawn} panels each."
    shown = panels(attention, titles, n, kind=kind, layer=layer, head=head)[: n * drawn]
    alignment = [panel.alignment for panel in shown if panel.alignment is not None]
    figure = attention_figure(
        [panel.weights for panel in shown], titles=[panel.title for panel in shown],
        signed=str(attention["meaning"]) == "strength",
        across="target" if kind == "decoder_self" else "source",
        down="source" if kind == "encoder_self" else "target",
        source_lengths=[panel.given for panel in shown], alignment=alignment or None,
        columns=len(chosen_heads) if as_grid else None,
    )  # fmt: skip
    return figure, left_out


def film_picture(film: Arrays, examples: int, *, layer: int = 0, head: int = 0) -> Figure:
    """The film as a strip: a row a sequence, a column an epoch.

    Args:
        film: arrays of a film file, weights (frames, P, layers, A, T, S).
        examples: sequences, at most.

    Raises:
        UsageError: there is no such layer or head.
    """
    weights = film["weights"]
    frames, P, layers, heads, T, _ = weights.shape
    (layer,), (head,) = _chosen("--layer", layer, layers), _chosen("--head", head, heads)
    columns = np.unique(np.linspace(0, frames - 1, min(frames, STRIP)).round().astype(int))
    rows = min(examples, P, MOST_STRIPS)
    titles = _film_titles(film, layer, head)
    alignment = film.get("alignment")
    places = list(itertools.product(range(rows), columns))
    return attention_figure(
        [_cut(weights[k, p, layer, head], film, p) for p, k in places],
        titles=[f"{titles[p]}\n{_epoch(film, k)}" for p, k in places],
        signed=str(film["meaning"]) == "strength",
        source_lengths=[int(film["source_lengths"][p]) for p, _ in places],
        alignment=None if alignment is None else [alignment[p][:T] for p, _ in places],
        columns=len(columns),
    )  # fmt: skip


def save_moving(film: Arrays, path: Path, *, layer: int = 0, head: int = 0) -> None:
    """The film of the first sequences as an animated GIF.

    Raises:
        UsageError: there is no such layer or head.
    """
    weights = film["weights"]
    frames, P, layers, heads, T, _ = weights.shape
    (layer,), (head,) = _chosen("--layer", layer, layers), _chosen("--head", head, heads)
    shown = np.unique(np.linspace(0, frames - 1, min(frames, MOST_FRAMES)).round().astype(int))
    rows = range(min(P, MOST_STRIPS))
    titles, alignment = _film_titles(film, layer, head), film.get("alignment")
    drawn = [
        attention_figure(
            [_cut(weights[k, p, layer, head], film, p) for p in rows],
            titles=[f"{titles[p]}\n{_epoch(film, k)}" for p in rows],
            signed=str(film["meaning"]) == "strength",
            source_lengths=[int(film["source_lengths"][p]) for p in rows],
            alignment=None if alignment is None else [alignment[p][:T] for p in rows],
            largest=float(np.nanmax(np.abs(weights[:, list(rows), layer, head]))),
        )
        for k in shown
    ]
    write_output(path, as_moving(drawn))


def _film_titles(film: Arrays, layer: int, head: int) -> list[str]:
    _, _, layers, heads, _, _ = film["weights"].shape
    where = [f"layer {layer}"] * (layers > 1) + [f"head {head}"] * (heads > 1)
    said = f"\n{', '.join(where)}" if where else ""
    return [title + said for title in panel_titles(film, "validation")]


def _cut(weights: NDArray[Any], film: Arrays, p: int) -> NDArray[Any]:
    cut: NDArray[Any] = weights[: film["target_lengths"][p], : film["source_lengths"][p]]
    return cut


def _epoch(film: Arrays, frame: int) -> str:
    epoch = int(film["epochs"][frame])
    return f"after epoch {epoch}" if epoch else "before training"


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
