"""The six real data sets of scripts/real_data.py, with their splits, windows and errors.

All data sets are part of Python packages, so nothing is downloaded. The letters in shapes are N
(windows), S (source length), T (target length), F (features) and L (points of a series).
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class DataSet:
    """A data set with the settings for training and scoring models.

    Attributes:
        package: the Python package that contains the data set.
        unit: the unit of the values.
        features: the names of the columns.
        source, target: S and T, the lengths of the source and the target of each window. The stride
            of the windows is 1.
        season: the season length in steps; 1 if there is no season.
        validation, test: the number of steps that are forecast in the validation part and in the
            test part, at the end of a long series; 0 if each part has separate series.
        read: a function that returns the series of each part, by name of the part. The function
            returns a long series as "train"; the series is split later.
    """

    package: str
    unit: str
    features: tuple[str, ...]
    source: int
    target: int
    season: int
    validation: int
    test: int
    read: Callable[[], dict[str, list[Floats]]]


@dataclass(frozen=True)
class SeriesParts:
    """The series of each part, each (L, F), with NaN for values that were not observed.

    The validation part and the test part of a long series begin S points before the first point
    that is forecast. Therefore, every part has its full number of forecast origins, and no point is
    forecast in two parts.

    Attributes:
        series: the series of each part, by name of the part.
        whole: the long series that was split; None if each part has separate series.
    """

    series: dict[str, list[Floats]]
    whole: Floats | None = None


@dataclass(frozen=True)
class WindowArrays:
    """The sources and targets of windows.

    Attributes:
        source: (N, S, F), the sources. Missing values are interpolated linearly within each source.
        target: (N, T, F), the targets, with NaN for values that were not observed.
        origins: (N,), the index of the first target point in its series.
    """

    source: Floats
    target: Floats
    origins: NDArray[np.int64] = field(repr=False)


def cut_in_time(values: Floats, source: int, validation: int, test: int) -> SeriesParts:
    """Split a long series into three parts.

    Args:
        values: (L, F), the series.
        source: S, the length of a source.
        validation, test: the number of points that are forecast in the validation part and in the
            test part. The test part is the end of the series.

    Raises:
        ValueError: if the training part has no more points than a source.
    """
    L = len(values)
    ends = L - test
    trained = ends - validation
    if trained <= source:
        raise ValueError(f"{trained} points are left to train on, but a source has {source}")
    return SeriesParts(
        {
            "train": [values[:trained]],
            "validation": [values[trained - source : ends]],
            "test": [values[ends - source :]],
        },
        values,
    )


def read_parts(data: DataSet) -> SeriesParts:
    """Read a data set and split it."""
    found = data.read()
    if data.test:
        return cut_in_time(found["train"][0], data.source, data.validation, data.test)
    return SeriesParts(found)


def write_csv(path: Path, series: Sequence[Floats], features: Sequence[str]) -> None:
    """Write series as a table with the columns `series`, `step` and the features.

    The cell of a missing value is empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["series", "step", *features])
        for k, values in enumerate(series):
            for step, row in enumerate(values, start=1):
                cells = ["" if np.isnan(cell) else repr(float(cell)) for cell in row]
                writer.writerow([f"s{k + 1}", step, *cells])


def filled(values: Floats) -> Floats:
    """Interpolate missing values linearly.

    Missing values before the first or after the last observed value get the nearest observed value.

    Args:
        values: (L, F), with NaN for missing values.
    """
    whole = values.copy()
    for column in whole.T:
        seen = np.flatnonzero(~np.isnan(column))
        column[:] = np.interp(np.arange(len(column)), seen, column[seen])
    return whole


def cuts(series: Sequence[Floats], S: int, T: int) -> Iterator[tuple[Floats, Floats, int]]:
    """Yield the source, the target and the origin of every window, series after series.

    A window is left out if a feature has no observed value in the source, or if the target has no
    observed value at all.
    """
    for values in series:
        for first in range(len(values) - S - T + 1):
            source, target = values[first : first + S], values[first + S : first + S + T]
            if np.isnan(source).all(axis=0).any() or np.isnan(target).all():
                continue
            yield source, target, first + S


def windows_of(series: Sequence[Floats], S: int, T: int) -> WindowArrays:
    """Return all windows of a part, with a stride of 1."""
    sources, targets, origins = zip(*cuts(series, S, T), strict=True)
    source = np.stack([filled(each) if np.isnan(each).any() else each for each in sources])
    return WindowArrays(source, np.stack(targets), np.array(origins))


def rmse(forecast: Floats, target: Floats) -> float:
    """Return the root mean squared error over all observed cells, in the units of the data.

    Raises:
        ValueError: if the shapes differ, or if a forecast is not finite.
    """
    if forecast.shape != target.shape:
        raise ValueError(f"forecast {forecast.shape}, target {target.shape}")
    if not np.isfinite(forecast).all():
        raise ValueError("a forecast is not finite")
    return float(np.sqrt(np.nanmean((forecast - target) ** 2)))


def _univariate(values: object) -> dict[str, list[Floats]]:
    return {"train": [np.asarray(values, dtype=np.float64).reshape(-1, 1)]}


def read_co2() -> dict[str, list[Floats]]:
    from statsmodels.datasets import co2

    return _univariate(co2.load_pandas().data["co2"])


def read_sunspots() -> dict[str, list[Floats]]:
    from statsmodels.datasets import sunspots

    return _univariate(sunspots.load_pandas().data["SUNACTIVITY"])


def read_air() -> dict[str, list[Floats]]:
    from statsforecast.utils import AirPassengers

    return _univariate(AirPassengers)


def read_elnino() -> dict[str, list[Floats]]:
    from statsmodels.datasets import elnino

    return _univariate(elnino.load_pandas().data.drop(columns="YEAR"))


def read_demand() -> dict[str, list[Floats]]:
    from pmdarima.datasets import load_taylor

    return _univariate(load_taylor())


def read_ts(path: Path) -> list[Floats]:
    """Read the series of a UCR/UEA `.ts` file, each (L, F).

    Colons separate the features of a series, and the class follows the last colon.
    """
    text = path.read_text(encoding="utf-8")
    rows = text.lower().partition("@data")[2].split()
    return [
        np.array([column.split(",") for column in row.split(":")[:-1]], dtype=np.float64).T
        for row in rows
    ]


def read_vowels() -> dict[str, list[Floats]]:
    """Read the Japanese Vowels data set with its own training and test parts.

    Every sixth training utterance belongs to the validation part.
    """
    spec = importlib.util.find_spec("aeon")  # not imported, because only its files are needed
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'aeon'", name="aeon")
    folder = Path(spec.origin).parent / "datasets/data/JapaneseVowels"
    known = read_ts(folder / "JapaneseVowels_TRAIN.ts")
    return {
        "train": [each for k, each in enumerate(known) if k % 6 != 5],
        "validation": known[5::6],
        "test": read_ts(folder / "JapaneseVowels_TEST.ts"),
    }


LPC = tuple(f"lpc{k}" for k in range(12))
DATA_SETS = {
    "co2": DataSet("statsmodels", "ppmv", ("co2",), 104, 26, 52, 343, 343, read_co2),
    "sunspots": DataSet("statsmodels", "sunspots", ("spots",), 33, 11, 11, 62, 62, read_sunspots),
    "air": DataSet(
        "statsforecast", "thousand passengers", ("passengers",), 24, 12, 12, 24, 36, read_air
    ),
    "vowels": DataSet("aeon", "cepstrum coefficients", LPC, 4, 3, 1, 0, 0, read_vowels),
    "elnino": DataSet("statsmodels", "°C", ("temperature",), 36, 12, 12, 110, 110, read_elnino),
    "demand": DataSet("pmdarima", "MW", ("demand",), 336, 48, 336, 672, 672, read_demand),
}
