"""The run folder: the paths of its files, and what may be removed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from seqattn.errors import CheckpointError
from seqattn.runs import array_files, csv_files, json_files, train_log
from seqattn.runs.csv_files import EpochRecord
from seqattn.runs.storage import LOCK, PART

DRAWN_LATER = re.compile(
    r"report\.html|attention_film(-(layer\d+|head\d+))*\.(png|svg|pdf|gif)"
    r"|attention(-(grid|input|best|last|previous|encoder_self|decoder_self|layer\d+|head\d+))*"
    r"\.(png|svg|pdf)"
)
"""Default names of the page and of pictures that are made on request, after training."""


class _Name:
    """The name of a file in a run folder; as an attribute of a `RunFolder`, its path."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: RunFolder, owner: type[RunFolder]) -> Path:
        return folder.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """A run folder. Its files are described in `seqattn.runs`."""

    path: Path

    config = _Name("config.yaml")
    environment = _Name("environment.json")
    log = _Name(train_log.TRAIN_LOG)
    metrics = _Name("metrics.csv")
    split = _Name("split.csv")
    sources = _Name("files.csv")
    summary = _Name("summary.json")
    best = _Name("checkpoints/best.safetensors")
    last = _Name("checkpoints/last.safetensors")
    previous = _Name("checkpoints/previous.safetensors")
    film = _Name("film.npz")
    board = _Name("tensorboard")
    predictions = _Name("predictions.npz")
    attention = _Name("attention.npz")
    loss_picture = _Name("loss_curve.png")
    predictions_picture = _Name("predictions.png")
    attention_picture = _Name("attention.png")

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that a training writes, without those for TensorBoard."""
        return (
            self.config, self.environment, self.log, self.metrics, self.split, self.sources,
            self.summary, self.best, self.last, self.previous, self.film, *self._results,
        )  # fmt: skip

    @property
    def _results(self) -> tuple[Path, ...]:
        """The files that are written after training, without the summary."""
        return (
            self.predictions, self.attention, self.loss_picture, self.predictions_picture,
            self.attention_picture,
        )  # fmt: skip

    @property
    def is_run(self) -> bool:
        """Whether both files that a run writes first exist."""
        return self.config.is_file() and self.environment.is_file()

    @property
    def lacks(self) -> str:
        """In words, which of these two files are missing."""
        needed = (self.config, self.environment)
        return " and ".join(f"no {file.name}" for file in needed if not file.is_file())

    @property
    def is_available(self) -> bool:
        """Whether a new run may begin: there is nothing, an empty folder, or what a run left that
        was killed before it had begun."""
        if not os.path.lexists(self.path):
            return True
        if not self.path.is_dir():
            return False
        names = {path.name for path in self.path.iterdir()}
        if LOCK in names and not self.is_run:
            names -= {self.config.name, self.environment.name}
        return all(name == LOCK or (name[0] == "." and name.endswith(PART)) for name in names)

    def clear_results(self) -> None:
        """Remove what is made after training, because training goes on."""
        # The summary first: where it exists, readers expect everything else.
        for file in (self.summary, *self._results, *self._drawn_later()):
            file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what a run wrote, except config and environment: the next run replaces them, and
        a folder without them is not known as a run's."""
        for file in (*self.files, *self._drawn_later()):
            if file not in (self.config, self.environment):
                file.unlink(missing_ok=True)
        self.clear_board()

    def clear_training(self) -> None:
        """Remove checkpoints and metrics."""
        # The metrics first: a folder with epochs and without a checkpoint cannot be resumed.
        for file in (self.metrics, self.last, self.previous, self.best, self.film):
            file.unlink(missing_ok=True)

    def clear_board(self) -> None:
        """Remove the files for TensorBoard."""
        for file in self.board.glob("events.out.tfevents.*"):
            file.unlink(missing_ok=True)

    def _drawn_later(self) -> list[Path]:
        if not self.path.is_dir():
            return []
        return [file for file in self.path.iterdir() if DRAWN_LATER.fullmatch(file.name)]

    def log_line(self, text: str) -> None:
        """Log each line of a text; see `seqattn.runs.train_log`."""
        train_log.log_line(self.path, text, stacklevel=2)

    def write_metrics(self, history: Sequence[EpochRecord]) -> None:
        csv_files.write_metrics(self.metrics, history)

    def read_metrics(self) -> list[EpochRecord]:
        return csv_files.read_metrics(self.metrics)

    def write_split(self, split: Sequence[tuple[str, str, str, str]]) -> None:
        csv_files.write_split(self.split, split)

    def read_split(self) -> list[tuple[str, ...]]:
        return csv_files.read_split(self.split)

    def write_sources(self, digests: Mapping[str, str]) -> None:
        csv_files.write_sources(self.sources, digests)

    def read_sources(self) -> dict[str, str]:
        return csv_files.read_sources(self.sources)

    def read_environment(self) -> dict[str, Any]:
        return json_files.read_environment(self.environment)

    def read_summary(self) -> dict[str, Any]:
        return json_files.read_summary(self.summary)

    def divergence(self) -> str | None:
        """Why the run diverged; None where it did not, or has no summary yet.

        Raises:
            CheckpointError: summary.json cannot be read.
        """
        found = self.read_summary().get("diverged") if self.summary.is_file() else None
        return None if found is None else str(found)

    def read_results(self) -> dict[str, Any]:
        """The summary of a run that ended with a finite test loss.

        Raises:
            CheckpointError: it has not ended, or diverged.
        """
        reason = self.divergence()
        if reason is not None:
            raise CheckpointError(f"{self.path}: diverged, so it has no results. {reason}")
        return self.read_summary()

    def read_predictions(self, most: int | None = None) -> dict[str, NDArray[Any]]:
        return array_files.read_predictions(self.predictions, most)

    def read_attention(self, most: int | None = None) -> dict[str, NDArray[Any]]:
        """The attention file, checked to be of the same sequences as the predictions."""
        return array_files.read_attention_of(self.predictions, self.attention, most)

    def read_film(self) -> dict[str, NDArray[Any]]:
        return array_files.read_film(self.film)
