"""The user's own sequences: reading them from CSV, writing forecasts of them.

Long form, a point a row: the columns `sequence` and `step`, then one a feature.

    sequence,step,x,y
    a,1,-1.02,-0.97
    a,2,-1.05,1.01

Rows of one sequence stand together, in order, and their steps count up by one.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Floats, Sequences, padded
from seqattn.errors import DataError

SEQUENCE, STEP = "sequence", "step"
LARGEST = 1e15
"""Models work in float32, where the square of a value must still be finite."""


@dataclass(frozen=True)
class LongTable:
    """Sequences as a file gave them.

    Attributes:
        ids: their names, in the order of the file.
        points: an (L, F) array each, columns in the model's order.
        last_steps: the step number of each sequence's last row.
        features: the F names that the file uses.
        notes: what a reader should be told of how the file was understood.
    """

    ids: tuple[str, ...]
    points: tuple[Floats, ...]
    last_steps: tuple[int, ...]
    features: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_long_csv(file: Path | BinaryIO, features: Sequence[str]) -> LongTable:
    """Read a CSV file in long form.

    Columns are found by the model's feature names. A file with as many feature columns, none of
    which has such a name, is read in its own order, and `notes` says so; further columns are left
    out, and `notes` says that too.

    Args:
        file: a path, or an open binary stream such as standard input.
        features: the names that the model was trained with.

    Raises:
        DataError: with file, line and column, and what would do.
    """
    name = str(file) if isinstance(file, Path) else "standard input"
    rows = _rows(file, name)
    _, header = next(rows, (0, []))
    if not header:
        raise DataError(
            f"{name}: is empty. Expected a header row: {','.join([SEQUENCE, STEP, *features])}"
        )
    places, names, notes = _columns(header, features, name)
    return LongTable(*_collect(rows, header, places, name), features=names, notes=tuple(notes))


def as_sources(table: LongTable) -> Sequences:
    """Whole sequences as sources, with no target known."""
    F = len(table.features)
    source, lengths = padded(table.points, F)
    return Sequences(
        source=source,
        source_lengths=lengths,
        target=np.zeros((len(lengths), 0, F)),
        target_lengths=np.zeros_like(lengths),
        features=table.features,
        ids=table.ids,
    )


def cut(table: LongTable, source_length: int) -> Sequences:
    """Sequences cut into a source of up to `source_length` points and a target of the rest.

    Raises:
        DataError: a sequence of one point, which cannot be both.
    """
    F = len(table.features)
    cuts = [min(source_length, len(points) - 1) for points in table.points]
    for name, at in zip(table.ids, cuts, strict=True):
        if at < 1:
            raise DataError(
                f"sequence {name!r} has one point; to be scored it needs a source and a target,"
                " so two at least."
            )
    source, source_lengths = padded([p[:at] for p, at in zip(table.points, cuts, strict=True)], F)
    target, target_lengths = padded([p[at:] for p, at in zip(table.points, cuts, strict=True)], F)
    return Sequences(source, source_lengths, target, target_lengths, table.features, table.ids)


def write_long_csv(
    file: TextIO,
    ids: Sequence[str],
    last_steps: Sequence[int],
    forecast: Floats,
    features: Sequence[str],
) -> None:
    """Forecasts (N, T, F) in the form they were read, steps counted on."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow([SEQUENCE, STEP, *features])
    for name, last, points in zip(ids, last_steps, forecast, strict=True):
        for step, point in enumerate(points, start=last + 1):
            rows.writerow([name, step, *(_number(value) for value in point)])


def write_json_lines(file: TextIO, ids: Sequence[str], part: Sequences, forecast: Floats) -> None:
    """One object a line: id, source and forecast as lists of points."""
    for name, source, length, points in zip(
        ids, part.source, part.source_lengths, forecast, strict=True
    ):
        described = {
            "id": name,
            "source": [[_number(v) for v in point] for point in source[:length]],
            "forecast": [[_number(v) for v in point] for point in points],
        }
        file.write(json.dumps(described, ensure_ascii=False, allow_nan=False) + "\n")


def forecast_arrays(
    part: Sequences, forecast: Floats, *, with_target: bool
) -> dict[str, NDArray[np.generic]]:
    """Sequences and their forecasts as arrays for an NPZ; cells at padding are NaN.

    Args:
        forecast: (N, T, F).
        with_target: the true continuation is known and goes in, beside a forecast cut to it.
    """

    def real(points: Floats, keep: NDArray[np.bool_]) -> Floats:
        return np.where(keep[:, :, None], points, np.nan)

    arrays: dict[str, NDArray[np.generic]] = {
        "ids": np.array(list(part.ids), dtype=np.str_),
        "features": np.array(list(part.features), dtype=np.str_),
        "labels": np.array(list(part.labels), dtype=np.str_),
        "source": real(part.source, part.source_keep),
        "source_lengths": part.source_lengths,
        "forecast": real(forecast, part.target_keep) if with_target else forecast,
    }
    if with_target:
        arrays["target"] = real(part.target, part.target_keep)
        arrays["target_lengths"] = part.target_lengths
    return arrays


def _number(value: float) -> float:
    """A forecast is float32: the shortest text that reads back as the same float32."""
    return float(str(np.float32(value)))


def _rows(file: Path | BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every row that is not blank."""
    if isinstance(file, Path):
        if file.is_dir():
            raise DataError(f"{name}: is a directory. Give a CSV file.")
        if file.exists() and not file.is_file():
            raise DataError(
                f"{name}: is not a regular file. Give a CSV file, or - for standard input."
            )
        try:
            raw: BinaryIO = file.open("rb")
        except FileNotFoundError:
            raise DataError(f"{name}: no such file.") from None
        except OSError as error:
            raise DataError(f"{name}: cannot be read ({error.strerror}).") from None
    else:
        raw = file
    with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}: after line {reader.line_num}, byte {error.object[error.start]:#04x} is"
                " not UTF-8. Save the file as UTF-8."
            ) from None
        except csv.Error as error:
            raise DataError(f"{name}:{reader.line_num + 1}: is not valid CSV: {error}.") from None


def _columns(
    header: list[str], features: Sequence[str], name: str
) -> tuple[list[int], tuple[str, ...], list[str]]:
    """Places of sequence, step and each feature in a row, the file's feature names, and notes."""
    header = [cell.strip() for cell in header]
    found = f"found {', '.join(header)}"
    doubled = sorted({cell for cell in header if header.count(cell) > 1})
    if doubled:
        raise DataError(f"{name}:1: the column {doubled[0]!r} stands there twice.")
    if len(header) == 1 and any(sign in header[0] for sign in ";\t|"):
        raise DataError(f"{name}:1: columns are separated by something else than commas; {found}.")
    for needed in (SEQUENCE, STEP):
        if needed not in header:
            raise DataError(
                f"{name}:1: no column {needed!r}; {found}. Expected the header"
                f" {','.join([SEQUENCE, STEP, *features])}"
            )
    others = [cell for cell in header if cell not in (SEQUENCE, STEP)]
    missing = [feature for feature in features if feature not in others]
    if not missing:
        left_out = [cell for cell in others if cell not in features]
        notes = [f"left out: {', '.join(left_out)}"] if left_out else []
        chosen = tuple(features)
    elif len(others) == len(features) == len(missing):
        chosen = tuple(others)
        notes = [f"{', '.join(others)} are read as {', '.join(features)}, in this order"]
    else:
        raise DataError(
            f"{name}:1: no column {missing[0]!r}; {found}. The model was trained on"
            f" {', '.join(features)}."
        )
    return [header.index(cell) for cell in (SEQUENCE, STEP, *chosen)], chosen, notes


def _collect(
    rows: Iterator[tuple[int, list[str]]], header: list[str], places: list[int], name: str
) -> tuple[tuple[str, ...], tuple[Floats, ...], tuple[int, ...]]:
    """Rows as whole sequences."""
    points: dict[str, list[list[float]]] = {}
    last_steps: dict[str, int] = {}
    current: str | None = None
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(f"{name}:{line}: has {len(row)} cells, the header has {len(header)}.")
        sequence, step_text, *cells = (row[place].strip() for place in places)
        if not sequence:
            raise DataError(f"{name}:{line}: the column {SEQUENCE!r} is empty.")
        try:
            step = int(step_text if "_" not in step_text else "")
        except ValueError:
            raise DataError(
                f"{name}:{line}: the column {STEP!r} holds {step_text[:40]!r}, not a whole number."
            ) from None
        if sequence != current:
            if sequence in points:
                raise DataError(
                    f"{name}:{line}: sequence {sequence!r} goes on here after another one. Keep the"
                    " rows of a sequence together."
                )
            current = sequence
            points[sequence] = []
        elif step != last_steps[sequence] + 1:
            raise DataError(
                f"{name}:{line}: sequence {sequence!r} has step {step} after step"
                f" {last_steps[sequence]}; steps must count up by one. Sort the file, and fill or"
                " drop what is missing."
            )
        last_steps[sequence] = step
        points[sequence].append(
            [
                _value(cell, name, line, header[place])
                for cell, place in zip(cells, places[2:], strict=True)
            ]
        )
    if not points:
        raise DataError(f"{name}: has a header but no rows.")
    arrays = tuple(np.array(sequence) for sequence in points.values())
    return tuple(points), arrays, tuple(last_steps.values())


def _value(cell: str, name: str, line: int, column: str) -> float:
    try:
        value = float(cell if "_" not in cell else "")
    except ValueError:
        what = "is empty" if not cell else f"holds {cell[:40]!r}, not a number"
        raise DataError(f"{name}:{line}: the column {column!r} {what}.") from None
    if not math.isfinite(value):
        raise DataError(f"{name}:{line}: the column {column!r} is {cell}; it must be finite.")
    if abs(value) > LARGEST:
        raise DataError(
            f"{name}:{line}: the column {column!r} is {cell[:40]}; values up to {LARGEST:g} can be"
            " worked with. Give it in larger units."
        )
    return value
