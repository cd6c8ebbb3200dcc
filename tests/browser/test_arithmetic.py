"""The arithmetic of a step on the page, compared with `seqattn explain` of the same run and step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqattn.analysis.evaluation.load_run import load_splits, open_run
from seqattn.analysis.explanation import Explanation, explain
from seqattn.cli.explaining import DataUnits
from seqattn.models.attention import ForcedWeights
from tests.browser.conftest import Opened, SharedPages, shared_folder
from tests.browser.live_numbers import settle
from tests.browser.live_runs import LiveRuns, models_of_page

MINUS = "\N{MINUS SIGN}"
MAX_POINTS = 8
SMALL = ["training.epochs=2", "data.n_train=64", "data.n_validation=8", "data.n_test=8"]
NARROW = [*SMALL, "model.hidden_dim=4"]
LENGTH = "data.kind=copy", "data.length=5"
OWN = ["data.kind=file", "data.source_length=5", "training.epochs=2", "training.batch_size=8"]
RUNS = {
    "dot-sparsemax": [*NARROW, *LENGTH, "model.attention.score=dot",
                      "model.attention.normalizer=sparsemax"],
    "entmax": [*NARROW, *LENGTH, "model.attention.normalizer=entmax",
               "model.attention.alpha=learned"],
    "linear": [*NARROW, *LENGTH, "model.attention.score=linear"],
    "coverage": [*NARROW, *LENGTH, "model.attention.score=coverage", "model.attention.heads=2"],
    "scaled_dot-heads": [*NARROW, *LENGTH, "model.attention.heads=2",
                         "model.attention.project_values=true", "training.record_attention=1"],
    "general-hard": [*NARROW, *LENGTH, "model.attention.score=general",
                     "model.attention.normalizer=hard",
                     "model.attention.estimator=straight_through"],
    "additive-shift": [*NARROW, *LENGTH, "model.attention.score=additive",
                       "model.attention.location={kind: location_shift}",
                       "model.input_feeding=true"],
    "general-monotonic": [*NARROW, *LENGTH, "model.attention.score=general",
                          "model.attention.location={kind: monotonic, offset: 0}"],
    "cosine-local": [*NARROW, *LENGTH, "model.attention.score=cosine",
                     "model.attention.location={kind: local, window: 2}", "model.cell=lstm",
                     "model.context=input"],
    "uniform-tanh": [*NARROW, *LENGTH, "model.attention.score=uniform", "model.readout=tanh"],
    "fast_weights": [*NARROW, *LENGTH, "model.kind=fast_weights", "model.inner_steps=2"],
    "transformer": [*SMALL, *LENGTH, "model.kind=transformer", "model.model_dim=8",
                    "model.heads=2", "model.layers=2", "training.teacher_forcing.probability=1"],
    "long": [*SMALL, "data.kind=copy", "data.length=16"],
    "relative": [*OWN, "model.hidden_dim=4", "data.scaling=standard", "data.relative=true"],
    "instance": [*OWN, "model.hidden_dim=4", "data.scaling=standard", "data.normalize=instance",
                 "model.skip=linear"],
}  # fmt: skip
SHAPES = {"transformer": (2, 2), "scaled_dot-heads": (1, 2), "coverage": (1, 2)}
"""Layers and heads of the runs that have more than one."""
ALONE, TABLES = ["long"], ["relative", "instance"]
PAGES = [ALONE, TABLES, [name for name in RUNS if name not in [*ALONE, *TABLES]]]
"""The models of each page. All models of a page have the same test sequences."""
IN_FEW = {"additive-shift", "scaled_dot-heads", "cosine-local", "transformer"}
"""See `live_runs.IN_FEW`."""
PAGE_ONLY = {
    "Source, in units of the data",
    "Scaling of the source",
    "Forecast, in units of the data",
}
READ = """() => {
  const number = (cell) => Number(cell.textContent.replace("\\u2212", "-"));
  return [...document.querySelectorAll("#live-arithmetic .stage")].map((block) => ({
    name: block.querySelector("h3").textContent,
    formula: block.querySelector("code")?.textContent ?? "",
    columns: [...block.querySelectorAll("thead th:not(.exact)")].slice(1).map((cell) => cell.textContent),
    rows: [...block.querySelectorAll("tbody tr:not(.exact)")].map((line) => line.querySelector("th").textContent),
    numbers: [...block.querySelectorAll("tbody tr:not(.exact)")].map((line) => [...line.querySelectorAll("td:not(.exact)")].map(number)),
    exact: [...block.querySelectorAll("td.exact")].map(number),
  }));
}"""


class ArithmeticRuns(LiveRuns):
    """The runs of RUNS."""

    def write_table(self, name: str) -> Path:
        file = self.home / f"{name}.csv"
        values = 50 + 3 * np.random.default_rng(1).normal(size=(30, 8)).cumsum(axis=1)
        lines = [f"{k},{t},{float(values[k, t])!r}\n" for k in range(30) for t in range(8)]
        file.write_text("sequence,step,speed\n" + "".join(lines))
        return file


@pytest.fixture(scope="session")
def arithmetic_runs(tmp_path_factory: pytest.TempPathFactory) -> ArithmeticRuns:
    return ArithmeticRuns(shared_folder(tmp_path_factory, "arithmetic"), RUNS)


def open_model(shared: SharedPages, runs: ArithmeticRuns, name: str) -> Opened:
    """Return a page that shows a model."""
    names = models_of_page(name, PAGES, IN_FEW)
    found = shared(runs.page(*names))
    if len(names) > 1:
        found.page.select_option("#live-other", label="none")
        found.page.select_option("#live-run", label=name)
        settle(found)
    return found


def explained(path: Path, step: int, layer: int = 0, head: int = 0) -> tuple[Explanation, Any]:
    """The explanation of the first test sequence, and its forecast in units of the data."""
    _, trained = open_run(path)
    sequence = load_splits(trained).test.select(slice(0, 1))
    scaled, _ = sequence.encode()
    source = scaled[0, : sequence.source_lengths[0]].astype("float64")
    found = explain(
        trained.model, source, step=step, layer=layer, head=head,
        features=trained.spec.source_features, target_features=trained.spec.target_features,
        title="",
    )  # fmt: skip
    return found, DataUnits.of(trained.spec, sequence, found.model_prediction)


def show(found: Opened, step: int, layer: int = 0, head: int = 0) -> list[dict[str, Any]]:
    """Open the panel at a step, and read its stages."""
    found.page.evaluate("document.getElementById('live-arithmetic').open = true")
    found.page.evaluate("document.getElementById('live-arithmetic-title').textContent = ''")
    found.page.evaluate(
        "([step, layer, head]) => window.seqattn.explorer.change((state) => Object.assign(state, {step, layer, head}))",
        [step - 1, layer, head],
    )
    point = f"new RegExp(`forecast point ${{seqattn.explorer.state.source.length + {step}}}\\\\b`)"
    found.until(f"{point}.test(document.getElementById('live-arithmetic-title').textContent)")
    found.page.wait_for_timeout(150)
    return list(found.page.evaluate(READ))


def check_stages(stages: list[dict[str, Any]], wanted: Explanation) -> int:
    """Compare the stages of the page with those of Python, and return the count of numbers."""
    expected = {stage.name: stage for stage in wanted.stages}
    names = [stage["name"] for stage in stages if stage["name"] not in PAGE_ONLY]
    if not wanted.prediction:  # a Transformer: the shown layers do not determine the output
        names = [name for name in names if name not in ("Decoder input", "Predicted point")]
    assert names == list(expected)
    count = 0
    for stage in stages:
        if stage["name"] not in expected or (stage["name"] not in names):
            continue
        want = expected[stage["name"]]
        if stage["name"] != "Source points":
            assert stage["formula"] == want.formula
        assert stage["columns"] == list(want.columns)
        rows = dict(want.rows)
        if len(rows) <= MAX_POINTS:
            assert stage["rows"] == list(rows)
        else:
            assert len(stage["rows"]) == MAX_POINTS
        numbers = np.array([rows[name] for name in stage["rows"]])
        assert np.abs(np.array(stage["numbers"]) - numbers).max() <= 1.0001e-4, (
            stage["name"], stage["numbers"], numbers.tolist(),
        )  # fmt: skip
        count += numbers.size
    return count


def steps_of(path: Path) -> list[int]:
    _, trained = open_run(path)
    return [1, 2, trained.spec.target_length]


@pytest.mark.parametrize("name", RUNS)
def test_the_stages_are_those_of_explain(
    name: str, shared: SharedPages, arithmetic_runs: ArithmeticRuns
) -> None:
    path = arithmetic_runs[name]
    found = open_model(shared, arithmetic_runs, name)
    layers, heads = found.page.evaluate(
        "(({layers, heads}) => [layers, heads])(window.seqattn.explorer.first)"
    )
    assert (layers, heads) == SHAPES.get(name, (1, 1))
    for step in steps_of(path):
        for layer in range(layers):
            for head in range(heads):
                wanted, units = explained(path, step, layer, head)
                stages = show(found, step, layer, head)
                assert check_stages(stages, wanted) > 50
                forecast = stages[-1]
                assert forecast["name"] == "Forecast, in units of the data"
                assert forecast["exact"] == pytest.approx(list(units.output.values()), abs=1e-3)
                computed = [row[-1] for row in forecast["numbers"]]
                assert computed == pytest.approx(forecast["exact"], abs=0.02)


def stage(stages: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(each for each in stages if each["name"] == name)


def test_forced_weights_take_the_place_of_the_softmax(
    shared: SharedPages, arithmetic_runs: ArithmeticRuns
) -> None:
    """Before and after them all is computed: the scores of the model, and the context they give."""
    path = arithmetic_runs["additive-shift"]
    found = open_model(shared, arithmetic_runs, "additive-shift")
    forced = [0.5, 0.0, 0.25, 0.25, 0.0]
    found.page.evaluate(
        "(row) => window.seqattn.explorer.change(({force}) => force.set(1, 0, 0, row))", forced
    )
    stages = show(found, 1)
    weights = stage(stages, "Weights")
    assert weights["formula"] == "forced by you"
    assert [row[-1] for row in weights["numbers"]] == forced
    names = [each["name"] for each in stages]
    assert "Scores" in names
    assert "Content weights" not in names
    _, trained = open_run(path)
    sequence = load_splits(trained).test.select(slice(0, 1))
    source, _ = sequence.encode()
    T, S = trained.spec.target_length, source.shape[1]
    rows = torch.full((1, 1, 1, T, S), torch.nan)
    rows[0, 0, 0, 0] = torch.tensor(forced)
    model = trained.model
    with torch.inference_mode():
        forecast = model.forecast(
            torch.as_tensor(source, dtype=torch.float32), T, override=ForcedWeights(rows)
        ).values[0]
    values = np.array(stage(stages, "Values")["numbers"])
    context = stage(stages, "Context")
    assert context["numbers"][0] == pytest.approx(np.array(forced) @ values, abs=3e-4)
    assert context["exact"] == pytest.approx(np.array(forced) @ values, abs=3e-4)
    assert stage(stages, "Predicted point")["exact"] == pytest.approx(
        forecast[0].tolist(), abs=6e-5
    )
    stages = show(found, 2)  # location_shift: the forced row is what the next step shifts
    assert [row[0] for row in stage(stages, "Weights")["numbers"]] == forced
    assert stage(stages, "Predicted point")["exact"] == pytest.approx(
        forecast[1].tolist(), abs=6e-5
    )


def test_a_number_shows_where_it_comes_from(
    shared: SharedPages, arithmetic_runs: ArithmeticRuns
) -> None:
    found = open_model(shared, arithmetic_runs, "scaled_dot-heads")
    stages = show(found, 1)
    weights = stage(stages, "Weights")
    exponentials, last = ([row[k] for row in weights["numbers"]] for k in (1, 2))
    block = found.page.locator(".stage", has=found.page.get_by_text("Weights", exact=True))
    block.locator("tbody tr").nth(3).locator("td").nth(2).hover()
    parts = " + ".join(f"{x:.4f}" for x in exponentials)
    words = found.text("#live-arithmetic-line")
    assert words.startswith(f"{last[3]:.4f} = {exponentials[3]:.4f} / ({parts})"), words
    marked = found.page.locator(".stage td.origin").all_inner_texts()
    assert marked == [f"{x:.4f}" for x in exponentials]
    assert found.page.locator(".stage td.chosen").inner_text() == f"{last[3]:.4f}"
    own = re.search(r"Without rounding, it is (\S+)\.$", words)
    assert own is not None
    assert float(own[1]) == pytest.approx(last[3], abs=3e-4)


def test_every_number_has_an_origin_that_gives_it(
    shared: SharedPages, arithmetic_runs: ArithmeticRuns
) -> None:
    """The lines are arithmetic: evaluated, they give the printed number."""
    found = open_model(shared, arithmetic_runs, "cosine-local")
    show(found, 2)
    lines = found.page.evaluate(
        """() => [...document.querySelectorAll("#live-arithmetic td[data-cell]")].map((cell) => {
          cell.focus();
          return document.getElementById("live-arithmetic-line").textContent;
        })"""
    )
    checked = 0
    for line in lines:
        assert "undefined" not in line, line
        assert "NaN" not in line, line
        match = re.match(
            rf"({MINUS}?[\d.]+) = ([^a-z]*|exp.*?|sqrt.*?)(?:\. Without rounding.*)?$", line
        )
        if match is None or "\N{HORIZONTAL ELLIPSIS}" in line:
            continue
        text = match[2].replace(MINUS, "-").replace("\N{MULTIPLICATION SIGN}", "*")
        text = text.replace("\N{SUPERSCRIPT TWO}", "**2").replace("^", "**")
        value = eval(text, {"__builtins__": {}}, {"exp": np.exp, "sqrt": np.sqrt})
        printed = float(match[1].replace(MINUS, "-"))
        assert value == pytest.approx(printed, abs=5.1e-5), line
        checked += 1
    assert checked > 60


def test_the_arrow_keys_move_within_a_table(
    shared: SharedPages, arithmetic_runs: ArithmeticRuns
) -> None:
    found = open_model(shared, arithmetic_runs, "scaled_dot-heads")
    show(found, 1)
    found.page.locator("#live-arithmetic summary").focus()
    found.page.keyboard.press("Tab")
    stops = found.page.locator("#live-arithmetic td[tabindex='0']").count()
    assert stops == found.page.locator("#live-arithmetic .stage").count()
    place = "(({dataset, parentElement}) => dataset.cell)(document.activeElement)"
    assert found.page.evaluate(place) == "0/0"
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft"):
        found.page.keyboard.press(key)
    assert found.page.evaluate(place) == "2/0"
    assert found.page.locator(".stage td.chosen").count() == 1
    found.page.keyboard.press("Tab")
    assert found.page.evaluate(place) == "0/0", "the next table"


def test_a_long_source_shows_the_points_with_the_largest_weights(
    shared: SharedPages, arithmetic_runs: ArithmeticRuns
) -> None:
    path = arithmetic_runs["long"]
    found = open_model(shared, arithmetic_runs, "long")
    stages = show(found, 3)
    wanted, _ = explained(path, 3)
    weights = next(each for each in wanted.stages if each.name == "Weights")
    numbers = [row[-1] for _, row in weights.rows]
    largest = sorted(np.argsort(numbers)[::-1][:MAX_POINTS])
    assert stage(stages, "Weights")["rows"] == [f"point {k + 1}" for k in largest]
    assert "the 8 of 16 source steps with the largest weights" in found.text(
        "#live-arithmetic-title"
    )


def test_the_parameters_are_those_of_the_chosen_epoch(
    shared: SharedPages, arithmetic_runs: ArithmeticRuns
) -> None:
    found = open_model(shared, arithmetic_runs, "scaled_dot-heads")
    maps = list[Any]()
    for epoch in (0, 1):
        found.page.evaluate(
            "(epoch) => window.seqattn.explorer.change(({subjects}) => { subjects[0].epoch = epoch; })",
            epoch,
        )
        stages = show(found, 1)
        maps.append(stage(stages, "Query: the map")["numbers"])
        for name in ("Query", "Context", "Predicted point"):
            each = stage(stages, name)
            assert each["numbers"][0] == pytest.approx(each["exact"], abs=1e-3)
    assert maps[0] != maps[1]
