"""Runs side by side on a live page: changes during an answer, and what belongs to each model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.conftest import LIVE, Open, Opened, SharedPages, shared_folder
from tests.browser.live_numbers import settle, start_tour
from tests.browser.live_runs import SMALL, LiveRuns

MODELS = {
    "transformer": [*SMALL, "model.kind=transformer", "model.model_dim=8", "model.heads=2",
                    "training.teacher_forcing.probability=1"],
    "squares": SMALL,
    "fast_weights": [*SMALL, "model.kind=fast_weights", "training.record_attention=null"],
}  # fmt: skip


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three kinds of models side by side; one has no recorded epochs."""
    return LiveRuns(shared_folder(tmp_path_factory, "three"), MODELS).page(*MODELS)


def do(found: Opened, script: str) -> Any:
    """Run a script on the explorer `e`, and wait for its answer."""
    result = found.page.evaluate(f"() => {{ const e = window.seqattn.explorer; {script} }}")
    settle(found)
    return result


def choose_first(found: Opened, name: str, other: str = "none") -> None:
    found.page.locator("#live-other").select_option(label=other)
    found.page.locator("#live-run").select_option(label=name)
    settle(found)


def test_weights_are_forced_when_a_longer_source_is_answered(
    shared: SharedPages, three: Path
) -> None:
    found = shared(three)
    choose_first(found, "squares")
    do(found, "e.addPoint(); e.forceUniform();")
    (row,) = do(found, "return e.state.force.list;")
    assert np.allclose(row["weights"], [1 / 3] * 3)
    assert found.text("#live-error") == ""
    assert do(found, "return e.scene.shown[0].answer.weights[0][0][0].length;") == 3
    # A cell of the old picture names no point of the new source.
    do(found, "e.freeAll();")
    do(found, "e.addPoint(); e.forceCell(1, 2);")
    assert do(found, "return e.state.force.list;") == []
    do(found, "e.freeAll(); e.chooseExample(3); e.forceCell(1, 2);")
    assert do(found, "return e.state.force.list;") == []
    assert found.text("#live-error") == ""


def test_two_changes_of_weights_in_flight_both_count(shared: SharedPages, three: Path) -> None:
    found = shared(three)
    choose_first(found, "squares")
    do(found, "e.chooseExample(2); e.forceUniform(); e.chooseStep(1); e.forceUniform();")
    forced = do(found, "return e.state.force.list;")
    assert [row["step"] for row in forced] == [1, 2]
    assert np.allclose([row["weights"] for row in forced], 0.5)


def test_an_answer_that_is_no_number_is_a_sentence(opened: Open, three: Path) -> None:
    found = opened(three, until=LIVE)
    before = do(found, "return e.scene.shown[0].answer.forecast;")
    do(found, "for (const each of e.models) each.frames.forEach((f) => { const r = f.row;"
              " f.row = (...a) => r(...a).fill(3e38); }); void e.update();")  # fmt: skip
    assert "The model gives no number for this source" in found.text("#live-error")
    assert do(found, "return e.scene.shown[0].answer.forecast;") == before


def test_the_kind_of_attention_follows_the_model(shared: SharedPages, three: Path) -> None:
    found = shared(three)
    choose_first(found, "transformer")
    do(found, "e.addPoint(); e.addPoint(); e.addPoint();")
    do(found, "e.change((s) => { s.kind = 'encoder_self'; s.step = 4; });")
    assert do(found, "return e.scene.state.step;") == 4
    found.page.locator("#live-run").select_option(label="squares")
    settle(found)
    shown = do(found, "return {kind: e.scene.state.kind, step: e.scene.state.step};")
    assert shown == {"kind": "cross", "step": 1}
    assert "Forecast: " in found.text("#live-text")
    assert found.page.locator("#live-map svg:visible").count() == 1


def test_the_page_names_the_epoch_of_each_model(shared: SharedPages, three: Path) -> None:
    found = shared(three)
    choose_first(found, "squares", "fast_weights")
    found.slide("#live-epoch", 0)
    settle(found)
    assert re.fullmatch(
        r"fast_weights is shown after epoch \d, which had its lowest validation loss; the page has no"
        r" other epoch of it\.",
        found.text("#live-epoch-note"),
    )
    found.page.locator("#live-other").select_option(label="transformer")
    settle(found)
    assert "transformer is shown after epoch" in found.text("#live-epoch-note")
    found.slide("#live-epoch", 1)
    settle(found)
    assert not found.page.is_visible("#live-epoch-note")


def test_intermediate_results_are_computed_only_where_they_are_shown(
    shared: SharedPages, three: Path
) -> None:
    found = shared(three)
    traced = "return e.scene.shown.map(({answer}) => Object.keys(answer.trace).length > 0);"
    found.page.click("#live-mechanism summary")
    do(found, "e.chooseExample(0);")
    assert do(found, traced) == [False, False, False]
    found.page.click("#live-arithmetic summary")
    found.until("document.querySelectorAll('#live-arithmetic-stages table').length > 2")
    assert do(found, traced) == [True, False, False]
    do(found, "e.forceUniform();")
    assert do(found, traced) == [True, False, False]
    found.page.click("#live-arithmetic summary")
    found.until("!document.getElementById('live-arithmetic').open")
    do(found, "e.chooseExample(1);")
    assert do(found, traced) == [False, False, False]
    trace = found.page.evaluate("async () => Object.keys((await seqattn.run([[1, 0], [0, 1]])).trace)")  # fmt: skip
    assert "keys" in trace
    found.page.click("#live-mechanism summary")
    found.until("window.seqattn.explorer.scene.hasTrace")


CHANGE = """async ([before, after, model]) => {
  const one = (await seqattn.run(before, {run: model})).forecast;
  const other = (await seqattn.run(after, {run: model})).forecast;
  return Math.max(...one.flatMap((row, t) => row.map((x, g) => Math.abs(x - other[t][g])))).toPrecision(2);
}"""


def test_the_tour_compares_with_the_chosen_sequence_and_model(
    shared: SharedPages, three: Path
) -> None:
    found = shared(three)
    choose_first(found, "squares")
    start_tour(found)
    settle(found)
    do(found, "e.chooseExample(5);")
    before = do(found, "return structuredClone(e.state.source);")
    found.page.wait_for_timeout(200)
    assert found.text("#live-tour-result") == ""
    do(found, "e.movePoint(0, {0: 0.3});")
    after = do(found, "return e.state.source;")
    for name in ("squares", "transformer"):
        choose_first(found, name)
        words = f"moved by up to {found.page.evaluate(CHANGE, [before, after, name])}."
        found.until(f"document.getElementById('live-tour-result').textContent.includes('{words}')")


ERROR = """async () => {
  const e = seqattn.explorer;
  const {forecast} = await seqattn.run(e.state.source, {run: "squares"});
  const all = forecast.flatMap((row, t) => row.map((x, g) => ((x - e.state.truth[t][g]) / e.first.loss_scale[g]) ** 2));
  return (all.reduce((a, b) => a + b) / all.length).toPrecision(2);
}"""


def test_no_two_elements_have_one_id(shared: SharedPages, three: Path) -> None:
    found = shared(three)
    found.page.click("#live-arithmetic summary")
    found.until("document.querySelectorAll('#live-arithmetic-stages table').length > 2")
    ids = found.page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert sorted(ids) == sorted(set(ids))
