"""What a picture says, not only that there is one."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from seqattn.plots import (
    Details,
    LossHistory,
    as_bytes,
    attention_figure,
    band_figure,
    comparison_figure,
    loss_figure,
    paths_figure,
    vectors_figure,
)
from seqattn.plots.attention import Layout
from seqattn.plots.captions import weights_caption
from seqattn.plots.knock_out import knock_out_figure
from seqattn.plots.run_pictures import attention_picture
from seqattn.plots.style import FORMATS
from seqattn.plots.texts import MAX_LETTERS, shorten_pair, texts_figure
from seqattn.runs.array_files import sequence_titles, shorten_name

WEIGHTS = np.array([[0.9, 0.1, np.nan], [0.25, 0.75, np.nan]])


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def ticks(axes: Axes) -> tuple[list[str], list[str]]:
    return (
        [label.get_text() for label in axes.get_xticklabels()],
        [label.get_text() for label in axes.get_yticklabels()],
    )


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the contrast of two colors by WCAG 2.2."""
    levels = []
    for color in (one, other):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
        levels.append(float(np.dot([0.2126, 0.7152, 0.0722], linear)))
    return (max(levels) + 0.05) / (min(levels) + 0.05)


def test_a_heatmap_prints_its_weights_and_leaves_padding_blank() -> None:
    figure = attention_figure([WEIGHTS, WEIGHTS[:, :2]], titles=["one", "two"])
    first, second, *_ = figure.axes
    assert texts(first) == ["0.90", "0.10", "0.25", "0.75"]
    assert first.get_title() == "one"
    assert ticks(first) == (["Point 1", "Point 2", "Point 3"], ["Point 3", "Point 4"])
    assert ticks(second) == (["Point 1", "Point 2"], ["Point 3", "Point 4"])
    image = first.images[0]
    assert image.get_clim() == (0, 1)
    assert np.ma.getmaskarray(image.get_array())[:, 2].all()
    assert first.patch.get_hatch()
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert "attention weight" in labels  # the colour bar


def test_rows_and_columns_of_an_alignment_are_both_counted_from_1() -> None:
    """With rows from 17 to 32, a reader cannot see that step 3 of a copy attends to point 3."""
    figure = attention_figure([np.eye(16)], titles=["t"], alignment=[np.arange(16)])
    across, down = ticks(figure.axes[0])
    assert across == down == ["1", "3", "5", "7", "9", "11", "13", "15"]
    assert figure.get_supylabel() == "target steps (forecast)"
    assert figure.get_supxlabel() == "source points (given); outlined: the true one"
    across, down = ticks(attention_figure([np.eye(16)], titles=["t"]).axes[0])
    assert (across[0], down[0]) == ("1", "17")
    short = attention_figure([np.eye(2)], titles=["t"], alignment=[np.arange(2)])
    assert ticks(short.axes[0]) == (["Point 1", "Point 2"], ["Step 1", "Step 2"])


def test_a_number_can_be_read_on_its_cell() -> None:
    """WCAG contrast of text and cell, at least 4.5 for the normal text of every weight."""
    levels = np.linspace(-1, 1, 41)
    seen = 0
    for signed, shown in ((False, levels[20:]), (True, levels)):
        rows = [shown[None, start : start + 11] for start in range(0, len(shown), 11)]
        figure = attention_figure(rows, titles=[""] * len(rows), signed=signed)
        for axes, row in zip(figure.axes, rows, strict=False):
            cells = axes.images[0].to_rgba(row)[0]
            for text, cell in zip(axes.texts, cells, strict=True):
                assert contrast(tuple(cell), to_rgb(text.get_color())) > 4.5, text.get_text()
                seen += 1
    assert seen == 21 + 41


def test_an_outline_can_be_seen_on_every_cell() -> None:
    """The brightest cells of a good model are the ones with outlines."""
    links = [np.array([[0, 0, 1], [1, 1, 0]])]
    for signed in (False, True):
        figure = attention_figure([np.eye(2)], titles=[""], links=links, signed=signed)
        patches = figure.axes[0].patches
        assert len(patches) == 4
        for weight in np.linspace(-1 if signed else 0, 1, 41):
            cell = tuple(figure.axes[0].images[0].to_rgba(np.array([[weight]]))[0, 0])
            for dark, light in (patches[:2], patches[2:]):
                tones = (to_rgb(each.get_edgecolor()) for each in (dark, light))
                assert max(contrast(cell, tone) for tone in tones) > 4.5
                assert dark.get_linewidth() > 2 * light.get_linewidth()
        assert [each.get_linestyle() == "-" for each in patches] == [True, True, True, False]


@pytest.mark.parametrize(("T", "S"), [(1, 1), (2, 64), (64, 2), (64, 64), (13, 11)])
def test_any_length_up_to_64_is_drawn_whole(T: int, S: int) -> None:
    figure = attention_figure([np.full((T, S), 1 / S)] * 10, titles=["t"] * 10)
    picture = imread(io.BytesIO(as_bytes(figure)))
    height, width, _ = picture.shape
    assert 100 < height < 3000
    assert 200 < width < 2500
    across, down = ticks(figure.axes[0])
    assert len(across) <= 8
    assert len(down) <= 8
    assert across[0].split()[-1] == "1"
    assert down[0].split()[-1] == str(S + 1)


def loss() -> Figure:
    return loss_figure(
        LossHistory([1, 2, 3], [1.0, 0.5, 0.2], [1.1, 0.3, 0.4], [0.9, 0.3, 0.3]),
        best_epoch=2, noise_floor=0.01, baseline=("a $rule", 0.02), title="name $x, seed 1",
    )  # fmt: skip


def test_the_loss_curve_shows_what_a_loss_is_read_against() -> None:
    (axes,) = loss().axes
    labels = [line.get_label() for line in axes.lines]
    assert labels[:4] == [
        "training", "validation, teacher-forced", "validation, free running",
        "best epoch: 2 (0.3)",
    ]  # fmt: skip
    best = axes.lines[3]
    assert (list(best.get_xdata()), list(best.get_ydata())) == ([2], [0.3])  # type: ignore[arg-type]
    assert texts(axes) == ["noise floor\n0.01", "a $rule\n0.02"]
    assert axes.get_yscale() == "log"
    levels = [line.get_ydata()[0] for line in axes.lines[4:]]  # type: ignore[index]
    assert levels == [0.01, 0.02]


def test_a_legend_covers_no_curve() -> None:
    rising = LossHistory([1, 2, 3], [1.0, 2.0, 3.0], [1.1, 2.1, 3.1], [1.2, 2.2, 3.2])
    for figure in (
        loss_figure(rising, best_epoch=1, noise_floor=0.0, baseline=("rule", 2.0), title="t"),
        band_figure([f"variant {k}" for k in range(9)], [np.ones((2, 3))] * 9, title="t"),
        band_figure([f"{k}" + "W" * 33 for k in range(9)], [np.ones((2, 3))] * 9, title="t"),
    ):
        as_bytes(figure)
        (legend,) = figure.legends
        renderer = FigureCanvasAgg(figure).get_renderer()
        assert not legend.get_window_extent(renderer).overlaps(
            figure.axes[0].get_tightbbox(renderer)
        )


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(1, [1]), (2, [1, 2]), (4, [1, 2, 3, 4]), (100, [1, 20, 40, 60, 80, 100]),
     (97, [1, 20, 40, 60, 80, 97]), (1003, [1, 200, 400, 600, 800, 1003])],
)  # fmt: skip
def test_the_first_and_the_last_epoch_are_ticks(epochs: int, expected: list[int]) -> None:
    losses = list(np.linspace(1, 0.1, epochs))
    history = LossHistory(list(range(1, epochs + 1)), losses, losses, losses)
    for figure in (
        loss_figure(history, best_epoch=1, noise_floor=None, baseline=None, title="t"),
        band_figure(["a", "b"], [np.array([losses])] * 2, title="t"),
    ):
        as_bytes(figure)
        axis = figure.axes[0].xaxis
        assert list(axis.get_ticklocs()) == expected
        assert [label.get_text() for label in axis.get_ticklabels()] == [str(k) for k in expected]


@pytest.mark.parametrize(("low", "high"), [(0.61, 0.89), (0.03, 0.04), (0.5, 1.2), (1e-4, 3.0)])
def test_a_log_axis_has_ticks_however_little_it_spans(low: float, high: float) -> None:
    epochs, losses = [1, 2, 3], [high, (low + high) / 2, low]
    (one,) = loss_figure(
        LossHistory(epochs, losses, losses, losses), best_epoch=3, noise_floor=None, baseline=None,
        title="t",
    ).axes  # fmt: skip
    (many,) = band_figure(["a"], [np.array([losses])], title="t").axes
    (points,) = comparison_figure(
        ["a"], [np.array(losses)], [(losses[1], low, high)], lines=[], title="t"
    ).axes
    for axes, axis, (first, last) in ((one, one.yaxis, one.get_ylim()),
                                      (many, many.yaxis, many.get_ylim()),
                                      (points, points.xaxis, points.get_xlim())):  # fmt: skip
        FigureCanvasAgg(axes.figure).draw()  # type: ignore[arg-type]
        labels = [tick.label1.get_text() for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
                if first <= tick.get_loc() <= last and tick.label1.get_text()]  # fmt: skip
        assert 3 <= len(labels) == len(set(labels)) <= 20
    for axes in (one, many):
        assert all(tick == int(tick) for tick in axes.get_xticks())


def test_paths_show_given_true_and_forecast() -> None:
    given, truth = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 1.0]])
    figure = paths_figure([given], [truth], [truth + 0.5], titles=["test 0"], features=["x", "y"])
    axes = figure.axes[0]
    assert axes.get_title() == "test 0\nMSE 0.2500"
    assert texts(axes) == ["1", "2", "3"]
    lines = [np.column_stack(line.get_data()).tolist() for line in axes.lines]  # type: ignore[arg-type]
    assert [[0.0, 0.0], [1.0, 0.0]] in lines
    assert [[1.0, 0.0], [1.0, 1.0]] in lines  # the truth goes on from the last point given
    assert [[1.0, 0.0], [1.5, 1.5]] in lines
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "given", "true continuation", "forecast",
    ]  # fmt: skip


@pytest.mark.parametrize("features", [["a"], ["a", "b", "c"]])
def test_paths_of_other_widths_go_over_the_steps(features: list[str]) -> None:
    F = len(features)
    figure = paths_figure(
        [np.zeros((5, F))], [np.zeros((0, F))], [np.ones((3, F))], titles=["t"], features=features
    )
    assert len(figure.axes) == F
    assert all(len(axes.lines) >= 3 for axes in figure.axes)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["given", "forecast"]


def test_paths_are_joined_by_name_alone() -> None:
    """What is said goes on from what was given only where it is the same feature; others stand
    alone, and what is only given has nothing after it."""
    given = np.array([[1.0, 10.0], [2.0, 20.0]])  # a, b
    truth, forecast = np.array([[21.0, 300.0]]), np.array([[22.0, 400.0]])  # b, c
    figure = paths_figure(
        [given], [truth], [forecast], titles=["t"], features=["a", "b"], target_features=["b", "c"]
    )
    lines = {
        axes.get_ylabel(): [
            np.column_stack(line.get_data()).tolist()  # type: ignore[arg-type]
            for line in axes.lines
            if len(line.get_xdata()) and len(set(line.get_xdata())) == len(line.get_xdata())  # type: ignore[arg-type]
        ]
        for axes in figure.axes
    }
    assert list(lines) == ["b", "c", "a"]  # what is said comes first
    assert lines["a"] == [[[1.0, 1.0], [2.0, 2.0]]]
    assert [[1.0, 10.0], [2.0, 20.0]] in lines["b"]
    assert [[2.0, 20.0], [3.0, 21.0]] in lines["b"]
    assert [[2.0, 20.0], [3.0, 22.0]] in lines["b"]
    assert lines["c"] == [[[3.0, 300.0]]] * 2 + [[[3.0, 400.0]]] * 2  # a path of one, and its mark


def test_each_feature_of_a_series_has_a_scale_and_an_error_of_its_own() -> None:
    """A pressure of 1000 beside a temperature of 10 would else be two flat lines."""
    given = np.array([[10.0, 1000.0], [11.0, 1001.0]]).repeat(2, axis=1)
    truth = np.array([[12.0, 12.0, 1002.0, 1002.0]])
    forecast = truth + np.array([[1.0, 2.0, 3.0, 4.0]])
    names = ["warm", "warmer", "a_name_that_is_too_long_1", "a_name_that_is_too_long_2"]
    figure = paths_figure(
        [given] * 7,
        [truth] * 7,
        [forecast] * 7,
        titles=[f"test {k}" for k in range(7)],
        features=names,
    )
    shown = np.array(figure.axes).reshape(4, 5)  # the first sequences, a column each
    assert [axes.get_ylabel() for axes in shown[:, 0]] == [
        "warm", "warmer", "a_name_th…too_long_1", "a_name_th…too_long_2",
    ]  # fmt: skip
    assert [axes.get_title() for axes in shown[:, 4]] == [
        "test 4\nMSE 1.0000", "MSE 4.0000", "MSE 9.0000", "MSE 16.0000",
    ]  # fmt: skip
    assert [axes.get_ylim()[0] > 900 for axes in shown[:, 0]] == [False, False, True, True]
    assert figure.get_supxlabel() == "step\nthe first 5 of 7 sequences"


def test_scaled_runs_have_errors_in_the_units_of_the_data() -> None:
    """Squared pascals say nothing; the root can be held against the numbers on the axis."""
    given, truth = np.zeros((3, 1)), np.ones((2, 1))
    figure = paths_figure(
        [given], [truth], [truth + 3], titles=["t"], features=["pressure"], use_rmse=True
    )
    assert figure.axes[0].get_title() == "t\nRMSE 3.0000"
    (axes,) = loss_figure(
        LossHistory([1, 2], [0.2, 0.1], [0.2, 0.1], [0.2, 0.1]), best_epoch=2, noise_floor=None,
        baseline=None, title="t", scaled=True,
    ).axes  # fmt: skip
    assert axes.get_ylabel() == "mean squared error, scaled units (log scale)"


def test_features_that_are_not_drawn_are_counted() -> None:
    names = [f"f{k}" for k in range(8)]
    figure = paths_figure(
        [np.zeros((5, 8))], [np.zeros((2, 1))], [np.ones((2, 1))], titles=["t"], features=names,
        target_features=["f7"],
    )  # fmt: skip
    assert [axes.get_ylabel() for axes in figure.axes] == ["f7", "f0", "f1", "f2", "f3", "f4"]
    assert figure.get_supxlabel() == "step\nthe first 6 of 8 features"
    arrays = [[np.zeros((n, 2))] * 7 for n in (5, 2, 2)]
    names = ["a", "b"]
    figure = paths_figure(*arrays, titles=["t"] * 7, features=names)
    assert figure.get_supxlabel().endswith("the first 5 of 7 sequences")


def test_features_whose_names_differ_in_the_middle_have_different_labels() -> None:
    names = [f"temperature_of_room_{k}_in_the_northern_building" for k in (1, 2, 3)]
    arrays = [[np.zeros((n, 3))] for n in (5, 2, 2)]
    labels = [
        axes.get_ylabel() for axes in paths_figure(*arrays, titles=["t"], features=names).axes
    ]
    assert len(set(labels)) == 3
    ids = np.array([f"measured-in-room-{k}-in-the-morning" for k in (1, 2, 3)])
    assert len(set(sequence_titles({"ids": ids, "labels": np.array([], str)}))) == 3


def test_a_long_output_and_its_target_show_where_they_differ() -> None:
    for first in (3, 60, 95, 140, 198):
        target = "".join(chr(97 + k % 26) for k in range(200))
        output = target[:first] + "#" + target[first + 1 :]
        shown = shorten_pair(output, target)
        assert [len(text) for text in shown] == [MAX_LETTERS, MAX_LETTERS]
        place = shown[0].index("#")
        assert shown[1][place] == target[first]
        assert shown[0][place - 3 : place] == target[first - 3 : first]
    assert shorten_pair("a", "a" * 200) == ("a", "a" * 69 + "…")
    equal = shorten_pair("ab" * 50, "ab" * 50)
    assert len(equal[0]) == MAX_LETTERS
    assert equal[0].endswith("ab")
    figure = texts_figure(["s"], ["ok" * 50 + "x"], ["ok" * 50 + "y"], ["t"])
    drawn = [text.get_text() for text in figure.texts]
    assert any(text.endswith("kx") for text in drawn)
    assert any(text.endswith("ky") for text in drawn)


def captions(figure: Figure) -> list[Text]:
    return [text for text in figure.texts if "not an alignment" in text.get_text()]


@pytest.mark.parametrize("count", [1, 5, 10])
def test_each_picture_of_weights_says_what_weights_are_not(count: int) -> None:
    panels = [np.full((3, 3), 0.3)] * count
    for kind, signed, words in (
        ("cross", False, "Weights show where this model read encoder states, which"),
        ("relative", False, "Weights show where this model read encoder states, which"),
        ("cross", True, "Strengths show how much this model read its earlier states"),
        ("encoder_self", False, "Weights show where this layer read states of its own sequence"),
        ("decoder_self", False, "Weights show where this layer read states of its own sequence"),
    ):
        figure = attention_figure(panels, titles=["t"] * count, kind=kind, signed=signed)
        as_bytes(figure)
        (caption,) = captions(figure)
        shown = caption.get_text().replace("\n", " ")
        assert shown == weights_caption(kind, signed=signed)
        assert shown.startswith(words)
        width = figure.get_size_inches()[0]
        assert float(caption.get_fontsize()) * min(1, 6.5 / width) > 6.999  # as wide as a column
        renderer = FigureCanvasAgg(figure).get_renderer()
        for text in (figure._supxlabel, *figure.axes[0].get_xticklabels()):  # type: ignore[attr-defined]
            assert not caption.get_window_extent(renderer).overlaps(
                text.get_window_extent(renderer)
            )
    for signed in (False, True):
        ones = np.ones((2, 2))
        figure = vectors_figure(ones[0], ones, ones, ones[0], ones[0], title="t", signed=signed)
        (caption,) = captions(figure)
        assert caption.get_text().replace("\n", " ") == weights_caption(signed=signed)


@pytest.mark.parametrize(("layers", "heads"), [(3, 8), (1, 24), (9, 17)])
def test_all_heads_are_drawn_or_the_picture_says_which_are_not(layers: int, heads: int) -> None:
    weights = np.full((5, layers, heads, 2, 3), 1 / 3)
    arrays = {"weights": weights, "meaning": np.array("distribution"),
              "source_lengths": np.full(5, 3), "target_lengths": np.full(5, 2)}  # fmt: skip
    figure, left_out = attention_picture(arrays, ["t"] * 5, 5)
    drawn_layers = min(layers, 144 // heads)
    assert len([axes for axes in figure.axes if axes.images]) == drawn_layers * heads
    assert figure.get_suptitle().replace("\n", " ") == left_out
    assert "The first sequence of 5." in left_out
    assert ("The first 8 of 9 layers. --layer draws another one." in left_out) == (layers == 9)
    figure, left_out = attention_picture(arrays, ["t"] * 5, 5, layer=0, head=0)
    assert left_out == figure.get_suptitle() == ""


def days(first: str, count: int) -> NDArray[Any]:
    return np.arange(count) + np.datetime64(first, "D")


def test_features_that_are_no_plane_are_drawn_over_their_dates() -> None:
    given, truth = np.zeros((20, 2)), np.ones((10, 2))
    figure = paths_figure(
        [given] * 2, [truth] * 2, [truth + 0.5] * 2, titles=["a", "b"],
        features=["temp", "humidity"],
        details=Details(times=[days("2024-01-21", 30), days("2023-12-21", 30)]),
    )  # fmt: skip
    as_bytes(figure)
    panels = np.array(figure.axes).reshape(2, 2)
    assert [axes.get_ylabel() for axes in panels[:, 0]] == ["temp", "humidity"]
    assert figure.get_supxlabel() == "time"
    for axes, month in zip(panels[1], ("Feb", "Jan"), strict=True):
        assert month in [label.get_text() for label in axes.get_xticklabels()]
        assert axes.xaxis.get_offset_text().get_text() == "2024"
    (line,) = [line for line in panels[0, 0].lines if len(line.get_xdata()) == 20]
    assert list(line.get_xdata()) == list(days("2024-01-21", 20))
    (between,) = [line for line in panels[0, 0].lines if line.get_linestyle() == ":"]
    assert between.get_xdata()[0] == np.datetime64("2024-02-09T12")


@pytest.mark.parametrize(
    ("unit", "span"), [("M", 20), ("h", 40), ("h", 8), ("m", 100), ("m", 9), ("s", 100)]
)
def test_dates_of_every_span_have_ticks_that_do_not_overlap(unit: str, span: int) -> None:
    """Some spans lie between the largest interval of a unit and the next unit."""
    lines = np.zeros((12, 2)), np.zeros((4, 2))
    first = np.datetime64("2024-01-01", unit)
    first, last = (time.astype("datetime64[us]") for time in (first, first + span))
    times = first + np.linspace(0, 1, 16) * (last - first)
    figure = paths_figure(
        [lines[0]] * 3, [lines[1]] * 3, [lines[1]] * 3, titles=["a", "b", "c"],
        features=["temp", "humidity"], details=Details(times=[times] * 3),
    )  # fmt: skip
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    for axes in figure.axes[3:]:  # only the last row has labels
        low, high = axes.get_xlim()
        shown = [
            label.get_window_extent(renderer)
            for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
            if low <= place <= high and label.get_text()
        ]
        assert 2 <= len(shown) <= 5
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(shown))


def boxes_of(axes: Axes) -> list[Bbox]:
    """The boxes of the numbers in a panel, in pixels."""
    renderer = FigureCanvasAgg(axes.figure).get_renderer()  # type: ignore[arg-type]
    for text in axes.texts:
        if isinstance(text, Annotation):
            text.update_positions(renderer)
    return [Text.get_window_extent(text, renderer) for text in axes.texts]


def overlapping(axes: Axes) -> list[tuple[str, str]]:
    """The pairs of texts in a panel that overlap by more than a pixel."""
    words = list(zip(texts(axes), boxes_of(axes), strict=True))
    return [
        (one, other) for (one, a), (other, b) in itertools.combinations(words, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]  # fmt: skip


def test_targets_that_repeat_the_source_are_rings_with_numbers() -> None:
    """The path of a copy would cover the path of its source."""
    numbers = np.random.default_rng(4)
    source = numbers.uniform(-1, 1, size=(3, 16, 2))
    forecast = 0.2 * source
    figure = paths_figure(
        source, source[:, ::-1], forecast, titles=["a", "b", "c"], features=["x", "y"],
        details=Details(repeats_source=True),
    )  # fmt: skip
    as_bytes(figure)
    for axes in figure.axes:
        steps = [str(k) for k in range(1, 17)]
        assert texts(axes) == steps * 2
        colors = [text.get_color() for text in axes.texts]
        assert len(set(colors[:16])) == len(set(colors[16:])) == 1
        assert colors[0] != colors[16]
        assert overlapping(axes) == []
    rings = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 16][1]
    assert rings.get_markerfacecolor() == "none"
    errors = [np.column_stack(line.get_data()) for line in figure.axes[0].lines  # type: ignore[arg-type]
              if len(line.get_xdata()) == 2]  # fmt: skip
    assert len(errors) == 16
    np.testing.assert_allclose(errors[2], [source[0, 13], forecast[0, 2]])
    assert legend_texts(figure) == [
        "given, numbered in black", "true target, numbered in blue",
        "forecast, with a line to its target",
    ]  # fmt: skip


def test_recall_shows_keys_values_and_the_query() -> None:
    source = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, -0.5], [0.1, 0.0]])
    truth, forecast = source[1:2], np.array([[0.5, 0.7]])
    figure = paths_figure(
        [source], [truth], [forecast], titles=["pair 1 asked"], features=["x", "y"],
        details=Details(repeats_source=True, has_pairs=True),
    )  # fmt: skip
    (axes,) = figure.axes
    drawn = [(line.get_marker(), np.column_stack(line.get_data()).tolist()) for line in axes.lines]  # type: ignore[arg-type]
    assert ("s", [source[0].tolist(), source[2].tolist()]) in drawn
    assert ("o", [source[1].tolist(), source[3].tolist()]) in drawn
    assert ("*", [source[4].tolist()]) in drawn
    assert ("None", source[:2].tolist()) in drawn
    assert ("None", source[2:4].tolist()) in drawn
    assert ("None", source[1:3].tolist()) not in drawn  # from a value to the next key
    assert ("None", [truth[0].tolist(), forecast[0].tolist()]) in drawn
    assert texts(axes) == ["1", "2"]
    assert legend_texts(figure) == [
        "key, numbered", "its value", "query", "true target", "forecast, with a line to its target",
    ]  # fmt: skip


def legend_texts(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("S", [5, 13, 40])
def test_the_texts_of_many_vectors_do_not_overlap(S: int) -> None:
    numbers = np.random.default_rng(7)
    weights = numbers.dirichlet(np.full(S, 0.5))
    figure = vectors_figure(
        numbers.normal(size=4), numbers.normal(size=(S, 4)) + 1, numbers.normal(size=(S, 4)),
        numbers.normal(size=4), weights, title="t",
        scores=("score = q . k / sqrt(K), K = 4", {"q . k": 2 * weights, "score": weights}),
    )  # fmt: skip
    as_bytes(figure)
    largest = sorted(np.argsort(-weights)[:12] + 1)
    for axes in figure.axes:
        assert overlapping(axes) == []
        *arrows, last = [text for text in axes.texts if text.get_text()]
        numbered = ", ".join(text.get_text() for text in arrows if text.get_text()[0].isdigit())
        assert sorted(map(int, numbered.split(", "))) == largest
        listed = [line.split(":")[0] for line in last.get_text().splitlines() if ":" in line]
        assert list(map(int, listed)) == largest
        assert ("largest" in last.get_text()) == (S > 12)
        assert boxes_of(axes)[-1].x0 > axes.get_window_extent().x1


def test_empty_cells_are_left_out_of_a_plane() -> None:
    given = np.array([[0.0, 1.0], [np.nan, 1.0], [2.0, 0.0]])
    none = given[:0]
    figure = paths_figure([given], [none], [none], titles=["t"], features=["x", "y"])
    assert as_bytes(figure).startswith(b"\x89PNG")
    assert figure.axes[0].get_xlim()[1] > 2


def strengths() -> Figure:
    return attention_figure(
        [np.array([[-1.95, 0.25], [1.0, np.nan]])] * 6, titles=["one\ntwo"] * 6, signed=True
    )


def test_signed_strengths_are_white_at_0() -> None:
    figure = strengths()
    image = figure.axes[0].images[0]
    assert image.get_clim() == (-1.95, 1.95)
    red, green, blue, _ = image.get_cmap()(0.5)
    assert min(red, green, blue) > 0.95
    assert texts(figure.axes[0]) == ["-1.95", "0.25", "1.00"]
    assert figure.axes[-1].get_ylabel() == "read strength"


def test_axes_say_who_looks_at_whom() -> None:
    square = np.eye(2)
    for kind, below, y_label, first in (
        ("encoder_self", "source points (given)", "source points (given)", "Point 1"),
        ("decoder_self", "decoder steps, named by the point they forecast",
         "target points (forecast)", "Point 6"),
    ):  # fmt: skip
        figure = attention_figure([square], titles=["t"], kind=kind, source_lengths=[5])
        assert figure.get_supxlabel() == below
        assert figure.get_supylabel() == y_label
        assert ticks(figure.axes[0])[0][0] == first


def pictures_of_every_kind() -> dict[str, Callable[[], Figure]]:
    """With what makes margins narrow: large numbers, long words, a single panel, many lines."""
    numbers = np.random.default_rng(1)

    def paths(
        panels: int, features: tuple[str, ...], scale: float, details: Details | None = None
    ) -> Figure:
        given, truth, forecast = scale * numbers.normal(size=(3, panels, 4, len(features)))
        return paths_figure(
            given, truth, forecast, titles=["sequence number one\nMSE 0.1234"] * panels,
            features=features, details=details,
        )  # fmt: skip

    return {
        "loss": loss,
        "loss, tiny": lambda: loss_figure(
            LossHistory([1, 2], [1e-7, 1e-8], [1e-7, 1e-7], [1e-7, 1e-7]), best_epoch=2,
            noise_floor=1e-9, baseline=("a rule with a rather long name", 1e-8), title="t",
        ),
        "one path": lambda: paths(1, ("x", "y"), 1.0),
        "many paths": lambda: paths(7, ("x", "y"), 1e5),
        "two series": lambda: paths(7, ("a feature", "another feature"), 1e5),
        "one copy": lambda: paths(1, ("x", "y"), 1.0, Details(repeats_source=True)),
        "many copies": lambda: paths(7, ("x", "y"), 1.0, Details(repeats_source=True)),
        "one recall": lambda: paths(
            1, ("x", "y"), 1.0, Details(repeats_source=True, has_pairs=True)
        ),
        "dates": lambda: paths(
            6, ("a feature",), 1.0, Details(times=[days("2023-12-29", 8)] * 6)
        ),
        "dates of rows": lambda: paths(
            2, ("a feature", "b"), 1.0, Details(times=[days("2023-12-29", 8)] * 2)
        ),
        "one series": lambda: paths(1, ("a feature",), 1e6),
        "series": lambda: paths(6, ("a feature", "a feature 2", "a feature 3"), 1e-6),
        "one weight": lambda: attention_figure([np.ones((1, 1))], titles=["t"]),
        "one weight of a long name": lambda: attention_figure(
            [np.ones((1, 1))],
            titles=[f"{shorten_name('W' * 60, 24)}\nof sequences of 24 and 24 points"],
        ),
        "long": lambda: attention_figure([np.full((64, 3), 0.1)] * 6, titles=["a\nb\nc"] * 6),
        "small weights": lambda: attention_figure([np.full((2, 3), 0.33)], titles=["t"]),
        "tiny weights": lambda: attention_figure([np.full((2, 3), 0.0033)], titles=["t"]),
        "relative": lambda: attention_figure(
            [np.full((1, 17), 0.25)], titles=["a\nb"], kind="relative", alignment=[np.array([8])]
        ),
        "titles of rows": lambda: attention_figure(
            [np.full((2, 2), 0.5)] * 6, titles=["one", "two", "three", "", "", ""],
            layout=Layout(columns=3, row_titles=["sequence\nlabel"] * 2, heading="a heading"),
        ),
        "a long heading": lambda: attention_figure(
            [np.full((2, 2), 0.5)], titles=["one"], layout=Layout(heading="a heading " * 20)
        ),
        "loss of a long name": lambda: loss_figure(
            LossHistory([1, 2], [0.2, 0.1], [0.2, 0.1], [0.2, 0.1]), best_epoch=2,
            noise_floor=None, baseline=None, title="word " * 40,
        ),
        "band of a long name": lambda: band_figure(
            ["a"], [np.ones((2, 3))], title="word " * 40
        ),
        "many features": lambda: paths(6, tuple(f"feature {k}" for k in range(8)), 1.0),
        "strengths": strengths,
        "vectors": lambda: vectors_figure(
            np.ones(5), numbers.normal(size=(9, 5)), numbers.normal(size=(9, 5)), np.ones(5),
            np.full(9, 1 / 9), title="one, forecast step 2",
            scores=("score = q . k / sqrt(K), K = 5", {"q . k": np.arange(9.0), "score": np.ones(9)}),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(pictures_of_every_kind()))
def test_no_word_is_cut_off(name: str) -> None:
    """All that is drawn lies within the picture."""
    figure = pictures_of_every_kind()[name]()
    as_bytes(figure)
    width, height = figure.get_size_inches()
    drawn = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    assert drawn.x0 > -0.01, drawn
    assert drawn.y0 > -0.01, drawn
    assert drawn.x1 < width + 0.01, (drawn, width)
    assert drawn.y1 < height + 0.01, (drawn, height)


@pytest.mark.parametrize("ending", FORMATS)
def test_the_same_figure_is_the_same_bytes(ending: str) -> None:
    assert as_bytes(loss(), ending) == as_bytes(loss(), ending)


def test_titles_from_files_are_drawn_as_they_are() -> None:
    arrays = {
        "ids": np.array(["a$\\frac", "x" * 99 + "12", "e\x1b[31m"]),
        "labels": np.array([], str),
    }
    titles = sequence_titles(arrays, "sequence")
    assert titles == ["sequence a$\\frac", f"sequence {'x' * 9}…{'x' * 8}12", "sequence e?[31m"]
    as_bytes(attention_figure([WEIGHTS], titles=titles[:1]))


# --- the cost of heads ----------------------------------------------------------------------------


def test_the_cost_of_each_head_is_in_its_cell() -> None:
    costs = {"decoder_self": np.array([[0.0123, -0.00001], [0.3, 0.001]]),
             "cross": np.array([[0.05, 0.02], [0, -0.04]])}  # fmt: skip
    significant = {kind: (np.abs(each) > 0.03).astype(float) for kind, each in costs.items()}
    figure = knock_out_figure(
        costs, "symbol_error_rate", title="run", is_significant=significant, scaled=False
    )
    decoder, cross, bar = figure.axes
    assert texts(decoder) == ["+1.2", "+0.0", "+30.0", "+0.1"]  # percentage points
    assert [text.get_fontweight() for text in cross.texts] == ["bold", "normal", "normal", "bold"]
    assert decoder.get_title() == "decoder self-attention"
    assert ticks(cross) == (["1", "2"], ["1", "2"])
    assert bar.get_ylabel() == "change of symbol error rate,\npercentage points"
    image = cross.get_images()[0]
    assert (image.norm.vmin, image.norm.vmax) == (-30, 30)  # one scale, symmetric about 0
    same = knock_out_figure(costs, "rmse", title="", is_significant=significant, scaled=True)
    assert texts(same.axes[0])[0] == "+0.012"
    assert same.axes[-1].get_ylabel() == "change of RMSE,\nscaled units"
