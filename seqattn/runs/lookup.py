"""Run folders that a command names: which run is meant, and what may be done there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqattn.config import leaves
from seqattn.errors import CheckpointError, UsageError
from seqattn.runs.folder import RunFolder


def find_run(path: Path) -> tuple[RunFolder, Path]:
    """The folder and the checkpoint of a RUN argument.

    Args:
        path: a run folder (its best checkpoint is meant), or a checkpoint file.

    Raises:
        CheckpointError: there is no run.
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
    """summary.json of a run, compared with its config and metrics.csv.

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
        other = _contradicting_metrics(folder, summary)
    if other:
        raise CheckpointError(
            f"{folder.summary}: {other}, so it is of another run. Remove it and go on with the run"
            " (--resume): that writes it again."
        )
    return summary


def _agree(stored: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the keys that both have are equal: a newer version may have more."""
    before, after = dict(leaves(stored)), dict(leaves(now))
    return all(before[key] == after[key] for key in before.keys() & after.keys())


def _contradicting_metrics(folder: RunFolder, summary: Mapping[str, Any]) -> str:
    """Where a summary contradicts metrics.csv; empty where it does not."""
    if not folder.metrics.exists():
        return ""
    history, best, name = folder.read_metrics(), summary["best_epoch"], folder.metrics.name
    if len(history) != summary["epochs"]:
        return f"epochs: is {summary['epochs']}, but {name} has {len(history)}"
    if history[best - 1].validation_loss != summary["validation_loss"]:
        return f"validation_loss: is not that of epoch {best} in {name}"
    return ""


def check_not_taken(folder: RunFolder, *, resume: bool, overwrite: bool) -> None:
    """Check that a training may use a folder.

    Raises:
        UsageError: the folder holds something that it may not replace.
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
