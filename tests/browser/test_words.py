"""What a reader does on a live page of symbols: typing, choosing, forcing, undoing, sharing."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.experiments.api.run import Run
from tests.browser.conftest import LIVE, Open, Opened, SharedPages
from tests.browser.live_numbers import settle
from tests.browser.test_live_share import press_until, saved
from tests.browser.word_runs import HOSTILE, WordRuns, best_of, load_words, read, write

DATE = "june 7, 1999"
OUTPUT = (
    "Array.from(document.querySelectorAll('#live-output .symbol'), (e) => e.textContent).join('')"
)
SYMBOLS = "seqattn.explorer.scene.shown[0].answer.symbols"
STATE = """(() => {
  const {explorer} = seqattn, {force, ...state} = explorer.state;
  return {...state, force: force.list, maps: explorer.scene.shown[0].answer.maps};
})()"""
WIDTHS = {1440: 900, 1024: 768, 390: 844}


def type_source(found: Opened, text: str) -> None:
    found.page.fill("#live-source", text)
    found.until(
        f"seqattn.explorer.models[0].source.join(seqattn.explorer.state.source) === {text!r}"
    )
    settle(found)


def shown_text(found: Opened) -> str:
    text: str = found.page.evaluate("seqattn.explorer.scene.shown[0].text")
    return text


def test_a_typed_source_is_answered_and_unknown_symbols_are_marked(
    shared_in_both: SharedPages, word_runs: WordRuns
) -> None:
    found = shared_in_both(word_runs.page("dates"))
    run = Run.open(word_runs["dates"])
    type_source(found, DATE)
    text = run.predict(DATE)
    assert shown_text(found) == text
    assert found.page.evaluate(OUTPUT).removesuffix("end") == text
    assert found.page.locator(".symbol.unknown").count() == 0
    assert found.page.input_value("#live-example") == "16", "the source is the reader's own"
    type_source(found, "june \u00e9, 1999")
    assert found.page.locator(".symbol.unknown").all_inner_texts() == ["\u00e9"]
    assert "Not in the vocabulary: \u201c\u00e9\u201d" in found.text("#live-text")
    assert "more than a third" not in found.text("#live-text")
    type_source(found, "\u00e9\u00e9\u00e9 3 4")
    assert "more than a third of the source" in found.text("#live-text")
    type_source(found, "june \u00e9, 1999")
    with pytest.warns(match="1 symbol unknown"):
        assert shown_text(found) == run.predict("june \u00e9, 1999")
    # Without a symbol, there is nothing to answer: the last answer stays, and the page says why.
    before = shown_text(found)
    found.page.fill("#live-source", "")
    found.until("document.getElementById('live-error').textContent !== ''")
    assert "The source is empty." in found.text("#live-error")
    assert shown_text(found) == before
    type_source(found, DATE)
    assert found.text("#live-error") == ""


def test_the_last_typed_letters_count_when_the_field_is_left(
    shared: SharedPages, word_runs: WordRuns
) -> None:
    """A reader types and moves on before the page has read the field."""
    found = shared(word_runs.page("dates"))
    found.page.evaluate("""() => {
      const field = document.getElementById("live-source");
      field.focus();
      field.value = "may 3, 2001";
      field.dispatchEvent(new Event("input"));
      field.dispatchEvent(new Event("change"));
      field.blur();
      document.getElementById("live-beam").value = "1";
      document.getElementById("live-beam").dispatchEvent(new Event("change"));
    }""")
    found.page.wait_for_timeout(300)
    settle(found)
    assert found.page.input_value("#live-source") == "may 3, 2001"
    assert found.page.evaluate("seqattn.explorer.state.source.join('')") == "may 3, 2001"
    assert found.page.evaluate("seqattn.explorer.state.beam") == 2


def test_a_chosen_symbol_is_followed_by_what_the_model_makes_of_it(
    shared_in_both: SharedPages, word_runs: WordRuns
) -> None:
    found = shared_in_both(word_runs.page("dates"))
    trained = load_words(word_runs["dates"])
    type_source(found, DATE)
    own = found.page.evaluate(SYMBOLS)
    found.page.locator("#live-output .symbol").nth(2).click()
    other = found.page.locator(".alternative[aria-pressed=false]").first
    chosen = int(other.get_attribute("data-symbol") or "")
    written = write(trained, DATE)
    order = np.argsort(-written.logits[2, 2:]) + 2
    assert [own[2], chosen] == [int(order[0]), int(order[1])]
    found.page.wait_for_timeout(700)  # a change of its own for undo
    other.click()
    settle(found)
    symbols = found.page.evaluate(SYMBOLS)
    assert symbols[:3] == [*own[:2], chosen]
    continued = read(trained, DATE, symbols)
    assert best_of(continued.logits)[3:] == symbols[3:]
    marked = found.page.locator("#live-output .symbol.given")
    assert marked.count() == 1, "only what differs from the model's own choice"
    assert "You chose this symbol." in found.text("#live-text")
    text = found.page.evaluate("seqattn.explorer.scene.shown[0].ownText")
    assert f"Left alone, the model writes \u201c{text}\u201d." in found.text("#live-text")
    assert "without the symbols that you chose" in found.text("#live-share")

    found.page.locator("#live-step").focus()
    for key, wanted in (
        ("Control+z", own),
        ("Control+Shift+z", symbols),
        ("Control+z", own),
        ("Control+y", symbols),
    ):
        found.page.keyboard.press(key)
        settle(found)
        assert found.page.evaluate(SYMBOLS) == wanted
    found.page.click("#live-own-symbols")
    settle(found)
    assert found.page.evaluate(SYMBOLS) == own


def test_a_beam_shows_its_outputs_and_one_can_be_chosen(
    shared: SharedPages, word_runs: WordRuns
) -> None:
    found = shared(word_runs.page("dates"))
    type_source(found, DATE)
    found.page.select_option("#live-beam", label="beam of 5")
    settle(found)
    outputs = Run.open(word_runs["dates"]).translate(DATE, beam=5, n_best=5)
    lines = found.page.locator("#live-hypotheses button").all_inner_texts()
    assert lines == [
        f"{one.text} ({one.score:.3f})".replace("(-", "(\N{MINUS SIGN}") for one in outputs
    ]
    found.page.locator("#live-hypotheses button").nth(2).click()
    settle(found)
    assert shown_text(found) == outputs[2].text


def test_the_lines_and_all_heads_show_the_weights(
    shared_in_both: SharedPages, word_runs: WordRuns
) -> None:
    found = shared_in_both(word_runs.page("transformer"))
    found.page.click("#live-show-lines")
    labels = found.page.locator("#live-lines .line-symbol text").all_text_contents()
    source = found.page.evaluate("seqattn.explorer.state.source")
    assert labels[: len(source)] == source
    assert labels[len(source) :] == [*found.page.evaluate("seqattn.explorer.scene.shown[0].symbols.map((s) => s === '<end>' ? 'end' : s)")]  # fmt: skip
    found.page.locator("#live-lines .line-symbol").nth(len(source) + 1).click()
    assert found.page.evaluate("seqattn.explorer.state.step") == 1
    found.page.locator("#live-lines .line-symbol").nth(1).click()
    settle(found)
    forced = found.page.evaluate("seqattn.explorer.state.force.list")
    wanted = [float(k == 1) for k in range(len(source))]
    assert forced == [{"step": 2, "layer": 0, "head": 0, "weights": wanted}]
    found.page.click("#live-show-heads")
    names = found.page.locator(".head-picture span").all_inner_texts()
    assert names == [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2)]
    found.page.locator(".head-picture").nth(3).click()
    settle(found)
    assert found.page.evaluate("[seqattn.explorer.state.layer, seqattn.explorer.state.head]") == [
        1,
        1,
    ]
    assert found.page.is_visible("#live-map svg")


def use_all(found: Opened) -> None:
    """Type, choose, force, search, and show another picture, head and epoch."""
    type_source(found, "3 1 9 4 1")
    found.page.select_option("#live-beam", label="beam of 2")
    found.page.select_option("#live-layer", label="2")
    found.page.locator("#live-output .symbol").nth(1).click()
    found.page.locator(".alternative[aria-pressed=false]").first.click()
    settle(found)
    found.page.click("#live-uniform")
    found.page.select_option("#live-colours", "largest")
    found.page.focus("#live-epoch")
    found.page.keyboard.press("Home")
    found.page.click("#live-show-lines")
    settle(found)


def test_a_link_restores_the_page_of_symbols(
    shared_in_both: SharedPages, opened_in_both: Open, word_runs: WordRuns
) -> None:
    page = word_runs.page("transformer")
    found = shared_in_both(page)
    use_all(found)
    found.page.click("#live-copy")
    found.until("document.getElementById('live-share-note').textContent !== ''")
    other = opened_in_both(page, until=LIVE, fragment="#" + found.page.url.partition("#")[2])
    assert other.page.evaluate(STATE) == found.page.evaluate(STATE)
    for place in ("#live-text", "#live-output", "#live-source-symbols", "#live-command"):
        assert other.text(place) == found.text(place)
    assert other.page.input_value("#live-source") == "3 1 9 4 1"
    assert other.page.is_visible("#live-lines svg")
    assert other.page.locator(".symbol.unknown").all_inner_texts() == ["9"]


@pytest.mark.parametrize("picture", ["heatmap", "lines"])
def test_the_saved_picture_has_the_symbols(
    picture: str, shared_in_both: SharedPages, word_runs: WordRuns, tmp_path: Path
) -> None:
    found = shared_in_both(word_runs.page("dates"))
    type_source(found, DATE)
    found.page.click(f"#live-show-{picture}")
    root = ET.fromstring(saved(found, "#live-save-svg", tmp_path).read_text())
    words = [each.text for each in root.iter() if each.tag.endswith("}text")]
    for symbol in {*DATE.replace(" ", "\u2423")} | {*shown_text(found)} | {"end"}:
        assert symbol in words
    assert shown_text(found) in "".join(root.itertext())
    assert saved(found, "#live-save-png", tmp_path).read_bytes().startswith(b"\x89PNG")


def test_a_test_sequence_replaces_a_typed_source(shared: SharedPages, word_runs: WordRuns) -> None:
    found = shared(word_runs.page("dates"))
    first = found.page.input_value("#live-source")
    for is_reset in (False, True):
        type_source(found, "1967")
        assert found.page.evaluate("seqattn.explorer.state.example") is None
        if is_reset:
            found.page.click("#live-reset")
        else:
            found.page.select_option("#live-example", index=0)
        settle(found)
        assert found.page.evaluate("seqattn.explorer.state.example") == 0
        assert found.page.input_value("#live-source") == first


def test_the_words_about_the_cell_below_the_pointer_follow_a_click(
    shared: SharedPages, word_runs: WordRuns
) -> None:
    found = shared(word_runs.page("dates"))
    cell = found.page.locator("#live-map .cell[data-step='2'][data-column='1']")
    cell.scroll_into_view_if_needed()
    before = cell.bounding_box()
    cell.hover()
    assert "attends to source symbol 2" in found.text("#live-map .cell-text")
    cell.click()
    settle(found)
    assert cell.bounding_box() == before, "a second click must hit the same cell"
    assert "you forced its weight of source symbol 2" in found.text("#live-map .cell-text")
    cell.click()
    settle(found)
    assert found.page.evaluate("seqattn.explorer.state.force.list") == []


def run_command(command: str, folder: Path, run: str) -> str:
    """Run a command of the page, whose run lies elsewhere, in a shell, and return what it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command.replace(" RUN", f" {run}")], cwd=folder, env={**os.environ, "PATH": path}, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_the_command_prints_the_output_of_the_page(
    shared: SharedPages, word_runs: WordRuns
) -> None:
    found = shared(word_runs.page("dates"))
    type_source(found, DATE)
    greedy = shown_text(found)
    found.page.select_option("#live-beam", label="beam of 2")
    found.page.focus("#live-epoch")
    found.page.keyboard.press("Home")
    settle(found)
    command = found.text("#live-command")
    assert command == f"printf '%s\\n' '{DATE}' | seqattn predict RUN --beam 2 --epoch 0"
    assert run_command(command, word_runs.home, "dates") == shown_text(found) + "\n"
    assert shown_text(found) != greedy


def test_a_cell_is_forced_from_the_keyboard_alone(
    shared_in_both: SharedPages, word_runs: WordRuns
) -> None:
    found = shared_in_both(word_runs.page("transformer"))
    page = found.page
    press_until(page, "#live-source")
    page.keyboard.press("Control+a")
    page.keyboard.type("2 7 1 8")
    found.until("seqattn.explorer.state.source.join(' ') === '2 7 1 8'")
    settle(found)
    press_until(page, "#live-map svg")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    settle(found)
    assert page.evaluate("seqattn.explorer.state.force.list") == [
        {"step": 2, "layer": 0, "head": 0, "weights": [0, 0, 1, 0]}
    ]
    assert "you changed its weights" in found.text("#live-text")
    page.keyboard.press("Control+z")
    settle(found)
    assert page.evaluate("seqattn.explorer.state.force.list") == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["dates", "transformer", "hostile"])
def test_no_page_of_symbols_is_wider_than_its_window(
    name: str, dark: bool, shared_in_both: SharedPages, word_runs: WordRuns
) -> None:
    for width, height in WIDTHS.items():
        found = shared_in_both(
            word_runs.page(name), viewport={"width": width, "height": height}, dark=dark
        )
        parts = "#summary table, #doctor table, #config table"
        cut = f"[...document.querySelectorAll('{parts}')].filter((e) => e.scrollWidth > e.clientWidth)"
        fits = f"document.documentElement.scrollWidth <= {width} && {cut}.length === 0"
        found.page.select_option("#live-beam", label="beam of 5")
        found.page.evaluate("document.getElementById('live-arithmetic').open = true")
        settle(found)
        for picture in ("heatmap", "lines", "heads"):
            if found.page.is_visible(f"#live-show-{picture}"):
                found.page.click(f"#live-show-{picture}")
                found.until(fits)
                outside = found.page.evaluate(
                    "() => [...document.querySelectorAll('#live-body svg, #live-body button')]"
                    ".filter((e) => e.checkVisibility() && !e.closest('table, #live-mechanism-picture, #live-map')).filter((e) => e.getBoundingClientRect().right > innerWidth)"
                    ".map((e) => e.outerHTML.slice(0, 80))"
                )
                assert outside == []


def test_hostile_symbols_stay_text(
    shared_in_both: SharedPages, word_runs: WordRuns, tmp_path: Path
) -> None:
    found = shared_in_both(word_runs.page("hostile"))
    page = found.page
    title = page.title()
    text = " ".join([*HOSTILE, "<script>document.title='gone'</script>"])
    page.fill("#live-source", text)
    found.until("seqattn.explorer.state.isChanged")
    settle(found)
    chips: list[Any] = page.locator("#live-source-symbols .symbol").all_text_contents()
    assert chips == [*HOSTILE, "<script>document.title='gone'</script>"]
    assert page.locator(".symbol.unknown").count() == 1
    for picture in ("heatmap", "lines"):
        page.click(f"#live-show-{picture}")
        file = saved(found, "#live-save-svg", tmp_path)
        root = ET.fromstring(file.read_text())
        assert not [e for e in root.iter() if e.tag.rpartition("}")[2] in ("script", "img", "a")]
    assert page.locator("img, #live script").count() == 0
    assert page.title() == title
    # Nothing of the command is run by the shell, and its output is that of the page.
    assert (
        run_command(found.text("#live-command"), word_runs.home, "hostile")
        == shown_text(found) + "\n"
    )
    assert not [*word_runs.home.glob("*gone*")]


TOUR = "document.querySelector('#live-tour-title').textContent"
DONE = "document.querySelector('#live-tour-next.ready') !== null"


def next_step(found: Opened, title: str) -> None:
    """Go to the next step of the tour, which is not done yet."""
    found.page.click("#live-tour-next")
    settle(found)
    assert title in found.page.evaluate(TOUR)
    assert not found.page.evaluate(DONE)


def test_the_tour_of_a_page_of_words(opened: Open, word_runs: WordRuns) -> None:
    found = opened(word_runs.page("dates"), until=LIVE)
    found.page.click("#live-tour-open")
    settle(found)
    assert found.page.evaluate(TOUR) == "Tour 1 of 5: Type a source"
    assert not found.page.evaluate(DONE)
    type_source(found, DATE)
    assert found.page.evaluate(DONE)
    assert shown_text(found) in found.text("#live-tour-result")
    next_step(found, "Read a row")
    found.page.click("#live-output .symbol:nth-child(4)")
    settle(found)
    row = found.page.evaluate("seqattn.explorer.scene.shown[0].answer.weights[0][0][3]")
    most = int(np.argmax(row))
    assert f"source symbol {most + 1}" in found.text("#live-tour-result")
    assert f"with the weight {row[most]:.2f}" in found.text("#live-tour-result")
    next_step(found, "Choose another symbol")
    found.page.click(".alternative:not([aria-pressed=true])")
    settle(found)
    assert "Left alone, it writes" in found.text("#live-tour-result")
    next_step(found, "Take the look away")
    assert found.page.evaluate("seqattn.explorer.state.given") == []
    found.page.click("#live-knock-head")
    settle(found)
    assert found.page.evaluate(DONE)
    next_step(found, "A heatmap is not an alignment")
    assert found.page.evaluate("seqattn.explorer.state.force.size") == 0
    found.page.click("#live-after")
    settle(found)
    assert found.page.evaluate(DONE)
    found.page.click("#live-tour-next")
    assert found.page.locator("#live-tour-panel").is_hidden()
    assert found.page.locator(".tour-place").count() == 0


def test_the_tour_has_only_steps_that_the_page_can_do(opened: Open, word_runs: WordRuns) -> None:
    for name, steps in (("fast_weights", 3), ("hostile", 4)):
        found = opened(word_runs.page(name), until=LIVE)
        found.page.click("#live-tour-open")
        settle(found)
        assert found.page.evaluate(TOUR) == f"Tour 1 of {steps}: Type a source", name
