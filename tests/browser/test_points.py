"""The live page of points: fields, names, tab stops, narrow screens, print and the plots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from seqattn import experiments
from seqattn.config import resolve
from seqattn.report import report
from tests.browser.conftest import DRAWN, Open, SharedPages
from tests.browser.live_numbers import settle, shown, start_tour
from tests.browser.live_runs import LiveRuns
from tests.browser.test_live_share import press_until

FEATURES = 12


@pytest.fixture(scope="session")
def many_features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with 12 features and a source of 20 points."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("many_features")
    values = np.random.default_rng(0).normal(size=(16, 24, FEATURES))
    names = [f"temperature_of_place_{k}" for k in range(FEATURES)]
    lines = [f"{n},{t}," + ",".join(f"{x:.3f}" for x in row) for n, each in enumerate(values)
             for t, row in enumerate(each)]  # fmt: skip
    file = home / "many.csv"
    file.write_text("\n".join([f"sequence,step,{','.join(names)}", *lines]) + "\n")
    sets = ["name=many", "data.kind=file", f"data.path={file}", "data.source_length=20",
            "training.epochs=1", "model.hidden_dim=4"]  # fmt: skip
    folder, _ = experiments.train_one(resolve(None, sets).config, home, plots=False)
    return report(folder.path)


@pytest.mark.parametrize(
    ("typed", "message"),
    [("", "Type a number."), ("1e300", "a value of the source must lie between")],
)
def test_a_field_says_what_is_wrong_with_a_typed_value(
    typed: str, message: str, shared_in_both: SharedPages, live_runs: LiveRuns
) -> None:
    found = shared_in_both(live_runs.page("squares"))
    before = shown(found)
    field = found.page.locator("#live-values input").first
    field.fill(typed)
    settle(found)
    fault = found.page.locator("#live-values .fault").first
    assert message in fault.inner_text()
    assert "The model still reads " in fault.inner_text()
    assert field.get_attribute("aria-invalid") == "true"
    assert shown(found)["source"] == before["source"]
    field.fill("0.25")
    settle(found)
    assert fault.inner_text() == ""
    assert shown(found)["source"][0][0] == 0.25


def test_a_forecast_point_has_one_name(shared: SharedPages, live_runs: LiveRuns) -> None:
    """The heatmap, its tooltips, the slider and the path: the count of the source goes on."""
    found = shared(live_runs.page("copy"))
    S = len(shown(found)["source"])
    words = found.page.locator("#live-map svg text").all_text_contents()
    assert "forecast point" in words and "target step" not in words
    assert found.text("#live-step-name").startswith(f"Forecast point {S + 1} ")
    labels = [int(word) for word in words if word.isdigit()]
    assert {S + 1, 2 * S} <= {*labels}
    title = found.page.locator(".cell title").first.text_content() or ""
    assert title.startswith(f"forecast point {S + 1} attends to source point 1 with")


def test_the_points_and_the_bars_have_one_tab_stop_each(
    shared_in_both: SharedPages, many_features: Path
) -> None:
    found = shared_in_both(many_features)
    page = found.page
    panels = page.evaluate("new Set(Array.from(document.querySelectorAll('.source-point'), (e) => e.dataset.member.split('/')[0])).size")  # fmt: skip
    assert page.locator(".source-point[tabindex='0']").count() == panels == 4
    assert page.locator(".bar-handle[tabindex='0']").count() == 1
    press_until(page, ".source-point[data-member='1/0']")
    for key, place in (("PageDown", "1/1"), ("End", "1/19"), ("PageUp", "1/18"), ("Home", "1/0")):
        page.keyboard.press(key)
        settle(found)
        assert page.evaluate("document.activeElement.dataset.member") == place
        assert page.evaluate("seqattn.explorer.state.point") == int(place[2:])
    before = shown(found)["source"][0]
    page.keyboard.press("ArrowUp")
    settle(found)
    after = shown(found)["source"][0]
    assert [k for k in range(FEATURES) if after[k] != before[k]] == [1], "the second panel's"
    assert page.evaluate("document.activeElement.dataset.member") == "1/0"
    press_until(page, ".bar-handle")
    for key, place in (("End", "19"), ("PageUp", "18")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.bar") == place
    page.keyboard.press("ArrowUp")
    settle(found)
    assert page.evaluate("document.activeElement.dataset.bar") == "18"
    assert page.locator(".bar-handle[tabindex='0']").count() == 1
    for group in ("#live-path svg", "#live-bars svg"):
        assert "Page Down" in (page.locator(group).get_attribute("aria-label") or "")


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_a_page_of_many_features_is_as_wide_as_its_window(
    width: int, opened_in_both: Open, many_features: Path
) -> None:
    found = opened_in_both(many_features, until=DRAWN, viewport={"width": width, "height": 844})
    found.page.wait_for_timeout(400)
    wide = found.page.evaluate(
        "(width) => [...document.querySelectorAll('main *')].filter((e) => e.checkVisibility() && !e.closest('table, pre') && !e.closest('.spoken')"
        " && e.getBoundingClientRect().right > width + 1).map((e) => e.tagName + '.' + e.className + '#' + e.id)", width,
    )  # fmt: skip
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width, wide[:10]


def test_a_printed_page_has_no_tour(shared: SharedPages, live_runs: LiveRuns) -> None:
    found = shared(live_runs.page("squares"))
    start_tour(found)
    found.page.emulate_media(media="print")
    for selector in (
        "#live-tour-open",
        "#live-tour-panel",
        ".invitation",
        "#live-share button",
        ".screen",
    ):
        assert not [e for e in found.page.locator(selector).all() if e.is_visible()], selector
    assert found.page.is_visible("#live-map svg")
    found.page.emulate_media(media="screen")


OVERLAPS = """(selector) => {
  const boxes = [...document.querySelectorAll(selector)].map((e) => [e.textContent, e.getBoundingClientRect()]).filter(([, b]) => b.width > 0);
  const found = [];
  for (const [k, [one, a]] of boxes.entries()) for (const [other, b] of boxes.slice(k + 1)) {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4) found.push([one, other]);
  }
  return found;
}"""
"""The pairs of texts that cover each other. The box of a text is some pixels higher than its letters."""


@pytest.mark.parametrize("width", [390, 1240])
def test_no_text_covers_another_or_is_cut(width: int, opened: Open, many_features: Path) -> None:
    found = opened(many_features, until=DRAWN, viewport={"width": width, "height": 844})
    found.page.wait_for_timeout(400)
    for texts in ("#live-path text:not(.point-number)", "#live-bars text", "#live-map text"):
        assert found.page.evaluate(OVERLAPS, texts) == []
    for place in ("#live-path", "#live-map", "#by-step"):
        cut = found.page.evaluate(
            """(place) => [...document.querySelectorAll(place)].flatMap((each) => {
              const {left, right, top, bottom} = each.getBoundingClientRect();
              return [...each.querySelectorAll("text")].filter((e) => e.textContent && e.checkVisibility()).map((e) => [e.textContent, e.getBoundingClientRect()])
                .filter(([, b]) => b.width > 0 && (b.left < left - 1 || b.right > right + 1 || b.top < top - 1 || b.bottom > bottom + 1)).map(([text]) => text);
            })""", place,
        )  # fmt: skip
        assert cut == []


@pytest.mark.parametrize("width", [390, 1240])
def test_legends_and_labels_cover_no_curve(
    width: int, opened: Open, many_features: Path, tmp_path: Path
) -> None:
    path = report(many_features.parent, tmp_path / "static.html", live=False)
    found = opened(path, viewport={"width": width, "height": 844})
    found.page.wait_for_timeout(400)
    for plot in ("#loss", "#path"):
        boxes = found.page.evaluate(
            "(plot) => ['.legend', '.xy .plot, .nsewdrag'].map((part) => {"
            " const {top, bottom} = document.querySelector(plot).querySelector(part).getBoundingClientRect();"
            " return [top, bottom]; })", plot,
        )  # fmt: skip
        (legend_top, legend_bottom), (top, bottom) = boxes
        assert legend_bottom <= top + 1 or legend_top >= bottom - 1, plot
    texts = "#loss .xtitle, #loss .legendtext, #loss .xtick text"
    assert found.page.evaluate(OVERLAPS, texts) == []
    backgrounds = found.page.locator("#loss .annotation rect.bg")
    assert backgrounds.count() > 1
    for each in backgrounds.all():
        assert each.evaluate("(e) => getComputedStyle(e).fillOpacity") == "0"
