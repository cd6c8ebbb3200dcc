"""Losses on a logarithmic scale, with a noise floor of 0 and other values that have no place on it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from seqattn import experiments
from seqattn.analysis.comparison import read_comparison
from seqattn.config import resolve
from seqattn.config.comparing import plan_comparison
from seqattn.experiments.compare import run_comparison
from seqattn.report import render_page, report
from seqattn.report.content import comparison_content, run_content
from seqattn.runs import RunFolder
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


def test_rounding_errors_do_not_squeeze_the_losses(
    opened: Open, runs: dict[str, Path], tmp_path: Path
) -> None:
    content = run_content(RunFolder(runs["squares"]), examine=False)
    content["curves"] |= {"floor": 4.4e-30, "baseline": ["a <b>rule</b>", 1e-18]}
    content["curves"]["training"][1] = 0
    file = tmp_path / "rounding.html"
    file.write_text(render_page(content), encoding="utf-8")
    found = opened(file)
    assert axis_of(found, "loss")["range"][0] > -3
    omitted = (
        "noise floor (4.40e\N{MINUS SIGN}30), a <b>rule</b> (1.00e\N{MINUS SIGN}18), 1 loss of 0"
    )
    assert found.text("#scale-note") == NOTE.format(omitted)


@pytest.mark.parametrize("zeros", ["one", "all"])
def test_seeds_with_a_loss_of_0_are_counted(
    zeros: str, opened: Open, copied: Path, tmp_path: Path
) -> None:
    content = comparison_content(read_comparison(copied))
    first, *others = content["variants"]
    for variant in [first] if zeros == "one" else [first, *others]:
        for point in variant["points"]:
            point["loss"], point["curve"] = 0, [[1, 0], [2, 0]]
        variant |= {"median": 0, "interval": [0, 0]}
    file = tmp_path / "zeros.html"
    file.write_text(render_page(content), encoding="utf-8")
    found = opened(file)
    axis = axis_of(found, "seeds")
    if zeros == "one":
        assert axis["type"] == "log"
        assert axis["range"][0] > -3
        assert found.text("#scale-note") == NOTE.format("noise floor (0), 10 losses of 0")
    else:
        assert axis["type"] == "linear"
        assert found.text("#scale-note") == "No loss is above 0, so the scale is linear."
    assert axis_of(found, "chosen-curve")["type"] == "linear"
