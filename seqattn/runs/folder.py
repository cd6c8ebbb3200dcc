"""The run folder: the paths of its files, and methods that read, write and remove these files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from seqattn.config.files import describe_absence
from seqattn.errors import CheckpointError
from seqattn.runs import array_files, csv_files, json_files, train_log
from seqattn.runs.checksummed import read_metadata
from seqattn.runs.csv_files import EpochRecord
from seqattn.runs.storage import LOCK_NAME, TMP_SUFFIX, write_json

DERIVED_ARTIFACTS = re.compile(
    r"report\.html|attention_film(-(layer\d+|head\d+))*\.(png|svg|pdf|gif)"
    r"|attention(-(grid|input|best|last|previous|encoder_self|decoder_self|layer\d+|head\d+))*"
    r"\.(png|svg|pdf)"
)
"""A pattern for the default names of the report and of the pictures that commands draw after
training."""


class _FilePath:
    """A descriptor that returns the path of a file in a `RunFolder`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: RunFolder, owner: type[RunFolder]) -> Path:
        return folder.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """A run folder. The docstring of `seqattn.runs` describes the files in a run folder."""

    path: Path

    config = _FilePath("config.yaml")
    environment = _FilePath("environment.json")
    log = _FilePath(train_log.TRAIN_LOG)
    metrics = _FilePath("metrics.csv")
    split = _FilePath("split.csv")
    data_files = _FilePath("files.csv")
    summary = _FilePath("summary.json")
    best = _FilePath("checkpoints/best.safetensors")
    last = _FilePath("checkpoints/last.safetensors")
    previous = _FilePath("checkpoints/previous.safetensors")
    film = _FilePath("film.npz")
    parameter_history = _FilePath("parameter_history.npz")
    trackers = _FilePath("trackers.json")
    tensorboard = _FilePath("tensorboard")
    wandb = _FilePath("wandb")
    predictions = _FilePath("predictions.npz")
    attention = _FilePath("attention.npz")
    loss_picture = _FilePath("loss_curve.png")
    predictions_picture = _FilePath("predictions.png")
    attention_picture = _FilePath("attention.png")

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that training writes, except the lock and the files in tracker folders."""
        return (
            self.config, self.environment, self.log, self.metrics, self.split, self.data_files,
            self.summary, self.best, self.last, self.previous, self.film, self.parameter_history,
            self.trackers, *self._results,
        )  # fmt: skip

    @property
    def _results(self) -> tuple[Path, ...]:
        """The files that a run writes after training, except the summary."""
        return (
            self.predictions, self.attention, self.loss_picture, self.predictions_picture,
            self.attention_picture,
        )  # fmt: skip

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The pictures of a finished run, in the order in which they are drawn. A run without
        attention weights has no attention picture."""
        attention = (self.attention_picture,) if self.attention.exists() else ()
        return (self.loss_picture, self.predictions_picture, *attention)

    @property
    def is_run(self) -> bool:
        """Whether `config.yaml` and `environment.json` exist. A run writes these two files before
        all other files except the lock."""
        return self.config.is_file() and self.environment.is_file()

    @property
    def missing_files(self) -> str:
        """The missing files that `is_run` requires, as text such as "no config.yaml"."""
        needed = (self.config, self.environment)
        return " and ".join(describe_absence(file) for file in needed if not file.is_file())

    @property
    def is_available(self) -> bool:
        """Whether a new run may use the path.

        The value is True if the path does not exist, if the folder is empty, or if the folder
        contains only files of a run that was killed before it had written both `config.yaml` and
        `environment.json`.
        """
        if not os.path.lexists(self.path):
            return True
        if not self.path.is_dir():
            return False
        names = {path.name for path in self.path.iterdir()}
        if LOCK_NAME in names and not self.is_run:
            names -= {self.config.name, self.environment.name}
        return all(
            name == LOCK_NAME or (name[0] == "." and name.endswith(TMP_SUFFIX)) for name in names
        )

    def clear_results(self) -> None:
        """Remove the files that are written after training. Call this method before training
        continues."""
        # The summary is removed first, because a reader that finds a summary expects the other
        # files.
        for file in (self.summary, *self._results, *self._derived_artifacts()):
            file.unlink(missing_ok=True)

    def clear(self, wandb_id: str | None = None) -> None:
        """Remove the files of a run, except the lock, the config and the environment. A folder
        without the config or the environment is not recognized as a run folder, so these two files
        remain until the next run replaces them.

        The checkpoints are removed after all other files that a run without a checkpoint may have.
        After a kill, `--resume` therefore continues the same run, or starts a run that finds no
        such file.

        Args:
            wandb_id: identifier of a record of Weights & Biases that remains.
        """
        self.clear_results()
        for file in (self.log, self.split, self.data_files, self.trackers):
            file.unlink(missing_ok=True)
        self.clear_tensorboard()
        if self.wandb.is_dir() and not self.wandb.is_symlink():
            if wandb_id is None:
                shutil.rmtree(self.wandb)
            else:
                for record in self.wandb.glob("*run-*"):
                    if not (record.is_symlink() or record.name.endswith(f"-{wandb_id}")):
                        shutil.rmtree(record)
        self.clear_training()

    def clear_training(self) -> None:
        """Remove the checkpoints, the metrics and the histories."""
        # The metrics are removed first, because a run with metrics but no checkpoint cannot be
        # resumed. `last` is removed after `previous`, so that no older state is continued.
        saved = (self.previous, self.last, self.best, self.film, self.parameter_history)
        for file in (self.metrics, *saved):
            file.unlink(missing_ok=True)

    def clear_tensorboard(self) -> None:
        """Remove the event files of TensorBoard."""
        for file in self.tensorboard.glob("events.out.tfevents.*"):
            file.unlink(missing_ok=True)

    def _derived_artifacts(self) -> list[Path]:
        if not self.path.is_dir():
            return []
        return [file for file in self.path.iterdir() if DERIVED_ARTIFACTS.fullmatch(file.name)]

    def log_line(self, text: str) -> None:
        """Write each line of a text to `train.log`; see `seqattn.runs.train_log`."""
        train_log.log_line(self.path, text, stacklevel=2)

    def write_metrics(self, history: Sequence[EpochRecord]) -> None:
        csv_files.write_metrics(self.metrics, history)

    def read_metrics(self) -> list[EpochRecord]:
        return csv_files.read_metrics(self.metrics)

    def write_split(self, split: Sequence[tuple[str, str, str, str]]) -> None:
        csv_files.write_split(self.split, split)

    def read_split(self) -> list[tuple[str, ...]]:
        return csv_files.read_split(self.split)

    def write_data_files(self, digests: Mapping[str, str]) -> None:
        csv_files.write_data_files(self.data_files, digests)

    def read_data_files(self) -> dict[str, str]:
        return csv_files.read_data_files(self.data_files)

    def write_trackers(self, records: Mapping[str, Any]) -> None:
        write_json(self.trackers, records)

    def read_trackers(self) -> dict[str, Any]:
        return json_files.read_trackers(self.trackers)

    def read_environment(self) -> dict[str, Any]:
        return json_files.read_environment(self.environment)

    def write_summary(self, content: Mapping[str, Any]) -> None:
        json_files.write_summary(self.summary, content)

    def read_summary(self) -> dict[str, Any]:
        """Read `summary.json`. If the best checkpoint can be read, check that the results are those
        of its weights.

        Raises:
            CheckpointError: if the summary cannot be read, was edited, or belongs to other weights.
        """
        summary = json_files.read_summary(self.summary)
        if summary.get("diverged") or not self.best.is_file():
            return summary
        try:
            weights = read_metadata(self.best)
        except CheckpointError:  # for the commands that need the weights
            return summary
        # Checkpoints of older versions lack the loss.
        loss = weights.get("validation_loss", summary["validation_loss"])
        if (weights.get("epoch"), loss) != (summary["best_epoch"], summary["validation_loss"]):
            raise CheckpointError(
                f"{self.summary}: has the results of epoch {summary['best_epoch']} with the"
                f" validation loss {summary['validation_loss']}, but {self.best} has the weights of"
                f" epoch {weights.get('epoch')} with the validation loss {loss}, so one of the two"
                " files belongs to another run. Remove this file and resume the run (--resume) to"
                " write it again."
            )
        return summary

    def divergence(self) -> str | None:
        """Return the reason why the run diverged, or None if the run did not diverge or has no
        summary yet.

        Raises:
            CheckpointError: if `summary.json` cannot be read.
        """
        reason = self.read_summary().get("diverged") if self.summary.is_file() else None
        return None if reason is None else str(reason)

    def read_results(self) -> dict[str, Any]:
        """Read the summary of a run that has ended with a finite test loss.

        Raises:
            CheckpointError: if the run has not ended or has diverged, or if the file is damaged.
        """
        reason = self.divergence()
        if reason is not None:
            raise CheckpointError(f"{self.path}: diverged, so it has no results. {reason}")
        return self.read_summary()

    def read_predictions(self, max_rows: int | None = None) -> dict[str, NDArray[Any]]:
        return array_files.read_predictions(self.predictions, max_rows)

    def read_attention(self, max_rows: int | None = None) -> dict[str, NDArray[Any]]:
        """Read `attention.npz`. If `predictions.npz` exists, check that both files contain the same
        sequences."""
        return array_files.read_matching_attention(self.predictions, self.attention, max_rows)

    def read_film(self) -> dict[str, NDArray[Any]]:
        return array_files.read_film(self.film)

    def read_parameter_history(self) -> dict[str, NDArray[Any]]:
        return array_files.read_parameter_history(self.parameter_history)
