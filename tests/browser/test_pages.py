"""What a reader sees and does on a page, held against the data in the run's folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.analysis.comparison import read_comparison
from seqattn.report import render_page, report
from seqattn.report.content import comparison_content, run_content
from seqattn.runs import RunFolder
from seqattn.runs.storage import read_arrays
from tests.browser.conftest import Opened

Open = Callable[..., Opened]
MINUS = "\N{MINUS SIGN}"


def parse_weights(text: str) -> dict[int, float]:
    """Point -> weight, from the sentence under the heatmap."""
    found = re.findall(rf"point (\d+) with ({MINUS}?\d+\.\d+)", text)
    return {int(point): float(weight.replace(MINUS, "-")) for point, weight in found}


@pytest.mark.parametrize("name", ["squares", "copy", "transformer", "fast_weights", "own"])
def test_the_slider_walks_through_free_running(
    name: str, opened: Open, runs: dict[str, Path]
) -> None:
    found = opened(runs[name] / "report.html")
    attention = read_arrays(runs[name] / "attention.npz")
    predictions = read_arrays(runs[name] / "predictions.npz")
    T = int(predictions["target_lengths"][0])
    for step in sorted({0, 1, T - 1} & set(range(T))):
        found.slide("#step", step)
        words = found.text("#step-text")
        assert words.startswith(f"Step {step + 1} "), words
        weights = attention["weights"][0, 0, 0, step]
        shown = parse_weights(words)
        assert shown
        for point, weight in shown.items():
            assert weight == pytest.approx(float(weights[point - 1]), abs=6e-4)
        strongest = int(np.nanargmax(np.abs(weights)))
        assert abs(shown[strongest + 1]) == pytest.approx(abs(weights[strongest]), abs=6e-4)
        forecast = float(predictions["forecast"][0, step, 0])
        number = re.search(rf"Forecast: .*? ({MINUS}?\d+\.?\d*) \(truth", words)
        assert number is not None
        assert float(number[1].replace(MINUS, "-")) == pytest.approx(forecast, rel=6e-3)
        drawn = found.page.evaluate("document.getElementById('map').data[0].z")
        assert np.allclose(drawn[step], weights[: len(drawn[step])], atol=1e-4)
        walked = found.page.evaluate(
            "document.getElementById('path').data.find((t) => t.name.startsWith('forecast')).x.length"
        )
        assert walked == step + 1, "more is drawn than was forecast by this step"


def test_a_row_of_the_heatmap_lights_up_the_path(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["copy"] / "report.html")
    weights = read_arrays(runs["copy"] / "attention.npz")["weights"][0, 0, 0]
    found.page.locator("#map").scroll_into_view_if_needed()
    box = found.page.locator("#map .nsewdrag").bounding_box()
    assert box is not None
    row = 20
    found.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * (row + 0.5) / 32)
    found.until(f"document.getElementById('step').value === '{row}'")
    assert found.text("#step-text").startswith(f"Step {row + 1} ")
    lit = found.page.evaluate(
        "document.getElementById('path').data.find((t) => t.name === 'source').marker"
    )
    assert np.allclose(lit["color"], weights[row], atol=1e-4)
    assert int(np.argmax(lit["size"])) == int(np.argmax(lit["color"]))


def test_moving_over_a_forecast_point_lights_up_what_it_looked_at(
    opened: Open, runs: dict[str, Path]
) -> None:
    found = opened(runs["squares"] / "report.html")
    found.slide("#step", 1)
    found.page.locator("#path").scroll_into_view_if_needed()
    places = found.page.evaluate(
        """() => {
          const plot = document.getElementById("path");
          const {xaxis, yaxis} = plot._fullLayout;
          const trace = plot.data.find((t) => t.name.startsWith("forecast"));
          const box = plot.getBoundingClientRect();
          return trace.x.map((x, k) => [box.x + xaxis._offset + xaxis.l2p(x), box.y + yaxis._offset + yaxis.l2p(trace.y[k])]);
        }"""
    )
    found.page.mouse.move(*places[0])
    found.until("document.getElementById('step').value === '0'")


def test_two_other_features_are_no_plane(opened: Open, runs: dict[str, Path]) -> None:
    """a and b are given, b and c are said: each goes over the steps on a scale of its own."""
    found = opened(runs["columns"] / "report.html")
    drawn = found.page.evaluate(
        """() => {
          const {data, layout} = document.getElementById("path");
          const name = (axis) => layout[axis.replace("y", "yaxis")].title.text;
          return data.map((t) => [`${t.name} ${name(t.yaxis)}`, Array.from(t.x), Array.from(t.y)]);
        }"""
    )
    predictions = read_arrays(runs["columns"] / "predictions.npz")
    places, values = ({name: row[k] for name, *row in drawn} for k in (0, 1))
    assert list(places) == [
        "source b",
        "truth b",
        "forecast b",
        "truth c",
        "forecast c",
        "source a",
    ]
    assert places["source a"] == places["source b"] == [0, 1, 2, 3]
    assert places["truth b"] == places["truth c"] == [4, 5]
    assert places["forecast b"] == places["forecast c"] == [4]  # walked so far
    for feature, part, column in (("source a", "source", 0), ("source b", "source", 1),
                                  ("truth b", "target", 0), ("truth c", "target", 1)):  # fmt: skip
        assert np.allclose(values[feature], predictions[part][0, :, column])
    shown = found.page.evaluate(
        "document.getElementById('path').data.filter((t) => t.showlegend).map((t) => t.name)"
    )
    assert shown == ["source", "truth", "forecast"]
    heights = found.page.evaluate(
        """() => {
          const {yaxis, yaxis2, yaxis3} = document.getElementById("path")._fullLayout;
          return [yaxis, yaxis2, yaxis3].map((axis) => axis.domain);
        }"""
    )
    assert heights[0][0] > heights[1][1] > heights[1][0] > heights[2][1] > heights[2][0] == 0


def test_every_layer_head_and_kind_can_be_chosen(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["transformer"] / "report.html")
    attention = read_arrays(runs["transformer"] / "attention.npz")
    for place, key in enumerate(("weights", "encoder_self", "decoder_self")):
        found.page.select_option("#kind", str(place))
        for head in (0, 1):
            found.page.select_option("#head", str(head))
            drawn = found.page.evaluate("document.getElementById('map').data[0].z")
            wanted = np.where(np.isfinite(attention[key]), attention[key], 0)[0, 0, head]
            assert np.allclose(
                np.array(drawn, dtype=float).clip(0), wanted, atol=1e-4, equal_nan=False
            ) or (key == "decoder_self")
    assert found.page.locator("#kind option").count() == 3


def test_the_worst_sequences_open_in_the_explorer(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["squares"] / "report.html")
    predictions = read_arrays(runs["squares"] / "predictions.npz")
    losses = np.square(predictions["forecast"] - predictions["target"]).mean(axis=(1, 2))
    worst = int(losses.argmax())
    buttons = found.page.locator("#worst button")
    assert buttons.count() == 10
    buttons.first.click()
    assert found.page.locator("#example").input_value() == str(worst)
    assert buttons.first.get_attribute("aria-pressed") == "true"
    assert found.text("#step-text").endswith(f"{losses[worst]:.3g}.")


def test_the_film_shows_each_epoch(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["squares"] / "report.html")
    film = read_arrays(runs["squares"] / "film.npz")
    assert found.text("#history-name") == "Before training"
    for frame, epoch in enumerate(film["epochs"]):
        found.slide("#history-frame", frame)
        drawn = found.page.evaluate("document.getElementById('history-map').data[0].z")
        assert np.allclose(drawn, film["weights"][frame, 0, 0, 0], atol=1e-4)
        assert epoch == 0 or found.text("#history-name") == f"After epoch {epoch}"
    found.page.click("#history-play")
    assert found.text("#history-play") == "Pause"
    found.until("document.getElementById('history-play').textContent === 'Play'")


def test_loss_curves_are_the_metrics(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["squares"] / "report.html")
    history = RunFolder(runs["squares"]).read_metrics()
    drawn = found.page.evaluate("document.getElementById('loss').data.map((t) => t.y)")
    assert np.allclose(drawn[0], [record.train_loss for record in history])
    assert np.allclose(drawn[1], [record.validation_loss for record in history])
    assert np.allclose(drawn[2], [record.validation_loss_teacher_forced for record in history])
    found.page.select_option("#scale", "linear")
    assert found.page.evaluate("document.getElementById('loss').layout.yaxis.type") == "linear"


def test_signed_strengths_diverge_around_zero(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["fast_weights"] / "report.html")
    colours = found.page.evaluate(
        "(({zmin, zmax, colorscale}) => [zmin, zmax, colorscale])(document.getElementById('map').data[0])"
    )
    assert colours[0] == -colours[1] < 0
    assert colours[2][0][1] == "#2166ac", "blue is below 0"
    assert colours[2][2] == [0.5, "#f7f7f7"], "0 is white"
    assert found.page.locator("#colours").is_disabled()


def test_a_run_without_attention_has_all_but_weights(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["plain"] / "report.html")
    assert found.text("#map") == "This model has no attention."
    found.slide("#step", 1)
    assert found.text("#step-text").startswith("Step 2 ")
    assert found.page.locator("#history").count() == 0


def test_own_data_keep_names_and_units(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["own"] / "report.html")
    assert "<b>speed</b> " in found.text("#step-text")
    assert "<b>speed</b>, in its own units" in found.text("#summary")
    drawn = found.page.evaluate("document.getElementById('path').data[0].y")
    source = read_arrays(runs["own"] / "predictions.npz")["source"][0, :, 0]
    assert np.allclose(drawn, source, rtol=1e-6)


def test_a_point_of_a_comparison_opens_its_run(opened: Open, compared: Path) -> None:
    found = opened(compared / "report.html")
    assert found.page.locator(".notice").count() == 1
    losses = json.loads((compared / "dot" / "seed-24" / "summary.json").read_text())["test_loss"]
    found.page.locator("#seeds").scroll_into_view_if_needed()
    place = found.page.evaluate(
        """() => {
          const plot = document.getElementById("seeds");
          const {xaxis, yaxis} = plot._fullLayout;
          const box = plot.getBoundingClientRect();
          const {x, y} = plot.data[0];
          return [box.x + xaxis._offset + xaxis.l2p(x[1]), box.y + yaxis._offset + yaxis.c2p(y[1])];
        }"""
    )
    found.page.mouse.click(*place)
    found.until("document.getElementById('chosen-name').textContent === 'dot, seed 24'")
    assert f"Test loss {losses:.3g}" in found.text("#chosen-words")
    assert found.page.locator("#chosen-words a").get_attribute("href") == "dot/seed-24/report.html"
    found.page.select_option("#variant", "1")
    assert found.text("#chosen-name") == "uniform, seed 23"
    assert found.page.locator("#seed option").count() == 2


@pytest.fixture
def result(compared: Path) -> dict[str, Any]:
    """What is on the page of a comparison, to change."""
    return comparison_content(read_comparison(compared))


def written(content: dict[str, Any], home: Path) -> Path:
    file = home / "changed.html"
    file.write_text(render_page(content), encoding="utf-8")
    return file


@pytest.mark.parametrize("losses", [(0.21, 0.22, 0.29), (0.0101, 0.0102, 0.0103), (1.0, 4.0, 4.9)])
def test_a_logarithmic_scale_has_ticks_to_read(
    losses: tuple[float, ...], opened: Open, result: dict[str, Any], tmp_path: Path
) -> None:
    result["references"] = []
    for variant in result["variants"]:
        variant["median"] = None
        for point, loss in zip(variant["points"], losses, strict=False):
            point["loss"] = loss
            point["curve"] = [[k + 1, each] for k, each in enumerate(losses)]
    found = opened(written(result, tmp_path))
    assert found.page.evaluate("document.getElementById('seeds').layout.yaxis.type") == "log"
    for place in ("#seeds", "#chosen-curve"):
        ticks = found.page.locator(f"{place} .ytick text").all_text_contents()
        assert 2 <= len({tick for tick in ticks if tick}) <= 12, ticks
    epochs = found.page.locator("#chosen-curve .xtick text").all_text_contents()
    assert epochs == ["1", "2", "3"]


@pytest.mark.parametrize("width", [400, 1240])
def test_nothing_is_wider_than_the_window(
    width: int, opened: Open, result: dict[str, Any], runs: dict[str, Path], tmp_path: Path
) -> None:
    long = "model.attention.score=" + "scaled_dot" * 4
    for variant in result["variants"]:
        variant["name"] = f"{long}{variant['name']}"
    result["sentences"] = [f"{long} had a lower test loss than {long[::-1]}."]
    result["rows"][0][0] = long
    file = written(result, tmp_path)
    for page in (file, runs["transformer"] / "report.html"):
        found = opened(page, viewport={"width": width, "height": 900})
        wide = found.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, page
        if page == file:
            high = found.page.evaluate(
                "document.querySelector('#seeds .nsewdrag').getBoundingClientRect().height"
            )
            assert high > 200, "the names take the room of the points"
            assert found.page.locator("#seeds .xtick text").count() == len(result["variants"])


def test_steps_of_a_decoder_are_named_by_what_they_forecast(
    opened: Open, runs: dict[str, Path]
) -> None:
    found = opened(runs["transformer"] / "report.html")
    found.page.select_option("#kind", "2")
    assert found.text("#step-text").startswith(
        "Step 1 (point 3) attends to the steps of point 3 with 1.0"
    )
    title = found.page.evaluate("document.getElementById('map').layout.xaxis.title.text")
    assert "the input of each is the point before" in title
    found.page.select_option("#kind", "0")
    assert "the steps of" not in found.text("#step-text")
    title = found.page.evaluate("document.getElementById('map').layout.xaxis.title.text")
    assert "the point before" not in title


HOSTILE = [
    "<script>document.title='run'</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(1)</script>",
    "{{ 7 * 7 }}", "<!--<script>", "<a href='javascript:alert(1)'>x</a>", "&lt;b&gt;", "\u2028'`${1}",
    "%{x} %{meta}",
]  # fmt: skip


def test_names_are_words_and_nothing_else(
    opened: Open, runs: dict[str, Path], tmp_path: Path
) -> None:
    content = run_content(RunFolder(runs["squares"]), examine=False)
    examples = content["examples"]
    content["name"] = content["command"] = HOSTILE[0]
    content["notices"] = HOSTILE[:]
    for k, name in enumerate(HOSTILE):
        examples["ids"][k], examples["labels"][k] = name, name[::-1]
    examples["features"] = examples["target_features"] = HOSTILE[:2]
    content["classes"][0]["rows"][0][0] = HOSTILE[1]
    content["curves"]["baseline"][0] = HOSTILE[5]
    content["config"][0] = HOSTILE[:3]
    file = tmp_path / "hostile.html"
    file.write_text(render_page(content), encoding="utf-8")
    found = opened(file)
    assert found.page.title() == f"{HOSTILE[0]} - seqattn report"
    assert [notice.inner_text() for notice in found.page.locator(".notice").all()][1] == HOSTILE[1]
    options = found.page.locator("#example option").all_inner_texts()
    assert options[2].startswith(HOSTILE[2])
    assert found.page.locator("img, main script, main a[href^=javascript]").count() == 0
    assert HOSTILE[0] in found.text("#step-text")
    content["examples"] |= {
        "plane": False,
        "features": ["%{y}", "b"],
        "target_features": ["%{y}", "b"],
    }
    found = opened(written(content, tmp_path))
    drawn = found.page.evaluate(
        "document.getElementById('path').data.map((t) => [t.hovertemplate, t.text[0]])"
    )
    assert {template for template, _ in drawn} == {"%{text}<extra></extra>"}
    forecast = re.search(r"Forecast: %\{y\} (\S+) ", found.text("#step-text"))
    assert forecast is not None
    found.page.evaluate("Plotly.Fx.hover('path', [{curveNumber: 2, pointNumber: 0}])")
    shown = found.page.locator("#path .hovertext").text_content()
    assert shown == f"point 3%{{y}} {forecast[1]}"
    assert found.page.locator("#path .ytitle").text_content() == "%{y}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_light_and_dark(
    scheme: str, opened: Open, runs: dict[str, Path]
) -> None:
    found = opened(runs["squares"] / "report.html", color_scheme=scheme)
    ground, inks = found.page.evaluate(
        """() => {
          const of = (e) => getComputedStyle(e).color.match(/[\\d.]+/g).map(Number);
          const ground = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
          return [ground, [...document.querySelectorAll("p, th, td, a, h1, h2, label")].map(of)];
        }"""
    )

    def luminance(colour: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                  for c in (x / 255 for x in colour[:3])]  # fmt: skip
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    for ink in inks:
        light, dark = sorted((luminance(ink), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)
    assert (luminance(ground) > 0.5) == (scheme == "light")


def test_all_can_be_reached_from_the_keyboard(opened: Open, runs: dict[str, Path]) -> None:
    found = opened(runs["transformer"] / "report.html")
    reached = set()
    for _ in range(80):
        found.page.keyboard.press("Tab")
        reached.add(found.page.evaluate("document.activeElement.id"))
    assert {
        "example",
        "before",
        "after",
        "kind",
        "head",
        "colours",
        "step",
        "scale",
        "history-frame",
        "history-play",
    } <= reached
    unnamed = found.page.evaluate(
        "[...document.querySelectorAll('.plot')].filter((e) => !e.getAttribute('aria-label')).length"
    )
    assert unnamed == 0


def test_a_thousand_long_sequences_stay_small_and_quick(
    opened: Open, runs: dict[str, Path], tmp_path: Path
) -> None:
    """1,000 sequences of 64 x 64 weights below 12 MB; 1,200 are sampled, and the page says so."""
    import shutil

    path = tmp_path / "long"
    shutil.copytree(runs["copy"], path)
    numbers = np.random.default_rng(1)
    N, S = 1200, 64
    points = numbers.normal(size=(N, S, 2))
    weights = numbers.dirichlet(np.full(S, 0.1), size=(N, S)).astype(np.float32)
    lengths = np.full(N, S)
    ids = np.array([str(k) for k in range(N)])
    np.savez(path / "predictions.npz", ids=ids, features=np.array(["x", "y"]), said=np.array(["x", "y"]),
             labels=np.array([], dtype=str), source=points, source_lengths=lengths, target=points,
             target_lengths=lengths, forecast=points + numbers.normal(size=points.shape) * 0.1)  # fmt: skip
    np.savez(path / "attention.npz", weights=weights[:, None, None], meaning=np.array("distribution"), ids=ids,
             source_lengths=lengths, target_lengths=lengths)  # fmt: skip
    file = report(path, live=False)
    assert file.stat().st_size < 12 * 2**20
    found = opened(file)
    assert "1,000 of 1,200 test sequences are in the explorer" in found.text("main")
    took = found.page.evaluate(
        """() => {
          const step = document.getElementById("step"), began = performance.now();
          for (let k = 0; k < 20; k += 1) { step.value = k; step.dispatchEvent(new Event("input")); }
          return (performance.now() - began) / 20;
        }"""
    )
    assert took < 1000, "a step takes seconds"  # a hang, not a speed
