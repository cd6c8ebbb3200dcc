"""What the tour says first, what it says about its own changes, and which models it leads to."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.conftest import LIVE, Open, Opened, SharedPages
from tests.browser.live_numbers import settle, start_tour
from tests.browser.live_runs import LiveRuns

SIZES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
}
HIDDEN = """(selector) => {
  const box = document.querySelector("#live-tour-panel .tour-text").getBoundingClientRect();
  const {top, bottom} = document.querySelector(selector).getBoundingClientRect();
  return Math.max(box.top - top, bottom - Math.min(box.bottom, innerHeight));
}"""
"""How many pixels of an element are hidden above or below the text of the panel; negative: none."""
SCROLLED = "document.querySelector('#live-tour-panel .tour-text').scrollTop"
NAMES = "Array.from(seqattn.explorer.scene.shown, ({name}) => name.split(' ')[0])"


def go_to_step(found: Opened, number: int) -> None:
    start_tour(found)
    for _ in range(number - 1):
        settle(found)
        found.page.click("#live-tour-next")
    settle(found)
    found.page.wait_for_timeout(50)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("names", [("squares",), ("squares", "plain")], ids="-".join)
def test_the_last_step_begins_with_its_verdict(
    size: str, names: tuple[str, ...], opened: Open, live_runs: LiveRuns
) -> None:
    found = opened(live_runs.page(*names), until=LIVE, reduced_motion="reduce", **SIZES[size])
    start_tour(found)
    for step in range(1, 6):
        settle(found)
        found.page.wait_for_timeout(50)
        assert found.page.evaluate(SCROLLED) == 0, f"step {step} does not begin at its top"
        if step < 5:
            found.page.evaluate(f"{SCROLLED} = 1e6")  # a reader who has read to the end
            found.page.click("#live-tour-next")
    first = found.page.locator("#live-tour-panel .tour-text p").first
    assert first.get_attribute("id") == "live-tour-verdict"
    start = "This trained model" if len(names) == 1 else r"(With and without attention|The error)"
    assert re.match(start, first.inner_text())
    if size == "desktop" or len(names) == 1:
        assert found.page.evaluate(HIDDEN, "#live-tour-verdict") <= 0
    else:  # at least its first four lines
        line = (
            "parseFloat(getComputedStyle(document.getElementById('live-tour-verdict')).lineHeight)"
        )
        height = first.evaluate("(element) => element.getBoundingClientRect().height")
        hidden = found.page.evaluate(HIDDEN, "#live-tour-verdict")
        assert height - max(0, hidden) >= 4 * found.page.evaluate(line)
    assert (found.page.locator("#live-tour-result").inner_text() != "") == (len(names) == 2)


def test_the_tour_says_what_it_has_changed(opened: Open, live_runs: LiveRuns) -> None:
    found = opened(live_runs.page("squares"), until=LIVE)
    start = "seqattn.explorer.page.live.tour.start.example"
    found.page.evaluate(f"() => seqattn.explorer.chooseExample({start} + 1)")
    settle(found)
    start_tour(found)
    number = found.page.evaluate(f"seqattn.explorer.sequences.names[{start}]")
    switched = f"The tour has switched to sequence {number}, because its weights show"
    assert switched in found.text("#live-tour-panel")
    found.page.focus(".source-point")
    found.page.keyboard.press("Shift+ArrowUp")
    found.until("document.getElementById('live-tour-result').textContent !== ''")
    assert "All training sequences draw the same square" in found.text("#live-tour-result")
    found.page.click("#live-tour-next")
    assert f"The tour has put the source of sequence {number} back" in found.text(
        "#live-tour-panel"
    )
    found.page.click("#live-tour-next")
    found.page.click("#live-tour-action")
    settle(found)
    found.page.click("#live-tour-next")
    assert "The tour has taken back the forced weights." in found.text("#live-tour-panel")
    found.page.focus("#live-epoch")
    found.page.keyboard.press("Home")
    settle(found)
    found.page.click("#live-tour-next")
    assert "the epoch with the lowest validation loss" in found.text("#live-tour-panel")
    assert "(lowest validation loss)" in found.text("#live-epoch-name")


@pytest.mark.parametrize("name", ["squares", "fast_weights", "plain", "own", "copy"])
@pytest.mark.parametrize("size", SIZES)
def test_each_task_is_in_view_and_can_be_done(
    name: str, size: str, opened: Open, live_runs: LiveRuns
) -> None:
    """The steps of the page, each with its task on the screen, and a result once it is done."""
    found = opened(live_runs.page(name), until=LIVE, reduced_motion="reduce", **SIZES[size])
    start_tour(found)
    can_force, epochs = found.page.evaluate(
        "[seqattn.explorer.canForce, seqattn.explorer.first.runs[0].epochs.length > 1]"
    )
    titles = list[str]()
    while True:
        settle(found)
        found.page.wait_for_timeout(50)
        titles.append(found.text("#live-tour-title").partition(": ")[2])
        count = found.text("#live-tour-title")
        assert count.startswith(f"Tour {len(titles)} of {3 + can_force + epochs}: ")
        words = found.text("#live-tour-panel")
        assert "You have changed" not in words and "dark cell" not in words
        if found.text("#live-tour-next") == "Finish":
            break
        task = found.page.locator("#live-tour-panel .task")
        box, place = task.bounding_box(), found.page.locator("#live-tour-panel").bounding_box()
        assert box is not None and place is not None and box["height"] > 10
        assert place["y"] <= box["y"]
        assert box["y"] + box["height"] <= found.page.evaluate("innerHeight")
        assert found.text("#live-tour-result") == "", "the task is not done yet"
        do_task(found, titles[-1])
        found.until("document.getElementById('live-tour-result').textContent !== ''")
        found.page.click("#live-tour-next")
    assert ("Forbid it" in titles) == can_force
    assert ("What was it before training?" in titles) == epochs


def do_task(found: Opened, title: str) -> None:
    """Do what a step of the tour asks for."""
    selector, key = {
        "Move a source point": (".source-point[tabindex='0']", "Shift+ArrowUp"),
        "Where does it look?": ("#live-step", "ArrowRight"),
        "Forbid it": ("#live-tour-action", "Enter"),
        "What was it before training?": ("#live-epoch", "Home"),
    }[title]
    found.page.focus(selector)
    found.page.keyboard.press(key)
    settle(found)


def test_forced_weights_are_not_called_a_look_of_the_model(
    shared: SharedPages, live_runs: LiveRuns
) -> None:
    found = shared(live_runs.page("squares"))
    go_to_step(found, 2)
    found.page.focus("#live-map svg")
    found.page.keyboard.press("ArrowDown")
    found.page.keyboard.press("Enter")
    settle(found)
    found.until("document.getElementById('live-tour-result').textContent.includes('forced')")
    assert "do not show where the model looks" in found.text("#live-tour-result")
    assert "not the model's choice" in found.text("#live-text")
    assert found.text("#live-weights-name") == "Weights of forecast point 4: forced by you"
    cell = found.page.locator(".cell[data-step='1'][data-column='0'] title")
    assert (cell.text_content() or "").startswith("forecast point 4: you forced its weight of")
    assert "forced weight 1.000" in (
        found.page.locator(".source-point").first.get_attribute("aria-valuetext") or ""
    )
    found.page.keyboard.press("Enter")
    settle(found)
    found.until(
        "document.getElementById('live-tour-result').textContent.includes('largest weight')"
    )


def test_a_model_without_attention_leads_to_one_with_it(opened: Open, live_runs: LiveRuns) -> None:
    found = opened(live_runs.page("plain", "squares"), until=LIVE)
    go_to_step(found, 2)
    assert found.text("#live-tour-action") == "Show squares instead"
    found.page.click("#live-tour-action")
    settle(found)
    assert found.page.evaluate(NAMES) == ["squares", "plain"]
    assert found.text("#live-tour-title") == "Tour 2 of 5: Where does it look?"
    assert "For each forecast point, the model looks at the source again" in found.text("#live-tour-panel")  # fmt: skip
    for _ in range(3):
        found.page.click("#live-tour-next")
        settle(found)
    assert found.text("#live-tour-title").endswith("Is the model without attention worse?")


def test_the_tour_of_a_model_without_attention_is_no_dead_end(
    opened: Open, live_runs: LiveRuns
) -> None:
    found = opened(live_runs.page("plain"), until=LIVE)
    go_to_step(found, 2)
    found.page.click("#live-tour-panel summary")
    assert "model.attention={score: scaled_dot}" in found.text("#live-tour-panel")
    found.page.click("#live-tour-next")
    assert found.text("#live-tour-title") == "Tour 3 of 4: What was it before training?"
    found.page.click("#live-tour-next")
    assert "it has no model with attention" in found.text("#live-tour-panel")
    assert found.page.is_visible("#live-tour-panel summary")
