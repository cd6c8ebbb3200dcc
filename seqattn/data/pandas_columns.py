"""Conversion of the columns and index of a pandas DataFrame to NumPy. This module does not import
pandas."""

from __future__ import annotations

import datetime
import decimal
import itertools
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.errors import DataError

NAME = "the DataFrame"
MICROSECONDS = {"s": 10**6, "ms": 10**3}
"""Microseconds per unit, for date units with a larger range than microseconds."""


@dataclass(frozen=True, eq=False)
class FrameColumn:
    """A column of a DataFrame.

    Attributes:
        name: name of the column as text.
        values: (rows,) numbers, booleans, dates (in UTC if they had a time zone), or strings with
            None in empty cells.
        missing: mask (rows,) that is True at empty cells; None if empty cells are NaN, NaT or None.
        sql: SQL expression for a cell, with braces as a placeholder for the name of the array.
    """

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    sql: str = "{}"


def columns_of_pandas(frame: Any) -> list[FrameColumn]:
    """Convert the columns of a DataFrame and the levels of its index.

    An unnamed index with a single level of integers is left out, because it usually only counts
    rows. An unnamed level of dates or durations gets the name `time`, or another name if `time` is
    taken.

    Raises:
        DataError: if a name or cell is not supported, or if any other index level has no name.
    """
    if frame.columns.nlevels > 1:
        raise DataError(
            f"{NAME}: its columns have {frame.columns.nlevels} levels. Give each one name:"
            " frame.columns = ['_'.join(map(str, names)) for names in frame.columns]"
        )
    names = [_column_name(label) for label in frame.columns]
    found = _index_columns(frame.index, names)
    found += [_frame_column(name, frame.iloc[:, i]) for i, name in enumerate(names)]
    return found


def index_note(index: Any) -> str | None:
    """Return a note for the user on an index that is left out, or None if the index is read or only
    counts rows."""
    if index.nlevels > 1 or index.names[0] is not None or index.dtype.kind not in "iu":
        return None
    if type(index).__name__ == "RangeIndex" or not len(index):
        return None
    return (
        "its index has no name and is left out; to read it, name it:"
        f" frame.rename_axis({_index_example(1)})"
    )


def _index_columns(index: Any, names: list[str]) -> list[FrameColumn]:
    found: list[FrameColumn] = []
    for level in range(index.nlevels):
        values, label = index.get_level_values(level), index.names[level]
        if label is not None:
            name = _column_name(label)
        elif values.dtype.kind in "Mm" or str(values.dtype).startswith(("datetime", "period")):
            name = _new_time_name([*names, *(column.name for column in found)])
        elif index.nlevels == 1 and values.dtype.kind in "iu":
            continue  # row numbers, possibly of filtered or sorted rows
        elif index.nlevels == 1 and not len(index):
            continue
        else:
            index_text = "its index" if index.nlevels == 1 else f"level {level} of its index"
            raise DataError(
                f"{NAME}: {index_text} has no name. Name it, such as"
                f" frame.rename_axis({_index_example(index.nlevels)}), or leave it out:"
                " frame.reset_index(drop=True)."
            )
        found.append(_frame_column(name, values.to_series(index=range(len(values)))))
    return found


def _new_time_name(names: Sequence[str]) -> str:
    """Return the name of an unnamed index of dates that differs from all names, ignoring case."""
    taken = {name.lower() for name in names}
    numbered = (f"time_of_index_{k}" for k in itertools.count(2))
    return next(n for n in itertools.chain(["time", "time_of_index"], numbered) if n not in taken)


def _index_example(levels: int) -> str:
    return "'series'" if levels == 1 else "['series', 'time']" if levels == 2 else "[...]"


def _column_name(label: Any) -> str:
    """Return the name of a column as text, in the form that pandas writes to a CSV file.

    Raises:
        DataError: if the name is a missing value.
    """
    if label is None or label != label or str(label) == "<NA>":
        raise DataError(f"{NAME}: a column is called {label!r}. Give it a name.")
    if isinstance(label, datetime.datetime):
        midnight = (label.hour, label.minute, label.second, label.microsecond) == (0, 0, 0, 0)
        return str(label.date()) if midnight else str(label)
    return str(label)


def _frame_column(name: str, series: Any) -> FrameColumn:
    """Convert a column to NumPy.

    Args:
        name: name of the column.
        series: the column as a pandas Series.
    """
    dtype = series.dtype
    if hasattr(series, "cat") and hasattr(dtype, "categories"):
        return _category_column(name, series)
    if str(dtype).startswith("Sparse"):
        return _frame_column(name, series.sparse.to_dense())
    if str(dtype).startswith("period"):
        return _frame_column(name, series.dt.to_timestamp())
    if getattr(dtype, "tz", None) is not None and dtype.kind == "M":
        plain = series.dt.tz_convert("UTC").dt.tz_localize(None)
        values = _microsecond_dates(name, plain.to_numpy())
        return FrameColumn(name, values, None, "timezone('UTC', {})")
    if isinstance(dtype, np.dtype):
        return _numpy_column(name, series.to_numpy(), series)
    if dtype.kind in "biuf" and hasattr(dtype, "numpy_dtype"):
        missing = series.isna().to_numpy(dtype=bool)
        values = series.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
        return FrameColumn(name, _database_numbers(values), missing)
    return _object_column(name, series.astype(object))


def _category_column(name: str, series: Any) -> FrameColumn:
    codes, words = series.cat.codes.to_numpy(), series.cat.categories
    missing = codes < 0
    if not len(words):
        return FrameColumn(name, np.full(len(codes), None, dtype=object))
    of_words = _frame_column(name, words.to_series(index=range(len(words))))
    return FrameColumn(name, of_words.values[np.where(missing, 0, codes)], missing, of_words.sql)


def _numpy_column(name: str, values: NDArray[Any], series: Any) -> FrameColumn:
    """Convert a column with a NumPy dtype."""
    kind = values.dtype.kind
    if kind in "biuf":
        return FrameColumn(name, _database_numbers(values))
    if kind == "M":
        return FrameColumn(name, _microsecond_dates(name, values))
    if kind == "m":
        return FrameColumn(name, _duration_seconds(values))
    if kind == "c":
        raise DataError(
            f"{NAME}: the column {name!r} contains complex numbers. Give real and imaginary"
            " parts as two columns."
        )
    return _object_column(name, series)


def _database_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers with a dtype that the database supports."""
    if values.dtype.kind == "f":
        values = values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64)
    return np.ascontiguousarray(values)


def _duration_seconds(values: NDArray[Any]) -> NDArray[np.float64]:
    found = values / np.timedelta64(1, "s")
    return np.asarray(found, dtype=np.float64)


def _microsecond_dates(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Convert dates to microseconds.

    Raises:
        DataError: if a date is outside the range of `datetime64[us]`.
    """
    unit = np.datetime_data(values.dtype)[0]
    if unit in MICROSECONDS:
        furthest = np.iinfo(np.int64).max // MICROSECONDS[unit]
        ticks = values.astype(np.int64)
        if (~np.isnat(values) & ((ticks > furthest) | (ticks < -furthest))).any():
            raise DataError(f"{NAME}: the column {name!r} has dates beyond the year 294247.")
    return values.astype("datetime64[us]")


def _object_column(name: str, series: Any) -> FrameColumn:
    """Convert a column of Python objects. A column with values of incompatible types, such as
    numbers and dates, becomes strings."""
    missing = np.asarray(series.isna(), dtype=bool)
    known = [cell for cell, empty in zip(series.tolist(), missing, strict=True) if not empty]
    if known and all(isinstance(cell, datetime.datetime) for cell in known):
        return _datetime_column(name, known, missing)
    for kinds, read in OBJECTS:
        if known and all(isinstance(cell, kinds) for cell in known):
            return FrameColumn(name, _scatter_known(np.asarray(read(known)), missing), missing)
    texts = np.full(len(missing), None, dtype=object)
    texts[~missing] = [_cell_text(name, cell) for cell in known]
    return FrameColumn(name, texts)


def _numbers_of_objects(cells: list[Any]) -> NDArray[Any]:
    """Convert Python numbers to int64 if all of them are integers in the int64 range, otherwise to
    float64."""
    are_integers = all(isinstance(c, numbers.Integral) and abs(int(c)) < 2**63 for c in cells)
    return np.array(
        [int(c) if are_integers else float(c) for c in cells],
        np.int64 if are_integers else np.float64,
    )


def _seconds_of_day(cells: list[datetime.time]) -> list[float]:
    return [c.hour * 3600 + c.minute * 60 + c.second + c.microsecond / 1e6 for c in cells]


OBJECTS: tuple[tuple[Any, Callable[[list[Any]], Any]], ...] = (
    ((bool, np.bool_), lambda cells: np.array(cells, dtype=bool)),
    ((numbers.Integral, decimal.Decimal, float, np.floating, np.bool_), _numbers_of_objects),
    (np.datetime64, lambda cells: np.array(cells, dtype="datetime64[us]")),
    (datetime.date, lambda cells: np.array(cells, dtype="datetime64[us]")),
    (
        (datetime.timedelta, np.timedelta64),
        lambda cells: [np.timedelta64(cell) / np.timedelta64(1, "s") for cell in cells],
    ),
    (datetime.time, _seconds_of_day),
)
"""Types of Python objects, each with the function that converts cells of this type to numbers,
booleans or dates."""


def _datetime_column(name: str, known: list[Any], missing: NDArray[np.bool_]) -> FrameColumn:
    """Convert a column of datetimes.

    Raises:
        DataError: if some datetimes have a time zone and others have none.
    """
    zones = {cell.tzinfo is not None for cell in known}
    if len(zones) > 1:
        raise DataError(
            f"{NAME}: the column {name!r} has times with a time zone and times without one. Give"
            " all of them one: pandas.to_datetime(column, utc=True)."
        )
    if zones == {True}:
        known = [cell.astimezone(datetime.UTC).replace(tzinfo=None) for cell in known]
    values = _scatter_known(np.array([np.datetime64(cell, "us") for cell in known]), missing)
    return FrameColumn(name, values, missing, "timezone('UTC', {})" if zones == {True} else "{}")


def _scatter_known(part: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Return an array (rows,) with the known cells in their rows and 0 in all other rows."""
    are_integers = np.zeros(len(missing), dtype=part.dtype)
    are_integers[~missing] = part
    return are_integers


def _cell_text(name: str, cell: Any) -> str:
    """Return a cell as text.

    Raises:
        DataError: if the cell is not valid UTF-8.
    """
    try:
        text = cell.decode() if isinstance(cell, bytes) else str(cell)
        text.encode()
    except UnicodeError:
        raise DataError(
            f"{NAME}: the column {name!r} contains {cell!r:.60}, which is not valid UTF-8 text."
        ) from None
    return text
