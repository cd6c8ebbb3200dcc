"""Tables of tests/data/real: names and roles of columns, numbers, missing cells, dates and times."""

from __future__ import annotations

import datetime as dt

import numpy as np

from tests.data.real_columns import (
    FILES,
    PASSENGERS,
    SUNSPOTS,
    Generator,
    Make,
    business_days,
    comma,
    date_and_value,
    days,
    every,
    hours,
    long_table,
    meter,
    real_file,
    table,
    wave,
    with_some,
    written,
)

SIMPLE: dict[str, Make] = {
    "airline_monthly.csv": lambda rng: table(
        "Month,#Passengers", written(every("1949-01", 144, unit="M"), "%Y-%m"), PASSENGERS.split()
    ),
    "pandas_index.csv": lambda rng: table(
        ",date,value", range(120), days(120), wave(rng, 120, 10, 90)
    ),
    "row_id.csv": lambda rng: table(
        "id,date,value", range(1, 151), days(150), wave(rng, 150, 10, 90)
    ),
    "small_integer_feature.csv": lambda rng: table(
        "date,visitors", days(150), rng.integers(0, 5, 150)
    ),
    "boolean_column.csv": lambda rng: table(
        "timestamp,power,is_open", hours(150), wave(rng, 150, 1, 9), rng.random(150) < 0.4
    ),
    "constant_column.csv": lambda rng: table(
        "date,value,version", days(120), wave(rng, 120, 10, 90), [3] * 120
    ),
    "duplicate_columns.csv": lambda rng: table(
        "date,value,value", days(60), wave(rng, 60, 10, 90), wave(rng, 60, 10, 90)
    ),
    "no_header.csv": lambda rng: table(
        "", days(120), wave(rng, 120, 10, 20), wave(rng, 120, 50, 90)
    ).lstrip("\n"),
    "comma_quoted_ambiguous.csv": lambda rng: table(
        "date,load", days(120), [f'"{int(v):,}"' for v in wave(rng, 120, 1100, 9800, 0)]
    ),
    "decimal_comma_unquoted.csv": lambda rng: table(
        "date,value", days(80), comma(wave(rng, 80, 10, 90, 1))
    ),
    "units_in_cells.csv": lambda rng: table(
        "date,weight,steps",
        days(120),
        [f"{v} kg" for v in wave(rng, 120, 70, 80, 1)],
        rng.integers(2000, 12000, 120),
    ),
    "percent.csv": lambda rng: table(
        "date,humidity,load",
        days(120),
        [f"{v}%" for v in wave(rng, 120, 20, 95, 1)],
        wave(rng, 120, 1, 9),
    ),
    "infinite_cell.csv": lambda rng: table(
        "date,ratio", days(120), with_some(rng, wave(rng, 120, 1, 9), "inf", 0.02)
    ),
    "date_dots.csv": lambda rng: table("date,reading", days(120, "%d.%m.%Y"), meter(rng, 120)),
    "date_us.csv": lambda rng: table("date,reading", days(120, "%m/%d/%Y"), meter(rng, 120)),
    "date_us_ampm.csv": lambda rng: table(
        "Date Time,reading", hours(200, "%m/%d/%Y %I:%M:%S %p", "2021-01-10T00"), meter(rng, 200)
    ),
    "date_month_names.csv": lambda rng: table(
        "Date,reading", days(120, "%d-%b-%Y"), meter(rng, 120)
    ),
    "weekly.csv": lambda rng: table(
        "week,cases", written(every("2018-01-01", 150, 7)), wave(rng, 150, 100, 900, 0, 52)
    ),
    "stamps_z.csv": lambda rng: table(
        "time,reading,temp",
        hours(120, "%Y-%m-%dT%H:%M:%SZ"),
        meter(rng, 120),
        wave(rng, 120, 5, 25),
    ),
    "stamps_plus_00.csv": lambda rng: table(
        "time,reading,temp",
        hours(120, "%Y-%m-%d %H:%M:%S+00:00"),
        meter(rng, 120),
        wave(rng, 120, 5, 25),
    ),
    "stamps_plus_02.csv": lambda rng: table(
        "time,reading,temp",
        hours(120, "%Y-%m-%dT%H:%M:%S+02:00"),
        meter(rng, 120),
        wave(rng, 120, 5, 25),
    ),
    "epoch_seconds.csv": lambda rng: table(
        "timestamp,reading,temp",
        1609459200 + 60 * np.arange(200),
        meter(rng, 200),
        wave(rng, 200, 5, 25),
    ),
    "yyyymmdd.csv": lambda rng: table("date,reading", days(150, "%Y%m%d"), meter(rng, 150)),
    "business_days.csv": lambda rng: table(
        "Date,Close", business_days(160), wave(rng, 160, 90, 130, 2, 60)
    ),
    "descending.csv": lambda rng: table("Date,Reading", days(150)[::-1], meter(rng, 150)[::-1]),
    "comment_lines.csv": lambda rng: (
        "# buoy 44, record of 2020\n# units: date, metres\n#\n"
        + date_and_value(rng, "date,wave_height")
    ),
    "trailing_comma.csv": lambda rng: table(
        "date,temp,pressure", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030)
    ).replace("\n", ",\n"),
    "spaces_after_commas.csv": lambda rng: table(
        "date,temp,pressure", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030), sep=", "
    ),
    "tab_separated.tsv": lambda rng: table(
        "date,temp,pressure", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030), sep="\t"
    ),
    "pipe_separated.txt": lambda rng: table(
        "date,temp,pressure", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 990, 1030), sep="|"
    ),
    "latin1.csv": lambda rng: table(
        "date,Température (°C),débit", days(120), wave(rng, 120, 5, 25), wave(rng, 120, 1, 9)
    ),
    "empty.csv": lambda rng: "",
    "header_only.csv": lambda rng: "date,value\n",
    "one_row.csv": lambda rng: "date,value\n2020-01-01,12.5\n",
}
FILES.update(SIMPLE)


# Names of columns, and what they are --------------------------------------------------------------


@real_file("sunspots_yearly.csv")
def _(rng: Generator) -> str:
    values = SUNSPOTS.split()
    return table("YEAR,SUNACTIVITY", range(1700, 1700 + len(values)), values)


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


@real_file("unnamed_0.csv")
def _(rng: Generator) -> str:
    columns = hours(150), wave(rng, 150, 5, 25), wave(rng, 150, 30, 95)
    return table("Unnamed: 0,timestamp,temp,humidity", range(150), *columns)


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


# Numbers ------------------------------------------------------------------------------------------


@real_file("thousands_quoted.csv")
def _(rng: Generator) -> str:
    amounts = [f'"{float(v):,.2f}"' for v in wave(rng, 120, 700, 3000)]
    return table("date,amount", days(120), amounts)


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


@real_file("mixed_units.csv")
def _(rng: Generator) -> str:
    grams = np.array(wave(rng, 120, 700, 1600, 0)).astype(float)
    cells = [f"{g:.0f} g" if g < 1000 else f"{g / 1000:.2f} kg" for g in grams]
    return table("date,harvest,rain", days(120), cells, wave(rng, 120, 0, 12, 1))


@real_file("celsius_minus_9.csv")
def _(rng: Generator) -> str:
    temps = wave(rng, 200, -14, 12, 0)
    return table("date,temp", days(200), [*temps[:50], "-9", "-9", *temps[52:]])


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


@real_file("stamps_dst.csv")
def _(rng: Generator) -> str:
    """Hours of Berlin at the end of October: 02:00 comes twice, with different offsets."""
    stamps = []
    for utc in every("2021-10-27T00", 150, unit="h"):
        offset = 2 if utc < dt.datetime(2021, 10, 31, 1) else 1
        stamps.append(f"{utc + dt.timedelta(hours=offset):%Y-%m-%dT%H:%M:%S}+0{offset}:00")
    return table("time,reading", stamps, meter(rng, 150))


@real_file("epoch_ms.csv")
def _(rng: Generator) -> str:
    columns = [wave(rng, 200, -2, 2, 3) for _ in range(3)]
    return table("ts,ax,ay,az", 1609459200000 + 500 * np.arange(200), *columns)


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
