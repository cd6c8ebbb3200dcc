"""The numbers of a live page, and the numbers of Python for the same input."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation import as_override, free_run
from seqattn.analysis.evaluation.load_run import open_run
from seqattn.data import Sequences
from seqattn.training import LoadedModel
from tests.browser.conftest import Opened

TOLERANCE = 1e-5
SHOWN = """() => {
  const {state, scene, models, rowsFor} = seqattn.explorer;
  const answers = scene.shown.map(({answer: {forecast, weights}}, k) => {
    const {model, run, epoch} = scene.state.subjects[k];
    const {layers, config} = models[model].content;
    const canForce = layers > 0 && config.kind !== "fast_weights";
    const rows = canForce ? rowsFor.call(seqattn.explorer, models[model], scene.state.force) : [];
    return {name: models[model].content.runs[run].name, epoch, rows, forecast, weights};
  });
  const {source, step, point, force} = state;
  return {source, step, point, forced: force.list, epoch: state.subjects[0].epoch, answers, ...answers[0]};
}"""


@lru_cache(maxsize=64)
def load_model(path: Path, epoch: int | None = None) -> LoadedModel:
    """Return the model of a run at an epoch; None for its best epoch."""
    best = open_run(path)[1]
    return best if epoch in (None, best.epoch) else open_run(path, epoch)[1]


def sources(trained: LoadedModel, count: int = 3) -> list[NDArray[np.float64]]:
    """Sources in units of the data, of several lengths where the model accepts them."""
    spec, rng = trained.spec, np.random.default_rng(0)
    scaler = spec.vectors[0].scaling
    lengths = [spec.source_length, max(1, spec.source_length - 1), spec.source_length + 2][:count]
    return [
        rng.normal(size=(S, len(spec.source_features))) * scaler.scale + scaler.shift
        for S in lengths
    ]


def ask_python(trained: LoadedModel, source: NDArray[np.float64], **options: Any) -> dict[str, Any]:
    spec = trained.spec
    part = Sequences(
        source[None], np.array([len(source)]), np.zeros((1, 0, len(spec.target_features))),
        np.array([0]), spec.source_features, ["x"], target_features=spec.target_features,
        source_space=spec.source, target_space=spec.target,
    )  # fmt: skip
    found = free_run(trained.model, part, spec.target_length, **options)
    unit = part.target_unit()[0]
    weights = found.maps["cross"][0] if "cross" in found.maps else np.zeros(0)
    return {"forecast": found.values[0], "weights": weights, "unit": unit}


def ask_page(found: Opened, source: NDArray[np.float64], **options: Any) -> dict[str, Any]:
    answer: dict[str, Any] = found.page.evaluate(
        "([source, options]) => window.seqattn.run(source, options)", [source.tolist(), options]
    )
    return answer


def assert_same(answer: dict[str, Any], expected: dict[str, Any]) -> None:
    difference = np.abs(np.array(answer["forecast"]) - expected["forecast"]) / expected["unit"]
    assert difference.max() <= TOLERANCE
    if expected["weights"].size:
        assert np.abs(np.array(answer["weights"]) - expected["weights"]).max() <= TOLERANCE
    else:
        assert answer["weights"] == []


def settle(found: Opened) -> None:
    """Wait until the page has answered the last change."""
    found.until("window.seqattn.explorer.isIdle")


def shown(found: Opened) -> dict[str, Any]:
    """Return the state of the explorer, the answers of all its models, and that of the first."""
    state: dict[str, Any] = found.page.evaluate(SHOWN)
    return state


def check_shown(found: Opened, runs: dict[str, Path]) -> dict[str, Any]:
    """Compare all shown answers with Python, and return what is shown."""
    settle(found)
    state = shown(found)
    for answer in state["answers"]:
        trained = load_model(runs[answer["name"]], answer["epoch"])
        forced = {"override": as_override({"rows": answer["rows"]})} if answer["rows"] else {}
        assert_same(answer, ask_python(trained, np.array(state["source"]), **forced))
    return state


def start_tour(found: Opened) -> None:
    """Start the guided tour, which a page offers with another button after the first time."""
    found.page.locator("#live-tour-start:visible, #live-tour-open:visible").first.click()
