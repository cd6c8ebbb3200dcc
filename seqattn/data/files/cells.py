"""What stands in the columns of a table, as numbers, dates and words; by pyarrow."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.columns import SHOWN, Columns
from seqattn.data.files.piece import DATES, Form, first_line
from seqattn.data.sequences import Floats
from seqattn.errors import DataError, UsageError

DATE = r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?"
A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EMPTY = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none")


def arrow() -> Any:
    """pyarrow, or the word of how to get it.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "CSV, TSV, Parquet and Arrow files are read with pyarrow, which is not installed: pip"
            " install pyarrow (it is the extra seqattn[data]). JSON lines, NPZ and NPY need"
            " nothing more."
        ) from None
    return pa


def numbers_of_texts(
    pa: Any, column: Any, name: str, first: int, cell: str, decimal: str
) -> Floats:
    """A column of texts as numbers, NaN where one is empty.

    Args:
        first: number of its first row, for messages.
        cell: the column's name.
        decimal: what stands between whole and part.

    Raises:
        DataError: one is no number.
    """
    compute = pa.compute
    original = column
    if decimal == ",":
        dots = compute.match_substring(column, ".").to_numpy(zero_copy_only=False)
        if dots.any():
            row = int(dots.argmax())
            raise _no_number(original[row].as_py().strip(), name, first + row, cell, decimal)
        column = compute.replace_substring(column, ",", ".")
    try:
        found: Floats = compute.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
        return found
    except pa.ArrowInvalid:
        pass
    trimmed = compute.utf8_trim_whitespace(column)
    empty = compute.is_in(trimmed, value_set=pa.array(EMPTY))
    texts = compute.if_else(empty, pa.scalar(None, pa.string()), trimmed)
    try:
        cast = compute.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        for row, text in enumerate(texts.to_pylist()):
            if text is not None and not _is_number(pa, text):
                said = original[row].as_py().strip()
                raise _no_number(said, name, first + row, cell, decimal) from None
        raise
    numbers: Floats = cast.to_numpy(zero_copy_only=False)
    return numbers


def numbers_of(pa: Any, column: Any, name: str, cell: str) -> Floats:
    """A typed column as numbers, NaN where there is none.

    Raises:
        DataError: its type is none of numbers.
    """
    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"{name}: the column {cell!r} holds {kind}, not numbers.")
    try:
        cast = pa.compute.cast(column, pa.float64(), safe=False)
    except pa.ArrowException as error:
        raise DataError(f"{name}: the column {cell!r} is no column of numbers"
                        f" ({first_line(error)}).") from None  # fmt: skip
    found: Floats = cast.to_numpy(zero_copy_only=False)
    return found


def names_and_order(
    pa: Any, batch: Any, columns: Columns, name: str, first: int, form: Form
) -> tuple[Any, Any, Any]:
    """The columns of sequences' names, of steps and of groups, None where there is none.

    Raises:
        DataError: one is empty, or a step is no number and no date.
    """

    def texts(column: str | None) -> Any:
        if column is None:
            return None
        values = pa.compute.cast(batch.column(column), pa.string())
        empty = pa.compute.fill_null(pa.compute.equal(values, ""), True)
        if pa.compute.any(empty).as_py():
            row = int(np.flatnonzero(empty.to_numpy(zero_copy_only=False))[0])
            raise DataError(f"{name}: row {first + row}, column {column!r} is empty.")
        return values

    order = None
    if columns.order is not None:
        order = _in_order(pa, batch.column(columns.order), name, first, columns.order, form)
    return texts(columns.sequence), order, texts(columns.group)


def _in_order(pa: Any, column: Any, name: str, first: int, cell: str, form: Form) -> NDArray[Any]:
    """Steps as numbers, or as dates: 2001-12-29 or 2001-12-29T12:00; durations and times of a day
    as numbers of seconds."""
    kind = column.type
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        counted = pa.compute.cast(pa.compute.cast(column, whole), pa.float64(), safe=False)
        steps: NDArray[Any] = counted.to_numpy(zero_copy_only=False) / A_SECOND[kind.unit]
    elif pa.types.is_temporal(kind):
        try:
            column = pa.compute.cast(column, pa.timestamp("us"), safe=False)
        except pa.ArrowException:
            raise DataError(f"{name}: the column {cell!r} holds {kind}.") from None
        steps = column.to_numpy(zero_copy_only=False).astype(DATES)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = pa.compute.utf8_trim_whitespace(column)
        some = texts[0].as_py() if len(texts) else ""
        if re.fullmatch(DATE, some or ""):
            try:
                cast = pa.compute.cast(texts, pa.timestamp("us"))
            except pa.ArrowInvalid:
                for row, text in enumerate(texts.to_pylist()):
                    if not re.fullmatch(DATE, text or ""):
                        raise DataError(
                            f"{name}: row {first + row}, column {cell!r} holds"
                            f" {str(text)[:SHOWN]!r}, not a date."
                        ) from None
                raise DataError(f"{name}: the column {cell!r} holds a date that is none.") from None
            steps = cast.to_numpy(zero_copy_only=False).astype(DATES)
        else:
            steps = numbers_of_texts(pa, texts, name, first, cell, form.decimal)
    else:
        steps = numbers_of(pa, column, name, cell)
    missing = np.isnat(steps) if steps.dtype.kind == "M" else ~np.isfinite(steps)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise DataError(f"{name}: row {first + row}, column {cell!r} is empty or not finite.")
    return steps


def _is_number(pa: Any, text: str) -> bool:
    try:
        pa.compute.cast(pa.array([text]), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _no_number(text: str, name: str, row: int, cell: str, decimal: str) -> DataError:
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    hint = ""
    if decimal == "." and re.fullmatch(r"[+-]?\d+,\d+", text):
        hint = " If that is a decimal comma, set data.decimal to ','."
    elif decimal == "," and re.fullmatch(r"[+-]?(\d*\.\d*|\d{1,3}(\.\d{3})+)(,\d*)?", text):
        hint = " With data.decimal ',' a number has no dots, not between thousands either."
    elif re.search(r"\d[-/.]\d+[-/.]\d", text):
        hint = " Dates, in the column of steps, are written 2001-12-29 or 2001-12-29T12:00."
    return DataError(f"{name}: row {row}, column {cell!r} holds {shown!r}, not a number.{hint}")
