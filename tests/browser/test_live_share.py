"""What the live page saves and links, its tour and its glossary, with mouse and keyboard."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page
from typer.testing import CliRunner

from seqattn.cli import app
from seqattn.report import render_page
from seqattn.report.content import run_content
from seqattn.runs import RunFolder
from tests.browser.conftest import LIVE, Open, Opened, SharedPages
from tests.browser.live_numbers import start_tour
from tests.browser.live_runs import NAMES, TABLES, LiveRuns, page_content

NO_CLIPBOARD = """() => {
  Object.defineProperty(navigator, "clipboard", {value: {writeText: () => Promise.reject(new Error("no"))}, configurable: true});
}"""


INTERCEPT = """() => {
  const blobs = new Map(), create = URL.createObjectURL;
  URL.createObjectURL = (blob) => {
    const address = create.call(URL, blob);
    blobs.set(address, blob);
    return address;
  };
  HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, blobs.get(this.href)]; };
}"""
TAKE = """async () => {
  const [name, blob] = window.saved;
  return [name, Array.from(new Uint8Array(await blob.arrayBuffer()))];
}"""


def saved(found: Opened, button: str, folder: Path) -> Path:
    """Press a button that saves a file, and return the file."""
    browser = found.page.context.browser
    if browser is not None and browser.browser_type.name == "firefox":
        # Playwright does not report the downloads of this Firefox.
        found.page.evaluate(INTERCEPT)
        found.page.click(button)
        found.until("window.saved !== undefined")
        name, content = found.page.evaluate(TAKE)
        found.page.evaluate("() => { delete window.saved; }")
        (folder / name).write_bytes(bytes(content))
        return folder / name
    with found.page.expect_download() as download:
        found.page.click(button)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def answer(found: Opened) -> dict[str, Any]:
    """Return what the page shows, by the function for scripts."""
    return found.page.evaluate(
        """async () => {
          const {explorer, run} = window.seqattn;
          await explorer.update();
          const {source, force, subjects} = explorer.state;
          const {forecast} = explorer.scene.shown[0].answer;
          const again = await run(source, {epoch: subjects[0].epoch, force: force.size ? {rows: force.list} : null});
          return {source, forecast, again: again.forecast};
        }"""
    )


def rerun(found: Opened, run: Path, folder: Path) -> NDArray[np.float64]:
    """Run the command that the page shows on the saved files, and return its forecast."""
    saved(found, "#live-save-csv", folder)
    if found.page.is_enabled("#live-save-weights"):
        saved(found, "#live-save-weights", folder)
    command = found.text("#live-command")
    assert command.startswith("seqattn predict RUN --input input.csv")
    for name in ("input.csv", "weights.json"):
        command = command.replace(name, str(folder / name))
    output = folder / "forecast.csv"
    words = ["predict", str(run), *command.replace("'", "").split()[3:], "--output", str(output)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    style = [";", ","] if run.name == "relative" else [",", "."]
    with output.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter=style[0]))
    targets = list(rows[0])[-found.page.evaluate("window.seqattn.explorer.first.target_features.length") :]  # fmt: skip
    return np.array([[float(row[name].replace(style[1], ".")) for name in targets] for row in rows])


def move_points(found: Opened) -> None:
    """Move two source points, with the keyboard."""
    for point, key in ((0, "Shift+ArrowDown"), (1, "ArrowUp")):
        found.page.focus(f".source-point[data-point='{point}']")
        for _ in range(3):
            found.page.keyboard.press(key)
    answer(found)


@pytest.mark.parametrize("name", ["squares", "plain", "fast_weights", "transformer", *TABLES])
def test_the_saved_input_gives_the_forecast_of_the_page(
    name: str, shared: SharedPages, live_runs: LiveRuns, tmp_path: Path
) -> None:
    found = shared(live_runs.page(name))
    move_points(found)
    if name in ("squares", "own", "dates", "relative", "transformer"):
        found.page.focus("#live-map svg")
        for key in ("ArrowRight", "Enter"):
            found.page.keyboard.press(key)
        assert found.page.is_enabled("#live-save-weights")
    else:
        assert found.page.is_disabled("#live-save-weights")
    shown = answer(found)
    np.testing.assert_array_equal(shown["again"], shown["forecast"])
    rounding = {"rtol": 1e-5, "atol": 1e-5 * np.abs(shown["forecast"]).max()}
    np.testing.assert_allclose(rerun(found, live_runs[name], tmp_path), shown["forecast"], **rounding)  # fmt: skip
    with (tmp_path / "input.csv").open(newline="") as file:
        rows = list(csv.reader(file, delimiter=";" if name == "relative" else ","))
    F = len(shown["source"][0])
    if name in TABLES:
        assert rows[0][-3:] == NAMES
    read = [[float(cell.replace(",", ".")) for cell in row[-F:]] for row in rows[1:]]
    assert read == shown["source"], "not every digit was saved"
    assert ("--set data.time=null" in found.text("#live-command")) == (name == "dates")


def test_an_earlier_epoch_is_in_the_command(
    shared: SharedPages, live_runs: LiveRuns, tmp_path: Path
) -> None:
    found = shared(live_runs.page("squares"))
    found.page.focus("#live-epoch")
    found.page.keyboard.press("Home")
    shown = answer(found)
    assert "--epoch 0" in found.text("#live-command")
    forecast = rerun(found, live_runs["squares"], tmp_path)
    np.testing.assert_allclose(forecast, shown["forecast"], atol=1e-5)


def test_a_link_restores_what_is_shown(
    shared_in_both: SharedPages, opened_in_both: Open, live_runs: LiveRuns
) -> None:
    page = live_runs.page("transformer")
    found = shared_in_both(page)
    found.page.select_option("#live-example", "2")
    move_points(found)
    found.page.select_option("#live-layer", label="2")
    found.page.click("#live-uniform")
    shown = answer(found)
    found.page.click("#live-copy")
    found.until("document.getElementById('live-share-note').textContent !== ''")
    address = found.page.url
    assert "#state=" in address
    if found.page.is_visible("#live-link"):
        assert found.page.input_value("#live-link") == address
    other = opened_in_both(page, until=LIVE, fragment="#" + address.partition("#")[2])
    again = answer(other)
    assert again == shown
    assert other.page.input_value("#live-layer") == "1"
    assert other.page.evaluate("window.seqattn.explorer.state.force.size") == 1
    assert other.text("#live-text") == found.text("#live-text")


def test_links_of_other_pages_and_damaged_ones_are_ignored(
    shared: SharedPages, opened: Open, live_runs: LiveRuns
) -> None:
    found = shared(live_runs.page("squares"))
    move_points(found)
    fragment = found.page.evaluate("window.seqattn.explorer.fragment")
    bad = [fragment, fragment[:-12], "#state=%E0%A4%A", "#state=<img src=x onerror=alert(1)>"]
    found = shared(live_runs.page("plain"))
    start = found.text("#live-text")
    for each in bad:
        found.page.evaluate("(fragment) => { location.hash = fragment; }", each)
        found.page.wait_for_timeout(50)
        answer(found)
        assert found.text("#live-text") == start
        assert found.text("#live-error") == ""
    for each in (bad[0], bad[2]):
        other = opened(live_runs.page("plain"), until=LIVE, fragment=each)
        assert other.text("#live-text") == start
        assert other.text("#live-error") == ""


def press_until(page: Page, selector: str, key: str = "Tab", most: int = 80) -> None:
    """Press a key until an element has the focus."""
    for _ in range(most):
        if page.evaluate(f"document.activeElement?.matches({json.dumps(selector)}) ?? false"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} cannot be reached with {key}")


def result_of(found: Opened) -> str:
    found.until("document.getElementById('live-tour-result').textContent !== ''")
    answer(found)
    return found.text("#live-tour-result")


def box_of(found: Opened, selector: str) -> dict[str, float]:
    box = found.page.locator(selector).bounding_box()
    assert box is not None
    return {**box, "right": box["x"] + box["width"], "bottom": box["y"] + box["height"]}


def assert_visible_with_the_plot(found: Opened, place: str) -> None:
    """Check that the tour, its place and the path are on the screen and do not cover each other."""
    found.page.wait_for_timeout(50)
    panel, path, marked = (
        box_of(found, each) for each in ("#live-tour-panel", "#live-path svg", place)
    )
    size = found.page.viewport_size
    assert size is not None
    for each in (panel, path, marked):
        assert each["y"] >= 0 and each["bottom"] <= size["height"] + 1
    assert panel["right"] <= path["x"] or panel["y"] >= path["bottom"]


def test_the_tour_is_walked_with_the_keyboard(opened_in_both: Open, live_runs: LiveRuns) -> None:
    wide = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce"}
    found = opened_in_both(live_runs.page("squares"), until=LIVE, **wide)
    page = found.page
    press_until(page, "#live-tour-start")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "live-tour-title"
    assert found.text("#live-tour-title") == "Tour 1 of 5: Move a source point"
    answer(found)
    start = page_content(live_runs.page("squares"))["live"]["tour"]["start"]
    assert page.evaluate("window.seqattn.explorer.state.example") == start["example"]
    assert_visible_with_the_plot(found, "#live-path")
    press_until(page, ".source-point")
    page.keyboard.press("Shift+ArrowUp")
    moved = result_of(found)
    assert moved.startswith("You moved source point 1, and the forecast moved by up to ")
    assert "The crosses are gone" in moved and "starts again with the unchanged" in moved
    press_until(page, "#live-tour-next", "Shift+Tab")
    page.keyboard.press("Enter")
    assert found.text("#live-tour-title") == "Tour 2 of 5: Where does it look?"
    assert not page.evaluate("window.seqattn.explorer.state.isChanged")
    answer(found)
    assert_visible_with_the_plot(found, "#live-map")
    press_until(page, "#live-step")
    page.keyboard.press("ArrowRight")
    assert re.match(
        r"Forecast point 4 gives source point \d the largest weight, 0\.\d+ of 1", result_of(found)
    )
    found.page.click("#live-tour-next")
    answer(found)
    assert_visible_with_the_plot(found, "#live-map")
    press_until(page, "#live-map svg")
    page.keyboard.press("Enter")
    forced = result_of(found)
    assert "The mean squared error of this sequence goes from" in forced
    assert re.search(r"Over 24 test sequences, .* with equal weights and .* with shuffled", forced)
    page.click("#live-tour-action")
    answer(found)
    assert page.evaluate("window.seqattn.explorer.state.force.size") == 2
    found.page.click("#live-tour-next")
    assert page.evaluate("window.seqattn.explorer.state.force.size") == 0
    answer(found)
    assert_visible_with_the_plot(found, "#live-epochs")
    press_until(page, "#live-epoch")
    page.keyboard.press("Home")
    assert re.match(
        r"Before training, the mean squared error of this sequence is \S+; with the trained model",
        result_of(found),
    )
    found.page.click("#live-tour-next")
    end = found.text("#live-tour-panel")
    assert re.search(r"This trained model (hardly depends|depends|does not depend) on its", end)
    page.click("#live-tour-panel summary")
    assert "model.attention=null" in found.text("#live-tour-panel")
    assert "CONFIG" not in found.text("#live-tour-panel")
    assert found.text("#live-tour-next") == "Finish"
    page.keyboard.press("Escape")
    assert not page.is_visible("#live-tour-panel")
    assert page.evaluate("document.activeElement.id") == "live-tour-open"
    page.reload()
    page.wait_for_selector(LIVE)
    assert not page.is_visible("#live-tour-start"), "the invitation comes again"
    assert page.is_visible("#live-tour-open")


def test_the_glossary_is_a_part_and_in_reach_of_the_tour(
    shared_in_both: SharedPages, live_runs: LiveRuns
) -> None:
    found = shared_in_both(live_runs.page("squares"))
    assert found.page.locator("#glossary dt dfn").count() == 24
    assert found.page.locator("#parts a", has_text="Glossary").get_attribute("href") == "#glossary"
    start_tour(found)
    found.page.click("#live-tour-next")
    press_until(found.page, "button.term")
    found.page.keyboard.press("Enter")
    assert found.text("#term-card").startswith("forecast point\n")
    found.page.keyboard.press("Escape")
    assert not found.page.is_visible("#term-card")
    assert found.page.is_visible("#live-tour-panel"), "Escape closed both"
    assert found.page.evaluate("document.activeElement.textContent") == "forecast point"
    found.page.click("#live-tour-panel button.term >> text=/^attention$/")
    card, panel = (box_of(found, each) for each in ("#term-card", "#live-tour-panel"))
    assert card["x"] >= panel["right"], "the card covers the tour"
    found.page.click("#term-card button.term")
    assert found.text("#term-card").startswith("decoder\n")
    found.page.keyboard.press("Escape")
    found.page.click("#summary button.term >> text=parameter-free")
    assert found.text("#term-card").startswith("parameter-free\n")
    found.page.keyboard.press("Escape")


@pytest.mark.parametrize("name", ["squares", "own", "transformer", "plain"])
def test_nothing_is_wider_than_a_telephone(
    name: str, shared_in_both: SharedPages, live_runs: LiveRuns
) -> None:
    found = shared_in_both(live_runs.page(name), viewport={"width": 360, "height": 740})
    fits = "document.documentElement.scrollWidth <= 360"  # plotly resizes its plots with a delay
    found.until(fits)
    start_tour(found)
    while found.page.is_visible("#live-tour-panel"):
        found.until(fits)
        found.page.click("#live-tour-next")
    found.page.evaluate(NO_CLIPBOARD)  # fmt: skip
    found.page.click("#live-copy")
    found.until(fits)
    found.page.evaluate("() => { delete navigator.clipboard; }")


def test_what_can_be_operated_has_a_name(shared: SharedPages, live_runs: LiveRuns) -> None:
    for name in ("squares", "transformer", "own"):
        found = shared(live_runs.page(name))
        start_tour(found)
        nameless = found.page.evaluate(
            """() => [...document.querySelectorAll("#live button, #live select, #live input, #live [tabindex='0']")]
              .filter((e) => e.checkVisibility() && !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
              .map((e) => e.outerHTML.slice(0, 200))"""
        )
        assert nameless == []
        sliders = found.page.evaluate(
            """() => [...document.querySelectorAll("#live svg [role=slider]")].map((e) =>
              ["min", "now", "max"].map((part) => Number(e.getAttribute(`aria-value${part}`))))"""
        )
        assert sliders and all(low <= now <= high for low, now, high in sliders)
        cell = found.page.evaluate(
            "document.getElementById(document.querySelector('#live-map svg').getAttribute('aria-activedescendant')).getAttribute('aria-label')"
        )
        assert re.fullmatch(r"forecast point \d, source point \d: \d\.\d{3}", cell)


def test_hostile_names_stay_text_in_all_saved_files(
    opened: Open, live_runs: LiveRuns, tmp_path: Path
) -> None:
    content = run_content(RunFolder(live_runs["squares"]), examine=False, live=True)
    bad = [
        "<script>document.title='run'</script>",
        '"><img src=x onerror=alert(1)>',
        "]]>&amp;<!--",
    ]
    content["name"] = bad[0]
    content["live"]["models"][0]["runs"][0]["path"] = "$(touch gone) `x` '"
    content["examples"]["ids"][0] = bad[1]
    content["live"]["models"][0]["runs"][0]["name"] = bad[2]
    content["live"]["models"][0]["features"] = content["examples"]["features"] = bad[:2]
    file = tmp_path / "page.html"
    file.write_text(render_page(content), encoding="utf-8")
    found = opened(file, until=LIVE)
    assert found.page.title() != "run"
    picture = saved(found, "#live-save-svg", tmp_path)
    assert "/" not in picture.name and "<" not in picture.name
    root = ET.fromstring(picture.read_text())
    assert not [e for e in root.iter() if e.tag.rpartition("}")[2] in ("script", "img", "a")]
    with saved(found, "#live-save-csv", tmp_path).open(newline="") as saved_file:
        rows = list(csv.reader(saved_file))
    assert rows[0] == ["sequence", "step", *bad[:2]]
    assert found.text("#live-command").startswith(
        "seqattn predict '$(touch gone) `x` '\\''' --input"
    )
