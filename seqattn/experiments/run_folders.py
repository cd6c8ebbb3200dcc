"""Preparation and completion of run folders: locks, removal of old files, config, environment and
pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from seqattn.config import to_yaml
from seqattn.errors import FolderLockedError
from seqattn.experiments.job import Callbacks, Job, raise_if_stopped
from seqattn.experiments.run_environment import rounding_change
from seqattn.runs import RunFolder
from seqattn.runs.folder import HANDLER
from seqattn.runs.storage import atomic_write, exclusive_lock, write_json, write_transaction

NOTHING_MISSING = "; nothing is missing"
"""Hint for `raise_if_stopped` after the last file of a run."""


class FolderLocks(ExitStack):
    """Locks on run folders. The locks are released at the end of the `with` block."""

    def __init__(self) -> None:
        super().__init__()
        self.locked: set[Path] = set()

    def lock_existing(self, folders: Iterable[RunFolder]) -> None:
        """Lock the folders that already contain a run.

        Raises:
            FolderLockedError: if another process writes to one of these folders.
        """
        for folder in folders:
            if folder.is_run:
                self._lock(folder)

    def lock_new(self, folders: Iterable[RunFolder]) -> None:
        """Create and lock the folders that are not locked yet.

        Raises:
            FolderLockedError: if another process has locked a folder first.
        """
        for folder in folders:
            if folder.path in self.locked:
                continue
            folder.path.mkdir(parents=True, exist_ok=True)
            self._lock(folder)
            if not folder.is_available:
                raise FolderLockedError(
                    f"{folder.path}: another process has just started to write there."
                )

    def _lock(self, folder: RunFolder) -> None:
        self.enter_context(exclusive_lock(folder.path))
        self.locked.add(folder.path)


def prepare_folders(jobs: Sequence[Job], environment: Mapping[str, Any]) -> None:
    """Call `begin_run` for all runs that have no earlier files to keep.

    Args:
        environment: entries of `environment.json` that all runs share.
    """
    with write_transaction():
        for job in jobs:
            if not job.keeps_files:
                begin_run(job, environment)


def begin_run(
    job: Job,
    environment: Mapping[str, Any],
    threads: int | None = None,
    tracker_records: Mapping[str, Any] | None = None,
) -> None:
    """Write the files that describe the start of a run: the config, the environment, the split and
    the digests of the data files. Remove the files that this start makes outdated.

    In a transaction, the outdated files remain until all files of the transaction have been flushed
    to disk. A failure before that leaves the folder as it was.

    Args:
        environment: entries of `environment.json` that all runs share.
        threads: see `environment_of`.
        tracker_records: the content of the new `trackers.json` of a run that replaces another run.
    """
    folder, records = job.folder, tracker_records or {}

    def remove_outdated() -> None:
        if job.replaces:
            folder.clear(records.get("wandb", {}).get("run_id"))
            HANDLER.held.pop(folder.path, None)
            return
        folder.clear_results()
        if job.state is None:
            folder.clear_training()
        elif job.checkpoint == folder.previous:
            # Otherwise the next save would keep the unusable checkpoint as previous.safetensors.
            folder.previous.replace(folder.last)

    atomic_write(folder.config, to_yaml(job.config).encode(), before_commit=remove_outdated)
    write_json(folder.environment, environment_of(job, environment, threads))
    if lines := HANDLER.held.get(folder.path):
        atomic_write(folder.log, "".join(lines).encode())
    if records:
        folder.write_trackers(records)
    if job.data.split:
        folder.write_split(job.data.split)
    if job.data.digests_by_file:
        folder.write_data_files(job.data.digests_by_file)


def environment_of(
    job: Job, environment: Mapping[str, Any], threads: int | None = None
) -> dict[str, Any]:
    """Return the content of `environment.json` of a run.

    Args:
        environment: entries that all runs share, with the number of threads if the user requested
            one.
        threads: the chosen number of threads, or None if it is not chosen yet. If the number is
            neither requested nor chosen, a resumed run keeps the number in its checkpoint.
    """
    content, before = dict(environment), job.environment_of_state.get("threads")
    if threads := environment.get("threads") or threads or before:
        content["threads"] = threads
    if job.start_record is not None:
        content["start_from"] = dict(job.start_record)
    if job.skipped_checkpoints:
        content["skipped_checkpoints"] = list(job.skipped_checkpoints)
    return content


def log_rounding_changes(
    jobs: Sequence[Job], environment: Mapping[str, Any], callbacks: Callbacks
) -> None:
    """Write a line to the log of each run that continues with different rounding, and show each
    distinct line once.

    Args:
        jobs: all jobs of the command. New jobs and jobs that are not pending get no line.
        environment: entries of the new `environment.json` that all runs share.
        callbacks: the callbacks that show the lines.
    """
    slots = [None if job.state is None else job.state.slot for job in jobs]
    counts = Counter(slot.group_id for slot in slots if slot is not None)
    lines = dict[str, None]()
    for job, slot in zip(jobs, slots, strict=True):
        if job.state is None or not job.is_pending:
            continue
        changes = [rounding_change(job.environment_of_state, environment)]
        if slot is not None and counts[slot.group_id] < slot.group_size:
            changes.append(
                f"Only {counts[slot.group_id]} of {slot.group_size} runs that were trained together"
                f" are continued, so the results of all {slot.group_size} can differ by rounding"
                " from those of an uninterrupted training."
            )
        for change in filter(None, changes):
            job.folder.log_line(change)
            lines[change] = None
    for line in lines:
        callbacks.message(line)


def draw_missing_pictures(
    jobs: Sequence[Job], callbacks: Callbacks, draw: Callable[[RunFolder], Generator[Path]] | None
) -> None:
    """Draw the pictures of each finished run that lacks a picture.

    Args:
        jobs: the runs. A run without a summary has no pictures.
        callbacks: progress callbacks and the stop signal.
        draw: function that writes the pictures of a run and yields their paths; None for
            `run_pictures.draw_run`.

    Raises:
        Interrupted: if a stop is requested; the pictures drawn so far are kept.
    """
    jobs = [
        job for job in jobs
        if job.summary is not None and not all(file.exists() for file in job.folder.pictures)
    ]  # fmt: skip
    if not jobs:
        return
    if draw is None:
        from seqattn.plots import run_pictures  # importing matplotlib is slow

        draw = run_pictures.draw_run
    hint, last = "; --resume draws the missing pictures", jobs[-1].folder.pictures[-1]
    for job in jobs:
        raise_if_stopped(callbacks, [job], hint)
        with closing(draw(job.folder)) as paths:
            for path in paths:
                raise_if_stopped(callbacks, [job], NOTHING_MISSING if path == last else hint)
