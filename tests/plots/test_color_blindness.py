"""Colors that must be told apart differ for readers with a color vision deficiency, too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from seqattn.plots import style, texts
from seqattn.report import MAX_SIDE_BY_SIDE
from tests.conftest import ROOT

DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
"""Linear RGB as a reader with a full deficiency sees it: Machado, Oliveira and Fernandes 2009, "A
Physiologically-based Model for Simulation of Color Vision Deficiency", table 1, severity 1.0."""
MIN_DIFFERENCE = 10.0
"""A difference of 2.3 is just noticeable (Mahy et al. 1994). Thin lines need a larger one."""


def lab_of(color: str, deficiency: str) -> NDArray[np.float64]:
    """Return a color #rrggbb in CIE 1976 L*a*b* with the white point D65, as it is seen."""
    encoded = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(DEFICIENCIES[deficiency]) @ linear, 0, 1)
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                       [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip
    ratio = to_xyz @ seen / to_xyz.sum(axis=1)
    root = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def too_similar(colors: Mapping[str, str], deficiency: str) -> dict[tuple[str, str], float]:
    """Return the pairs of colors with a smaller difference (CIE 1976) than `MIN_DIFFERENCE`."""
    seen = {name: lab_of(color, deficiency) for name, color in colors.items()}
    differences = {
        (one, other): float(np.linalg.norm(seen[one] - seen[other]))
        for one, other in itertools.combinations(seen, 2)
    }
    return {pair: value for pair, value in differences.items() if value < MIN_DIFFERENCE}


PALETTE = {
    name: getattr(style, name)
    for name in ("BLACK", "GREY", "BLUE", "SKY", "GREEN", "ORANGE", "VERMILION", "PURPLE")
}


def page_themes() -> list[dict[str, str]]:
    """Return the variables with colors of the light and the dark theme of the page."""
    text = (ROOT / "seqattn/report/page.css").read_text()
    light, dark, *_ = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in (light, dark)]


def test_the_difference_is_that_of_cie_1976() -> None:
    """Of white and black, and of two colors that protanopes confuse."""
    assert np.allclose(lab_of("#ffffff", "none"), [100, 0, 0], atol=0.01)
    assert np.allclose(lab_of("#000000", "none"), 0)
    assert np.allclose(lab_of("#ff0000", "none"), [53.24, 80.09, 67.20], atol=0.02)
    pair = {"red": "#a04040", "olive": "#575740"}
    assert not too_similar(pair, "none")
    assert too_similar(pair, "protanopia")


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_the_colors_of_figures_differ(deficiency: str) -> None:
    assert not too_similar(PALETTE, deficiency)
    right_and_wrong = {"right": texts.RIGHT, "wrong": texts.WRONG, "symbol": style.BLACK}
    assert not too_similar(right_and_wrong, deficiency)


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("theme", page_themes(), ids=["light", "dark"])
def test_the_lines_of_the_page_differ(theme: dict[str, str], deficiency: str) -> None:
    """The source, the truth, and the forecasts of four models, in one picture."""
    source = (ROOT / "seqattn/report/web/src/live/explorer_base.ts").read_text()
    (others,) = re.findall(r"export const COLOURS = \[(.*?)\];", source)
    models = dict(enumerate(re.findall(r"#[0-9a-f]{6}", others), 2))
    assert len(models) == MAX_SIDE_BY_SIDE - 1
    lines = {name: theme[name] for name in ("ground", "soft", "accent", "warn")}
    assert not too_similar(lines | {f"model {k}": color for k, color in models.items()}, deficiency)
