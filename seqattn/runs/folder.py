"""The run folder: its files and its log, and functions that find a run.

Each line of `train.log` comes from a record of the logger `seqattn.run`. The attribute `run_folder`
of the record is the run folder. The record is always written to `train.log`, regardless of the
configuration of `logging`. The other handlers then receive the record, subject to levels, filters
and `logging.disable`.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import logging
import math
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from seqattn.config import Monitor, leaves, nearest
from seqattn.config.files import describe_absence
from seqattn.errors import CheckpointError, UsageError, counted
from seqattn.runs import array_files, json_files
from seqattn.runs.checksummed import read_metadata
from seqattn.runs.storage import (
    LOCK_NAME,
    TMP_SUFFIX,
    atomic_write,
    open_to_append,
    read_regular_file,
    write_json,
)

TRAIN_LOG = "train.log"
PACKAGE, LOGGER = logging.getLogger("seqattn"), logging.getLogger("seqattn.run")
if PACKAGE.level == logging.NOTSET:  # the level of the root logger would hide INFO
    PACKAGE.setLevel(logging.INFO)
SPLIT = ("sequence", "part", "first_step", "last_step")
DATA_FILES = ("file", "sha256")
DERIVED_ARTIFACTS = re.compile(
    r"report\.html|attention_film(-(layer\d+|head\d+))*\.(png|svg|pdf|gif)"
    r"|attention(-(grid|input|best|last|previous|encoder_self|decoder_self|layer\d+|head\d+))*"
    r"\.(png|svg|pdf)"
)
"""A pattern for the default names of the report and of the pictures that commands draw after
training."""
PARENTS_OF_RUNS = {
    "seed-*": "folder of many seeds", "*/seed-*": "comparison", "trial-*": "search folder"
}  # fmt: skip
"""The kinds of folders that contain runs, by the path pattern of these runs."""


class TrainLogHandler(logging.Handler):
    """A handler that appends a record to the `train.log` in the folder `record.run_folder`.

    The file is closed after each line, so threads, forked processes and many runs can share the
    handler.

    Attributes:
        held: the lines of each folder in a `hold_lines` block.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[Path, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record. An `OSError` is raised; other handlers of `logging` print such
        an error and continue."""
        folder: Path = vars(record)["run_folder"]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        line = f"{stamp} {record.msg}\n"
        if folder in self.held:
            self.held[folder].append(line)
            return
        with open_to_append(folder / TRAIN_LOG) as file:
            file.write(line)


HANDLER = TrainLogHandler()


@contextlib.contextmanager
def hold_lines(folders: Sequence[Path]) -> Iterator[None]:
    """Keep the lines for the logs of these folders in memory during the `with` block. A new run
    uses this while its folder still contains the run that it will replace.

    `HANDLER.held.pop(FOLDER)` ends this for one folder and returns its lines. At the end of the
    block, the lines of the other folders are discarded.
    """
    HANDLER.held.update((folder, []) for folder in folders)
    try:
        yield
    finally:
        for folder in folders:
            HANDLER.held.pop(folder, None)


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
        exact_match: the share of the validation sequences of symbols whose output in free running
            is right in every symbol; None for vectors.
        symbol_error_rate: the edit distances of these outputs, divided by the number of true
            symbols; None for vectors.
        bleu: BLEU of these outputs from 0 to 100; None unless `training.monitor` is `bleu`.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    validation_loss_teacher_forced: float
    learning_rate: float
    teacher_forcing: float
    seconds: float
    exact_match: float | None = None
    symbol_error_rate: float | None = None
    bleu: float | None = None

    def as_dict(self) -> dict[str, float]:
        """Return the columns of `metrics.csv` that the record has, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def as_row(self) -> list[float]:
        return list(map(float, self.as_dict().values()))

    def value_of(self, measure: Monitor) -> float:
        """Return the value of a measure of the validation part."""
        value = self.validation_loss if measure == "loss" else getattr(self, measure)
        assert value is not None
        return float(value)

    def monitored(self, measure: Monitor) -> float:
        """Return the value that decides which epoch is the best: the smaller, the better."""
        value = self.value_of(measure)
        return -value if measure in ("exact_match", "bleu") else value

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


METRICS = tuple(
    field.name for field in dataclasses.fields(EpochRecord) if field.default is dataclasses.MISSING
)
SYMBOL_METRICS = (*METRICS, "exact_match", "symbol_error_rate")
ALL_METRICS = (*SYMBOL_METRICS, "bleu")


def describe_monitored(summary: Mapping[str, Any]) -> str:
    """Describe what selected the best epoch of a run, such as " by BLEU 41.23"; "" for the loss."""
    found = summary.get("monitored")
    if found is None or found["measure"] == "loss":
        return ""
    measure, value = found["measure"], found["value"]
    if measure == "bleu":
        return f" by BLEU {value:.2f}"
    return f" by {measure.replace('_', ' ')} {value:.2%}"


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    atomic_write(path, text.getvalue().encode())


def _read_rows(
    path: Path, header: Sequence[str], *, missing_ok: bool = False,
    or_headers: Sequence[Sequence[str]] = (),
) -> list[list[str]]:  # fmt: skip
    """Read the rows below the header. With `missing_ok`, a missing file has no rows.

    Raises:
        CheckpointError: if the file cannot be read, has another header, or has a row of another
            length.
    """
    if missing_ok and not os.path.lexists(path):
        return []
    try:
        text = io.TextIOWrapper(io.BytesIO(read_regular_file(path)), "utf-8", newline="")
        found, *rows = list(csv.reader(text)) or [[]]
        if tuple(found) not in {tuple(one) for one in (header, *or_headers)}:
            raise ValueError(f"its header is not {','.join(header)}")
        for number, row in enumerate(rows, 1):
            if len(row) != len(found):
                raise ValueError(f"row {number} has {len(row)} cells instead of {len(found)}")
    except (OSError, ValueError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path}: cannot be read: {reason}.") from None
    return rows


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
    log = _FilePath(TRAIN_LOG)
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
    outputs = _FilePath("predictions.txt")
    source_vocabulary = _FilePath("vocabulary_source.json")
    target_vocabulary = _FilePath("vocabulary_target.json")
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
            self.predictions, self.outputs, self.source_vocabulary, self.target_vocabulary,
            self.attention, self.loss_picture, self.predictions_picture,
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
        present = self.path.iterdir() if self.path.is_dir() else ()
        derived = [file for file in present if DERIVED_ARTIFACTS.fullmatch(file.name)]
        for file in (self.summary, *self._results, *derived):
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

    def log_line(self, text: str) -> None:
        """Write each line of a text to `train.log`."""
        file, number, function, _ = LOGGER.findCaller(stacklevel=2)
        for line in text.splitlines():
            record = LOGGER.makeRecord(
                LOGGER.name, logging.INFO, file, number, line, (), None, function,
                {"run_folder": self.path},
            )  # fmt: skip
            HANDLER.handle(record)
            if LOGGER.isEnabledFor(logging.INFO):
                LOGGER.handle(record)

    def write_metrics(self, history: Sequence[EpochRecord]) -> None:
        header = tuple(history[0].as_dict()) if history else METRICS
        _write_rows(self.metrics, header, ([*record.as_dict().values()] for record in history))

    def read_metrics(self) -> list[EpochRecord]:
        """Read `metrics.csv`, the history of the run.

        Raises:
            CheckpointError: if the file is missing, or is not a metrics file.
        """
        rows = _read_rows(self.metrics, METRICS, or_headers=(SYMBOL_METRICS, ALL_METRICS))
        try:
            history = [EpochRecord.from_row([float(cell) for cell in row]) for row in rows]
            if [record.epoch for record in history] != list(range(1, len(history) + 1)):
                raise ValueError("its epochs are not numbered from 1")
        except ValueError as error:
            raise CheckpointError(f"{self.metrics}: cannot be read: {error}.") from None
        return history

    def write_texts(self, outputs: Sequence[str], vocabularies: Mapping[Path, Any]) -> None:
        """Write the outputs of a model of symbols for the test sequences, one on each line, and the
        vocabularies. Without outputs, nothing is written."""
        if outputs:
            atomic_write(self.outputs, "".join(f"{line}\n" for line in outputs).encode())
        for path, vocabulary in vocabularies.items():
            write_json(path, vocabulary)

    def write_split(self, split: Sequence[tuple[str, str, str, str]]) -> None:
        """Write `split.csv`. Each row describes a range of time steps that one part of the data
        takes from a series: the id of the series, the part, and the first and last step of the
        range."""
        _write_rows(self.split, SPLIT, split)

    def write_data_files(self, digests: Mapping[str, str]) -> None:
        """Write `files.csv`, with the names and the SHA-256 digests of the data files."""
        _write_rows(self.data_files, DATA_FILES, digests.items())

    def read_data_files(self) -> dict[str, str]:
        """Read `files.csv`. Return an empty dict if the file is missing."""
        return dict(_read_rows(self.data_files, DATA_FILES, missing_ok=True))

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
        loss = weights.get("validation_loss")
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
        summary yet."""
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


def find_run(path: Path) -> tuple[RunFolder, Path]:
    """Find the folder and the checkpoint that a RUN argument of a command selects.

    Args:
        path: a checkpoint file or a run folder. A run folder selects the best checkpoint of the
            run.

    Returns:
        the run folder, and the path of the checkpoint.

    Raises:
        CheckpointError: if the path is neither a run folder nor a file.
    """
    if path.is_dir():
        folder = RunFolder(path)
        if folder.is_run or folder.best.exists():
            return folder, folder.best
        for pattern, kind in PARENTS_OF_RUNS.items():
            runs = [each for each in sorted(path.glob(pattern)) if RunFolder(each).is_run]
            report = f" `seqattn report {shlex.quote(str(path))}` describes all."
            if runs:
                raise CheckpointError(
                    f"{path}: is a {kind}, and this command needs one run. Give one of its"
                    f" {counted(len(runs), 'run')}, such as {runs[0]}."
                    + ("" if pattern == "trial-*" else report)
                )
        raise CheckpointError(f"{path}: is not a run folder ({folder.missing_files}).")
    if path.is_file():
        return RunFolder(path.resolve().parent.parent), path
    raise CheckpointError(
        f"{path}: no such run. Give a run folder such as outputs/squares, or a checkpoint in one."
    )


def seed_of_folder(path: Path) -> int | None:
    """Return K if the name of a folder is `seed-K` with a number K, and None otherwise."""
    prefix, _, number = path.name.partition("seed-")
    is_number = not prefix and number.isascii() and number.isdigit()
    return int(number) if is_number and number == str(int(number)) else None


def check_run_exists(path: Path) -> None:
    """Check that the folder of a run, or of many seeds, to be resumed exists.

    Raises:
        CheckpointError: if the folder does not exist.
    """
    if path.exists():
        return
    siblings = [each.name for each in sorted(path.parent.glob("*")) if each.is_dir()]
    close = nearest(path.name, siblings)
    hint = f" Did you mean --name {shlex.quote(close)}?" if close else ""
    raise CheckpointError(
        f"{path}: no such run, so there is nothing to continue. Leave out --resume to start a new"
        f" run.{hint}"
    )


def check_summary(folder: RunFolder, model: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Read `summary.json`, and compare it with `model` and `seed` of the config and, if the run has
    not diverged, with `metrics.csv`.

    Raises:
        CheckpointError: if the files belong to different runs.
    """
    summary, mismatch = folder.read_summary(), ""
    if summary["seed"] != seed:
        mismatch = f"seed: is {summary['seed']}, but {folder.config.name} has {seed}"
    elif summary.get("diverged"):
        return summary
    old, new = dict(leaves(summary.get("model", {}))), dict(leaves(model))
    if not mismatch and any(old[key] != new[key] for key in old.keys() & new.keys()):
        mismatch = f"model: differs from {folder.config.name}"
    if not mismatch and folder.metrics.exists():
        history, best, name = folder.read_metrics(), summary["best_epoch"], folder.metrics.name
        if len(history) != summary["epochs"]:
            mismatch = f"epochs: is {summary['epochs']}, but {name} has {len(history)}"
        elif history[best - 1].validation_loss != summary["validation_loss"]:
            mismatch = f"validation_loss: differs from epoch {best} of {name}"
    if mismatch:
        raise CheckpointError(
            f"{folder.summary}: {mismatch}, so it belongs to another run. Remove it and resume the"
            " run (--resume) to write it again."
        )
    return summary


def check_folder_available(folder: RunFolder, *, resume: bool, overwrite: bool) -> None:
    """Check that training may write to a folder.

    Raises:
        UsageError: if training must not write to the folder, or if both `resume` and `overwrite`
            are true.
    """
    path = folder.path
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other; give one of them.")
    if folder.is_available:
        return
    if not path.is_dir():
        raise UsageError(f"{path}: exists and is not a folder. Choose another --name.")
    if not folder.is_run:
        raise UsageError(
            f"{path}: exists and is not a run folder ({folder.missing_files}), so it is not"
            " changed. Choose another --name."
        )
    if folder.last.parent.is_symlink():
        raise UsageError(
            f"{folder.last.parent}: is a symbolic link, but checkpoints must be in the run folder."
            " Link the whole run folder instead."
        )
    if not (resume or overwrite):
        raise UsageError(
            f"{path}: already has a run. Continue it (--resume), replace it (--overwrite), or"
            " choose another --name."
        )
