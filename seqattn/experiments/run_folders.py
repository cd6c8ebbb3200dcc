"""Run folders before and after a training: locks, cleaning, config and environment, pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from seqattn.config import to_yaml
from seqattn.errors import FolderLockedError
from seqattn.experiments.job import Callbacks, Job, raise_if_stopped
from seqattn.experiments.run_environment import change_of_numerics
from seqattn.runs import RunFolder
from seqattn.runs.storage import atomic_write, exclusive_lock, write_json, write_transaction


class FolderLocks(ExitStack):
    """Locks of run folders, held until the block ends."""

    def __init__(self) -> None:
        super().__init__()
        self.locked: set[Path] = set()

    def lock_existing(self, folders: Iterable[RunFolder]) -> None:
        """Lock the folders that already hold a run.

        Raises:
            FolderLockedError: another process writes there.
        """
        for folder in folders:
            if folder.is_run:
                self._lock(folder)

    def lock_new(self, folders: Iterable[RunFolder]) -> None:
        """Make and lock the folders that are not locked yet.

        Raises:
            FolderLockedError: another process was faster.
        """
        for folder in folders:
            if folder.path in self.locked:
                continue
            folder.path.mkdir(parents=True, exist_ok=True)
            self._lock(folder)
            if not folder.is_available:
                raise FolderLockedError(
                    f"{folder.path}: another process has begun to write there just now."
                )

    def _lock(self, folder: RunFolder) -> None:
        self.enter_context(exclusive_lock(folder.path))
        self.locked.add(folder.path)


def prepare_folders(
    jobs: Sequence[Job], environment: Mapping[str, Any], threads: int | None, *, overwrite: bool
) -> None:
    """Remove what is no longer true once training continues; write config and environment.

    Args:
        environment: for environment.json.
        threads: that the user asked for; None: those of before, if they are known.
    """
    for job in jobs:
        folder = job.folder
        if overwrite:
            folder.clear()
        folder.clear_results()
        if job.is_restarted:
            folder.clear_training()
        if job.checkpoint == folder.previous:
            # Otherwise the next save would keep the discarded last.safetensors as the previous one.
            folder.previous.replace(folder.last)
    with write_transaction():
        for job in jobs:
            content = environment_of(job, environment, threads or job.environment.get("threads"))
            atomic_write(job.folder.config, to_yaml(job.config).encode())
            write_json(job.folder.environment, content)


def environment_of(job: Job, environment: Mapping[str, Any], threads: int | None) -> dict[str, Any]:
    """The content of environment.json of a run.

    Args:
        environment: what all runs share.
        threads: None: they are not known yet.
    """
    content = dict(environment)
    if threads is not None:
        content["threads"] = threads
    if job.skipped_checkpoints:
        content["skipped_checkpoints"] = list(job.skipped_checkpoints)
    return content


def report_change_of_numerics(
    jobs: Sequence[Job],
    environment: Mapping[str, Any],
    threads: int | None,
    callbacks: Callbacks,
) -> None:
    """Log for each run, and report once, that runs continue where numbers are rounded differently.

    Args:
        environment: for environment.json, of now.
        threads: that the user asked for; None: those of before.
    """
    if threads is not None:
        environment = {**environment, "threads": threads}
    changes = dict[str, None]()
    for job in jobs:
        if job.state is None:
            continue
        # environment.json describes the last start, which may have ended before its first save.
        before = {**job.environment, **job.state.environment}
        if change := change_of_numerics(before, environment):
            job.folder.log_line(change)
            changes[change] = None
    for change in changes:
        callbacks.message(change)


def draw_missing_pictures(job: Job, callbacks: Callbacks) -> None:
    """Draw the pictures of a finished run unless all are there.

    Raises:
        Interrupted: a stop is requested; what is drawn stays.
    """
    folder, hint = job.folder, "; --resume draws the pictures that are missing"
    files = [folder.loss_picture, folder.predictions_picture]
    if folder.attention.exists():
        files.append(folder.attention_picture)
    if all(file.exists() for file in files):
        return
    raise_if_stopped(callbacks, [job], hint)
    from seqattn.plots import run_pictures  # matplotlib is slow to import and not needed before

    for path in run_pictures.draw_run(folder):
        raise_if_stopped(callbacks, [job], "; nothing is missing" if path == files[-1] else hint)
