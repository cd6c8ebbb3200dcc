"""Functions that draw the pictures of a run and of its attention history from the files of the run
folder. The functions do not need torch."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from seqattn.data.tokens import SPECIAL
from seqattn.errors import UsageError, counted
from seqattn.plots import (
    LossHistory,
    as_bytes,
    attention_figure,
    loss_figure,
    paths_figure,
)
from seqattn.plots.attention import MAP_AXES, Layout, index_offsets
from seqattn.plots.captions import METHOD_CAPTIONS
from seqattn.plots.paths import Details
from seqattn.plots.style import FORMATS, as_gif, fonts_with, lacking_characters
from seqattn.plots.texts import shown_symbols, texts_figure
from seqattn.runs import RunFolder
from seqattn.runs.array_files import sequence_titles, symbol_texts
from seqattn.runs.folder import describe_monitored
from seqattn.runs.storage import atomic_write, write_output

Arrays = Mapping[str, NDArray[Any]]
EXAMPLES = 10
MAX_PANELS = 20
"""With more layers and heads, a picture has one sequence, as a grid of layers and heads."""
MAX_GRID_PANELS = 144
"""A grid with more panels has only its first rows."""
WEIGHT_KEYS = {"cross": "weights", "encoder_self": "encoder_self", "decoder_self": "decoder_self"}
"""The key of the weights in an attention file, by kind of attention."""
STRIP_EPOCHS = 8  # number of columns in a picture of an attention history
MAX_FRAMES = 60
MAX_CHARACTERS = 10  # number of characters without a font that a message shows


def draw_run(folder: RunFolder) -> Generator[Path]:
    """Write each picture for which the run folder has data, and yield its path."""
    for path in folder.pictures:
        atomic_write(path, as_bytes(figure_of_run(folder, path)))
        yield path


def figure_of_run(folder: RunFolder, path: Path) -> Figure:
    """Draw one picture of a run, whose path is one of `folder.pictures`, as a figure."""
    summary = folder.read_results()
    if path == folder.loss_picture:
        return loss_picture(folder, summary)
    predictions = folder.read_predictions(EXAMPLES)
    if path == folder.predictions_picture:
        return predictions_picture(predictions, summary)
    assert path == folder.attention_picture
    titles = sequence_titles(predictions)
    attention = folder.read_attention(EXAMPLES)
    picture, _ = attention_picture({**predictions, **attention}, titles, EXAMPLES)
    return picture


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a path that the user chose. The ending of the path selects the format."""
    write_output(path, as_bytes(figure, picture_ending(path)))


def characters_without_font(figure: Figure) -> str:
    """Return the first characters of a figure that no installed font has; "" if there are none."""
    texts = "".join(str(text.get_text()) for text in figure.findobj(Text))
    found = [one for one in lacking_characters(texts) if not fonts_with(one)]
    return " ".join(found[:MAX_CHARACTERS]) + " ..." * (len(found) > MAX_CHARACTERS)


def picture_ending(path: Path) -> str:
    """Return the ending of a picture's file name: "png", "svg" or "pdf".

    Raises:
        UsageError: if the path has another ending.
    """
    ending = path.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise UsageError(
            f"{path}: the format of the picture is unknown. End the file name in"
            f" {', '.join('.' + known for known in FORMATS)}."
        )
    return ending


def loss_picture(folder: RunFolder, summary: Mapping[str, Any]) -> Figure:
    """Draw the losses of a run over the epochs, with the noise floor and the best baseline."""
    records = folder.read_metrics()
    baselines = summary["validation_baselines"]
    return loss_figure(
        LossHistory(
            [record.epoch for record in records],
            [record.train_loss for record in records],
            [record.validation_loss for record in records],
            [record.validation_loss_teacher_forced for record in records],
        ),
        best_epoch=summary["best_epoch"],
        best_by=describe_monitored(summary),
        noise_floor=summary["validation_noise_floor"],
        baseline=min(baselines.items(), key=itemgetter(1)),
        title=f"{summary['name']}, seed {summary['seed']}: loss while training",
        scaled=summary["scaled"],
        loss_name=summary["loss_name"],
    )


def predictions_picture(
    predictions: Arrays, summary: Mapping[str, Any], examples: int = EXAMPLES
) -> Figure:
    """Draw the first test sequences with their forecasts and errors.

    Args:
        predictions: the arrays of `predictions.npz`.
        summary: the content of `summary.json`. If the loss is in scaled units, the picture shows
            root mean squared errors in the units of the data. Otherwise, it shows mean squared
            errors.
        examples: the maximum number of sequences.
    """
    n = min(examples, len(predictions["ids"]))
    if "target_vocabulary" in predictions:
        return _texts_picture(predictions, n)
    source, forecast = ([_without_padding(rows) for rows in predictions[key][:n]]
                        for key in ("source", "forecast"))  # fmt: skip
    # Unobserved target points and padding are NaN, so only the forecast shows the target length.
    target = [
        rows[: len(steps)] for rows, steps in zip(predictions["target"][:n], forecast, strict=True)
    ]
    details = Details(
        units=summary.get("units") or {}, times=sequence_times(predictions, n),
        repeats_source="alignment" in predictions, has_pairs=summary.get("task") == "recall",
    )  # fmt: skip
    return paths_figure(
        source, target, forecast, titles=sequence_titles(predictions)[:n],
        features=[str(name) for name in predictions["features"]],
        target_features=[
            str(name) for name in predictions["said"]
        ],
        use_rmse=summary["scaled"], details=details,
    )  # fmt: skip


def _texts_picture(predictions: Arrays, n: int) -> Figure:
    """Draw the first n test sequences of symbols, each with the output of the model."""

    def lines(key: str) -> list[str]:
        vocabulary = predictions[f"{'source' if key == 'source' else 'target'}_vocabulary"]
        is_spelled = all(len(symbol) == 1 for symbol in vocabulary[len(SPECIAL) :])
        separator = "" if is_spelled else " "
        return [
            separator.join(each).removesuffix("<end>").rstrip()
            for each in symbol_texts(predictions, key, n) or []
        ]

    shown = [f"{counted(int(length), 'step')}" for length in predictions["source_lengths"][:n]]
    if "source_vocabulary" in predictions:
        shown = lines("source")
    forecast, target = lines("forecast"), lines("target")
    return texts_figure(shown, forecast, target, sequence_titles(predictions)[:n])


def sequence_times(predictions: Arrays, n: int) -> list[NDArray[Any]] | None:
    """Return the times (S + T,) of the steps of the first `n` sequences, without padding; None if
    the steps are counted from 1.

    Args:
        predictions: the arrays of `predictions.npz`.
        n: the number of sequences.
    """
    if "source_times" not in predictions:
        return None
    sides = [(predictions[f"{side}_times"][:n], predictions[f"{side}_lengths"][:n])
             for side in ("source", "target")]  # fmt: skip
    return [
        np.concatenate([times[k, : int(lengths[k])] for times, lengths in sides]) for k in range(n)
    ]


@dataclass(frozen=True)
class Panel:
    """A heatmap of the attention weights of one head for one sequence.

    Attributes:
        weights: (rows, columns), the weights without padding.
        title: the title of the sequence. The title also names the layer if there are several
            layers, and the head if there are several heads.
        source_length: the number of source points.
        alignment: (rows,), the true column of each row, or -1 if a row has none; None if the
            alignment is unknown.
        first_row, first_column: the number of points before the first row, and the number of points
            before the first column; see `index_offsets`.
        row_names, column_names: the symbols of the rows and of the columns; None to number them.
        links: (k, 3) the known links of symbols: row, column, and whether the link is sure; None if
            they are unknown, or if the output is not the target to which they belong.
    """

    weights: NDArray[Any]
    title: str
    source_length: int
    alignment: NDArray[Any] | None
    first_row: int
    first_column: int
    row_names: Sequence[str] | None = None
    column_names: Sequence[str] | None = None
    links: NDArray[np.int64] | None = None


def attention_panels(
    attention: Arrays,
    titles: Sequence[str],
    examples: int,
    *,
    kind: str = "cross",
    layer: int | None = None,
    head: int | None = None,
) -> list[Panel]:
    """Return the panels of the first sequences, with one panel for each selected layer and head.

    Args:
        attention: the arrays of an attention file, with weights (N, layers, A, T, S).
        titles: one title per sequence.
        examples: the maximum number of sequences.
        kind: "cross", "encoder_self" or "decoder_self".
        layer, head: the index of the layer and the index of the head to draw; None for all layers
            or all heads.
    """
    weights = attention[_weight_key(attention, kind)]
    _, layers, heads, _, _ = weights.shape
    maps = list(
        itertools.product(
            _selected_indices("--layer", layer, layers), _selected_indices("--head", head, heads)
        )
    )
    rows, columns = (attention[f"{side}_lengths"] for side in MAP_AXES[kind])
    alignment = attention.get("alignment") if kind == "cross" else None
    n = min(examples, len(weights))
    symbols = {"source": symbol_texts(attention, "source", n),
               "target": symbol_texts(attention, "forecast", n)}  # fmt: skip
    row_names, column_names = (symbols[side] for side in MAP_AXES[kind])
    links = attention.get("links") if kind == "cross" else None
    true = symbol_texts(attention, "target", n) if links is not None else None
    found = []
    for k, title in zip(range(min(examples, len(weights))), titles, strict=False):
        source_length = int(attention["source_lengths"][k])
        first_row, first_column = index_offsets(
            kind, source_length, is_aligned=alignment is not None
        )
        for i, j in maps:
            labels = [f"layer {i + 1}"] * (layers > 1) + [f"head {j + 1}"] * (heads > 1)
            found.append(
                Panel(
                    weights[k, i, j, : int(rows[k]), : int(columns[k])],
                    title + (f"\n{', '.join(labels)}" if labels else ""),
                    source_length,
                    None if alignment is None else alignment[k][: int(rows[k])],
                    first_row,
                    first_column,
                    _pad_names(row_names, k, int(rows[k])),
                    _pad_names(column_names, k, int(columns[k])),
                    links[links[:, 0] == k][:, 1:]
                    if links is not None
                    and true
                    and symbols["target"]
                    and (true[k] == symbols["target"][k])
                    else None,
                )
            )
    return found


def _pad_names(symbols: list[list[str]] | None, k: int, count: int) -> list[str] | None:
    """Return the names of `count` rows or columns of sequence k. Steps after the end have no
    name."""
    if symbols is None:
        return None
    return [*shown_symbols(symbols[k]), *[""] * count][:count]


def _weight_key(attention: Arrays, kind: str) -> str:
    found = {name: key for name, key in WEIGHT_KEYS.items() if key in attention}
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
    """Draw heatmaps of the first sequences, with a panel for each selected layer and head.

    A model with more than `MAX_PANELS` selected layers and heads gets a grid of the first sequence.
    The heading of the figure says what is left out.

    Args:
        attention: the arrays of an attention file, with weights (N, layers, A, T, S).
        titles: one title per sequence.
        examples: the maximum number of sequences.
        kind: "cross", "encoder_self" or "decoder_self".
        layer, head: the index of the layer and the index of the head to draw; None for all layers
            or all heads.
        as_grid: whether to draw the first sequence as a grid, with a row for each layer and a
            column for each head.

    Returns:
        The figure, and a sentence that says which sequences or layers are left out; "" if none are.

    Raises:
        UsageError: if the model does not have this kind of attention, this layer or this head.
    """
    _, layers, heads, _, _ = attention[_weight_key(attention, kind)].shape
    rows, columns = (
        len(_selected_indices("--layer", layer, layers)),
        len(_selected_indices("--head", head, heads)),
    )
    available = min(examples, len(attention["weights"]))
    is_grid = as_grid or rows * columns > MAX_PANELS
    drawn_rows = min(rows, max(1, MAX_GRID_PANELS // columns)) if is_grid else rows
    maps = drawn_rows * columns
    n = available
    if maps > 1:
        n = min(n, 1 if is_grid else MAX_PANELS // maps)
    left_out = []
    if drawn_rows < rows:
        left_out.append(f"The first {drawn_rows} of {rows} layers. --layer draws another one.")
    if n < available:
        left_out.append(
            f"The first {'sequence' if n == 1 else f'{n} sequences'} of {available}."
            f" {'--layer and --head draw' if layers > 1 else '--head draws'} all sequences for one"
            " head."
        )
    drawn = attention_panels(attention, titles, n, kind=kind, layer=layer, head=head)[: n * maps]
    layout = Layout(columns=columns if is_grid else None, heading=" ".join(left_out))
    return draw_panels(drawn, attention, layout, kind=kind), " ".join(left_out)


def draw_panels(
    drawn: Sequence[Panel], arrays: Arrays, layout: Layout, *, kind: str = "cross"
) -> Figure:
    """Draw panels as a figure.

    Args:
        drawn: the panels.
        arrays: the arrays of the attention file from which the panels come.
        layout: the scale and the arrangement of the panels.
        kind: "cross", "encoder_self" or "decoder_self".
    """
    alignment = [panel.alignment for panel in drawn if panel.alignment is not None]
    meaning = str(arrays["meaning"])
    if meaning in METHOD_CAPTIONS:
        layout = replace(layout, method=meaning)
    return attention_figure(
        [panel.weights for panel in drawn], titles=[panel.title for panel in drawn],
        signed=meaning == "strength", alignment=alignment or None,
        source_lengths=[panel.source_length for panel in drawn], kind=kind, layout=layout,
        names=[(panel.row_names, panel.column_names) for panel in drawn],
        links=[panel.links for panel in drawn],
    )  # fmt: skip


def _selected_indices(option: str, index: int | None, count: int) -> list[int]:
    """Return a list with the index only. If the index is None, return all indices below `count`.

    Raises:
        UsageError: if the index is not below `count`.
    """
    if index is not None and index >= count:
        raise UsageError(f"{option} {index + 1}: this model has {count}, counted from 1.")
    return list(range(count)) if index is None else [index]


def _without_padding(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the rows that contain only finite values."""
    real: NDArray[np.floating] = rows[np.isfinite(rows).all(axis=-1)]
    return real


def attention_history_picture(
    history: Arrays, examples: int, *, layer: int = 0, head: int = 0
) -> tuple[Figure, str]:
    """Draw the attention history, with one row per sequence and one column per drawn epoch.

    The figure has at most `STRIP_EPOCHS` columns, for evenly spaced recorded epochs.

    Args:
        history: the arrays of `film.npz`, with weights (epochs, sequences, layers, heads, T, S).
        examples: the maximum number of sequences.
        layer, head: the index of the layer and the index of the head.

    Returns:
        The figure, and a sentence that says what it leaves out; "" if it shows everything.
    """
    frames, left_out = history_frames(history, STRIP_EPOCHS, examples, layer, head)
    row_titles = [panel.title for panel in frames[0].panels]
    in_rows = [
        replace(panel, title="" if row else frame.epoch)
        for row in range(len(row_titles))
        for frame in frames
        for panel in [frame.panels[row]]
    ]
    layout = Layout(columns=len(frames), row_titles=row_titles, heading=left_out)
    return draw_panels(in_rows, history, layout), left_out


def save_animation(
    history: Arrays, path: Path, examples: int, *, layer: int = 0, head: int = 0
) -> str:
    """Write the attention history of the first sequences as an animated GIF, and return a sentence
    that says what it leaves out; "" if it shows everything.

    Args:
        history: the arrays of `film.npz`, with weights (epochs, sequences, layers, heads, T, S).
        path: the file to write.
        examples: the maximum number of sequences.
        layer, head: the index of the layer and the index of the head.
    """
    frames, left_out = history_frames(history, MAX_FRAMES, examples, layer, head)
    largest = float(np.nanmax(np.abs(history["weights"][:, :examples, layer, head])))
    figures = [
        draw_panels(frame.panels, history, Layout(max_weight=largest, heading=frame.epoch))
        for frame in frames
    ]
    write_output(path, as_gif(figures))
    return left_out


@dataclass(frozen=True)
class Frame:
    """The heatmaps of an attention history at one epoch.

    Attributes:
        epoch: the name of the epoch, such as "after epoch 3".
        panels: one panel per sequence.
    """

    epoch: str
    panels: list[Panel]


def history_frames(
    history: Arrays, max_frames: int, examples: int, layer: int, head: int
) -> tuple[list[Frame], str]:
    """Return the heatmaps at evenly spaced recorded epochs, including the first and the last, and
    sentences that say what they leave out.

    Args:
        history: the arrays of `film.npz`, with weights (epochs, sequences, layers, heads, T, S).
        max_frames: the maximum number of epochs.
        examples: the maximum number of sequences.
        layer, head: the index of the layer and the index of the head.
    """
    epochs, sequences, layers, heads, *_ = history["weights"].shape
    titles = sequence_titles(history, "validation")
    frames = []
    for k in np.unique(np.linspace(0, epochs - 1, min(epochs, max_frames)).round().astype(int)):
        frame = {**history, "weights": history["weights"][k]}
        drawn = attention_panels(frame, titles, examples, layer=layer, head=head)
        epoch = int(history["epochs"][k])
        name = f"after epoch {epoch}" if epoch else "before training"
        frames.append(Frame(name, drawn))
    left_out = ["One head of one layer. --layer and --head draw another one."] * (
        layers * heads > 1
    )
    if len(frames) < epochs:
        left_out.append(f"{len(frames)} of {epochs} recorded epochs.")
        left_out += ["--format gif draws more."] * (max_frames < MAX_FRAMES)
    if examples < sequences:
        left_out.append(f"The first {examples} of {sequences} recorded sequences (--examples).")
    return frames, " ".join(left_out)
