"""The run folder: names of its files, writing them whole, reading them back.

    outputs/NAME/
      config.yaml        every value, defaults too; loads again
      environment.json   versions, device, threads, git revision
      train.log          what happened, a line each
      metrics.csv        one row an epoch
      checkpoints/       best.safetensors, last.safetensors, previous.safetensors
      split.csv          which part each sequence of your own files went to
      files.csv          the files that were read as they were needed, and their SHA-256
      summary.json       the losses beside floor and baselines, or how the run diverged
      predictions.npz    test sequences and their free-running forecasts
      film.npz           where it looked in some validation sequences, epoch by epoch, if recorded
      tensorboard/       for TensorBoard, if asked for
      attention.npz      where the model looked in them (none for a model without attention)
      loss_curve.png, predictions.png, attention.png
      .lock              held by the process that writes here

Every file but the log is written whole or not at all; see `seqattn.storage`.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn import run_files
from seqattn.config import leaves
from seqattn.errors import CheckpointError, UsageError
from seqattn.storage import LOCK, PART, atomic_write, open_to_append, read_file

COMPARISON = "comparison.json"
"""The file that makes a folder a comparison's."""
SEARCH = "tune.json"
"""The file that makes a folder a search's."""
PAGE = "report.html"
"""The page of a run or a comparison, in its folder."""


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
            ValueError: a number that is not finite, or no whole epoch.
            TypeError: more or fewer numbers than `METRICS`.
        """
        epoch, *rest = row
        if not (all(map(math.isfinite, row)) and float(epoch).is_integer()):
            raise ValueError(f"epoch {epoch:g} holds numbers that no training writes")
        return cls(int(epoch), *rest)


DRAWN_LATER = re.compile(
    r"report\.html|attention_film(-(layer\d+|head\d+))*\.(png|svg|pdf|gif)"
    r"|attention(-(grid|input|best|last|previous|encoder_self|decoder_self|layer\d+|head\d+))*"
    r"\.(png|svg|pdf)"
)
METRICS = tuple(field.name for field in dataclasses.fields(EpochRecord))


@dataclass(frozen=True)
class RunFolder:
    """Where the files of a run lie."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"

    @property
    def log(self) -> Path:
        return self.path / "train.log"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def split(self) -> Path:
        return self.path / "split.csv"

    @property
    def sources(self) -> Path:
        return self.path / "files.csv"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def best(self) -> Path:
        return self.path / "checkpoints" / "best.safetensors"

    @property
    def last(self) -> Path:
        return self.path / "checkpoints" / "last.safetensors"

    @property
    def previous(self) -> Path:
        """The last checkpoint but one."""
        return self.path / "checkpoints" / "previous.safetensors"

    @property
    def predictions(self) -> Path:
        return self.path / "predictions.npz"

    @property
    def attention(self) -> Path:
        return self.path / "attention.npz"

    @property
    def film(self) -> Path:
        return self.path / "film.npz"

    @property
    def board(self) -> Path:
        """The folder for TensorBoard."""
        return self.path / "tensorboard"

    def derived_artifacts(self) -> list[Path]:
        """The page and pictures that were asked for after training, under the names they have when
        none is given: they are of the run that was here."""
        if not self.path.is_dir():
            return []
        return [file for file in self.path.iterdir() if DRAWN_LATER.fullmatch(file.name)]

    def clear_board(self) -> None:
        for file in self.board.glob("events.out.tfevents.*"):
            file.unlink(missing_ok=True)

    @property
    def loss_picture(self) -> Path:
        return self.path / "loss_curve.png"

    @property
    def predictions_picture(self) -> Path:
        return self.path / "predictions.png"

    @property
    def attention_picture(self) -> Path:
        return self.path / "attention.png"

    @property
    def files(self) -> tuple[Path, ...]:
        """Everything that a run writes."""
        return (
            self.config,
            self.environment,
            self.log,
            self.metrics,
            self.split,
            self.sources,
            self.summary,
            self.best,
            self.last,
            self.previous,
            self.film,
            self.predictions,
            self.attention,
            self.loss_picture,
            self.predictions_picture,
            self.attention_picture,
        )

    @property
    def is_run(self) -> bool:
        """True where both files that a run writes first are there."""
        return self.config.is_file() and self.environment.is_file()

    @property
    def lacks(self) -> str:
        """In words, which of both files a folder that is no run's does not have."""
        needed = (self.config, self.environment)
        return " and ".join(f"no {file.name}" for file in needed if not file.is_file())

    @property
    def is_available(self) -> bool:
        """True where a new run may begin: nothing is there, an empty folder, or what a run left
        that was killed before it had begun."""
        if not os.path.lexists(self.path):
            return True
        if not self.path.is_dir():
            return False
        names = {path.name for path in self.path.iterdir()}
        if LOCK in names and not self.is_run:
            names -= {self.config.name, self.environment.name}
        return all(name == LOCK or (name[0] == "." and name.endswith(PART)) for name in names)

    def clear_results(self) -> None:
        """Remove what is made after training, before training goes on: none of it holds then."""
        self.summary.unlink(missing_ok=True)  # first: with it, all else is taken to be there
        for file in (*self.files[self.files.index(self.predictions) :], *self.derived_artifacts()):
            file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove what a run wrote, and nothing else. Config and environment stay until those of
        the next run take their places: without them the folder would be nobody's."""
        for file in (*self.files, *self.derived_artifacts()):
            if file not in (self.config, self.environment):
                file.unlink(missing_ok=True)
        self.clear_board()

    def clear_training(self) -> None:
        """Remove what a training is resumed from, and its numbers so far."""
        for file in (self.metrics, self.last, self.previous, self.best, self.film):
            file.unlink(missing_ok=True)  # metrics first: epochs without a checkpoint are refused

    def write_metrics(self, history: Sequence[EpochRecord]) -> None:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(METRICS)
        rows.writerows([getattr(record, name) for name in METRICS] for record in history)
        atomic_write(self.metrics, text.getvalue().encode())

    def write_split(self, split: Sequence[tuple[str, str, str, str]]) -> None:
        """Which part each sequence of the user's files went to."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("sequence", "part", "first_step", "last_step"))
        rows.writerows(split)
        atomic_write(self.split, text.getvalue().encode())

    def read_split(self) -> list[tuple[str, ...]]:
        """What `write_split` wrote; nothing where it is not there or cannot be read."""
        try:
            text = read_file(self.split).decode()
        except (OSError, ValueError):
            return []
        return [tuple(row) for row in csv.reader(io.StringIO(text, newline=""))][1:]

    def write_sources(self, digests: Mapping[str, str]) -> None:
        """The files that a training reads as it needs them, and their SHA-256."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("file", "sha256"))
        rows.writerows(digests.items())
        atomic_write(self.sources, text.getvalue().encode())

    def read_sources(self) -> dict[str, str]:
        """What `write_sources` wrote; nothing where it is not there or cannot be read."""
        try:
            rows = list(csv.reader(io.StringIO(read_file(self.sources).decode(), newline="")))
            return dict(rows[1:])
        except (OSError, ValueError):
            return {}

    def read_metrics(self) -> list[EpochRecord]:
        """The history so far.

        Raises:
            CheckpointError: there is none, or it is no metrics file.
        """
        try:
            rows = list(csv.reader(io.StringIO(read_file(self.metrics).decode(), newline="")))
            if not rows or tuple(rows[0]) != METRICS:
                raise ValueError("its header is another")
            history = [EpochRecord.from_row([float(cell) for cell in row]) for row in rows[1:]]
            if [record.epoch for record in history] != list(range(1, len(history) + 1)):
                raise ValueError("its epochs do not count up from 1")
        except (OSError, ValueError, TypeError, csv.Error) as error:
            raise CheckpointError(f"{self.metrics}: cannot be read back: {error}.") from None
        return history

    def read_summary(self) -> dict[str, Any]:
        """See `run_files.read_summary`."""
        return run_files.read_summary(self.summary)

    def divergence(self) -> str | None:
        """Why the run has no finite loss, where it diverged; else None.

        Raises:
            CheckpointError: summary.json cannot be read.
        """
        found = self.read_summary().get("diverged") if self.summary.is_file() else None
        return None if found is None else str(found)

    @property
    def has_results(self) -> bool:
        """Whether the run ended with a finite test loss."""
        return self.summary.is_file() and self.divergence() is None

    def read_results(self) -> dict[str, Any]:
        """The summary of a run that ended with a finite test loss.

        Raises:
            CheckpointError: it has not ended, or diverged.
        """
        words = self.divergence()
        if words is not None:
            raise CheckpointError(f"{self.path}: diverged, so it has no results. {words}")
        return self.read_summary()

    def read_environment(self) -> dict[str, Any]:
        """See `run_files.read_environment`."""
        return run_files.read_environment(self.environment)

    def read_predictions(self, most: int | None = None) -> dict[str, NDArray[Any]]:
        """See `run_files.read_predictions`."""
        return run_files.read_predictions(self.predictions, most)

    def read_attention(self, most: int | None = None) -> dict[str, NDArray[Any]]:
        """See `run_files.read_attention`.

        Raises:
            CheckpointError: it cannot be read, or predictions.npz is of other sequences.
        """
        attention = run_files.read_attention(self.attention, most)
        if not self.predictions.exists():
            return attention
        ids = self.read_predictions(most)["ids"], attention["ids"]
        rows = None if most is None else min(map(len, ids))
        if not np.array_equal(ids[0][:rows], ids[1][:rows]):
            raise CheckpointError(
                f"{self.attention}: ids: are not those of {self.predictions}, so the two files are"
                " of different runs; training again (--overwrite) writes both anew."
            )
        return attention

    def read_film(self) -> dict[str, NDArray[Any]]:
        """See `run_files.read_film`."""
        return run_files.read_film(self.film)

    def say(self, text: str) -> None:
        """Append a line, with the time, to the log."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with open_to_append(self.log) as file:
            file.write("".join(f"{stamp} {line}\n" for line in text.splitlines()))


def find_run(path: Path) -> tuple[RunFolder, Path]:
    """A RUN argument as its folder and checkpoint.

    Args:
        path: a run folder (its best checkpoint is meant), or a checkpoint file.

    Raises:
        CheckpointError: there is nothing, or no run.
    """
    if path.is_dir():
        folder = RunFolder(path)
        if not folder.is_run and not folder.best.exists():
            seeds = sorted(path.glob("seed-*"))
            hint = f" Did you mean {seeds[0]}?" if seeds else ""
            raise CheckpointError(f"{path}: is a folder, but not of a run ({folder.lacks}).{hint}")
        return folder, folder.best
    if path.is_file():
        return RunFolder(path.resolve().parent.parent), path
    raise CheckpointError(
        f"{path}: no such run. Give a run folder such as outputs/squares, or a checkpoint in one."
    )


def check_summary(folder: RunFolder, model: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """summary.json of a run, held against its config and metrics.csv.

    Args:
        model: the section of the config.
        seed: of the config.

    Raises:
        CheckpointError: one cannot be read, or they are of different runs.
    """
    summary = folder.read_summary()
    if summary["seed"] != seed:
        other = f"seed: is {summary['seed']}, but {folder.config.name} has {seed}"
    elif summary.get("diverged"):
        return summary
    elif not _agree(summary["model"], model):
        other = f"model: is not the one of {folder.config.name}"
    else:
        other = _other_history(folder, summary)
    if other:
        raise CheckpointError(
            f"{folder.summary}: {other}, so it is of another run. Remove it and go on with the run"
            " (--resume): that writes it again."
        )
    return summary


def _agree(stored: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the keys that both have are the same: a newer version may have more."""
    before, after = dict(leaves(stored)), dict(leaves(now))
    return all(before[key] == after[key] for key in before.keys() & after.keys())


def _other_history(folder: RunFolder, summary: Mapping[str, Any]) -> str:
    """What in a summary is not as metrics.csv has it; empty where all is."""
    if not folder.metrics.exists():
        return ""
    history, best, name = folder.read_metrics(), summary["best_epoch"], folder.metrics.name
    if len(history) != summary["epochs"]:
        return f"epochs: is {summary['epochs']}, but {name} has {len(history)}"
    if history[best - 1].validation_loss != summary["validation_loss"]:
        return f"validation_loss: is not that of epoch {best} in {name}"
    return ""


def attention_arrays(
    weights: NDArray[np.floating],
    *,
    ids: Sequence[str],
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    meaning: str,
    alignment: NDArray[np.int64] | None = None,
    encoder_self: NDArray[np.floating] | None = None,
    decoder_self: NDArray[np.floating] | None = None,
) -> dict[str, NDArray[Any]]:
    """Weights as a file holds them: axes named in the file, cells nobody may look at NaN.

    Args:
        weights: (N, layers, A, T, S): the decoder looked at the source.
        meaning: of the numbers; see `seqattn.models.AttentionMap`.
        alignment: (N, T) the source step that tells each target step, -1 where none does.
        encoder_self: (N, layers, A, S, S): the source looked at itself.
        decoder_self: (N, layers, A, T, T): the target looked back at itself.
    """
    maps = {"cross": weights, "encoder_self": encoder_self, "decoder_self": decoder_self}
    known = {kind: cells for kind, cells in maps.items() if cells is not None}
    return attention_contents(
        masked_weights(known, source_lengths, target_lengths), ids=ids, meaning=meaning,
        source_lengths=source_lengths, target_lengths=target_lengths, alignment=alignment,
    )  # fmt: skip


def attention_contents(
    masked: Mapping[str, Any],
    *,
    ids: Sequence[str],
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    meaning: str,
    alignment: NDArray[np.int64] | None,
) -> dict[str, Any]:
    """What an attention file holds, in its order.

    Args:
        masked: weights by their names in the file; see `masked_weights`.
    """
    return {
        "weights": masked["weights"],
        "axes": np.array(["sequence", "layer", "head", "target_step", "source_step"]),
        "kind": np.array("cross"),
        **{name: cells for name, cells in masked.items() if name != "weights"},
        **({} if alignment is None else {"alignment": alignment}),
        "meaning": np.array(meaning),
        "ids": np.array(list(ids)),
        "source_lengths": source_lengths,
        "target_lengths": target_lengths,
    }


def masked_weights(
    maps: Mapping[str, NDArray[np.floating]],
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
) -> dict[str, NDArray[np.float32]]:
    """Weights by their names in a file, `weights` first, cells nobody may look at NaN."""
    *_, T, S = maps["cross"].shape
    of_target = np.arange(T) < target_lengths[:, None]
    of_source = np.arange(S) < source_lengths[:, None]

    def blanked(
        cells: NDArray[np.floating], rows: NDArray[np.bool_], columns: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        real = (rows[:, :, None] & columns[:, None, :])[:, None, None]
        return np.where(real, cells, np.nan).astype(np.float32, copy=False)

    found = {"weights": blanked(maps["cross"], of_target, of_source)}
    if "encoder_self" in maps:
        found["encoder_self"] = blanked(maps["encoder_self"], of_source, of_source)
    if "decoder_self" in maps:
        back = blanked(maps["decoder_self"], of_target, of_target)
        found["decoder_self"] = np.where(np.tri(T, dtype=bool), back, np.float32(np.nan))
    return found


def check_not_taken(folder: RunFolder, *, resume: bool, overwrite: bool) -> None:
    """Hold the folder a training is about to use against what it may do there.

    Raises:
        UsageError: something is there that it may not touch.
    """
    path = folder.path
    if resume and overwrite:
        raise UsageError("--resume and --overwrite cannot both be meant; give one of them.")
    if folder.is_available:
        return
    if not path.is_dir():
        raise UsageError(f"{path}: is there already, and is no folder. Choose another --name.")
    if not folder.is_run:
        raise UsageError(
            f"{path}: is there already, and is not the folder of a run ({folder.lacks}), so"
            " nothing in it is touched. Choose another --name."
        )
    if folder.last.parent.is_symlink():
        raise UsageError(
            f"{folder.last.parent}: is a link to somewhere else; checkpoints are kept in the run's"
            " own folder. Make the whole run folder a link instead."
        )
    if not (resume or overwrite):
        raise UsageError(
            f"{path}: holds a run already. Go on with it (--resume), replace it (--overwrite), or"
            " choose another --name."
        )
