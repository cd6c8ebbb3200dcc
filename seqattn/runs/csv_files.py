"""The CSV files of a run folder: metrics.csv, split.csv and files.csv."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seqattn.errors import CheckpointError
from seqattn.runs.storage import atomic_write, read_file


@dataclass(frozen=True)
class EpochRecord:
    """A row of metrics.csv.

    Attributes:
        epoch: from 1.
        train_loss: mean squared error while training, at the epoch's teacher forcing.
        validation_loss: free running.
        validation_loss_teacher_forced: every step fed the truth.
        learning_rate, teacher_forcing: those of the epoch.
        seconds: wall time with validation.
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
        """
        Raises:
            ValueError: a number is not finite, or the epoch is not whole.
            TypeError: more or fewer numbers than `METRICS`.
        """
        epoch, *rest = row
        if not (all(map(math.isfinite, row)) and float(epoch).is_integer()):
            raise ValueError(f"epoch {epoch:g} holds numbers that no training writes")
        return cls(int(epoch), *rest)


METRICS = tuple(field.name for field in dataclasses.fields(EpochRecord))


def write_metrics(path: Path, history: Sequence[EpochRecord]) -> None:
    _write(path, METRICS, ([getattr(record, name) for name in METRICS] for record in history))


def read_metrics(path: Path) -> list[EpochRecord]:
    """The history so far.

    Raises:
        CheckpointError: the file is missing, or is no metrics file.
    """
    try:
        header, *rows = _read(path) or [[]]
        if tuple(header) != METRICS:
            raise ValueError("its header is another")
        history = [EpochRecord.from_row([float(cell) for cell in row]) for row in rows]
        if [record.epoch for record in history] != list(range(1, len(history) + 1)):
            raise ValueError("its epochs do not count up from 1")
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise CheckpointError(f"{path}: cannot be read back: {error}.") from None
    return history


def write_split(path: Path, split: Sequence[tuple[str, str, str, str]]) -> None:
    """Which part each sequence of the user's files is in."""
    _write(path, ("sequence", "part", "first_step", "last_step"), split)


def read_split(path: Path) -> list[tuple[str, ...]]:
    """What `write_split` wrote; empty if the file is missing or cannot be read."""
    try:
        return [tuple(row) for row in _read(path)[1:]]
    except (OSError, ValueError):
        return []


def write_sources(path: Path, digests: Mapping[str, str]) -> None:
    """The files that a training reads while it runs, and their SHA-256."""
    _write(path, ("file", "sha256"), digests.items())


def read_sources(path: Path) -> dict[str, str]:
    """What `write_sources` wrote; empty if the file is missing or cannot be read."""
    try:
        return dict(_read(path)[1:])
    except (OSError, ValueError):
        return {}


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    atomic_write(path, text.getvalue().encode())


def _read(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(read_file(path).decode(), newline="")))
