"""All controls of the live page, for each kind of model: the page has the numbers of Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.report import report
from tests.browser.conftest import Open, Opened, SharedPages
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
from tests.browser.live_runs import IN_FEW, LIVE_RUNS, LiveRuns, models_of_page, page_content

PAGES = {
    "squares": ["squares", "variable", "heads", "lstm", "fast_weights", "transformer", "sparsemax",
                "hard", "plain"],
    "copy": ["copy"],
    "one_feature": ["one_feature"],
    "tables": ["own", "relative", "dates"],
}  # fmt: skip
"""Page -> its models. A page has all models with the same features."""
CANNOT_FORCE = "fast_weights", "plain"
ALWAYS = ["drag", "touch", "arrow key", "value", "add", "remove", "blank", "sequence", "link"]
FORCING = ["cell", "bar", "uniform", "shuffle", "head", "layer"]
EPOCHS = ["first epoch", "last epoch"]


def drag(found: Opened, selector: str, dx: float, dy: float, index: int = 0) -> None:
    """Drag an element with the mouse."""
    element = found.page.locator(selector).nth(index)
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    found.page.mouse.move(x, y)
    found.page.mouse.down()
    for k in (1, 2, 3):
        found.page.mouse.move(x + dx * k / 3, y + dy * k / 3)
    found.page.mouse.up()


def touch(found: Opened, selector: str, dx: float, dy: float) -> None:
    """Drag an element with a finger; in Firefox, with the events of a finger."""
    element = found.page.locator(selector).first
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    places = [(x + dx * k / 3, y + dy * k / 3) for k in (0, 1, 2, 3)]
    browser = found.page.context.browser
    assert browser is not None
    if browser.browser_type.name == "chromium":
        session = found.page.context.new_cdp_session(found.page)
        for k, (left, top) in enumerate(places):
            kind = "touchMove" if k else "touchStart"
            points = [{"x": left, "y": top}]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        session.detach()
        return
    found.page.evaluate(
        """([selector, places]) => {
          const send = (target, kind, [clientX, clientY]) => target.dispatchEvent(new PointerEvent(kind, {
            clientX, clientY, pointerType: "touch", isPrimary: true, bubbles: true, cancelable: true}));
          send(document.querySelector(selector), "pointerdown", places[0]);
          for (const place of places.slice(1)) send(window, "pointermove", place);
          send(window, "pointerup", places.at(-1));
        }""",
        [selector, places],
    )


def change_source(found: Opened, runs: dict[str, Path]) -> Iterator[str]:
    """Change the source with every control, and yield the name of each control."""
    page, before = found.page, check_shown(found, runs)
    for name, move in (("drag", drag), ("touch", touch)):
        move(found, ".source-point", -9, 12)
        after = check_shown(found, runs)
        # Another point may cover the first one.
        pairs = zip(after["source"], before["source"], strict=True)
        assert [new != old for new, old in pairs].count(True) == 1
        before = after
        yield name
    page.locator(".source-point").first.press("Shift+ArrowUp")
    assert check_shown(found, runs)["source"] != before["source"]
    yield "arrow key"
    value = round(1.1 * before["source"][0][0] + 0.3, 3)
    field = page.locator("#live-values input").first
    field.press("Control+A")
    field.press_sequentially(str(value))
    after = check_shown(found, runs)
    assert after["source"][after["point"]][0] == value
    yield "value"
    for name, count in (("add", len(before["source"]) + 1), ("remove", len(before["source"]))):
        page.click(f"#live-{name}")
        assert len(check_shown(found, runs)["source"]) == count
        yield name
    page.click("#live-blank")
    assert check_shown(found, runs)["source"] != before["source"]
    yield "blank"
    page.click("#live-after")
    assert page.input_value("#live-example") == "0"
    check_shown(found, runs)
    yield "sequence"


def change_weights(found: Opened, runs: dict[str, Path]) -> Iterator[str]:
    """Change the weights with every control, and yield the name of each control."""
    page, own = found.page, check_shown(found, runs)
    layers, heads, T, S = np.array(own["weights"]).shape
    page.locator(f"#live-map .cell[data-step='{T - 1}'][data-column='0']").first.click()
    (row,) = check_shown(found, runs)["forced"]
    assert row == {"step": T, "layer": 0, "head": 0, "weights": [1] + [0] * (S - 1)}
    yield "cell"
    page.click("#live-own")
    assert check_shown(found, runs)["answers"] == own["answers"]
    page.locator(".bar-handle").nth(1).press("ArrowUp")
    drag(found, ".bar-handle", 0, -20, 1)
    (row,) = check_shown(found, runs)["forced"]
    assert sum(row["weights"]) == pytest.approx(1, abs=1e-9)
    assert row["weights"][1] > own["weights"][0][0][T - 1][1]
    yield "bar"
    page.click("#live-uniform")
    (row,) = check_shown(found, runs)["forced"]
    assert np.allclose(row["weights"], 1 / S)
    yield "uniform"
    page.click("#live-own-all")
    page.click("#live-shuffle")
    (row,) = check_shown(found, runs)["forced"]
    assert np.allclose(sorted(row["weights"]), sorted(own["weights"][0][0][T - 1]))
    yield "shuffle"
    page.click("#live-knock-head")
    out = np.array(check_shown(found, runs)["weights"])
    assert not out[0, 0].any()
    assert heads == 1 or out[0, 1].any()
    assert "all are 0 and do not add up to 1" in found.text("#live-text")
    yield "head"
    if layers > 1 or heads > 1:
        page.click("#live-knock-layer")
        out = np.array(check_shown(found, runs)["weights"])
        assert not out[0].any()
        assert layers == 1 or out[1].any()
        yield "layer"
    page.click("#live-own-all")
    assert check_shown(found, runs)["answers"] == own["answers"]


def change_epoch(found: Opened, runs: dict[str, Path]) -> Iterator[str]:
    """Choose the first and the last epoch."""
    slider = found.page.locator("#live-epoch")
    answers = []
    for key, name in (("Home", "first epoch"), ("End", "last epoch")):
        slider.press(key)
        answers.append(check_shown(found, runs))
        yield name
    assert [answer["epoch"] for answer in answers] == [0, 3]
    assert answers[0]["forecast"] != answers[1]["forecast"]


def follow_link(found: Opened, runs: dict[str, Path]) -> Iterator[str]:
    """Restore a changed source, and forced weights, from a link."""
    drag(found, ".source-point", 9, -12)
    if found.page.is_visible("#live-uniform"):
        found.page.click("#live-uniform")
    before = check_shown(found, runs)
    fragment = found.page.evaluate("seqattn.explorer.fragment")
    found.page.click("#live-blank")
    settle(found)
    assert shown(found)["source"] != before["source"]
    found.page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
    found.until("seqattn.explorer.scene.state.isChanged && seqattn.explorer.state.example !== null")
    after = check_shown(found, runs)
    assert after == before
    yield "link"


def answer_sources(found: Opened, runs: dict[str, Path], name: str) -> None:
    """Call the function for scripts with sources of several lengths, and with forced weights."""
    trained = load_model(runs[name])
    for source in sources(trained):
        own = ask_page(found, source, run=name)
        assert_same(own, ask_python(trained, source))
    if name in CANNOT_FORCE:
        return
    layers, heads, T, S = np.array(own["weights"]).shape
    weights = ((np.arange(S) + 1) / (S * (S + 1) / 2)).tolist()
    nested: list[Any] = [[[None] * T for _ in range(heads)] for _ in range(layers)]
    nested[-1][-1][T - 1] = weights
    rows = [{"step": T, "layer": layers - 1, "head": heads - 1, "weights": weights}]
    answer = ask_page(found, source, run=name, force=nested)
    assert np.allclose(answer["weights"][-1][-1][T - 1], weights)
    assert answer == ask_page(found, source, run=name, force={"rows": rows})
    assert ask_page(found, source, run=name, force=[None] * layers)["forecast"] == own["forecast"]


def open_model(shared: SharedPages, runs: LiveRuns, name: str) -> Opened:
    """Return a page that shows a model."""
    names = models_of_page(name, PAGES.values(), IN_FEW)
    found = shared(runs.page(*names))
    if len(names) > 1:
        found.page.select_option("#live-other", label="none")
        found.page.select_option("#live-run", label=name)
        settle(found)
    return found


@pytest.mark.parametrize("name", LIVE_RUNS)
def test_every_control_gives_the_numbers_of_python(
    name: str, shared_in_both: SharedPages, live_runs: LiveRuns
) -> None:
    found = open_model(shared_in_both, live_runs, name)
    used, expected = [*change_source(found, live_runs)], [*ALWAYS]
    assert found.page.is_visible("#live-uniform") == (name not in CANNOT_FORCE)
    if name not in CANNOT_FORCE:
        used += change_weights(found, live_runs)
        expected += FORCING if name in ("heads", "transformer") else FORCING[:-1]
    if "training.record_attention=1" in LIVE_RUNS[name]:
        used += change_epoch(found, live_runs)
        expected += EPOCHS
    used += follow_link(found, live_runs)
    assert sorted(used) == sorted(expected)
    answer_sources(found, live_runs, name)


@pytest.mark.parametrize("page", ["squares", "tables"])
def test_models_answer_the_same_dragged_input(
    page: str, shared_in_both: SharedPages, live_runs: LiveRuns
) -> None:
    names = models_of_page(PAGES[page][0], PAGES.values(), IN_FEW)
    found = shared_in_both(live_runs.page(*names))
    for first, second in zip(names, [*names[1:], names[0]], strict=True):
        found.page.select_option("#live-run", label=first)
        found.page.select_option("#live-other", label=second)
        settle(found)
        drag(found, ".source-point", 5, 7)
        if found.page.is_visible("#live-uniform"):
            found.page.click("#live-uniform")
        state = check_shown(found, live_runs)
        assert [answer["name"] for answer in state["answers"]] == [first, second]


def test_live_combinations_and_the_others_are_counted(
    opened_in_both: Open, live_runs: LiveRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`PAGES` has the live combinations. The pages of the other ones give a reason."""
    contents = [page_content(live_runs.page(*names)) for names in PAGES.values()]
    live = [run["name"] for content in contents
            for model in content["live"]["models"] for run in model["runs"]]  # fmt: skip
    assert sorted(live) == sorted(LIVE_RUNS)
    reasons = {"filled": "leave out the cells that data.missing: interpolate filled",
               "plain": "its parameters take more than 0 MB"}  # fmt: skip
    pages = {"filled": report(live_runs["filled"], tmp_path / "filled.html")}
    monkeypatch.setattr("seqattn.report.content.live.MAX_PARAMETER_BYTES", 1000)
    pages["plain"] = report(live_runs["plain"], tmp_path / "large.html")
    for name, page in pages.items():
        found = opened_in_both(page)
        notice = found.text(".notice")
        assert notice.startswith(f"The model of {name} is not in this page")
        assert reasons[name] in notice
        assert found.page.locator("#live").count() == 0
        assert found.page.is_visible("#explorer")
    forcible = set(live) - set(CANNOT_FORCE)
    assert (len(live), len(forcible), len(pages)) == (14, 12, 2)
