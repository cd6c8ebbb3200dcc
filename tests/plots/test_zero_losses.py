"""Figures of losses with a noise floor, a baseline or a loss of 0, for which a log scale has no place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqattn.plots import LossHistory, as_bytes, band_figure, comparison_figure, loss_figure
from seqattn.plots.losses import positive_losses, split_references, sweep_figure


def curve(losses: list[float], floor: float | None = 0.0, baseline: float | None = 0.0) -> Figure:
    return loss_figure(
        LossHistory([1, 2, 3], losses, losses, losses), best_epoch=2, noise_floor=floor,
        baseline=None if baseline is None else ("a rule", baseline), title="t",
    )  # fmt: skip


def points(losses: list[float], floor: float = 0.0) -> Figure:
    interval = (float(np.median(losses)), min(losses), max(losses))
    return comparison_figure(
        ["a", "b"], [np.array(losses)] * 2, [interval] * 2, lines=[("noise floor", floor), ("mean", 0.36)],
        title="t",
    )  # fmt: skip


def bands(losses: list[float]) -> Figure:
    return band_figure(["a"], [np.array([losses, losses])], title="t")


def sweep(losses: list[float]) -> Figure:
    return sweep_figure(
        ["a"], [np.array([1.0, 2.0])], [[np.array(losses), np.array(losses)]],
        [[np.array([]), np.array([])]], key="k", title="t",
        reference=("mean", np.array([1.0, 2.0]), np.array([0.0, 0.3])),
    )  # fmt: skip


def legend(figure: Figure) -> list[str]:
    found = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    return [text.get_text() for each in found if each for text in each.get_texts()]


FIGURES: dict[str, tuple[Callable[[list[float]], Figure], str]] = {
    "curve": (curve, "y"), "points": (points, "x"), "bands": (bands, "y"), "sweep": (sweep, "y"),
}  # fmt: skip


def scale_of(axes: Axes, which: str) -> tuple[str, tuple[float, float], str]:
    """Scale, limits and label of one axis."""
    if which == "x":
        return axes.get_xscale(), axes.get_xlim(), axes.get_xlabel()
    return axes.get_yscale(), axes.get_ylim(), axes.get_ylabel()


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("losses", [[0.3, 0.2, 0.25], [0.3, 0.0, 0.25]])
def test_limits_are_those_of_the_positive_losses(name: str, losses: list[float]) -> None:
    draw, which = FIGURES[name]
    figure = draw(losses)
    as_bytes(figure)
    scale, (low, high), label = scale_of(figure.axes[0], which)
    assert scale == "log"
    assert 0.1 < low < high < 1
    zeros = (
        sum(loss == 0 for loss in losses) * {"curve": 3, "points": 2, "bands": 2, "sweep": 2}[name]
    )
    assert label.endswith(f"(log scale, without {zeros} losses of 0)" if zeros else "(log scale)")


@pytest.mark.parametrize("name", FIGURES)
def test_the_scale_is_linear_if_all_losses_are_0(name: str) -> None:
    draw, which = FIGURES[name]
    figure = draw([0.0, 0.0, 0.0])
    as_bytes(figure)
    scale, limits, label = scale_of(figure.axes[0], which)
    assert scale == "linear"
    assert np.isfinite(limits).all()
    assert "log scale" not in label


def test_omitted_references_are_in_the_legend() -> None:
    assert "noise floor 0: not on the log scale" in legend(points([0.3, 0.2, 0.25]))
    assert "mean 0.36" in legend(points([0.3, 0.2, 0.25]))
    figure = curve([0.3, 0.2, 0.25], floor=4.4e-30, baseline=0.0)
    assert legend(figure)[-2:] == [
        "noise floor 4.4e-30: not on the log scale", "a rule 0: not on the log scale",
    ]  # fmt: skip
    assert [text.get_text() for text in figure.axes[0].texts] == []
    assert not any("log scale" in words for words in legend(curve([0.3, 0.2, 0.1], 0.01, 0.2)))


def test_an_interval_down_to_0_begins_at_the_edge() -> None:
    figure = points([0.3, 0.0, 0.25])
    (axes,) = figure.axes
    bars = [line.get_xdata() for line in axes.lines if line.get_solid_capstyle() == "butt"]
    assert len(bars) == 2
    assert [list(bar) for bar in bars] == [[axes.get_xlim()[0], 0.3]] * 2  # type: ignore[arg-type]


def test_references_are_split_at_a_millionth_of_the_smallest_loss() -> None:
    losses = positive_losses([[0.0, np.nan, np.inf, 0.5], [[2.0]]])
    assert losses.tolist() == [0.5, 2.0]
    references = [("zero", 0.0), ("below", 0.49e-6), ("above", 0.51e-6), ("none", np.nan)]
    shown, omitted = split_references(references, losses)
    assert [name for name, _ in shown] == ["above"]
    assert [name for name, _ in omitted] == ["zero", "below", "none"]
    assert split_references(references, positive_losses([[0.0]])) == (references, [])
    assert positive_losses([]).size == 0


def test_rates_have_a_linear_axis() -> None:
    """A rate of 0 is the best result, and must be seen."""
    rates = [np.array([0.0, 0.25, 0.5])]
    figure = comparison_figure(
        ["a"], rates, [(0.25, 0.0, 0.5)], lines=[], title="t", loss_name="rate", is_rate=True
    )
    (axes,) = figure.axes
    assert axes.get_xscale() == "linear"
    assert axes.get_xlim()[0] < 0
    assert axes.get_xlabel() == "rate on the test sequences"
    swept = sweep_figure(
        ["a"], [np.array([3.0])], [rates], [[np.array([])]], key="k", reference=None, title="t",
        loss_name="rate", is_rate=True,
    )  # fmt: skip
    assert swept.axes[0].get_yscale() == "linear"
