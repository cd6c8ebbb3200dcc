"""The CSV files of a run folder: `metrics.csv`, `split.csv` and `files.csv`."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seqattn.errors import CheckpointError
from seqattn.runs.storage import atomic_write, read_regular_file


@dataclass(frozen=True)
class EpochRecord:
    """A row of `metrics.csv`.

    Attributes:
        epoch: the number of the epoch, counted from 1.
        train_loss: the mean squared error on the training batches, with the teacher forcing of the
            epoch.
        validation_loss: the free-running mean squared error on the validation part.
        validation_loss_teacher_forced: the mean squared error on the validation part if each
            decoder input is the true previous step.
        learning_rate: the learning rate of the epoch.
        teacher_forcing: the teacher-forcing probability of the epoch.
        seconds: the wall time of the epoch in seconds, including validation. If runs are trained in
            a group, `seconds` is the wall time of the group, divided by the number of runs that
            trained in the epoch.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    validation_loss_teacher_forced: float
    learning_rate: float
    teacher_forcing: float
    seconds: float

    def as_row(self) -> list[float]:
        return [float(getattr(self, name)) for name in METRICS]

    @classmethod
    def from_row(cls, row: Sequence[float]) -> EpochRecord:
        """Convert a row of `metrics.csv` to a record.

        Raises:
            ValueError: if the row is empty, if a number is not finite, or if the epoch is not an
                integer.
            TypeError: if the row is not empty, but does not have one number for each name in
                `METRICS`.
        """
        epoch, *rest = row
        if not (all(map(math.isfinite, row)) and float(epoch).is_integer()):
            raise ValueError(f"epoch {epoch:g} has a number that training never writes")
        return cls(int(epoch), *rest)


METRICS = tuple(field.name for field in dataclasses.fields(EpochRecord))
SPLIT = ("sequence", "part", "first_step", "last_step")
DATA_FILES = ("file", "sha256")


def write_metrics(path: Path, history: Sequence[EpochRecord]) -> None:
    _write_rows(path, METRICS, ([getattr(record, name) for name in METRICS] for record in history))


def read_metrics(path: Path) -> list[EpochRecord]:
    """Read `metrics.csv`, the history of a run.

    Raises:
        CheckpointError: if the file is missing, or is not a metrics file.
    """
    rows = _read_rows(path, METRICS)
    try:
        history = [EpochRecord.from_row([float(cell) for cell in row]) for row in rows]
        if [record.epoch for record in history] != list(range(1, len(history) + 1)):
            raise ValueError("its epochs are not numbered from 1")
    except ValueError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}.") from None
    return history


def write_split(path: Path, split: Sequence[tuple[str, str, str, str]]) -> None:
    """Write `split.csv`. Each row describes a range of time steps that one part of the data takes
    from a series: the id of the series, the part, and the first and last step of the range."""
    _write_rows(path, SPLIT, split)


def read_split(path: Path) -> list[tuple[str, ...]]:
    """Read `split.csv`. Return an empty list if the file is missing.

    Raises:
        CheckpointError: if the file cannot be read.
    """
    return [tuple(row) for row in _read_rows(path, SPLIT)] if os.path.lexists(path) else []


def write_data_files(path: Path, digests: Mapping[str, str]) -> None:
    """Write `files.csv`, with the names and the SHA-256 digests of the data files."""
    _write_rows(path, DATA_FILES, digests.items())


def read_data_files(path: Path) -> dict[str, str]:
    """Read `files.csv`. Return an empty dict if the file is missing.

    Raises:
        CheckpointError: if the file cannot be read.
    """
    return dict(_read_rows(path, DATA_FILES)) if os.path.lexists(path) else {}


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    atomic_write(path, text.getvalue().encode())


def _read_rows(path: Path, header: Sequence[str]) -> list[list[str]]:
    """Read the rows below the header.

    Raises:
        CheckpointError: if the file cannot be read, has another header, or has a row of another
            length.
    """
    try:
        text = io.TextIOWrapper(io.BytesIO(read_regular_file(path)), "utf-8", newline="")
        found, *rows = list(csv.reader(text)) or [[]]
        if found != [*header]:
            raise ValueError(f"its header is not {','.join(header)}")
        for number, row in enumerate(rows, 1):
            if len(row) != len(header):
                raise ValueError(f"row {number} has {len(row)} cells instead of {len(header)}")
    except (OSError, ValueError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path}: cannot be read: {reason}.") from None
    return rows
