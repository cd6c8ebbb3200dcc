"""Write the files of tests/data/real: tables as people have them.

    python tests/data/make_real.py [FOLDER]

Every file has a random generator of its own, seeded by its name, so one file can be added or changed
without changing the others. Two files hold real numbers: yearly sunspots (SILSO, Royal Observatory of
Belgium, version 1) and airline passengers (Box and Jenkins, 1976, series G). All others are made up.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Generator = np.random.Generator
Make = Callable[[Generator], str | bytes]

FILES: dict[str, Make] = {}
"""What makes each file, by its name."""

SUNSPOTS = """
5 11 16 23 36 58 29 20 10 8 3 0 0 2 11 27 47 63 60 39 28 26 22 11 21 40 78 122 103 73 47 35 11 5 16
34 70 81 111 101 73 40 20 16 5 11 22 40 60 80.9 83.4 47.7 47.8 30.7 12.2 9.6 10.2 32.4 47.6 54 62.9
85.9 61.2 45.1 36.4 20.9 11.4 37.8 69.8 106.1 100.8 81.6 66.5 34.8 30.6 7 19.8 92.5 154.4 125.9 84.8
68.1 38.5 22.8 10.2 24.1 82.9 132 130.9 118.1 89.9 66.6 60 46.9 41 21.3 16 6.4 4.1 6.8 14.5 34 45
43.1 47.5 42.2 28.1 10.1 8.1 2.5 0 1.4 5 12.2 13.9 35.4 45.8 41.1 30.1 23.9 15.6 6.6 4 1.8 8.5 16.6
36.3 49.6 64.2 67 70.9 47.8 27.5 8.5 13.2 56.9 121.5 138.3 103.2 85.7 64.6 36.7 24.2 10.7 15 40.1
61.5 98.5 124.7 96.3 66.6 64.5 54.1 39 20.6 6.7 4.3 22.7 54.8 93.8 95.8 77.2 59.1 44 47 30.5 16.3
7.3 37.6 74 139 111.2 101.6 66.2 44.7 17 11.3 12.4 3.4 6 32.3 54.3 59.7 63.7 63.5 52.2 25.4 13.1 6.8
6.3 7.1 35.6 73 85.1 78 64 41.8 26.2 26.7 12.1 9.5 2.7 5 24.4 42 63.5 53.8 62 48.5 43.9 18.6 5.7 3.6
1.4 9.6 47.4 57.1 103.9 80.6 63.6 37.6 26.1 14.2 5.8 16.7 44.3 63.9 69 77.8 64.9 35.7 21.2 11.1 5.7
8.7 36.1 79.7 114.4 109.6 88.8 67.8 47.5 30.6 16.3 9.6 33.2 92.6 151.6 136.3 134.7 83.9 69.4 31.5
13.9 4.4 38 141.7 190.2 184.8 159 112.3 53.9 37.6 27.9 10.2 15.1 47 93.8 105.9 105.5 104.5 66.6 68.9
38 34.5 15.5 12.6 27.5 92.5 155.4 154.6 140.4 115.9 66.6 45.9 17.9 13.4 29.4 100.2 157.6 142.6 145.7
94.3 54.6 29.9 17.5 8.6 21.5 64.3 93.3 119.6 111 104 63.7 40.4 29.8 15.2 7.5 2.9
"""

PASSENGERS = """
112 118 132 129 121 135 148 148 136 119 104 118 115 126 141 135 125 149 170 170 158 133 114 140
145 150 178 163 172 178 199 199 184 162 146 166 171 180 193 181 183 218 230 242 209 191 172 194
196 196 236 235 229 243 264 272 237 211 180 201 204 188 235 227 234 264 302 293 259 229 203 229
242 233 267 269 270 315 364 347 312 274 237 278 284 277 317 313 318 374 413 405 355 306 271 306
315 301 356 348 355 422 465 467 404 347 305 336 340 318 362 348 363 435 491 505 404 359 310 337
360 342 406 396 420 472 548 559 463 407 362 405 417 391 419 461 472 535 622 606 508 461 390 432
"""


def real_file(*names: str) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        FILES.update(dict.fromkeys(names, make))
        return make

    return add


# Columns ------------------------------------------------------------------------------------------


def wave(
    rng: Generator, n: int, low: float, high: float, places: int = 2, period: int = 24
) -> list[str]:
    """A noisy season between two bounds, as text."""
    phase = rng.uniform(0, 2 * np.pi)
    unit = 0.7 * np.sin(2 * np.pi * np.arange(n) / period + phase) + rng.uniform(-0.3, 0.3, n)
    return [f"{value:.{places}f}" for value in (low + high) / 2 + (high - low) / 2 * unit]


def meter(rng: Generator, n: int, first: float = 1000.0) -> list[str]:
    """The reading of a meter: it only rises, so a wrong order of rows shows."""
    return [f"{value:.1f}" for value in first + rng.uniform(0.5, 3.0, n).cumsum()]


def every(first: str, n: int, step: int = 1, unit: str = "D") -> list[dt.datetime]:
    at = np.datetime64(first, unit) + step * np.arange(n)
    return at.astype("datetime64[s]").tolist()  # type: ignore[no-any-return]


def written(stamps: Iterable[dt.datetime], how: str = "%Y-%m-%d") -> list[str]:
    return [stamp.strftime(how) for stamp in stamps]


def days(n: int, how: str = "%Y-%m-%d", first: str = "2020-01-01") -> list[str]:
    return written(every(first, n), how)


def hours(n: int, how: str = "%Y-%m-%d %H:%M:%S", first: str = "2021-03-01T00") -> list[str]:
    return written(every(first, n, unit="h"), how)


def business_days(n: int, first: str = "2019-01-02") -> list[str]:
    return [str(day) for day in np.busday_offset(first, np.arange(n))]


def table(header: str, *columns: Sequence[Any], sep: str = ",") -> str:
    """A header with commas and columns as one text."""
    rows = zip(*columns, strict=True)
    lines = [header.replace(",", sep), *(sep.join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def with_some(rng: Generator, cells: Sequence[str], text: str, share: float = 0.05) -> list[str]:
    """Some cells replaced, neither the first nor the last two."""
    places = set(rng.choice(np.arange(2, len(cells) - 2), int(share * len(cells)), replace=False))
    return [text if k in places else cell for k, cell in enumerate(cells)]


def comma(cells: Iterable[str]) -> list[str]:
    return [cell.replace(".", ",") for cell in cells]


def quoted(cells: Iterable[str]) -> list[str]:
    return [f'"{cell}"' for cell in cells]


def long_table(
    rng: Generator, header: str, ids: Sequence[str], lengths: Sequence[int], low: float, high: float,
    first: str = "2020-01-01", unit: str = "D", how: str = "%Y-%m-%d",
) -> str:  # fmt: skip
    """id, time, value; one series after another."""
    parts: list[list[str]] = [[], [], []]
    for name, n in zip(ids, lengths, strict=True):
        parts[0] += [name] * n
        parts[1] += written(every(first, n, unit=unit), how)
        parts[2] += wave(rng, n, low, high, period=7)
    return table(header, *parts)


def date_and_value(rng: Generator, header: str = "date,value", n: int = 120) -> str:
    return table(header, days(n), wave(rng, n, 10, 90))


# Names of columns, and what they are --------------------------------------------------------------


@real_file("sunspots_yearly.csv")
def _(rng: Generator) -> str:
    values = SUNSPOTS.split()
    return table("YEAR,SUNACTIVITY", range(1700, 1700 + len(values)), values)


@real_file("airline_monthly.csv")
def _(rng: Generator) -> str:
    return table(
        "Month,#Passengers", written(every("1949-01", 144, unit="M"), "%Y-%m"), PASSENGERS.split()
    )


@real_file("utterance_frames.csv")
def _(rng: Generator) -> str:
    lines = ["utterance,frame," + ",".join(f"lpc{k}" for k in range(12))]
    for utterance in range(1, 19):
        n = int(rng.integers(10, 20))
        points = rng.normal(0, 0.3, (n, 12)).cumsum(axis=0).clip(-2, 2)
        lines += [
            f"{utterance},{t}," + ",".join(f"{v:.4f}" for v in p) for t, p in enumerate(points)
        ]
    return "\n".join(lines) + "\n"


@real_file("unique_id_ds_y.csv")
def _(rng: Generator) -> str:
    lengths = [48, 40, 44, 36, 40, 48, 32, 40]
    return long_table(rng, "unique_id,ds,y", [f"H{k}" for k in range(1, 9)], lengths, 100, 300)


@real_file("pandas_index.csv")
def _(rng: Generator) -> str:
    return table(",date,value", range(120), days(120), wave(rng, 120, 10, 90))


@real_file("unnamed_0.csv")
def _(rng: Generator) -> str:
    columns = hours(150), wave(rng, 150, 5, 25), wave(rng, 150, 30, 95)
    return table("Unnamed: 0,timestamp,temp,humidity", range(150), *columns)


@real_file("row_id.csv")
def _(rng: Generator) -> str:
    return table("id,date,value", range(1, 151), days(150), wave(rng, 150, 10, 90))


@real_file("integer_ids.csv")
def _(rng: Generator) -> str:
    ids = ["4711", "4712", "5003", "5010", "7120", "7121", "9001", "9002"]
    return long_table(rng, "sensor,tick,reading", ids, [30] * 8, 3, 5, "1970-01-01", "s", "%-S")


@real_file("engine_cycle.csv")
def _(rng: Generator) -> str:
    lines = ["engine,cycle,s1,s2,s3"]
    for engine in range(1, 10):
        n = int(rng.integers(24, 44))
        columns = (wave(rng, n, 500, 700, 1), wave(rng, n, 20, 40), wave(rng, n, 1, 2, 4))
        lines += [
            f"{engine},{t + 1},{a},{b},{c}"
            for t, (a, b, c) in enumerate(zip(*columns, strict=True))
        ]
    return "\n".join(lines) + "\n"


@real_file("small_integer_feature.csv")
def _(rng: Generator) -> str:
    return table("date,visitors", days(150), rng.integers(0, 5, 150))


@real_file("store_item.csv")
def _(rng: Generator) -> str:
    rows = []
    for store in (1, 2):
        for item in (1, 2, 3, 4):
            sales = rng.poisson(20 + 5 * item + 10 * (1 + np.sin(np.arange(40) * 2 * np.pi / 7)))
            rows += [(day, store, item, n) for day, n in zip(days(40), sales, strict=True)]
    return table("date,store,item,sales", *zip(*rows, strict=True))


@real_file("weather_category.csv")
def _(rng: Generator) -> str:
    words = rng.choice(["drizzle", "rain", "sun", "snow", "fog"], 200)
    return table(
        "date,temp_max,wind,weather",
        days(200),
        wave(rng, 200, -5, 30, 1),
        wave(rng, 200, 0, 9, 1),
        words,
    )


@real_file("boolean_column.csv")
def _(rng: Generator) -> str:
    return table("timestamp,power,is_open", hours(150), wave(rng, 150, 1, 9), rng.random(150) < 0.4)


@real_file("constant_column.csv")
def _(rng: Generator) -> str:
    return table("date,value,version", days(120), wave(rng, 120, 10, 90), [3] * 120)


@real_file("static_columns.csv")
def _(rng: Generator) -> str:
    rows = []
    for k, region in enumerate(
        ["north", "south", "north", "east", "west", "south", "east", "west"]
    ):
        temps = wave(rng, 36, -10, 30, 1, 12)
        rows += [(f"st{k + 1}", region, 110 + 95 * k, month, temp)
                 for month, temp in zip(written(every("2018-01", 36, unit="M")), temps, strict=True)]  # fmt: skip
    return table("station,region,elevation_m,month,temp", *zip(*rows, strict=True))


@real_file("duplicate_columns.csv")
def _(rng: Generator) -> str:
    return table("date,value,value", days(60), wave(rng, 60, 10, 90), wave(rng, 60, 10, 90))


@real_file("no_header.csv")
def _(rng: Generator) -> str:
    return table("", days(120), wave(rng, 120, 10, 20), wave(rng, 120, 50, 90)).lstrip("\n")


# Numbers ------------------------------------------------------------------------------------------


@real_file("thousands_quoted.csv")
def _(rng: Generator) -> str:
    amounts = [f'"{float(v):,.2f}"' for v in wave(rng, 120, 700, 3000)]
    return table("date,amount", days(120), amounts)


@real_file("comma_quoted_ambiguous.csv")
def _(rng: Generator) -> str:
    return table("date,load", days(120), [f'"{int(v):,}"' for v in wave(rng, 120, 1100, 9800, 0)])


@real_file("semicolon_decimal_comma.csv")
def _(rng: Generator) -> str:
    columns = days(120), comma(wave(rng, 120, 8, 18)), comma(wave(rng, 120, 60, 99, 1))
    return table("Datum,Temperatur,Feuchte", *columns, sep=";")


@real_file("german_thousands.csv")
def _(rng: Generator) -> str:
    costs = [
        f"{float(v):,.2f}".translate(str.maketrans(",.", ".,")) for v in wave(rng, 120, 800, 4000)
    ]
    return table("Datum,Kosten", days(120, "%d.%m.%Y"), costs, sep=";")


@real_file("french_spaces.csv")
def _(rng: Generator) -> str:
    costs = [
        f"{float(v):,.1f}".replace(",", " ").replace(".", ",") for v in wave(rng, 120, 800, 4000)
    ]
    return table("date,montant", days(120, "%d/%m/%Y"), costs, sep=";")


@real_file("decimal_comma_unquoted.csv")
def _(rng: Generator) -> str:
    return table("date,value", days(80), comma(wave(rng, 80, 10, 90, 1)))


@real_file("units_in_cells.csv")
def _(rng: Generator) -> str:
    return table(
        "date,weight,steps",
        days(120),
        [f"{v} kg" for v in wave(rng, 120, 70, 80, 1)],
        rng.integers(2000, 12000, 120),
    )


@real_file("mixed_units.csv")
def _(rng: Generator) -> str:
    grams = np.array(wave(rng, 120, 700, 1600, 0)).astype(float)
    cells = [f"{g:.0f} g" if g < 1000 else f"{g / 1000:.2f} kg" for g in grams]
    return table("date,harvest,rain", days(120), cells, wave(rng, 120, 0, 12, 1))


@real_file("percent.csv")
def _(rng: Generator) -> str:
    return table(
        "date,humidity,load",
        days(120),
        [f"{v}%" for v in wave(rng, 120, 20, 95, 1)],
        wave(rng, 120, 1, 9),
    )


@real_file("celsius_minus_9.csv")
def _(rng: Generator) -> str:
    temps = wave(rng, 200, -14, 12, 0)
    return table("date,temp", days(200), [*temps[:50], "-9", "-9", *temps[52:]])


@real_file("infinite_cell.csv")
def _(rng: Generator) -> str:
    return table("date,ratio", days(120), with_some(rng, wave(rng, 120, 1, 9), "inf", 0.02))


@real_file("wrong_cell.csv")
def _(rng: Generator) -> str:
    temps = wave(rng, 300, 5, 25)
    temps[211] = "sensor error"  # the header is line 1, so this is line 213
    return table("timestamp,temperature,pressure", hours(300), temps, wave(rng, 300, 990, 1030, 1))


# Missing cells ------------------------------------------------------------------------------------


def _missing(text: str) -> Make:
    def make(rng: Generator) -> str:
        temps = with_some(rng, wave(rng, 150, 5, 25, 1), text)
        return table("date,temp,rain", days(150), temps, wave(rng, 150, 0, 12, 1))

    return make


for _name, _text in {
    "empty": "", "n_a": "n/a", "question_mark": "?", "null": "NULL", "dash": "-", "999": "-999",
}.items():  # fmt: skip
    FILES[f"missing_{_name}.csv"] = _missing(_text)


# Dates and times ----------------------------------------------------------------------------------


@real_file("iso_date.csv", "bom.csv", "utf16.csv", "crlf.csv", "gzipped.csv.gz", "zstd.csv.zst")
def _(rng: Generator) -> str:
    return date_and_value(rng)


@real_file("date_dots.csv")
def _(rng: Generator) -> str:
    return table("date,reading", days(120, "%d.%m.%Y"), meter(rng, 120))


@real_file("date_us.csv")
def _(rng: Generator) -> str:
    return table("date,reading", days(120, "%m/%d/%Y"), meter(rng, 120))


@real_file("date_us_ampm.csv")
def _(rng: Generator) -> str:
    return table(
        "Date Time,reading", hours(200, "%m/%d/%Y %I:%M:%S %p", "2021-01-10T00"), meter(rng, 200)
    )


@real_file("date_month_names.csv")
def _(rng: Generator) -> str:
    return table("Date,reading", days(120, "%d-%b-%Y"), meter(rng, 120))


@real_file("date_ambiguous.csv")
def _(rng: Generator) -> str:
    chosen = [d for d in every("2015-01-01", 2000) if d.day <= 12 and rng.random() < 0.12]
    return table("visit,weight", written(chosen, "%d/%m/%Y"), wave(rng, len(chosen), 60, 80, 1))


@real_file("quarterly.csv")
def _(rng: Generator) -> str:
    quarters = [f"{1980 + k // 4}Q{k % 4 + 1}" for k in range(120)]
    return table("quarter,gdp", quarters, meter(rng, 120))


@real_file("month_ends.csv")
def _(rng: Generator) -> str:
    ends = (np.datetime64("2010-01") + np.arange(1, 121)).astype("datetime64[D]") - 1
    return table("date,close", ends, meter(rng, 120))


@real_file("weekly.csv")
def _(rng: Generator) -> str:
    return table(
        "week,cases", written(every("2018-01-01", 150, 7)), wave(rng, 150, 100, 900, 0, 52)
    )


@real_file("stamps_z.csv")
def _(rng: Generator) -> str:
    return table(
        "time,reading,temp",
        hours(120, "%Y-%m-%dT%H:%M:%SZ"),
        meter(rng, 120),
        wave(rng, 120, 5, 25),
    )


@real_file("stamps_plus_00.csv")
def _(rng: Generator) -> str:
    return table(
        "time,reading,temp",
        hours(120, "%Y-%m-%d %H:%M:%S+00:00"),
        meter(rng, 120),
        wave(rng, 120, 5, 25),
    )


@real_file("stamps_plus_02.csv")
def _(rng: Generator) -> str:
    return table(
        "time,reading,temp",
        hours(120, "%Y-%m-%dT%H:%M:%S+02:00"),
        meter(rng, 120),
        wave(rng, 120, 5, 25),
    )


@real_file("stamps_dst.csv")
def _(rng: Generator) -> str:
    """Hours of Berlin at the end of October: 02:00 comes twice, with different offsets."""
    stamps = []
    for utc in every("2021-10-27T00", 150, unit="h"):
        offset = 2 if utc < dt.datetime(2021, 10, 31, 1) else 1
        stamps.append(f"{utc + dt.timedelta(hours=offset):%Y-%m-%dT%H:%M:%S}+0{offset}:00")
    return table("time,reading", stamps, meter(rng, 150))


@real_file("epoch_seconds.csv")
def _(rng: Generator) -> str:
    return table(
        "timestamp,reading,temp",
        1609459200 + 60 * np.arange(200),
        meter(rng, 200),
        wave(rng, 200, 5, 25),
    )


@real_file("epoch_ms.csv")
def _(rng: Generator) -> str:
    columns = [wave(rng, 200, -2, 2, 3) for _ in range(3)]
    return table("ts,ax,ay,az", 1609459200000 + 500 * np.arange(200), *columns)


@real_file("yyyymmdd.csv")
def _(rng: Generator) -> str:
    return table("date,reading", days(150, "%Y%m%d"), meter(rng, 150))


@real_file("date_and_hour.csv")
def _(rng: Generator) -> str:
    stamps = every("2021-03-01T00", 240, unit="h")
    return table(
        "date,hour,load", written(stamps), [s.hour for s in stamps], wave(rng, 240, 300, 900, 1)
    )


@real_file("year_and_month.csv")
def _(rng: Generator) -> str:
    months = np.arange(144)
    return table(
        "year,month,rainfall", 2005 + months // 12, months % 12 + 1, wave(rng, 144, 10, 120, 1, 12)
    )


@real_file("business_days.csv")
def _(rng: Generator) -> str:
    return table("Date,Close", business_days(160), wave(rng, 160, 90, 130, 2, 60))


@real_file("hourly_missing_day.csv")
def _(rng: Generator) -> str:
    stamps = [s for s in hours(240) if not s.startswith("2021-03-06")]
    return table("timestamp,load", stamps, wave(rng, len(stamps), 300, 900, 1))


@real_file("irregular_times.csv")
def _(rng: Generator) -> str:
    seconds = rng.integers(40, 4000, 200).cumsum()
    stamps = [dt.datetime(2021, 5, 1) + dt.timedelta(seconds=int(s)) for s in seconds]
    return table(
        "timestamp,heart_rate", written(stamps, "%Y-%m-%d %H:%M:%S"), wave(rng, 200, 55, 120, 0)
    )


@real_file("daily_and_weekly.csv")
def _(rng: Generator) -> str:
    rows = []
    for k in range(10):
        step, n = (1, 44) if k < 5 else (7, 26)
        rows += [(f"{'d' if k < 5 else 'w'}{k}", day, value)
                 for day, value in zip(written(every("2020-01-06", n, step)), wave(rng, n, 10, 90), strict=True)]  # fmt: skip
    return table("unique_id,ds,y", *zip(*rows, strict=True))


@real_file("duplicate_times.csv")
def _(rng: Generator) -> str:
    dates = days(120)
    for k in (30, 55, 90):
        dates[k] = dates[k - 1]
    return table("date,value", dates, wave(rng, 120, 10, 90))


@real_file("shuffled.csv")
def _(rng: Generator) -> str:
    rows = [(f"m{k}", day, value) for k in range(8)
            for day, value in zip(days(36), meter(rng, 36), strict=True)]  # fmt: skip
    return table(
        "meter,date,reading", *zip(*[rows[k] for k in rng.permutation(len(rows))], strict=True)
    )


@real_file("descending.csv")
def _(rng: Generator) -> str:
    return table("Date,Reading", days(150)[::-1], meter(rng, 150)[::-1])


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


@real_file("comment_lines.csv")
def _(rng: Generator) -> str:
    return "# buoy 44, record of 2020\n# units: date, metres\n#\n" + date_and_value(
        rng, "date,wave_height"
    )


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


@real_file("trailing_comma.csv")
def _(rng: Generator) -> str:
    return table(
        "date,temp,pressure", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030)
    ).replace("\n", ",\n")


@real_file("trailing_comma_rows.csv")
def _(rng: Generator) -> str:
    text = table("tick,temp,pressure", range(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030))
    header, _, rows = text.partition("\n")
    return header + "\n" + rows.replace("\n", ",\n")


@real_file("spaces_after_commas.csv")
def _(rng: Generator) -> str:
    return table(
        "date,temp,pressure", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030), sep=", "
    )


@real_file("quoted_all.csv")
def _(rng: Generator) -> str:
    columns = days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030)
    return table('"date","temp","pressure"', *map(quoted, columns))


@real_file("tab_separated.tsv")
def _(rng: Generator) -> str:
    return table(
        "date,temp,pressure", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030), sep="\t"
    )


@real_file("pipe_separated.txt")
def _(rng: Generator) -> str:
    return table(
        "date,temp,pressure", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030), sep="|"
    )


@real_file("latin1.csv")
def _(rng: Generator) -> str:
    return table(
        "date,Température (°C),débit", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 1, 9)
    )


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


def parquet(text: str) -> bytes:
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "a.csv"), Path(folder, "a.parquet")
        source.write_text(text, encoding="utf-8")
        duckdb.sql(f"COPY (FROM read_csv('{source}')) TO '{made}' (FORMAT parquet)")
        return made.read_bytes()


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


@real_file("empty.csv")
def _(rng: Generator) -> str:
    return ""


@real_file("header_only.csv")
def _(rng: Generator) -> str:
    return "date,value\n"


@real_file("one_row.csv")
def _(rng: Generator) -> str:
    return "date,value\n2020-01-01,12.5\n"


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


# Writing ------------------------------------------------------------------------------------------


def content(name: str) -> bytes:
    """The bytes of one file."""
    made = FILES[name](np.random.default_rng(zlib.crc32(name.encode())))
    if isinstance(made, bytes):
        return made
    if name == "crlf.csv":
        made = made.replace("\n", "\r\n")
    encodings = {"bom.csv": "utf-8-sig", "utf16.csv": "utf-16", "latin1.csv": "latin-1"}
    data = made.encode(encodings.get(name, "utf-8"))
    if name.endswith(".gz"):
        return gzip.compress(data, mtime=0)
    if name.endswith(".zst"):
        import pyarrow as pa

        return pa.compress(data, codec="zstd", asbytes=True)  # type: ignore[no-any-return]
    return data


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "real"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (folder / name).write_bytes(content(name))
    print(f"{len(FILES)} files in {folder}")


if __name__ == "__main__":
    main()
