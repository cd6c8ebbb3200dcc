"""The numbers of a live page of symbols, compared with those of Python for the same source."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from seqattn.analysis.explanation import Explanation, explain
from seqattn.experiments.api.run import Run
from tests.browser.conftest import Opened, SharedPages
from tests.browser.live_numbers import TOLERANCE, settle
from tests.browser.live_runs import models_of_page
from tests.browser.test_arithmetic import MAX_POINTS, READ
from tests.browser.word_runs import TOGETHER, Expected, WordRuns, best_of, load_words, read, write

IN_FEW = {"heads", "transformer"}
"""See `live_runs.IN_FEW`."""
SOURCES = ["3 1 4 1 5", "8 7 2", "6 6 6 6 6 6 6 6 6"]
"""Sources of several lengths, of which one is longer than those of the training."""


def open_words(shared: SharedPages, runs: WordRuns, name: str) -> Opened:
    """Return the page with all mechanisms."""
    return shared(runs.page(*models_of_page(name, [TOGETHER], IN_FEW)))


def ask_page(
    found: Opened, text: str, search: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    answer: dict[str, Any] = found.page.evaluate(
        "([text, search, options]) => window.seqattn.answer(text, search, options)",
        [text, search or {}, options],
    )
    return answer


def assert_same(answer: dict[str, Any], wanted: Expected) -> None:
    assert answer["symbols"] == wanted.symbols
    logits = np.array(answer["logits"])
    assert np.abs(logits - wanted.logits)[:, 2:].max() <= TOLERANCE
    assert {*answer["maps"]} == {*wanted.maps}
    for kind, maps in wanted.maps.items():
        assert np.abs(np.array(answer["maps"][kind]) - maps).max() <= TOLERANCE, kind


@pytest.mark.filterwarnings("ignore::seqattn.experiments.api.arguments.DataNote")
@pytest.mark.parametrize("name", TOGETHER)
def test_each_mechanism_answers_as_in_python(
    name: str, shared: SharedPages, word_runs: WordRuns
) -> None:
    found = open_words(shared, word_runs, name)
    run = Run.open(word_runs[name])
    target = run.trained.spec.target
    for text in SOURCES:
        answer = ask_page(found, text, run=name)
        wanted = write(run.trained, text)
        assert_same(answer, wanted)
        (output,) = run.translate(text)
        assert target.text(np.array(answer["symbols"])) == output.text

        beam = run.translate(text, beam=5, n_best=5)
        answer = ask_page(found, text, {"beam": 5}, run=name)
        assert len(answer["hypotheses"]) == 5
        for one, output in zip(answer["hypotheses"], beam, strict=True):
            assert target.text(np.array(one["symbols"])) == output.text
            assert one["score"] == pytest.approx(output.score, abs=TOLERANCE)
        assert answer["symbols"] == answer["hypotheses"][0]["symbols"]
        assert_same(answer, read(run.trained, text, answer["symbols"]))

    # Symbols that the reader chooses: the least probable one, then what the model makes of it.
    first = int(write(run.trained, SOURCES[0]).logits[0, 4:].argmin()) + 4
    answer = ask_page(found, SOURCES[0], {"given": [first]}, run=name)
    assert answer["symbols"][0] == first
    wanted = read(run.trained, SOURCES[0], answer["symbols"])
    assert_same(answer, wanted)
    assert best_of(wanted.logits)[1:] == answer["symbols"][1:]

    # Another epoch.
    answer = ask_page(found, SOURCES[0], run=name, epoch=0)
    assert_same(answer, write(load_words(word_runs[name], 0), SOURCES[0]))
    assert np.abs(np.array(answer["logits"])[0] - write(run.trained, SOURCES[0]).logits[0]).max() > 0.01  # fmt: skip


@pytest.mark.parametrize("name", [name for name in TOGETHER if name != "fast_weights"])
def test_forced_weights_give_the_output_of_python(
    name: str, shared: SharedPages, word_runs: WordRuns
) -> None:
    found = open_words(shared, word_runs, name)
    trained = load_words(word_runs[name])
    layers, heads = trained.model.attention_shape()
    rows = [
        {"step": step, "layer": layer, "head": head, "weights": weights}
        for layer in range(layers) for head in range(heads)
        for step, weights in ((1, [0, 0, 1, 0, 0]), (2, [0.1, 0.2, 0.3, 0.25, 0.15]))
    ]  # fmt: skip
    answer = ask_page(found, SOURCES[0], run=name, force={"rows": rows})
    assert_same(answer, write(trained, SOURCES[0], rows))
    assert np.allclose(np.array(answer["maps"]["cross"])[..., 0, :], [0, 0, 1, 0, 0])
    free = write(trained, SOURCES[0]).logits
    assert np.abs(np.array(answer["logits"])[0] - free[0]).max() > TOLERANCE


def show_arithmetic(found: Opened, step: int, layer: int, head: int) -> list[dict[str, Any]]:
    """Open the panel at a step, and read its stages."""
    found.page.evaluate("document.getElementById('live-arithmetic').open = true")
    found.page.evaluate(
        "([step, layer, head]) => { document.getElementById('live-arithmetic-title').textContent = '';"
        " window.seqattn.explorer.change((state) => Object.assign(state, {step, layer, head})); }",
        [step - 1, layer, head],
    )
    found.until(
        f"document.getElementById('live-arithmetic-title').textContent.includes('output symbol {step},')"
    )
    found.page.wait_for_timeout(150)
    return list(found.page.evaluate(READ))


def check_stages(stages: list[dict[str, Any]], wanted: Explanation) -> int:
    """Compare the stages of the page with those of Python, and return the count of numbers. The
    page shows some vectors as rows that Python prints as columns."""
    expected = [stage.name for stage in wanted.stages]
    if "Decoder input" not in expected:  # that of a Transformer is on the page only
        stages = [stage for stage in stages if stage["name"] != "Decoder input"]
    assert [stage["name"] for stage in stages] == expected
    count = 0
    for stage, want in zip(stages, wanted.stages, strict=True):
        rows = {plain(name): row for name, row in want.rows}
        numbers = np.array(list(rows.values()))
        if {*stage["rows"]} <= {*rows}:
            assert len(stage["rows"]) == min(len(rows), MAX_POINTS)
            numbers = np.array([rows[name] for name in stage["rows"]])
        else:
            numbers = numbers.T
        difference = np.abs(np.array(stage["numbers"]) - numbers).max()
        assert difference <= 2.0001e-4, (stage["name"], stage["numbers"], numbers.tolist())
        count += numbers.size
    return count


def plain(name: str) -> str:
    """Return the name of a row without the brackets of reserved symbols."""
    return re.sub(r"<(begin|end|unknown)>", r"\1", name)


@pytest.mark.parametrize("name", TOGETHER)
def test_the_arithmetic_is_that_of_explain(
    name: str, shared: SharedPages, word_runs: WordRuns
) -> None:
    found = open_words(shared, word_runs, name)
    run = Run.open(word_runs[name])
    spec = run.trained.spec
    shown = found.page.evaluate("seqattn.explorer.models.flatMap(({content: {runs}}) => runs.map(({name}) => name))")  # fmt: skip
    if len(shown) > 1:
        found.page.select_option("#live-other", label="none")
        found.page.select_option("#live-run", label=name)
        settle(found)
    source = found.page.evaluate("seqattn.explorer.state.source")
    tokens, target = spec.tokens
    numbers = tokens.numbers(source, ends=False).reshape(-1, 1)
    layers, heads = found.page.evaluate("(({layers, heads}) => [layers, heads])(seqattn.explorer.first)")  # fmt: skip
    length = found.page.evaluate("seqattn.explorer.scene.shown[0].symbols.length")
    for step in sorted({1, 2, length} & {*range(1, length + 1)}):
        for layer in range(layers):
            for head in range(heads):
                wanted = explain(
                    run.trained.model, numbers, step=step, layer=layer, head=head,
                    features=spec.source_features, symbols=(tokens.symbols, target.symbols),
                    title="",
                )  # fmt: skip
                stages = show_arithmetic(found, step, layer, head)
                assert check_stages(stages, wanted) > 50
    assert re.match("Attention to the source: output symbol", found.text("#live-arithmetic-title"))
