"""Baselines of the user's own data, and their errors in its units."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqattn.analysis.evaluation import ReferenceLosses
from seqattn.config import OwnFile
from seqattn.data import Sequences, Splits, load_data
from seqattn.data.baselines import (
    DRIFT,
    LAST_POINT,
    build_baselines,
)
from seqattn.data.file_dataset import target_series
from seqattn.data.least_squares import least_squares
from seqattn.data.metrics import Errors, InSample
from seqattn.data.naive import drift, last_value, seasonal_naive
from seqattn.data.series import Spans, regularize
from seqattn.data.windows import RowRanges
from seqattn.errors import DataError
from tests.conftest import in_spaces_of, whole

NAN = math.nan


def one_source(values: list[float], T: int, length: int | None = None) -> Sequences:
    """A sequence whose NaN were not observed; what they hold is a filler that no baseline may read."""
    source = np.array(values)[None, :, None]
    seen = np.isfinite(source) & (np.arange(len(values)) < (length or len(values)))[None, :, None]
    return Sequences(
        np.where(np.isfinite(source), source, 1e6), np.array([length or len(values)]),
        np.zeros((1, T, 1)), np.array([T]), ("x",), ("a",), source_observed=seen,
    )  # fmt: skip


# --- the forecasts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "last", "line"),
    [
        ([1, 2, 5], 5, [7, 9, 11]),  # slope (5 - 1) / 2
        ([NAN, 2, 5, NAN], 5, [11, 14, 17]),  # slope 3, and a step has passed unseen
        ([NAN, 4, NAN], 4, [4, 4, 4]),
        ([3], 3, [3, 3, 3]),
    ],
)
def test_last_value_and_drift_by_hand(values: list[float], last: float, line: list[float]) -> None:
    part = one_source(values, 3)
    assert last_value(part, [0])[0, :, 0].tolist() == [last] * 3
    assert drift(part, [0])[0, :, 0].tolist() == pytest.approx(line)


def test_padding_is_no_last_value() -> None:
    part = one_source([1, 2, 3, 99, 99], 2, length=3)
    plain = replace(part, source_observed=None)
    for each in (part, plain):
        assert last_value(each, [0]).ravel().tolist() == [3, 3]
        assert drift(each, [0]).ravel().tolist() == [4, 5]
        assert seasonal_naive(each, [0], 2).ravel().tolist() == [2, 3]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3, 4, 5, 6], [4, 5, 6, 4, 5]),
        ([1, 2, 3, NAN, 5, 6], [1, 5, 6, 1, 5]),  # a season before the gap
        ([NAN, 2, 3, NAN, 5, 6], [6, 5, 6, 6, 5]),  # never observed: the last value
        ([9, 1, NAN, 3, NAN, NAN, 6], [1, 6, 6, 1, 6]),
    ],
)
def test_seasonal_naive_by_hand(values: list[float], expected: list[float]) -> None:
    found = seasonal_naive(one_source(values, 5), [0], 3)
    assert found[0, :, 0].tolist() == expected


def test_each_feature_finds_its_place_in_the_source() -> None:
    source = np.arange(24.0).reshape(2, 4, 3)
    part = Sequences(
        source, np.array([4, 4]), np.zeros((2, 2, 2)), np.array([2, 2]), ("a", "b", "c"),
        ("p", "q"), target_features=("c", "a"),
    )  # fmt: skip
    assert np.array_equal(last_value(part, [2, 0])[:, 0], source[:, 3][:, [2, 0]])
    assert np.array_equal(seasonal_naive(part, [2, 0], 3)[:, 0], source[:, 1][:, [2, 0]])
    assert np.array_equal(drift(part, [2, 0])[:, 1], source[:, 3][:, [2, 0]] + 6)


# --- the errors -----------------------------------------------------------------------------------


def table(values: Any, offsets: list[int]) -> RowRanges:
    values = np.asarray(values, dtype=np.float64)
    starts, lengths = np.array(offsets[:-1]), np.diff(offsets)
    columns = tuple(range(values.shape[1]))
    return RowRanges(values, columns, (), starts, lengths, np.arange(len(starts)))


def test_errors_by_hand() -> None:
    """Forecasts 2 and 4 off, a third cell that was not observed."""
    in_sample = InSample(7, "given", (0.5, None), (None, "the training series are constant"))
    target = np.array([[[10.0, 1.0], [20.0, NAN], [NAN, 5.0]]])
    part = Sequences(
        np.zeros((1, 1, 2)), np.array([1]), target, np.array([3]), ("x", "y"), ("a",),
        target_observed=np.isfinite(target),
    )  # fmt: skip
    errors = Errors.of(np.array([[[12.0, 2.0], [16.0, 1e9], [1e9, 2.0]]]), part, in_sample)
    assert errors.mae == [3, 2]
    assert errors.rmse == pytest.approx([math.sqrt(10), math.sqrt(5)])
    assert errors.mase == [6, None]
    assert errors.mase_mean == 6


def test_the_scale_of_mase_by_hand() -> None:
    """Two series of 5 and 3 points; no difference spans both."""
    values = [[1, 0], [2, 0], [4, NAN], [8, 0], [16, 0], [100, 7], [101, 7], [103, 7]]
    found, note = InSample.of(table(values, [0, 5, 8]), 1, None)
    assert found.scale == (pytest.approx((1 + 2 + 4 + 8 + 1 + 2) / 6), None)
    assert found.undefined == (None, "the training series are constant")
    assert (found.season, found.origin, note) == (1, "given", "")
    found, _ = InSample.of(table(values, [0, 5, 8]), 2, None)
    assert found.scale == (pytest.approx((3 + 6 + 12 + 3) / 4), None)
    assert found.undefined[1] == "the training series repeat exactly after 2 steps"
    found, _ = InSample.of(table(values, [0, 5, 8]), 5, None)
    assert found.scale == (None, None)
    assert found.undefined[0] == "no two observed training points are 5 steps apart"


def test_the_scale_does_not_depend_on_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqattn.data import windows

    values = np.random.default_rng(1).normal(size=(101, 2))
    values[::7, 1] = NAN
    series = table(values, [0, 31, 32, 101])
    whole, _ = InSample.of(series, 3, None)
    expected = [
        np.nanmean(np.abs(np.concatenate([
            one[3:, f] - one[:-3, f] for one in (values[:31], values[32:])
        ]))) for f in (0, 1)
    ]  # fmt: skip
    assert whole.scale == pytest.approx(expected)
    monkeypatch.setattr(windows, "MAX_BLOCK_VALUES", 160)
    small, _ = InSample.of(series, 3, None)
    assert small.scale == pytest.approx(whole.scale, rel=1e-14)


@pytest.mark.parametrize("value", [0.0, 0.1 + 0.2, -1e9])
def test_a_constant_series_has_no_mase(value: float) -> None:
    found, note = InSample.of(table(np.full((40, 1), value), [0, 40]), None, None)
    assert (found.season, found.scale) == (None, (None,))
    assert "no season was found" in note


# --- from files -----------------------------------------------------------------------------------


def weekly(seed: int, n: int = 420) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed)
    wave = np.sin(2 * np.pi * np.arange(n) / 7)
    return np.column_stack([
        1000 + 100 * wave + 20 * numbers.normal(size=n), 0.01 * wave + 0.003 * numbers.normal(size=n),
    ])  # fmt: skip


def written(path: Path, values: np.ndarray[Any, Any], name: str = "") -> Path:
    head, first = ("sequence,step,x,y", f"{name},") if name else ("step,x,y", "")
    rows = [f"{first}{t},{','.join('' if math.isnan(v) else repr(float(v)) for v in row)}"
            for t, row in enumerate(values)]  # fmt: skip
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


WINDOWS = {"series": None, "window": {"source": 21, "target": 5}, "split": {"by": "time"}}


def loaded(path: Path, **keys: Any) -> Splits:
    return load_data(OwnFile.model_validate({"path": str(path), **WINDOWS, **keys}))


def test_the_season_is_of_the_training_series_and_not_of_its_windows(tmp_path: Path) -> None:
    values = weekly(1)
    data = loaded(written(tmp_path / "f.csv", values))
    found = data.in_sample
    assert found is not None
    assert (found.season, found.origin) == (7, "found")
    train = values[: 420 - 2 * 63]
    assert found.scale == pytest.approx(np.abs(train[7:] - train[:-7]).mean(axis=0).tolist())
    assert any(note.startswith("a season of 7 steps was found") for note in data.notes)
    against = ReferenceLosses.from_splits(data.test, data)
    name = "seasonal naive (season 7, found)"
    assert {LAST_POINT, DRIFT, name} < set(against.baselines)
    # Test windows of 26 points, the first of which begins at row 357.
    errors_by_definition = []
    for start in range(357, 420 - 25):
        season_before = values[start + 14 : start + 19]
        errors_by_definition.append(np.abs(values[start + 21 : start + 26] - season_before))
    errors = against.errors[name]
    assert errors.mae == pytest.approx(np.mean(errors_by_definition, axis=(0, 1)).tolist())
    assert errors.mase == pytest.approx(
        (np.mean(errors_by_definition, axis=(0, 1)) / found.scale).tolist()
    )
    assert errors.mase_mean == pytest.approx(np.mean(errors.mase))  # type: ignore[arg-type]


def test_a_given_season_wins(tmp_path: Path) -> None:
    data = loaded(written(tmp_path / "f.csv", weekly(1)), season=14)
    assert data.in_sample is not None
    assert data.in_sample.seasonal_naive == "seasonal naive (season 14, given)"
    assert data.in_sample.seasonal_naive in ReferenceLosses.from_splits(data.test, data).baselines
    assert not any("season" in note for note in data.notes)
    with pytest.raises(DataError, match="data.season is 22, but a source may have only 21 points"):
        loaded(tmp_path / "f.csv", season=22)


def test_where_there_is_no_season_there_is_no_row_but_a_note(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(size=(420, 2)).cumsum(axis=0)
    data = loaded(written(tmp_path / "f.csv", values))
    assert data.in_sample is not None
    assert data.in_sample.season is None
    train = values[: 420 - 2 * 63]
    assert data.in_sample.scale == pytest.approx(
        np.abs(np.diff(train, axis=0)).mean(axis=0).tolist()
    )
    assert not any(
        "seasonal" in name for name in ReferenceLosses.from_splits(data.test, data).baselines
    )
    assert any("no season was found in the training series" in note for note in data.notes)


def test_a_shorter_source_than_the_season_found_leaves_the_row_out(tmp_path: Path) -> None:
    data = loaded(written(tmp_path / "f.csv", weekly(1)))
    short = replace(data.test.select(slice(None)), source_lengths=np.full(len(data.test), 6))
    free = build_baselines(data.train, short, None, data.in_sample)
    assert "seasonal naive (season 7, found)" not in free.forecasts
    assert list(free.notes) == [
        "no seasonal naive forecast: a source has only 6 points, the season 7"
    ]


@pytest.mark.parametrize("kind", ["time", "files", "cache"])
def test_nothing_leaks_from_validation_and_test(tmp_path: Path, kind: str) -> None:
    """Other values there, with other gaps, lengths and seasons, change nothing that baselines and
    MASE are made of."""

    def load_splits(folder: Path, after: np.ndarray[Any, Any]) -> Splits:
        folder.mkdir()
        before = weekly(1, 294)
        before[[40, 41], 1] = NAN
        if kind == "time":
            both = written(folder / "f.csv", np.concatenate([before, after]))
            return loaded(both, missing="interpolate")
        keys = {**WINDOWS, "missing": "interpolate"}
        del keys["split"]
        paths = {}
        for key, values in (("path", before), ("validation_path", after[:63]),
                            ("test_path", after[63:])):  # fmt: skip
            paths[key] = str(folder / f"{key}.parquet")
            columns = {"step": np.arange(len(values))}
            columns |= {k: pa.array(values[:, i], from_pandas=True) for i, k in enumerate("xy")}
            pq.write_table(pa.table(columns), paths[key])
        keys["cache"] = "always" if kind == "cache" else "auto"
        return load_data(OwnFile.model_validate({**keys, **paths}))

    numbers = np.random.default_rng(2)
    other = np.sin(np.arange(126.0))[:, None] * [5, -1] + numbers.normal(size=(126, 2))
    other[::11] = NAN
    one, two = (load_splits(tmp_path / name, after) for name, after in (
        ("one", weekly(5, 126)), ("two", other)))  # fmt: skip
    assert not np.array_equal(one.test.target, two.test.target)
    assert one.in_sample == two.in_sample
    assert one.in_sample is not None
    assert one.in_sample.season == 7
    part = one.test  # the same to be forecast, from either training part
    free, again = (build_baselines(each.train, part, None, each.in_sample) for each in (one, two))
    assert free.forecasts.keys() == again.forecasts.keys()
    for name in free.forecasts:
        assert free.forecast(name, part)[:].tobytes() == again.forecast(name, part)[:].tobytes(), (
            name
        )
    fitted = [
        whole(least_squares(each.train, in_spaces_of(part, each.train))) for each in (one, two)
    ]
    assert fitted[0] is not None
    assert fitted[1] is not None
    assert fitted[0].tobytes() == fitted[1].tobytes()


def test_a_folder_has_the_season_and_scale_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    names, every = [], []
    for k in range(40):
        values = weekly(k, 60)
        every.append(values)
        names.append(f"s{k}")
    for file in range(4):
        rows = range(10 * file, 10 * file + 10)
        pq.write_table(pa.table({
            "sequence": np.repeat([names[k] for k in rows], 60), "step": np.tile(np.arange(60), 10),
            **{n: np.concatenate([every[k][:, i] for k in rows]) for i, n in enumerate("xy")},
        }), folder / f"{file}.parquet")  # fmt: skip
    keys = {
        "window": {"source": 14, "target": 3},
        "split": {"by": "sequence", "validation": 0.2, "test": 0.2},
    }
    data = load_data(OwnFile.model_validate({**keys, "path": str(folder), "cache": "always"}))
    assert data.in_sample is not None
    assert (data.in_sample.season, data.in_sample.origin) == (7, "found")
    train = {name.rpartition("@")[0] for name in data.train.ids}
    assert 10 < len(train) < 40
    moves = [every[k][7:] - every[k][:-7] for k in range(40) if f"s{k}" in train]
    scale = np.abs(np.concatenate(moves)).mean(axis=0)
    assert data.in_sample.scale == pytest.approx(scale.tolist(), rel=1e-12)


def test_targets_that_a_file_keeps_apart_are_series_of_their_own(tmp_path: Path) -> None:
    numbers = np.random.default_rng(4)
    np.savez(
        tmp_path / "f.npz", source=numbers.normal(size=(20, 5, 1)) + 100,
        target=numbers.normal(size=(20, 6, 1)),
    )  # fmt: skip
    data = load_data(OwnFile.model_validate({"path": str(tmp_path / "f.npz")}))
    assert data.in_sample is not None
    moves = np.abs(np.diff(data.train.target[..., 0], axis=1)).mean()
    assert data.in_sample.scale == pytest.approx([moves])


def test_target_series_are_the_target_columns(tmp_path: Path) -> None:
    from seqattn.data.files import read_all
    from seqattn.data.many_files import make_reading

    values = weekly(1, 50)
    values[[3, 9], 1] = NAN
    path = written(tmp_path / "f.csv", values)
    config = OwnFile.model_validate({
        "path": str(path), "series": None, "source_features": ["x", "y"],
        "target_features": ["y"], "window": {"source": 5, "target": 2}, "missing": "interpolate",
    })  # fmt: skip
    series = regularize(read_all(path, make_reading(config)), "f", config, None)
    found = target_series(series, Spans.of_series(series), config)
    assert np.array_equal(found[0][:, 0], values[:, 1], equal_nan=True)
