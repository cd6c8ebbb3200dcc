"""Losses on a logarithmic scale, with a noise floor of 0 and other values that have no place on it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn import experiments
from seqattn.config import resolve
from seqattn.config.comparing import plan_comparison
from seqattn.experiments.compare import run_comparison
from seqattn.report import report
from tests.browser.conftest import Open, Opened
from tests.browser.live_runs import SMALL

NOTE = "The logarithmic scale has no place for 0 and for values far below the losses. It omits: {}."
MAX_TICKS = 15
MAX_ELEMENTS = 700
"""Elements of a plot of 50 points. A plot with a tick at each tenth of 48 decades has 3,200."""


def axis_of(found: Opened, plot: str) -> dict[str, Any]:
    """Type and range of a plot's y axis in powers of ten or in losses, and its number of ticks."""
    axis: dict[str, Any] = found.page.evaluate(
        "(id) => (({type, range}) => ({type, range}))(document.getElementById(id)._fullLayout.yaxis)",
        plot,
    )
    ticks = found.page.locator(f"#{plot} .ytick text").all_text_contents()
    assert 2 <= len(ticks) <= MAX_TICKS, ticks
    assert found.page.locator(f"#{plot} *").count() < MAX_ELEMENTS
    assert all(map(math.isfinite, axis["range"]))
    return axis


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of copy with ten seeds of each variant, and its page."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("copied")
    file = home / "c.yaml"
    file.write_text("name: copied\ndata: {kind: copy, length: 32}\n")
    variants = ["model.attention.score=dot,additive,uniform"]
    path = run_comparison(plan_comparison(file, SMALL, variants, seeds=10), home).path
    report(path)
    return path


def test_a_comparison_of_copy_has_few_elements(opened: Open, copied: Path) -> None:
    found = opened(copied / "report.html")
    axis = axis_of(found, "seeds")
    assert axis["type"] == "log"
    assert axis["range"][0] > -3
    assert found.text("#scale-note") == NOTE.format("noise floor (0)")
    names = found.page.locator("#seeds .annotation-text").all_text_contents()
    assert names == ["mean of the training targets", "last source point"]
    found.page.select_option("#scale", "linear")
    assert axis_of(found, "seeds")["range"][0] <= 0
    assert not found.page.locator("#scale-note").is_visible()
    names = found.page.locator("#seeds .annotation-text").all_text_contents()
    assert "noise floor" in names


@pytest.mark.parametrize("kind", ["copy", "recall"])
def test_the_losses_of_a_run_have_no_place_for_a_floor_of_0(
    kind: str, opened: Open, tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    sets = [*SMALL, f"data.kind={kind}", f"name={kind}"]
    folder, _ = experiments.train_one(resolve(None, sets).config, tmp_path, plots=False)
    assert json.loads((folder.path / "summary.json").read_text())["validation_noise_floor"] == 0
    found = opened(report(folder.path))
    axis = axis_of(found, "loss")
    assert axis["type"] == "log"
    assert axis["range"][0] > -3
    assert found.text("#scale-note") == NOTE.format("noise floor (0)")
    found.page.select_option("#scale", "linear")
    assert axis_of(found, "loss")["type"] == "linear"
    assert (
        "noise floor (validation) 0"
        in found.page.locator("#loss .annotation-text").all_text_contents()
    )
    assert not found.page.locator("#scale-note").is_visible()
