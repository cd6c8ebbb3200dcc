"""A run's pictures, drawn from its data files. No torch: a picture can be drawn again anywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqattn.errors import UsageError
from seqattn.figures import as_bytes, attention_figure, formats, loss_figure, paths_figure
from seqattn.runs import RunFolder
from seqattn.storage import read_arrays, write_whole

Arrays = Mapping[str, NDArray[Any]]
EXAMPLES = 10
MOST_PANELS = 20


def draw_each(folder: RunFolder) -> Iterator[Path]:
    """Draw every picture that the folder has data for, one when the next is asked for."""
    summary = folder.read_summary()
    save(loss_picture(folder, summary), folder.loss_picture)
    yield folder.loss_picture
    predictions = read_arrays(folder.predictions)
    save(predictions_picture(predictions), folder.predictions_picture)
    yield folder.predictions_picture
    if folder.attention.exists():
        titles = panel_titles(predictions)
        picture, _ = attention_picture(read_arrays(folder.attention), titles, EXAMPLES)
        save(picture, folder.attention_picture)
        yield folder.attention_picture


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the file's ending names.

    Raises:
        UsageError: an ending that is no picture's.
    """
    write_whole(path, as_bytes(figure, picture_ending(path)))


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
    )


def predictions_picture(predictions: Arrays, examples: int = EXAMPLES) -> Figure:
    """The first test sequences with their forecasts; each title says the error."""
    n = min(examples, len(predictions["ids"]))
    titles = panel_titles(predictions)[:n]
    source, target, said = ([_real(rows) for rows in predictions[key][:n]]
                            for key in ("source", "target", "forecast"))  # fmt: skip
    errors = [float(np.square(s - t).mean()) for s, t in zip(said, target, strict=True)]
    return paths_figure(
        source, target, said,
        titles=[f"{title}\nMSE {error:.4f}" for title, error in zip(titles, errors, strict=True)],
        features=[str(name) for name in predictions["features"]],
    )  # fmt: skip


def attention_picture(
    attention: Arrays,
    titles: Sequence[str],
    examples: int,
    *,
    kind: str = "cross",
    layer: int | None = None,
    head: int | None = None,
) -> tuple[Figure, str]:
    """Heatmaps of the first sequences, a panel for each of their layers and heads.

    Where there are several of these, no more than some twenty panels are drawn.

    Args:
        attention: arrays of an attention file, weights (N, layers, A, T, S).
        titles: one a sequence.
        examples: sequences, at most.
        kind: cross, encoder_self or decoder_self.
        layer, head: only this one, counted from 0; None: all.

    Returns:
        the figure, and what was left out of it, in a sentence; empty where nothing was.

    Raises:
        UsageError: there is no such kind, layer or head.
    """
    kinds = {"cross": "weights"} | {
        name: name for name in ("encoder_self", "decoder_self") if name in attention
    }
    if kind not in kinds:
        raise UsageError(f"--kind {kind}: this model has {', '.join(kinds)}.")
    weights = attention[kinds[kind]]
    _, layers, heads, _, _ = weights.shape
    chosen_layers = _chosen("--layer", layer, layers)
    chosen_heads = _chosen("--head", head, heads)
    every = list(itertools.product(chosen_layers, chosen_heads))
    places = every[:MOST_PANELS]
    asked = n = min(examples, len(weights))
    if len(places) > 1:
        n = min(n, max(1, MOST_PANELS // len(places)))
    left_out = ""
    if len(places) < len(every):
        left_out = f"Drew {len(places)} of {len(every)} layers and heads of the first sequence."
    elif n < asked:
        left_out = f"Drew {n} of {asked} sequences, with {len(places)} panels each."
    panels, words = list[NDArray[Any]](), list[str]()
    told = attention.get("alignment") if kind == "cross" else None
    for k, title in zip(range(n), titles, strict=False):
        for i, j in places:
            panels.append(weights[k, i, j])
            where = [f"layer {i}"] * (layers > 1) + [f"head {j}"] * (heads > 1)
            words.append(title + (f"\n{', '.join(where)}" if where else ""))
    figure = attention_figure(
        panels, titles=words, signed=str(attention["meaning"]) == "strength",
        across="target" if kind == "decoder_self" else "source",
        down="source" if kind == "encoder_self" else "target",
        source_lengths=np.repeat(attention["source_lengths"][:n], len(places)).tolist(),
        alignment=None if told is None else list(np.repeat(told[:n], len(places), axis=0)),
    )  # fmt: skip
    return figure, left_out


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
    return printable if len(printable) <= 20 else f"{printable[:17]}..."


def _real(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """The rows that are no padding."""
    real: NDArray[np.floating] = rows[np.isfinite(rows).all(axis=-1)]
    return real
