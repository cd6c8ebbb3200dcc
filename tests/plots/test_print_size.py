"""Texts of pictures can be read on paper."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from seqattn.plots import (
    Details,
    as_bytes,
    attention_figure,
    comparison_figure,
    importance_figure,
    paths_figure,
)
from seqattn.plots.style import COLUMN_WIDTH
from seqattn.plots.texts import texts_figure
from tests.plots.test_figures import loss, pictures_of_every_kind
from tests.plots.test_zero_losses import sweep

MIN_SIZE = 7.0  # points
CORNERS = np.random.default_rng(3).normal(size=(20, 2))


def smallest_text(figure: Figure) -> float:
    """Return the size of the smallest text of a picture, in points at the size of the picture."""
    as_bytes(figure)
    return min(
        text.get_fontsize()
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip()
    )


PICTURES: dict[str, Callable[[], Figure]] = {
    **pictures_of_every_kind(),
    "numbered weights": lambda: attention_figure([np.full((12, 12), 1 / 12)], titles=["t"]),
    "many pairs": lambda: paths_figure(
        [CORNERS],
        [CORNERS[:1]],
        [CORNERS[:1]],
        titles=["t"],
        features=["x", "y"],
        details=Details(repeats_source=True),
    ),
}


@pytest.mark.parametrize("name", list(PICTURES))
def test_a_picture_can_be_read_at_its_own_size(name: str) -> None:
    assert smallest_text(PICTURES[name]()) >= MIN_SIZE


ONE_PANEL: dict[str, Callable[[], Figure]] = {
    "loss": loss,
    "comparison": lambda: comparison_figure(
        ["a"], [np.array([0.1, 0.2])], [(0.15, 0.1, 0.2)], lines=[("rule", 0.3)], title="t"
    ),
    "band": PICTURES["band of a long name"],
    "sweep": lambda: sweep([0.1, 0.2]),
    "importance": lambda: importance_figure({"training.learning_rate": 0.7, "seed": 0.3}, "t"),
    "texts": lambda: texts_figure(["a source"], ["one"], ["two"], ["test 0"]),
}


@pytest.mark.parametrize("name", list(ONE_PANEL))
def test_one_panel_can_be_read_in_a_column_of_text(name: str) -> None:
    """A wider picture is made smaller, to fit."""
    figure = ONE_PANEL[name]()
    shrunk = min(1.0, COLUMN_WIDTH / figure.get_size_inches()[0])
    assert smallest_text(figure) * shrunk >= MIN_SIZE
