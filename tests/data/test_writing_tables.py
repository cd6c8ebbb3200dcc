"""Forecasts as tables: written in the form of the file that was read, and read again alike."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn import experiments
from seqattn.config import resolve
from seqattn.data import inspect as reader
from seqattn.data import many_files as reading
from seqattn.data.chunk import step_text
from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.data.spacing import Spacing
from seqattn.data.writing import TableWriter
from seqattn.errors import DataError, UsageError, install_command
from tests.conftest import ROOT, Ended
from tests.real_files import FOLDER, TINY, options_of

# (file, flags of data check, what the header and the first row of the forecast must look like)
FILES = [
    ("iso_date.csv", "", r"sequence,date,value", r"iso_date,2020-04-30,[-\d.e]+"),
    ("semicolon_decimal_comma.csv", "", r"sequence;Datum;Temperatur;Feuchte",
     r"semicolon_decimal_comma;2020-04-30;[-\d]+,\d+;[-\d]+,\d+"),
    ("store_item.csv", "", r"store,item,date,sales", r"\w+,\w+,\d{4}-\d\d-\d\d,[-\d.e]+"),
    ("date_dots.csv", "", None, r"date_dots,\d\d\.\d\d\.\d{4},[-\d.e]+"),
    ("date_us_ampm.csv", "", None, r"date_us_ampm,.*[AP]M,[-\d.e]+"),
    ("date_month_names.csv", "", None, None),
    ("airline_monthly.csv", "", r"sequence,Month,#Passengers",
     r"airline_monthly,1961-01,[-\d.e]+"),
    ("quarterly.csv", "", None, r"quarterly,\d{4}-?Q[1-4],[-\d.e]+"),
    ("yyyymmdd.csv", "", None, r"yyyymmdd,\d{8},[-\d.e]+"),
    ("stamps_z.csv", "", None, r"stamps_z,.*\dZ,[-\d.e]+,[-\d.e]+"),
    ("stamps_plus_02.csv", "", None, r"stamps_plus_02,.*\+00:?00,[-\d.e]+,[-\d.e]+"),
    ("tab_separated.tsv", "", "sequence\tdate\ttemp\tpressure", None),
    ("engine_cycle.csv", "", "engine,cycle,s1,s2,s3", None),
    ("year_and_month.csv", "--time year,month", "sequence,year,month,rainfall", None),
    ("date_and_hour.csv", "--time date,hour", "sequence,date,hour,load", None),
    ("gzipped.csv.gz", "", None, None),
    ("long.parquet", "", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "flags", "header", "row"), FILES, ids=[f[0] for f in FILES])
def test_a_forecast_has_the_form_of_its_file_and_is_read_like_it(
    name: str,
    flags: str,
    header: str | None,
    row: str | None,
    seqattn: Callable[..., Ended],
    tmp_path: Path,
) -> None:
    path = FOLDER / name
    report = reader.inspect_file(path, reader.Reading(**options_of(flags)))
    (tmp_path / "real.yaml").write_text(f"name: real\n{report.section}\n", encoding="utf-8")
    config = resolve(tmp_path / "real.yaml", TINY).config
    run, _ = experiments.train_one(config, tmp_path / "outputs", plots=False)

    output = tmp_path / f"next{Path(path.stem).suffix if path.suffix == '.gz' else path.suffix}"
    for file in (output, tmp_path / "next.npz"):
        done = seqattn("predict", run.path, "--input", path, "--output", file)
        assert done.code == 0, done.err
    if output.suffix != ".parquet":
        first, second, *_ = output.read_text(encoding="utf-8").splitlines()
        assert header is None or first == header
        assert row is None or re.fullmatch(row, second), second

    form = reading.make_reading(config.data)
    lost = seqattn("predict", run.path, "--input", path, "--output", path)
    assert lost.code == 2
    assert path.suffix == ".gz" or "is the same file as" in lost.err
    before, again = read_all(path, form), read_all(output, form)
    with np.load(tmp_path / "next.npz") as saved:
        ids, forecast = [str(name) for name in saved["ids"]], saved["forecast"]
    if report.reading.series:
        assert list(again.ids) == ids
        assert again.style.series_columns == before.style.series_columns
    values = again.points.values.reshape(forecast.shape)
    assert np.array_equal(values.astype(np.float32), forecast.astype(np.float32))
    if before.order is None:
        return
    assert again.order is not None
    assert again.order.dtype == before.order.dtype
    for k in range(len(ids)):
        last = before.order[before.points.offsets[k + 1] - 1]
        mine = again.order[again.points.offsets[k] : again.points.offsets[k + 1]]
        assert mine[0] > last
    ahead = Spacing.infer(before.order, before.points.offsets).steps_after(
        before.order[before.points.offsets[1:] - 1], forecast.shape[1]
    )
    assert np.array_equal(again.order.reshape(ahead.shape), ahead)


def written(form: str, style: Reading, ids: Any, steps: Any, values: Any) -> bytes:
    raw = io.BytesIO()
    writer = TableWriter(raw, form, ["x", "y"], style)
    try:
        writer.write(ids, steps, values)
        writer.close()
    finally:
        writer.discard()
    return raw.getvalue()


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "arrow"])
def test_any_name_and_every_digit_come_back(form: str, tmp_path: Path) -> None:
    ids = ["a,b", "a;b", 'say "x"', "two\nlines", "tab\there", "Zürich 東京", "it's", "cr\rlf"]
    bits = np.random.RandomState(3).randint(0, 2**31, (len(ids), 300, 2)).astype(np.uint32)
    values = bits.view(np.float32)
    values = np.where(np.abs(values) < 1e15, values, np.float32(0.1)).astype(np.float32)
    values[0, 1, 0] = np.nan
    steps = np.tile(np.arange(1.0, 301), (len(ids), 1))
    (tmp_path / f"a.{form}").write_bytes(written(form, Reading(), ids, steps, values))
    piece = read_all(tmp_path / f"a.{form}", Reading(features=("x", "y")))
    assert list(piece.ids) == ids
    assert piece.order is not None
    assert piece.order.tolist() == list(range(1, 301)) * len(ids)
    found = piece.points.values.reshape(values.shape).astype(np.float32)
    assert np.array_equal(found, values, equal_nan=True)


def test_an_empty_cell_is_nan_and_a_decimal_comma_between_commas_is_quoted() -> None:
    values = np.array([[[1.5, np.nan]]], dtype=np.float32)
    style = Reading(delimiter=",", decimal=",", series=("a", "b"), time=("t",))
    made = written("csv", style, [("u", "v,w")], np.array([[2.0]]), values)
    assert made.decode() == 'a,b,t,x,y\nu,"v,w",2,"1,5",\n'


def test_a_date_that_a_format_cannot_say_is_written_in_full() -> None:
    days = np.array([["2001-02-01", "2001-02-02"]], dtype="datetime64[us]")
    style = Reading(series=("s",), time=("t",), time_formats=("%Y-%m",))
    made = written("csv", style, ["a"], days, np.ones((1, 2, 2), dtype=np.float32))
    assert made.decode().splitlines()[1:] == ["a,2001-02,1.0,1.0", "a,2001-02-02,1.0,1.0"]


def test_unknown_dates_are_counted_in_text_and_refused_elsewhere() -> None:
    days = np.array([["2001-02-01"], ["NaT"]], dtype="datetime64[us]")
    values = np.ones((2, 1, 2), dtype=np.float32)
    made = written("csv", Reading(), ["a", "b"], days, values)
    assert made.decode().splitlines()[1:] == ["a,2001-02-01,1.0,1.0", "b,1,1.0,1.0"]
    with pytest.raises(DataError, match="sequence 'b': its dates are not evenly spaced"):
        written("parquet", Reading(), ["a", "b"], days, values)


def test_only_arrow_needs_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    steps, values = np.ones((1, 1)), np.ones((1, 1, 2), dtype=np.float32)
    for form in ("csv", "tsv", "parquet"):
        assert written(form, Reading(), ["a"], steps, values)
    with pytest.raises(UsageError, match=re.escape(install_command("data"))):
        written("arrow", Reading(), ["a"], steps, values)


def test_a_column_that_is_called_step_stays_apart() -> None:
    raw = io.BytesIO()
    TableWriter(raw, "csv", ["step", "sequence"]).close()
    assert raw.getvalue() == b"sequence_,step_,step,sequence\n"


def test_parts_of_an_id_are_kept_apart(tmp_path: Path) -> None:
    rows = [f"{a},{b},{t},{t + 1}" for a, b in (("a/b", "c"), ("a", "b")) for t in range(9)]
    (tmp_path / "f.csv").write_text("\n".join(["store,item,t,x", *rows]) + "\n")
    piece = read_all(tmp_path / "f.csv", Reading(series=("store", "item"), time=("t",)))
    assert piece.id_parts == (("a/b", "c"), ("a", "b"))
    assert step_text(piece.order[8]) == "8"  # type: ignore[index]
    again = "\n".join(["store,item,t,x", *rows, "a,b/c,0,1"])
    (tmp_path / "g.csv").write_text(again + "\n")
    with pytest.raises(DataError, match="'a/b/c' occurs twice"):
        read_all(tmp_path / "g.csv", Reading(series=("store", "item"), time=("t",)))


KILLED = """
import io, sys
import numpy as np
from seqattn.data.writing import TableWriter
writer = TableWriter(io.BytesIO(), sys.argv[1], ["x"])
for k in range(3):
    writer.write([str(k)], np.ones((1, 1000)), np.ones((1, 1000, 1)))
print("written", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_process_that_is_killed_leaves_no_temporary_file(form: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, form], cwd=tmp_path, env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_a_stretch_with_fractions_after_whole_steps_keeps_them(tmp_path: Path) -> None:
    with (tmp_path / "a.parquet").open("wb") as file:
        writer = TableWriter(file, "parquet", ["x"])
        for name, step in (("a", 1.0), ("b", 0.5)):
            writer.write([name], np.array([[step]]), np.ones((1, 1, 1), dtype=np.float32))
        writer.close()
    order = read_all(tmp_path / "a.parquet", Reading(series=("sequence",), time=("step",))).order
    assert order is not None
    assert order.tolist() == [1, 0.5]
