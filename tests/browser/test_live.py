"""The live explorer: what a reader does with it, and pages with several models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqattn.report import render_page, report, report_side_by_side
from seqattn.runs import RunFolder
from tests.browser.conftest import DRAWN, LIVE, Open, SharedPages
from tests.browser.live_numbers import (
    ask_page,
    ask_python,
    assert_same,
    check_shown,
    load_model,
    settle,
    shown,
    sources,
)  # fmt: skip
from tests.browser.live_runs import SMALL, LiveRuns, page_content
from tests.browser.test_live_numbers import PAGES

HOSTILE = "</script><img src=x onerror=alert(1)>"
IMPOSSIBLE: list[tuple[str, Any, str]] = [
    ("plain", [[0.5, 0.5]], "This model has no attention"),
    ("fast_weights", [[0.5, 0.5], None], "signed read strengths"),
    ("squares", {"rows": [{"step": 3, "weights": [1, 0]}]}, "step 3: the forecast has 2 steps"),
    ("squares", {"rows": [{"step": 1, "weights": [1]}]}, "has 1 weights; the source has 2"),
    ("squares", {"rows": [{"step": 1, "layer": 1, "weights": [1, 0]}]}, "layer 1"),
]


def test_impossible_weights_are_refused(shared: SharedPages, live_runs: LiveRuns) -> None:
    found = shared(live_runs.page(*PAGES["squares"]))
    for name, force, reason in IMPOSSIBLE:
        (source,) = sources(load_model(live_runs[name]), 1)
        with pytest.raises(Exception, match=re.escape(reason)):
            ask_page(found, source, run=name, force=force)


def test_dragging_a_point_asks_the_model_again(
    shared_in_both: SharedPages, live_runs: LiveRuns
) -> None:
    found = shared_in_both(live_runs.page("squares"))
    before = shown(found)
    circle = found.page.locator(".source-point").nth(1)
    circle.scroll_into_view_if_needed()
    box = circle.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    found.page.mouse.move(x, y)
    found.page.mouse.down()
    for k in range(1, 6):
        found.page.mouse.move(x - 10 * k, y + 8 * k)
    found.page.mouse.up()
    after = check_shown(found, live_runs)
    assert after["source"][0] == before["source"][0]
    assert after["source"][1][0] < before["source"][1][0] - 0.1
    assert after["source"][1][1] < before["source"][1][1] - 0.1
    assert "the true continuation is unknown" in found.text("#live-text")
    found.page.locator("#live-reset").click()
    settle(found)
    assert shown(found)["forecast"] == before["forecast"]
    assert "truth" in found.text("#live-text")


def test_the_plots_wait_until_the_reader_makes_a_pause(opened: Open, live_runs: LiveRuns) -> None:
    move = "window.moving = setInterval(() => window.dispatchEvent(new Event('pointermove')), 20);"
    found = opened(live_runs.page("squares"), until=LIVE, init=move)
    found.page.wait_for_timeout(700)
    assert found.page.evaluate("typeof Plotly") == "undefined"
    assert found.page.locator("#explorer").count() == 0, "the plots of the static page are shown"
    assert "Attention" not in found.page.locator("#parts a").all_inner_texts()
    found.page.evaluate("clearInterval(window.moving)")
    found.page.wait_for_selector(DRAWN)
    assert found.page.locator("#loss .scatterlayer .trace").count() == 3


def test_the_first_click_forces_a_cell_and_the_keyboard_moves_a_point(
    shared_in_both: SharedPages, live_runs: LiveRuns
) -> None:
    found = shared_in_both(live_runs.page("squares"))
    before = shown(found)
    cell = found.page.locator(".cell[data-step='0'][data-column='0']")
    for forced in ([{"step": 1, "layer": 0, "head": 0, "weights": [1, 0]}], []):
        box = cell.bounding_box()
        assert box is not None
        # A press and a release with a pause, as those of a hand.
        found.page.mouse.click(box["x"] + 20, box["y"] + 10, delay=60)
        settle(found)
        assert shown(found)["forced"] == forced
        found.page.locator("#live-step").focus()  # the next click brings the focus back
    found.page.locator(".source-point").first.focus()
    for _ in range(3):
        found.page.keyboard.press("ArrowRight")
        settle(found)
    after = shown(found)
    assert after["source"][0][0] > before["source"][0][0]
    assert after["source"][0][1] == before["source"][0][1]
    found.page.locator("#live-map svg").focus()
    found.page.keyboard.press("ArrowDown")
    found.page.keyboard.press("Enter")
    settle(found)
    forced = shown(found)
    assert forced["forced"] == [{"step": 2, "layer": 0, "head": 0, "weights": [1, 0]}]
    assert np.allclose(forced["weights"][0][0][1], [1, 0])
    assert "The forced weights move the forecast" in found.text("#live-text")
    found.page.keyboard.press("Enter")
    settle(found)
    assert shown(found)["forced"] == []


def test_two_runs_answer_the_same_input(opened: Open, live_runs: LiveRuns, tmp_path: Path) -> None:
    page = report_side_by_side([live_runs["squares"], live_runs["plain"]], tmp_path / "two.html")
    found = opened(page, until=LIVE)
    assert found.page.locator(".forecast").count() == 2
    (source,) = sources(load_model(live_runs["squares"]), 1)
    for run in (0, 1, "squares", "plain"):
        name = ["squares", "plain"][run] if isinstance(run, int) else run
        expected = ask_python(load_model(live_runs[name]), source)
        assert_same(ask_page(found, source, run=run), expected)
    assert [row.inner_text() for row in found.page.locator("#table tbody th").all()] == [
        "squares", "plain",
    ]  # fmt: skip
    losses = [
        RunFolder(live_runs[name]).read_summary()["test_loss"] for name in ("squares", "plain")
    ]
    verdict = f"is {losses[0]:.4g} with attention (squares) and {losses[1]:.4g} without attention"
    assert verdict in found.text("#table")
    assert "forecast of plain (without attention)" in found.text("#live-legend")
    found.page.click("#live-tour-start")
    for _ in range(4):
        found.page.click("#live-tour-next")
    assert verdict in found.text("#live-tour-panel")
    assert "Each of these runs has one seed." in found.text("#live-tour-panel")
    for _ in range(2):
        settle(found)
        found.page.click("#live-tour-action")
    found.until("document.getElementById('live-tour-result').textContent.includes('3 sequences')")
    counts = re.findall(r"attention\) in (\d)", found.text("#live-tour-result"))
    assert sum(map(int, counts)) == 3


def test_a_comparison_answers_with_each_seed(opened: Open, live_comparison: Path) -> None:
    found = opened(live_comparison / "report.html", until=LIVE)
    names = found.page.locator("#live-run option").all_inner_texts()
    assert sorted(names) == [f"{v}, seed {s}" for v in ("dot", "uniform") for s in (23, 24)]
    for name in names:
        variant, seed = name.split(", seed ")
        trained = load_model(live_comparison / variant / f"seed-{seed}")
        (source,) = sources(trained, 1)
        assert_same(ask_page(found, source, run=name), ask_python(trained, source))
    found.page.locator("#live-other").select_option(label=names[-1])
    settle(found)
    assert found.page.locator("#live-map svg:visible").count() == 2


@pytest.fixture(scope="session")
def live_comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from seqattn.config.comparing import plan_comparison
    from seqattn.experiments.compare import run_comparison

    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("live compared")
    (home / "c.yaml").write_text("name: both\n")
    planned = plan_comparison(
        home / "c.yaml", SMALL, ["model.attention.score=dot,uniform"], seeds=2
    )
    path = run_comparison(planned, home).path
    report(path)
    return path


def change_content(page: Path, target: Path, change: Any) -> Path:
    """Write a page with changed content."""
    content = page_content(page)
    change(content)
    target.write_text(render_page(content))
    return target


def test_hostile_names_stay_text(opened: Open, live_runs: LiveRuns, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["examples"]["ids"][0] = HOSTILE
        content["examples"]["features"][0] = HOSTILE
        content["live"]["models"][0]["features"][0] = HOSTILE
        content["live"]["models"][0]["runs"][0]["name"] = HOSTILE

    path = change_content(live_runs.page("squares"), tmp_path / "hostile.html", change)
    found = opened(path)
    assert found.page.locator("img").count() == 0
    assert HOSTILE in found.page.locator("#live-example option").first.inner_text()
    assert HOSTILE in found.text("#live-values")


def test_a_damaged_graph_leaves_the_rest_of_the_page(
    opened_in_both: Open, live_runs: LiveRuns, tmp_path: Path
) -> None:
    def change(content: dict[str, Any]) -> None:
        graph = content["live"]["models"][0]["graph"]
        content["live"]["models"][0]["graph"] = graph[:400] + "AAAA" + graph[404:]

    path = change_content(live_runs.page("squares"), tmp_path / "damaged.html", change)
    found = opened_in_both(path)
    assert "The model of this page could not be loaded" in found.text("#live-error")
    assert found.text("#step-text").startswith("Step 1 ")


def test_a_report_without_the_model(opened: Open, live_runs: LiveRuns, tmp_path: Path) -> None:
    path = report(live_runs["squares"], tmp_path / "static.html", live=False)
    assert 'id="ort-wasm"' not in path.read_text()
    found = opened(path)
    assert found.page.locator("#live").count() == 0
    assert found.text("#step-text").startswith("Step 1 ")
