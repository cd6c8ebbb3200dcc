"""DataFrames of pandas, polars and pyarrow: read as the same table in a file."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import seqattn
from seqattn.data.chunk import Chunk
from seqattn.data.files import read_all
from seqattn.data.frames import NAME, frame_kind, plain_pandas, temporary_parquet
from seqattn.data.reading import Reading
from seqattn.errors import DataError, UsageError
from seqattn.experiments.api import DataNote, Run
from tests.conftest import Ended

pytestmark = pytest.mark.usefixtures("no_pictures")
ROWS, SERIES = 40, 4
CONFIG = (
    "name: c\ndata: {kind: file, path: f.csv, window: {source: 5, target: 3}, "
    "missing: interpolate, cache: never}\nmodel: {hidden_dim: 3}\ntraining: {epochs: 2}\n"
)
OPTIONS = Reading(is_training=False)


def table() -> pd.DataFrame:
    """Four series of forty days, with a missing cell; rows are shuffled."""
    day = np.datetime64("2021-01-01")
    rows = [
        (f"s{k}", day + t, float(np.sin(t + k)), float(t * k))
        for k in range(SERIES) for t in range(ROWS)
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["plant", "when", "x", "y"])
    frame.loc[7, "x"] = np.nan
    order = np.random.default_rng(3).permutation(len(frame))
    return frame.iloc[order].reset_index(drop=True)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the CSV file of the table."""
    from seqattn import experiments
    from seqattn.config import resolve

    home = tmp_path_factory.mktemp("frames")
    table().to_csv(home / "f.csv", index=False)
    (home / "c.yaml").write_text(CONFIG)
    config = resolve(home / "c.yaml", [f"data.path={home / 'f.csv'}"]).config
    folder, _ = experiments.train_one(config, home, plots=False)
    return folder.path


@pytest.fixture(scope="module")
def opened(trained: Path) -> Run:
    return load(trained)


@pytest.fixture(scope="module")
def of_file(trained: Path) -> tuple[Any, dict[str, Any]]:
    """Forecasts and losses of the CSV file, by the command line."""
    table = str(trained.parent / "f.csv")
    printed = output_of("predict", str(trained), "--input", table, "--format", "jsonl")
    forecasts = [json.loads(line)["forecast"] for line in printed.splitlines()]
    return np.array(forecasts), json.loads(
        output_of("evaluate", str(trained), "--input", table, "--json")
    )


def output_of(*words: str) -> str:
    """What a command prints, run in this process."""
    from seqattn.cli import main

    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()) as printed,
    ):
        patch.setattr(sys, "argv", ["seqattn", *words])
        with pytest.raises(SystemExit) as left:
            main()
    assert not left.value.code
    return printed.getvalue()


def read(frame: Any, options: Reading = OPTIONS) -> Chunk:
    with temporary_parquet(frame) as path:
        return read_all(path, options, NAME)


def quiet(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNote)
        return call()


def same(one: Chunk, other: Chunk, *, ids: bool = True) -> None:
    assert not ids or one.ids == other.ids
    assert one.points.features == other.points.features
    np.testing.assert_array_equal(one.points.offsets, other.points.offsets)
    np.testing.assert_array_equal(one.points.values, other.points.values)
    assert (one.order is None) == (other.order is None)
    if one.order is not None and other.order is not None:
        assert one.order.dtype == other.order.dtype
        np.testing.assert_array_equal(one.order, other.order)


# --- the same as a file ---------------------------------------------------------------------------


def as_polars(frame: pd.DataFrame) -> pl.DataFrame:
    columns = {name: frame[name].to_list() for name in ("plant", "when")}
    return pl.DataFrame(columns | {name: frame[name].to_numpy() for name in ("x", "y")})


SHAPES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda f: f,
    "polars": as_polars,
    "pyarrow": lambda f: pa.table({n: f[n].to_numpy() if n != "plant" else f[n].to_list() for n in f}),
    "named index": lambda f: f.set_index("plant"),
    "MultiIndex": lambda f: f.set_index(["plant", "when"]),
    "row labels": lambda f: f.set_axis(np.arange(len(f))[::-1]),
    "a subclass": lambda f: type("Mine", (pd.DataFrame,), {})(f),
    "categories": lambda f: f.astype({"plant": "category"}),
    "string": lambda f: f.astype({"plant": "string", "x": "Float64", "y": "Int64"}),
    "object": lambda f: f.astype(object).where(f.notna(), None),
    "pd.NA": lambda f: f.astype(object).where(f.notna(), pd.NA),
    "float32": lambda f: f.astype({"x": np.float64, "y": np.float32}),
    "seconds": lambda f: f.astype({"when": "datetime64[s]"}),
    "nanoseconds": lambda f: f.astype({"when": "datetime64[ns]"}),
    "UTC": lambda f: f.assign(when=f["when"].dt.tz_localize("UTC")),
    "Tokyo": lambda f: f.assign(when=f["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
    "UTC, nanoseconds": lambda f: f.assign(
        when=f["when"].astype("datetime64[ns]").dt.tz_localize("UTC")),
    "period": lambda f: f.assign(when=f["when"].dt.to_period("D")),
    "date": lambda f: f.assign(when=f["when"].dt.date),
    "polars Enum": lambda f: as_polars(f).with_columns(
        pl.col("plant").cast(pl.Enum(["s3", "s2", "s1", "s0"]))),
    "polars Categorical": lambda f: as_polars(f).with_columns(pl.col("plant").cast(pl.Categorical)),
    "polars zone": lambda f: as_polars(f).with_columns(
        pl.col("when").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")),
    "polars ns zone": lambda f: as_polars(f).with_columns(
        pl.col("when").dt.cast_time_unit("ns").dt.replace_time_zone("UTC")),
    "polars null": lambda f: as_polars(f).with_columns(pl.col("x").fill_nan(None)),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_forecasts_of_a_frame_are_those_of_its_file(
    opened: Run, shape: str, of_file: tuple[Any, dict[str, Any]]
) -> None:
    frame = SHAPES[shape](table())
    forecasts, loss = of_file
    np.testing.assert_allclose(quiet(lambda: opened.predict(frame)), forecasts, rtol=1e-6)
    assert quiet(lambda: opened.evaluate(frame)).as_plain() == loss


@pytest.mark.parametrize("shape", ["pandas", "polars", "MultiIndex"])
def test_training_on_a_frame_is_training_on_its_file(trained: Path, shape: str) -> None:
    Path("c.yaml").write_text(CONFIG)
    run = seqattn.train("c.yaml", data=SHAPES[shape](table()))
    other = load(trained)
    assert run.summary["test_loss"] == other.summary["test_loss"]
    roles, wanted = run.trained.spec.reading, other.trained.spec.reading
    assert roles is not None
    assert wanted is not None
    assert (roles.series, roles.time, roles.features) == (
        wanted.series,
        wanted.time,
        wanted.features,
    )
    assert run.trained.spec.frequency == other.trained.spec.frequency
    for one, same_one in zip(run.history, other.history, strict=True):
        assert one.validation_loss == same_one.validation_loss
    np.testing.assert_array_equal(
        quiet(lambda: run.predict(table())), quiet(lambda: other.predict(table()))
    )


def load(path: Path) -> Run:
    return seqattn.load(path)


def test_the_command_line_works_on_a_run_of_a_frame(seqattn: Callable[..., Ended]) -> None:
    import seqattn as package

    Path("c.yaml").write_text(CONFIG)
    run = package.train("c.yaml", data=table(), overrides=["training.epochs=1"])
    (kept,) = Path("outputs").glob("c-*.parquet")
    assert f"path: {kept}" in Path("outputs/c/config.yaml").read_text()
    assert seqattn("evaluate", "outputs/c").code == 0
    with pytest.raises(UsageError, match="already has a run"):
        package.train("c.yaml", data=table())
    run = package.train("c.yaml", data=table(), resume=True)
    assert len(run.history) == 2
    other = table().assign(y=0.5)
    with pytest.raises(DataError, match="has changed since the training began"):
        package.train("c.yaml", data=other, resume=True, overrides=["training.epochs=3"])
    assert list(Path("outputs").glob("*.parquet")) == [kept]
    assert seqattn("evaluate", "outputs/c").code == 0
    package.train("c.yaml", data=other, overwrite=True)
    assert seqattn("evaluate", "outputs/c").code == 0


def test_parts_of_their_own_are_frames_too() -> None:
    Path("c.yaml").write_text(CONFIG)
    frame = table()
    parts = [frame[frame["plant"].isin(names)] for names in (["s0", "s1"], ["s2"], ["s3"])]
    run = quiet(lambda: seqattn.train("c.yaml", parts[0], validation=parts[1], test=parts[2]))
    assert {name.split("@")[0] for name in run.data.test.ids} == {"s3"}


def test_what_cannot_be_trained_on_leaves_nothing() -> None:
    from seqattn.config import resolve

    Path("c.yaml").write_text(CONFIG)
    with pytest.raises(DataError, match="expected a DataFrame, got list"):
        seqattn.train("c.yaml", data=[1, 2])
    with pytest.raises(UsageError, match="data.kind is squares"):
        seqattn.train(resolve(None, []).config, data=table())
    with pytest.raises(DataError):
        seqattn.train("c.yaml", data=table().head(3))
    assert not list(Path().glob("outputs/*"))


# --- forecasts as a frame -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda f: f, as_polars, SHAPES["pyarrow"]])
def test_forecasts_as_a_frame(trained: Path, make: Any, seqattn: Callable[..., Ended]) -> None:
    frame = make(table())
    found = quiet(lambda: load(trained).predict_frame(frame, steps=2))
    assert type(found) is type(frame)
    plain = found if isinstance(found, pd.DataFrame) else pd.DataFrame(
        {name: found[name].to_numpy() for name in ("plant", "when", "x", "y")})  # fmt: skip
    assert list(plain.columns) == ["plant", "when", "x", "y"]
    table().to_csv("g.csv", index=False)
    done = seqattn("predict", trained, "--input", "g.csv", "--steps", "2", "--output", "o.csv")
    assert done.code == 0, done.err
    wanted = pd.read_csv("o.csv", parse_dates=["when"])
    assert list(plain["plant"]) == list(wanted["plant"])
    assert list(plain["when"].astype("datetime64[us]")) == list(wanted["when"])
    np.testing.assert_allclose(plain[["x", "y"]], wanted[["x", "y"]], rtol=1e-6, atol=1e-7)


# --- what a frame may hold ------------------------------------------------------------------------


def test_a_frame_is_not_changed(trained: Path) -> None:
    frame = table().set_index("plant")
    frame.index.name = "plant"
    before = frame.copy(deep=True)
    quiet(lambda: load(trained).predict(frame))
    pd.testing.assert_frame_equal(frame, before)
    other = as_polars(table())
    copied = other.clone()
    quiet(lambda: load(trained).predict(other))
    assert other.equals(copied)


def test_rows_keep_their_order_where_nothing_says_when() -> None:
    values = np.random.default_rng(1).normal(size=300_000)
    for frame in (
        pd.DataFrame({"x": values, "y": values}).sample(frac=1, random_state=2),
        pl.DataFrame({"x": values, "y": values}).sample(fraction=1, shuffle=True, seed=2),
    ):
        found = read(frame, Reading(series=(), time=(), is_training=False))
        np.testing.assert_array_equal(found.points.values[:, 0], frame["x"].to_numpy())


@pytest.mark.parametrize(
    ("taken", "name"),
    [((), "time"), (("Time",), "time_of_index"),
     (("time", "time_of_index", "index_"), "time_of_index_2")],
)  # fmt: skip
def test_an_index_of_dates_gets_a_name_that_no_column_has(
    taken: tuple[str, ...], name: str
) -> None:
    days = pd.date_range("2024-01-01", periods=5)
    frame = pd.DataFrame({column: np.arange(5.0) for column in ("x", *taken)}, index=days)
    assert plain_pandas(frame).columns[0] == name
    chunk = read(frame, Reading(is_training=False, features=("x",), time=(name,)))
    assert chunk.order is not None
    np.testing.assert_array_equal(chunk.order, days.to_numpy())


def test_two_unnamed_levels_of_dates_get_two_names() -> None:
    index = pd.MultiIndex.from_product([pd.date_range("2024-01-01", periods=n) for n in (2, 3)])
    columns = plain_pandas(pd.DataFrame({"x": np.arange(6.0)}, index=index)).columns
    assert list(columns) == ["time", "time_of_index", "x"]


def test_an_index_of_dates_without_a_name_is_the_time() -> None:
    index = pd.date_range("2021-01-01", periods=9, tz="Europe/Oslo")
    for at in (index, index.tz_convert(None).to_period("D")):
        found = read(pd.DataFrame({"x": np.arange(9.0)}, index=at))
        assert found.order is not None
        assert found.style.time_columns == ("time",)
    with_column = read(
        pd.DataFrame({"time": np.arange(9) * 2.0, "x": np.arange(9.0)}, index=index),
        Reading(is_training=False, time=("time",)),
    )
    assert with_column.order is not None
    np.testing.assert_array_equal(with_column.order, np.arange(9) * 2.0)


@pytest.mark.parametrize(("frame", "words"), [
    (pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"]), "its index has no name.*rename_axis('series')"),
    (pd.DataFrame({"x": [1.0]}, index=pd.MultiIndex.from_tuples([("a", 1)])),
     "level 0 of its index has no name.*rename_axis(['series', 'time'])"),
    (pd.DataFrame([[1, 2]], columns=["a", "A"]), "the columns 'a' and 'A' have one name but for case"),
    (pd.DataFrame([[1, 2]], columns=[1, "1"]), "the columns '1' and '1' have one name"),
    (pd.DataFrame([[1]], columns=[""]), "has a column without a name"),
    (pd.DataFrame([[1]], columns=[None]), "a column is called"),
    (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])),
     "its columns have 2 levels"),
    (pd.DataFrame({"z": [1j]}), "the column 'z' contains complex numbers"),
    (pd.DataFrame(), "the DataFrame: has no columns."),
    (pd.DataFrame({"x": pd.Series([], dtype=float)}), "the DataFrame: has a header but no rows."),
    (pd.Series([1.0]), "got a pandas.Series.*series.to_frame('x')"),
    (pl.LazyFrame({"x": [1.0]}), "got a polars.LazyFrame. Collect it first"),
    (pa.table([[1], [2]], names=["a", "a"]), "have one name"),
    (pd.DataFrame({"t": pd.Series([datetime.datetime(2021, 1, 1), pd.Timestamp("2021", tz="UTC")],
                                  dtype=object)}), "Could not convert .datetime. to type TIMESTAMP WITH TIME ZONE"),
    (pd.DataFrame({"t": np.array([10**13], dtype="datetime64[s]")}), "dates beyond the year 294247"),
    (pd.DataFrame({"w": pd.Series(["\ud800"], dtype=object)}), "cannot encode str as UTF-8"),
    (pd.DataFrame({"x": [1.0, np.inf]}), "the DataFrame: row 2, column 'x' is inf"),
])  # fmt: skip
def test_what_no_table_holds_is_refused(frame: Any, words: str) -> None:
    escaped = "".join(f"\\{sign}" if sign in "()[]" else sign for sign in words)
    with pytest.raises(DataError, match=escaped):
        read(frame)


def test_names_of_columns_are_any_text() -> None:
    names = ["select", 'a"b', "it's", "x;y", "ü", "group by", 7, 2.5, "{}", "c0", "m0"]
    values = np.random.default_rng(0).normal(size=(9, len(names)))
    found = read(
        pd.DataFrame(values, columns=names), Reading(series=(), time=(), is_training=False)
    )
    assert found.points.features == tuple(map(str, names))
    np.testing.assert_array_equal(found.points.values, values)
    found = read(pl.DataFrame(values, schema=list(map(str, names))),
                 Reading(series=(), time=(), is_training=False))  # fmt: skip
    assert found.points.features == tuple(map(str, names))


def test_a_wide_frame_with_dates_for_columns() -> None:
    days = pd.date_range("2021-01-01", periods=5)
    frame = pd.DataFrame(np.arange(15.0).reshape(3, 5), columns=days,
                         index=pd.Index(["a", "b", "c"], name="plant"))  # fmt: skip
    frame.to_csv("w.csv")
    same(read(frame), read_all(Path("w.csv"), OPTIONS))
    assert read(frame).ids == ("a", "b", "c")


CELLS: dict[str, tuple[list[Any], list[float]]] = {
    "Int64": (pd.array([1, None, 3], dtype="Int64"), [1, np.nan, 3]),
    "boolean": (pd.array([True, None, False], dtype="boolean"), [1, np.nan, 0]),
    "bool": (np.array([True, True, False]), [1, 1, 0]),
    "arrow": (pd.array([1, None, 3], dtype="int64[pyarrow]"), [1, np.nan, 3]),
    "arrow words": (pd.array(["1", None, "3"], dtype="string[pyarrow]"), [1, np.nan, 3]),
    "float16": (np.array([1, np.nan, 3], dtype=np.float16), [1, np.nan, 3]),
    "categories": (pd.Categorical([1, None, 3]), [1, np.nan, 3]),
    "sparse": (pd.arrays.SparseArray([1.0, np.nan, 3.0]), [1, np.nan, 3]),
    "timedelta": (pd.to_timedelta([1, None, 3], unit="min"), [60, np.nan, 180]),
    "timedelta s": (pd.to_timedelta([1, None, 3], unit="s").astype("timedelta64[s]"), [1, np.nan, 3]),
    "objects": (np.array([1, None, 3.5], dtype=object), [1, np.nan, 3.5]),
    "large": (np.array([1, None, 2**70], dtype=object), [1, np.nan, np.nan]),
    "texts": (np.array(["1", None, 3], dtype=object), [1, np.nan, 3]),
    "timedeltas": (np.array([datetime.timedelta(seconds=1), None, pd.Timedelta(3, "s")],
                            dtype=object), [1, np.nan, 3]),
    "times": (np.array([datetime.time(0, 0, 1), None, datetime.time(1)], dtype=object),
              [1, np.nan, 3600]),
}  # fmt: skip


@pytest.mark.parametrize("kind", CELLS)
def test_cells_of_pandas(kind: str) -> None:
    column, wanted = CELLS[kind]
    frame = pd.DataFrame({"t": [1, 2, 3], "x": column, "y": [5.0, 6.0, 8.0]})
    options = Reading(series=(), time=("t",), features=("x", "y"), is_training=False)
    if kind == "large":  # larger than a model can work with
        with pytest.raises(DataError, match="row 3, column 'x'"):
            read(frame, options)
        return
    np.testing.assert_array_equal(read(frame, options).points.values[:, 0], wanted)


def test_words_after_thousands_of_empty_cells() -> None:
    words = [None] * 5000 + ["a", "b"] * 20
    frame = pd.DataFrame({"t": range(5040), "w": np.array(words, dtype=object), "x": 1.0})
    options = Reading(series=(), time=("t",), features=("x", "w=a", "w=b"), one_hot=("w",))
    found = read(frame, options)
    assert np.nansum(found.points.values[:, 1]) == 20


def test_long_numbers_of_series_stay_apart() -> None:
    key = 2**60
    for column in ([key, key, key + 1, key + 1], pd.array([key, key, key + 1, key + 1], "Int64"),
                   pd.Categorical([key, key, key + 1, key + 1])):  # fmt: skip
        frame = pd.DataFrame({"id": column, "t": [1, 2, 1, 2], "x": [1.0, 2, 3, 4]})
        assert read(frame).ids == (str(key), str(key + 1))


def test_durations_and_times_of_polars() -> None:
    frame = pl.DataFrame({
        "t": [1, 2, 3], "d": [datetime.timedelta(hours=1), None, datetime.timedelta(seconds=1)],
        "c": [datetime.time(0, 1), None, datetime.time(0, 0, 2)], "n": [None, None, None],
        "i": pl.Series([1, None, 3], dtype=pl.Int128), "x": [1.0, None, float("nan")],
    })  # fmt: skip
    features = ("d", "c", "i", "x")
    found = read(frame, Reading(series=(), time=("t",), features=features, is_training=False))
    nan = np.nan
    wanted = [[3600, 60, 1, 1], [nan, nan, nan, nan], [1, 2, 3, nan]]
    np.testing.assert_array_equal(found.points.values, wanted)


def test_polars_needs_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame = as_polars(table())
    assert len(read(frame)) == SERIES


def test_arrays_are_no_frames() -> None:
    for value in ([1], np.zeros(3), {"x": [1]}, None, "x", pd.Timestamp("2021")):
        assert frame_kind(value) is None


def test_notes_are_warnings(trained: Path) -> None:
    with pytest.warns(DataNote) as warned:
        load(trained).predict(table().assign(more=1.0))
    messages = [str(one.message) for one in warned]
    assert not any("index" in line for line in messages)
    with pytest.warns(DataNote) as warned:
        load(trained).predict(table().set_axis(np.arange(SERIES * ROWS) * 2))
    more = [str(one.message) for one in warned]
    assert any("its index has no name and is left out; to read it" in line for line in more)
    assert "the DataFrame: rows are sorted by series and time, which they were not." in messages
    assert "the DataFrame: 'more' is left out: it is not among data.features." in messages
    with pytest.raises(
        DataError, match="the DataFrame: no column 'plant', which identified the series"
    ):
        quiet(lambda: load(trained).predict(table().drop(columns="plant")))


def test_a_file_with_nanoseconds_and_a_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pandas before version 3 wrote them. The database has a type of its own for these."""
    hours = [datetime.datetime(2021, 7, 1, h, tzinfo=datetime.UTC) for h in range(9)]
    pa.parquet.write_table(
        pa.table({"time": pa.array(hours, pa.timestamp("ns", "UTC")), "x": np.arange(9.0)}),
        "n.parquet",
    )
    found = read_all(Path("n.parquet"), OPTIONS)
    assert found.order is not None
    assert found.order[0] == np.datetime64("2021-07-01")
    assert found.notes == ("times in 'time' are read and written as UTC",)
