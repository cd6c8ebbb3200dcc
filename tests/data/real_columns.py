"""Columns and tables from which tests/data/real is put together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
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
