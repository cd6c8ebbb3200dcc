"""Functions that find a run by its path, check its summary, and check whether training may write to
a folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqattn.config import leaves, nearest
from seqattn.errors import CheckpointError, UsageError, counted
from seqattn.runs.folder import RunFolder

PARENTS_OF_RUNS = {
    "seed-*": "folder of many seeds", "*/seed-*": "comparison", "trial-*": "search folder"
}  # fmt: skip
"""The kinds of folders that contain runs, by the path pattern of these runs."""


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
        if not folder.is_run and not folder.best.exists():
            raise CheckpointError(_no_run_in(folder))
        return folder, folder.best
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


def _no_run_in(folder: RunFolder) -> str:
    """Return the message for a folder that is not a run folder. If the folder contains runs, the
    message names one of these runs."""
    path = folder.path
    for pattern, kind in PARENTS_OF_RUNS.items():
        runs = [each for each in sorted(path.glob(pattern)) if RunFolder(each).is_run]
        if runs:
            report = (
                ""
                if pattern == "trial-*"
                else (f" `seqattn report {shlex.quote(str(path))}` describes all.")
            )
            return (
                f"{path}: is a {kind}, and this command needs one run. Give one of its"
                f" {counted(len(runs), 'run')}, such as {runs[0]}.{report}"
            )
    return f"{path}: is not a run folder ({folder.missing_files})."


def check_run_exists(path: Path) -> None:
    """Check that the folder of a run to be resumed exists.

    Args:
        path: the run folder, or the folder of many seeds.

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
    """Read `summary.json`, and compare it with the config and, if the run has not diverged, with
    `metrics.csv`.

    Args:
        folder: the run folder.
        model: the section `model` of the config.
        seed: the seed in the config.

    Raises:
        CheckpointError: if a file cannot be read, or if the files belong to different runs.
    """
    summary = folder.read_summary()
    if summary["seed"] != seed:
        mismatch = f"seed: is {summary['seed']}, but {folder.config.name} has {seed}"
    elif summary.get("diverged"):
        return summary
    elif not _common_keys_equal(summary["model"], model):
        mismatch = f"model: differs from {folder.config.name}"
    else:
        mismatch = _metrics_mismatch(folder, summary)
    if mismatch:
        raise CheckpointError(
            f"{folder.summary}: {mismatch}, so it belongs to another run. Remove it and resume the"
            " run (--resume) to write it again."
        )
    return summary


def _common_keys_equal(stored: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Return whether all common keys have equal values. A newer version of seqattn may have more
    keys."""
    old, new = dict(leaves(stored)), dict(leaves(current))
    return all(old[key] == new[key] for key in old.keys() & new.keys())


def _metrics_mismatch(folder: RunFolder, summary: Mapping[str, Any]) -> str:
    """Return the first contradiction between a summary and `metrics.csv`, or "" if none exists."""
    if not folder.metrics.exists():
        return ""
    history, best, name = folder.read_metrics(), summary["best_epoch"], folder.metrics.name
    if len(history) != summary["epochs"]:
        return f"epochs: is {summary['epochs']}, but {name} has {len(history)}"
    if history[best - 1].validation_loss != summary["validation_loss"]:
        return f"validation_loss: differs from epoch {best} of {name}"
    return ""


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
