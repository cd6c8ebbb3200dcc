"""Files of tests/data/real: shapes, lines that are no rows, other formats, and what is no table."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.data.real_columns import (
    FILES,
    Generator,
    business_days,
    days,
    every,
    long_table,
    meter,
    quoted,
    real_file,
    table,
    wave,
    written,
)

# Shapes -------------------------------------------------------------------------------------------


@real_file("wide_stocks.csv")
def _(rng: Generator) -> str:
    dates = business_days(162)
    kept = [k for k in range(162) if k not in (60, 61)]  # two holidays, not seen in any column
    prices = [wave(rng, 160, *bounds, 2, 60) for bounds in ((140, 180), (100, 130), (1100, 1500))]
    return table("date,AAPL,MSFT,GOOG", [dates[k] for k in kept], *prices)


@real_file("wide_sequence_a_row.csv")
def _(rng: Generator) -> str:
    header = "id," + ",".join(f"x_{t},y_{t}" for t in range(1, 7))
    points = rng.normal(0, 0.4, (40, 6, 2)).cumsum(axis=1).reshape(40, 12).clip(-4, 4)
    return table(header, [f"p{k}" for k in range(40)], *(map("{:.3f}".format, c) for c in points.T))


@real_file("wide_months.csv")
def _(rng: Generator) -> str:
    header = ["id", *written(every("2020-01", 24, unit="M"), "%Y-%m")]
    rows = zip(*(wave(rng, 24, 100, 900, 0, 12) for _ in range(30)), strict=True)
    return table(",".join(header), [f"shop{k}" for k in range(30)], *rows)


@real_file("wide_years.csv")
def _(rng: Generator) -> str:
    names = [
        "AUT",
        "BEL",
        "BGR",
        "CHE",
        "CYP",
        "CZE",
        "DEU",
        "DNK",
        "ESP",
        "EST",
        "FIN",
        "FRA",
        "GBR",
        "GRC",
        "HRV",
        "HUN",
        "IRL",
        "ITA",
        "LTU",
        "LUX",
    ]
    header = ["country", *map(str, range(1990, 2021))]
    rows = zip(*(wave(rng, 31, 2, 12, 1, 8) for _ in names), strict=True)
    return table(",".join(header), names, *rows)


@real_file("short_among_20.csv")
def _(rng: Generator) -> str:
    lengths = [2 if k in (4, 11) else 1 if k == 16 else 18 for k in range(20)]
    return long_table(rng, "patient,day,score", [f"p{k:02d}" for k in range(20)], lengths, 0, 10)


# Lines that are no rows ---------------------------------------------------------------------------


@real_file("metadata_lines.csv")
def _(rng: Generator) -> str:
    above = "Station: Oberdorf\nLatitude,47.12\nLongitude,8.55\nDownloaded 2021-06-01\n\n"
    return above + table(
        "date,temp,rain", days(120), wave(rng, 120, 5, 25, 1), wave(rng, 120, 0, 12, 1)
    )


@real_file("units_row.csv")
def _(rng: Generator) -> str:
    columns = (
        [f"{t / 2:.1f}" for t in range(200)],
        wave(rng, 200, 0, 30, 1),
        wave(rng, 200, 60, 95, 1),
    )
    text = table("time,speed,oil_temp", *columns)
    return text.replace("\n", "\ns,m/s,°C\n", 1)


@real_file("footer_total.csv")
def _(rng: Generator) -> str:
    sold = wave(rng, 120, 10, 90, 0)
    return table("date,sold", days(120), sold) + f"Total,{sum(map(int, sold))}\n"


@real_file("repeated_header.csv")
def _(rng: Generator) -> str:
    lines = table("date,reading", days(160), meter(rng, 160)).splitlines()
    return "\n".join([*lines[:101], lines[0], *lines[101:]]) + "\n"


@real_file("too_few_cells.csv")
def _(rng: Generator) -> str:
    lines = table(
        "date,temp,rain", days(120), wave(rng, 120, 5, 25, 1), wave(rng, 120, 0, 12, 1)
    ).splitlines()
    lines[56] = lines[56].rpartition(",")[0]  # line 57
    return "\n".join(lines) + "\n"


@real_file("trailing_comma_rows.csv")
def _(rng: Generator) -> str:
    text = table("tick,temp,pressure", range(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030))
    header, _, rows = text.partition("\n")
    return header + "\n" + rows.replace("\n", ",\n")


@real_file("quoted_all.csv")
def _(rng: Generator) -> str:
    columns = days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030)
    return table('"date","temp","pressure"', *map(quoted, columns))


# Other formats ------------------------------------------------------------------------------------


@real_file("records.jsonl")
def _(rng: Generator) -> str:
    rows = [
        {"id": f"s{k}", "t": t, "x": float(v)}
        for k in range(10)
        for t, v in enumerate(wave(rng, 24, -5, 5))
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


@real_file("records.json")
def _(rng: Generator) -> str:
    rows = [
        {"date": d, "value": float(v)}
        for d, v in zip(days(120), wave(rng, 120, 10, 90), strict=True)
    ]
    return json.dumps(rows, indent=1)


@real_file("nested.jsonl")
def _(rng: Generator) -> str:
    points = rng.normal(0, 0.4, (30, 8, 2)).cumsum(axis=1).round(3).clip(-5, 5).tolist()
    return "".join(
        json.dumps({"id": f"n{k}", "source": p[:5], "target": p[5:]}) + "\n"
        for k, p in enumerate(points)
    )


def by_duckdb(text: str, ending: str, options: str) -> bytes:
    """A CSV table as another kind of file."""
    import duckdb

    cells = "all_varchar=true" if "csv" in options else "all_varchar=false"
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "a.csv"), Path(folder, f"a{ending}")
        source.write_text(text, encoding="utf-8")
        duckdb.sql(
            f"COPY (FROM read_csv('{source}', header=true, {cells})) TO '{made}' ({options})"
        )
        return made.read_bytes()


def parquet(text: str) -> bytes:
    return by_duckdb(text, ".parquet", "FORMAT parquet")


@real_file("long.parquet")
def _(rng: Generator) -> bytes:
    return parquet(
        long_table(rng, "series,time,value", [f"s{k}" for k in range(10)], [24] * 10, 10, 90)
    )


@real_file("wide.parquet")
def _(rng: Generator) -> bytes:
    return parquet(FILES["wide_sequence_a_row.csv"](rng))  # type: ignore[arg-type]


def saved(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@real_file("one_dimension.npy")
def _(rng: Generator) -> bytes:
    return saved(np.array(wave(rng, 300, 10, 90)).astype(float))


@real_file("two_dimensions.npy")
def _(rng: Generator) -> bytes:
    return saved(rng.normal(0, 0.4, (60, 40)).cumsum(axis=1))


@real_file("three_dimensions.npy")
def _(rng: Generator) -> bytes:
    return saved(rng.normal(0, 0.4, (30, 12, 3)).cumsum(axis=1).astype(np.float32))


@real_file("values.npz")
def _(rng: Generator) -> bytes:
    buffer, lengths = io.BytesIO(), rng.integers(9, 13, 30)
    values = rng.normal(0, 0.4, (30, 12, 2)).cumsum(axis=1)
    np.savez(buffer, values=values, lengths=lengths, features=np.array(["lat", "lon"]))
    return buffer.getvalue()


# Files that cannot be read as a table -------------------------------------------------------------


@real_file("binary.csv")
def _(rng: Generator) -> bytes:
    return b"\x7fELF\x02\x01\x01\x00" + rng.bytes(3000)


@real_file("page.csv")
def _(rng: Generator) -> str:
    body = "".join(
        f"<tr><td>{d}</td><td>{v}</td></tr>\n"
        for d, v in zip(days(30), wave(rng, 30, 1, 9), strict=True)
    )
    return f"<!DOCTYPE html>\n<html><head><title>Sign in, please</title></head><body><table>\n{body}</table></body></html>\n"


@real_file("workbook.csv")
def _(rng: Generator) -> bytes:
    """The members of an Excel workbook, as far as its kind can be told."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as book:
        for name in ("[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"):
            book.writestr(
                zipfile.ZipInfo(name), '<?xml version="1.0"?><a>2020-01-01,1,5</a>\n' * 20
            )
    return buffer.getvalue()
