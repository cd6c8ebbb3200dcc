"""The live explorer: the page's numbers against those of Python, and what a reader does with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqattn.analysis.evaluation import as_override, free_run
from seqattn.analysis.evaluation.load_run import open_run
from seqattn.data import Sequences
from seqattn.report import render_page, report, report_side_by_side
from seqattn.runs import RunFolder
from seqattn.training import LoadedModel
from tests.browser.conftest import Open, Opened
from tests.browser.live_runs import LIVE_RUNS, SMALL, page_content

TOLERANCE = 1e-5
HOSTILE = "</script><img src=x onerror=alert(1)>"


def sources(trained: LoadedModel, count: int = 3) -> list[NDArray[np.float64]]:
    """Sources in units of the data, of several lengths where the model accepts them."""
    spec, rng = trained.spec, np.random.default_rng(0)
    scaler = spec.scaling.source
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
    )  # fmt: skip
    found = free_run(trained.model, part, spec.target_length, scaling=spec.scaling, **options)
    unit = spec.scaling.target_scale(part)[0]
    weights = found.maps["cross"][0] if "cross" in found.maps else np.zeros(0)
    return {"forecast": found.values[0], "weights": weights, "unit": unit}


def assert_same(answer: dict[str, Any], expected: dict[str, Any]) -> None:
    difference = np.abs(np.array(answer["forecast"]) - expected["forecast"]) / expected["unit"]
    assert difference.max() <= TOLERANCE
    if expected["weights"].size:
        assert np.abs(np.array(answer["weights"]) - expected["weights"]).max() <= TOLERANCE
    else:
        assert answer["weights"] == []


def ask_page(found: Opened, source: NDArray[np.float64], **options: Any) -> dict[str, Any]:
    answer: dict[str, Any] = found.page.evaluate(
        "([source, options]) => window.seqattn.run(source, options)", [source.tolist(), options]
    )
    return answer


@pytest.mark.parametrize("name", LIVE_RUNS)
def test_the_page_answers_as_python_does(
    name: str, opened_in_both: Open, live_runs: dict[str, Path]
) -> None:
    found = opened_in_both(live_runs[name] / "report.html")
    folder, trained = open_run(live_runs[name])
    for source in sources(trained):
        assert_same(ask_page(found, source), ask_python(trained, source))
    source = sources(trained)[0]
    recorded = "training.record_attention=1" in LIVE_RUNS[name]
    epochs = folder.read_parameter_history()["epochs"] if recorded else []
    for epoch in [*epochs[:1], *epochs[-1:]]:
        _, earlier = open_run(live_runs[name], int(epoch))
        assert_same(ask_page(found, source, epoch=int(epoch)), ask_python(earlier, source))


CAN_FORCE = [name for name in LIVE_RUNS if name not in ("plain", "fast_weights")]


@pytest.mark.parametrize("name", CAN_FORCE)
def test_forced_weights_equal_those_of_predict(
    name: str, opened: Open, live_runs: dict[str, Path]
) -> None:
    found = opened(live_runs[name] / "report.html")
    _, trained = open_run(live_runs[name])
    (source,) = sources(trained, 1)
    S, T = len(source), trained.spec.target_length
    own = ask_page(found, source)
    layers, heads = np.array(own["weights"]).shape[:2]
    weights = (np.arange(S, dtype=float) + 1) / (S * (S + 1) / 2)
    rows = [{"step": T, "layer": layers - 1, "head": heads - 1, "weights": weights.tolist()}]
    answer = ask_page(found, source, force={"rows": rows})
    assert_same(answer, ask_python(trained, source, override=as_override({"rows": rows})))
    assert np.allclose(answer["weights"][-1][-1][T - 1], weights)
    nested = [[[None] * T for _ in range(heads)] for _ in range(layers)]
    nested[-1][-1][T - 1] = weights.tolist()
    assert ask_page(found, source, force=nested) == answer
    assert ask_page(found, source, force=[None] * layers)["forecast"] == own["forecast"]


@pytest.mark.parametrize(
    ("name", "force", "reason"),
    [
        ("plain", [[0.5, 0.5]], "This model has no attention"),
        ("fast_weights", [[0.5, 0.5], None], "signed read strengths"),
        ("squares", {"rows": [{"step": 3, "weights": [1, 0]}]}, "step 3: the forecast has 2 steps"),
        ("squares", {"rows": [{"step": 1, "weights": [1]}]}, "has 1 weights; the source has 2"),
        ("squares", {"rows": [{"step": 1, "layer": 1, "weights": [1, 0]}]}, "layer 1"),
    ],
)
def test_impossible_weights_are_refused(
    name: str, force: Any, reason: str, opened: Open, live_runs: dict[str, Path]
) -> None:
    found = opened(live_runs[name] / "report.html")
    (source,) = sources(open_run(live_runs[name])[1], 1)
    with pytest.raises(Exception, match=re.escape(reason)):
        ask_page(found, source, force=force)


def shown(found: Opened) -> dict[str, Any]:
    """What the explorer shows: its state, and the first answer."""
    answer: dict[str, Any] = found.page.evaluate(
        "() => { const {state, scene} = window.seqattn.explorer;"
        " return {source: state.source, step: state.step, point: state.point, epoch:"
        " state.subjects[0].epoch, forced: state.force.list, forecast:"
        " scene.shown[0].answer.forecast, weights: scene.shown[0].answer.weights}; }"
    )
    return answer


def settle(found: Opened) -> None:
    found.until("window.seqattn.explorer.isIdle")


def test_dragging_a_point_asks_the_model_again(
    opened_in_both: Open, live_runs: dict[str, Path]
) -> None:
    found = opened_in_both(live_runs["squares"] / "report.html")
    before = shown(found)
    circle = found.page.locator(".source-point").nth(1)
    circle.scroll_into_view_if_needed()
    box = circle.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    found.page.mouse.move(x, y)
    found.page.mouse.down()
    for k in range(1, 6):
        found.page.mouse.move(x - 10 * k, y + 8 * k)
    found.page.mouse.up()
    settle(found)
    after = shown(found)
    assert after["source"][0] == before["source"][0]
    assert after["source"][1][0] < before["source"][1][0] - 0.1
    assert after["source"][1][1] < before["source"][1][1] - 0.1
    _, trained = open_run(live_runs["squares"])
    assert_same(after, ask_python(trained, np.array(after["source"])))
    assert "the true continuation is unknown" in found.text("#live-text")
    found.page.locator("#live-reset").click()
    settle(found)
    assert shown(found)["forecast"] == before["forecast"]
    assert "truth" in found.text("#live-text")


def test_the_first_click_forces_a_cell_and_the_keyboard_moves_a_point(
    opened_in_both: Open, live_runs: dict[str, Path]
) -> None:
    found = opened_in_both(live_runs["squares"] / "report.html")
    before = shown(found)
    cell = found.page.locator(".cell[data-step='0'][data-column='0']")
    for forced in ([{"step": 1, "layer": 0, "head": 0, "weights": [1, 0]}], []):
        box = cell.bounding_box()
        assert box is not None
        # A press and a release with a pause, as those of a hand.
        found.page.mouse.click(box["x"] + 20, box["y"] + 10, delay=60)
        settle(found)
        assert shown(found)["forced"] == forced
        found.page.locator("#live-step").focus()  # the next click brings the focus back
    found.page.locator(".source-point").first.focus()
    for _ in range(3):
        found.page.keyboard.press("ArrowRight")
        settle(found)
    after = shown(found)
    assert after["source"][0][0] > before["source"][0][0]
    assert after["source"][0][1] == before["source"][0][1]
    found.page.locator("#live-map svg").focus()
    found.page.keyboard.press("ArrowDown")
    found.page.keyboard.press("Enter")
    settle(found)
    forced = shown(found)
    assert forced["forced"] == [{"step": 2, "layer": 0, "head": 0, "weights": [1, 0]}]
    assert np.allclose(forced["weights"][0][0][1], [1, 0])
    assert "The forced weights move the forecast" in found.text("#live-text")
    found.page.keyboard.press("Enter")
    settle(found)
    assert shown(found)["forced"] == []


def test_buttons_change_weights_and_points(opened: Open, live_runs: dict[str, Path]) -> None:
    found = opened(live_runs["heads"] / "report.html")

    def click(name: str) -> dict[str, Any]:
        found.page.locator(name).click()
        settle(found)
        return shown(found)

    assert np.allclose(click("#live-uniform")["weights"][0][0][0], 0.5)
    assert len(click("#live-shuffle")["forced"]) == 1
    assert click("#live-own")["forced"] == []
    out = click("#live-knock-head")
    assert np.allclose(out["weights"][0][0], 0)
    assert "all are 0 and do not add up to 1" in found.text("#live-text")
    assert not np.allclose(out["weights"][0][1], 0)
    both = click("#live-knock-layer")
    assert np.allclose(both["weights"][0], 0)
    assert click("#live-own-all")["forced"] == []
    assert len(click("#live-add")["source"]) == 3
    assert len(click("#live-remove")["source"]) == 2
    found.page.locator("#live-values input").first.fill("0.25")
    settle(found)
    state = shown(found)
    assert state["source"][state["point"]][0] == 0.25
    blank = click("#live-blank")
    assert len(blank["source"]) == 2


def test_dragging_a_weight_keeps_the_sum(opened: Open, live_runs: dict[str, Path]) -> None:
    found = opened(live_runs["copy"] / "report.html")
    bar = found.page.locator(".bar-handle").nth(3)
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert box is not None
    found.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5)
    found.page.mouse.down()
    found.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    found.page.mouse.up()
    settle(found)
    row = shown(found)["weights"][0][0][0]
    assert row[3] == max(row)
    assert row[3] > 0.3
    assert sum(row) == pytest.approx(1, abs=1e-5)


def test_the_epoch_slider_swaps_the_parameters(opened: Open, live_runs: dict[str, Path]) -> None:
    found = opened(live_runs["squares"] / "report.html")
    found.slide("#live-epoch", 0)
    settle(found)
    assert found.text("#live-epoch-name") == "Before training"
    state = shown(found)
    assert state["epoch"] == 0
    _, untrained = open_run(live_runs["squares"], 0)
    assert_same(state, ask_python(untrained, np.array(state["source"])))


def test_two_runs_answer_the_same_input(
    opened: Open, live_runs: dict[str, Path], tmp_path: Path
) -> None:
    page = report_side_by_side([live_runs["squares"], live_runs["plain"]], tmp_path / "two.html")
    found = opened(page)
    assert found.page.locator(".forecast").count() == 2
    (source,) = sources(open_run(live_runs["squares"])[1], 1)
    for run in (0, 1, "squares", "plain"):
        name = ["squares", "plain"][run] if isinstance(run, int) else run
        _, trained = open_run(live_runs[name])
        assert_same(ask_page(found, source, run=run), ask_python(trained, source))
    assert [row.inner_text() for row in found.page.locator("#table tbody th").all()] == [
        "squares", "plain",
    ]  # fmt: skip
    losses = [
        RunFolder(live_runs[name]).read_summary()["test_loss"] for name in ("squares", "plain")
    ]
    verdict = f"is {losses[0]:.4g} with attention (squares) and {losses[1]:.4g} without attention"
    assert verdict in found.text("#table")
    assert "forecast of plain (without attention)" in found.text("#live-legend")
    found.page.click("#live-tour-start")
    for _ in range(4):
        found.page.click("#live-tour-next")
    assert verdict in found.text("#live-tour-panel")
    assert "Each of these runs has one seed." in found.text("#live-tour-panel")
    for _ in range(2):
        settle(found)
        found.page.click("#live-tour-action")
    found.until("document.getElementById('live-tour-result').textContent.includes('3 sequences')")
    counts = re.findall(r"attention\) in (\d)", found.text("#live-tour-result"))
    assert sum(map(int, counts)) == 3


def test_a_comparison_answers_with_each_seed(opened: Open, live_comparison: Path) -> None:
    found = opened(live_comparison / "report.html")
    names = found.page.locator("#live-run option").all_inner_texts()
    assert names == [f"{v}, seed {s}" for v in ("dot", "uniform") for s in (23, 24)]
    for name in names:
        variant, seed = name.split(", seed ")
        _, trained = open_run(live_comparison / variant / f"seed-{seed}")
        (source,) = sources(trained, 1)
        assert_same(ask_page(found, source, run=name), ask_python(trained, source))
    found.page.locator("#live-other").select_option(label="uniform, seed 24")
    settle(found)
    assert found.page.locator("#live-map svg:visible").count() == 2


@pytest.fixture(scope="session")
def live_comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from seqattn.config.comparing import plan_comparison
    from seqattn.experiments.compare import compare

    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("live compared")
    (home / "c.yaml").write_text("name: both\n")
    planned = plan_comparison(
        home / "c.yaml", SMALL, ["model.attention.score=dot,uniform"], seeds=2
    )
    path = compare(planned, home).path
    report(path)
    return path


def change_content(page: Path, target: Path, change: Any) -> Path:
    """Write a page with changed content."""
    content = page_content(page)
    change(content)
    target.write_text(render_page(content))
    return target


def test_hostile_names_stay_text(opened: Open, live_runs: dict[str, Path], tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["examples"]["ids"][0] = HOSTILE
        content["examples"]["features"][0] = HOSTILE
        content["live"]["models"][0]["features"][0] = HOSTILE
        content["live"]["models"][0]["runs"][0]["name"] = HOSTILE

    path = change_content(live_runs["squares"] / "report.html", tmp_path / "hostile.html", change)
    found = opened(path)
    assert found.page.locator("img").count() == 0
    assert HOSTILE in found.page.locator("#live-example option").first.inner_text()
    assert HOSTILE in found.text("#live-values")


def test_a_damaged_graph_leaves_the_rest_of_the_page(
    opened_in_both: Open, live_runs: dict[str, Path], tmp_path: Path
) -> None:
    def change(content: dict[str, Any]) -> None:
        graph = content["live"]["models"][0]["graph"]
        content["live"]["models"][0]["graph"] = graph[:400] + "AAAA" + graph[404:]

    path = change_content(live_runs["squares"] / "report.html", tmp_path / "damaged.html", change)
    found = opened_in_both(path)
    assert "The model of this page could not be loaded" in found.text("#live-error")
    assert found.text("#step-text").startswith("Step 1 ")


def test_a_report_without_the_model(
    opened: Open, live_runs: dict[str, Path], tmp_path: Path
) -> None:
    path = report(live_runs["squares"], tmp_path / "static.html", live=False)
    assert 'id="ort-wasm"' not in path.read_text()
    found = opened(path)
    assert found.page.locator("#live").count() == 0
    assert found.text("#step-text").startswith("Step 1 ")
