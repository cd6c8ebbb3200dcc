"""What scripts/real_data.py gives to seqattn and to its peers, and how it scores them."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from seqattn.config import resolve
from seqattn.data import load_data
from tests.conftest import ROOT


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("real_series")


@pytest.fixture
def script(series: Any) -> Any:
    return importlib.import_module("real_data")


def test_seqattn_cuts_the_windows_that_the_peers_get(series: Any, tmp_path: Path) -> None:
    """The CSV files, read by seqattn, give the same sources, and the same targets with the same
    cells missing, in all three parts."""
    S, T = 5, 3
    values = np.random.default_rng(7).normal(size=(61, 2))
    values[[9, 23, 24, 47], [0, 1, 1, 0]] = np.nan
    parts = series.cut_in_time(values, S, validation=13, test=17)
    paths = {part: tmp_path / f"{part}.csv" for part in series.PARTS}
    for part, path in paths.items():
        series.write_csv(path, parts.series[part], ("x", "y"))
    config = resolve(
        None,
        ["data.kind=file", f"data.path={paths['train']}", "data.series=series", "data.time=step",
         f"data.validation_path={paths['validation']}", f"data.test_path={paths['test']}",
         f"data.window={{source: {S}, target: {T}}}", "data.missing=interpolate"],
    ).config  # fmt: skip
    splits = load_data(config.data)
    for part in series.PARTS:
        ours = getattr(splits, part)
        windows = series.windows_of(parts.series[part], S, T)
        np.testing.assert_allclose(ours.source, windows.source, rtol=1e-12)
        cells = ~np.isnan(windows.target)
        np.testing.assert_array_equal(ours.target_cells, cells)
        np.testing.assert_array_equal(ours.target[cells], windows.target[cells])
    assert len(series.windows_of(parts.series["test"], S, T).source) == 17 - T + 1


def test_each_part_forecasts_its_own_points(series: Any) -> None:
    """Targets of the parts never overlap, and sources may reach into the part before."""
    values = np.arange(40.0)[:, None]
    parts = series.cut_in_time(values, 4, validation=7, test=11)
    points = {
        part: set(series.windows_of(parts.series[part], 4, 3).target.ravel())
        for part in series.PARTS
    }
    assert points["test"] == set(range(29, 40))
    assert points["validation"] == set(range(22, 29))
    assert points["train"] == set(range(4, 22))
    with pytest.raises(ValueError, match="4 points are left to train on"):
        series.cut_in_time(values[:22], 4, validation=7, test=11)


def test_a_window_fills_its_source_from_itself(series: Any) -> None:
    values = np.array([[1.0], [np.nan], [5.0], [np.nan], [9.0]])
    windows = series.windows_of([values], 2, 2)
    assert windows.source[:, :, 0].tolist() == [[1.0, 1.0], [5.0, 5.0]]
    np.testing.assert_array_equal(windows.target[:, :, 0], [[5.0, np.nan], [np.nan, 9.0]])
    assert windows.origins.tolist() == [2, 3]


def test_errors_count_observed_cells_and_refuse_what_is_no_forecast(series: Any) -> None:
    target = np.array([[[1.0], [np.nan]], [[3.0], [4.0]]])
    forecast = np.array([[[4.0], [7.0]], [[3.0], [0.0]]])
    assert series.rmse(forecast, target) == pytest.approx((25 / 3) ** 0.5)
    with pytest.raises(ValueError, match="not finite"):
        series.rmse(np.full_like(forecast, np.nan), target)
    with pytest.raises(ValueError, match="forecast"):
        series.rmse(forecast[:1], target)


def test_utterances_are_read_frame_by_frame(series: Any, tmp_path: Path) -> None:
    path = tmp_path / "two.ts"
    path.write_text("#about\n@classLabel true 1 2\n@data\n1,2,3:4,5,6:1\n7,8:9,10:2\n")
    first, second = series.read_ts(path)
    assert first.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert second.tolist() == [[7, 9], [8, 10]]


def test_the_configs_have_the_windows_of_the_peers(series: Any) -> None:
    """A window or season in a YAML file that differs from the peers' would compare two tasks."""
    for name, data in series.DATA_SETS.items():
        section = yaml.safe_load((ROOT / f"configs/real/{name}.yaml").read_text())["data"]
        assert section["window"] == {"source": data.source, "target": data.target}
        assert section["season"] == data.season
        paths = [section[key] for key in ("path", "validation_path", "test_path")]
        assert paths == [f"outputs/real/data/{name}-{part}.csv" for part in series.PARTS]


def test_a_table_without_peers_has_empty_cells_and_says_why(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"rmse": 2.0, "min": 1.5, "max": 2.5, "mase": 0.4, "least_squares": 3.0}
    monkeypatch.setattr(script, "installed", lambda package: False)
    row = script.results_table({"air": {"seqattn": ours}}).splitlines()[2]
    assert row.startswith("| air, thousand passengers | **2** (1.5 to 2.5) | 0.40 | 3 |")
    assert re.findall(r"\|\s+(?=\|)", row) == ["|  "] * 8
    assert "neuralforecast is not installed, so its columns are empty." in script.notes({})
    results = {"air": {"seqattn": ours, "neural": {"NHITS": {"rmse": 1.6}, "DLinear": {"rmse": 2}}}}
    assert script.notes(results)[0] == "air: +25.0% against the best neural peer (NHITS)"


def test_a_data_set_whose_package_is_not_there_says_which(
    script: Any, series: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="vowels ships with aeon, .* pip install aeon, or leave"):
        script.written("vowels")


def test_the_page_has_the_table_of_the_recorded_figures(script: Any) -> None:
    record = json.loads((ROOT / "docs/real-data.json").read_text())
    page = (ROOT / "docs/benchmarks.md").read_text()
    assert list(record) == list(script.DATA_SETS)
    assert script.results_table(record) in page
    for note in script.notes(record):
        if "neural peer" in note:
            name, share, peer = re.match(r"(\w+): (\S+) against .* \((\w+)\)", note).groups()  # type: ignore[union-attr]
            assert re.search(rf"`{name}`\s+{re.escape(share)}\s+\({peer}\)", page), note
