"""The arithmetic of a step on the page, compared with `seqattn explain` of the same run and step."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqattn import experiments
from seqattn.analysis.evaluation.load_run import load_splits, open_run
from seqattn.analysis.explanation import Explanation, explain
from seqattn.cli.explaining import DataUnits
from seqattn.config import resolve
from seqattn.report import report
from tests.browser.conftest import Open, Opened

MINUS = "\N{MINUS SIGN}"
MAX_POINTS = 8
SMALL = ["training.epochs=2", "data.n_train=64", "data.n_validation=8", "data.n_test=8"]
NARROW = [*SMALL, "model.hidden_dim=4"]
LENGTH = "data.kind=copy", "data.length=5"
OWN = ["data.kind=file", "data.source_length=5", "training.epochs=2", "training.batch_size=8"]
RUNS = {
    "dot-sparsemax": [*NARROW, *LENGTH, "model.attention.score=dot",
                      "model.attention.normalizer=sparsemax"],
    "scaled_dot-heads": [*NARROW, *LENGTH, "model.attention.heads=2",
                         "model.attention.project_values=true"],
    "general-hard": [*NARROW, *LENGTH, "model.attention.score=general",
                     "model.attention.normalizer=hard",
                     "model.attention.estimator=straight_through"],
    "additive-shift": [*NARROW, *LENGTH, "model.attention.score=additive",
                       "model.attention.location={kind: location_shift}",
                       "model.input_feeding=true"],
    "cosine-local": [*NARROW, *LENGTH, "model.attention.score=cosine",
                     "model.attention.location={kind: local, window: 2}", "model.cell=lstm",
                     "model.context=input"],
    "uniform-tanh": [*NARROW, *LENGTH, "model.attention.score=uniform", "model.readout=tanh"],
    "fast_weights": [*NARROW, *LENGTH, "model.kind=fast_weights", "model.inner_steps=2"],
    "transformer": [*SMALL, *LENGTH, "model.kind=transformer", "model.model_dim=8",
                    "model.heads=2", "model.layers=2", "training.teacher_forcing.probability=1"],
    "long": [*SMALL, "data.kind=copy", "data.length=16"],
    "relative": [*OWN, "model.hidden_dim=4", "data.scaling=standard", "data.normalize=relative"],
    "instance": [*OWN, "model.hidden_dim=4", "data.scaling=standard", "data.normalize=instance",
                 "model.skip=linear"],
}  # fmt: skip
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
    columns: [...block.querySelectorAll("thead th:not(.own)")].slice(1).map((cell) => cell.textContent),
    rows: [...block.querySelectorAll("tbody tr:not(.own)")].map((line) => line.querySelector("th").textContent),
    numbers: [...block.querySelectorAll("tbody tr:not(.own)")].map((line) => [...line.querySelectorAll("td:not(.own)")].map(number)),
    own: [...block.querySelectorAll("td.own")].map(number),
  }));
}"""


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Train a run of RUNS on the first call, and return its folder with its page."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("arithmetic")
    numbers = np.random.default_rng(1).normal(size=(30, 8)).cumsum(axis=1)
    lines = [f"{k},{t},{50 + 3 * float(numbers[k, t])!r}\n" for k in range(30) for t in range(8)]
    (home / "own.csv").write_text("sequence,step,speed\n" + "".join(lines))
    found = dict[str, Path]()

    def build(name: str) -> Path:
        if name not in found:
            sets = RUNS[name]
            if "data.kind=file" in sets:
                sets = [*sets, f"data.path={home / 'own.csv'}"]
            config = resolve(None, [*sets, f"name={name}"]).config
            folder, _ = experiments.train_one(config, home, plots=False)
            report(folder.path)
            found[name] = folder.path
        return found[name]

    return build


def explained(path: Path, step: int, layer: int = 0, head: int = 0) -> tuple[Explanation, Any]:
    """The explanation of the first test sequence, and its forecast in units of the data."""
    _, trained = open_run(path)
    sequence = load_splits(trained).test.select(slice(0, 1))
    scaled, _ = trained.spec.scaling.transform(sequence)
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
    found.page.evaluate(
        "([step, layer, head]) => window.seqattn.explorer.change((state) => Object.assign(state, {step, layer, head}))",
        [step - 1, layer, head],
    )
    found.until(
        f"document.getElementById('live-arithmetic-title').textContent.includes('step {step}')"
    )
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
    name: str, opened: Open, page_of: Callable[[str], Path]
) -> None:
    path = page_of(name)
    found = opened(path / "report.html")
    layers, heads = found.page.evaluate(
        "(({layers, heads}) => [layers, heads])(window.seqattn.explorer.first)"
    )
    assert (layers, heads) == {"transformer": (2, 2), "scaled_dot-heads": (1, 2)}.get(name, (1, 1))
    for step in steps_of(path):
        for layer in range(layers):
            for head in range(heads):
                wanted, units = explained(path, step, layer, head)
                stages = show(found, step, layer, head)
                assert check_stages(stages, wanted) > 50
                forecast = stages[-1]
                assert forecast["name"] == "Forecast, in units of the data"
                assert forecast["own"] == pytest.approx(list(units.output.values()), abs=1e-3)
                computed = [row[-1] for row in forecast["numbers"]]
                assert computed == pytest.approx(forecast["own"], abs=0.02)
