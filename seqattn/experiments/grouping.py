"""Grouping of jobs that share every step of their training.

A group is a function of the runs that begin together, and a run stays in it to its end: the last
bits of its numbers depend on the number of rows of its group, on its own row, and on when the
others end. A resumed group therefore has the same rows, and runs that ended after the position it
continues from are trained to their ends again, with the same results.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from seqattn.config import as_plain, leaves
from seqattn.errors import CheckpointError
from seqattn.experiments.job import Job
from seqattn.experiments.memory_estimate import estimate_run_memory, memory_budget
from seqattn.experiments.resume import load_checkpoint
from seqattn.models import FeatureSpec
from seqattn.training import RunState
from seqattn.training.batch_key import batch_key
from seqattn.training.batches import is_gathered, shape_of_batch
from seqattn.training.compatibility import MUTABLE_ON_RESUME


def group_jobs(jobs: Sequence[Job]) -> list[list[Job]]:
    """Put pending jobs that can share every step into groups, each at one position.

    New groups are limited by memory. They are formed from all jobs, finished or not, so that
    membership does not depend on what was finished before a stop.
    """
    cohorts = [_restart_after_partial_save(cohort) for cohort in _cohorts(jobs)]
    resumed: dict[tuple[str, str | None], list[Job]] = {}
    for job in itertools.chain(*cohorts):
        if job.state is not None:
            resumed.setdefault((_batch_key_of(job), _group_of(job)), []).append(job)
    groups = [
        [replace(job, group=name or _group_digest(group)) for job in group]
        for (_, name), members in resumed.items()
        for group in _resumable_groups(members)
    ]
    new = [[job for job in cohort if job.state is None and job.is_pending] for cohort in cohorts]
    return groups + [
        [replace(job, group=_group_digest(cohort)) for job in cohort] for cohort in new if cohort
    ]


def groups_without_checkpoints(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Groups for machines without checkpoints: every run with epochs left starts over, with its
    original group unless a member already has results."""
    for cohort in _cohorts(jobs):
        pending = [job for job in cohort if job.is_pending and not job.is_trained]
        interrupted = _group_digest(cohort) in map(_group_of, cohort) and not any(
            job.summary for job in cohort
        )
        if pending:
            yield cohort if interrupted else pending


def _cohorts(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs of one batch key, no more together than the memory budget allows."""
    by_key: dict[str, list[Job]] = {}
    for job in jobs:
        by_key.setdefault(_batch_key_of(job), []).append(job)
    for members in by_key.values():
        limit = max(1, memory_budget() // estimate_run_memory(members[0]))
        for first in range(0, len(members), limit):
            yield members[first : first + limit]


def _group_digest(jobs: Sequence[Job]) -> str:
    """Digest of the configs of runs that begin together, without what may change on a resume."""
    of_all = hashlib.sha256()
    for job in jobs:
        values = [(".".join(at), value) for at, value in leaves(as_plain(job.config))]
        of_all.update(repr([row for row in values if row[0] not in MUTABLE_ON_RESUME]).encode())
    return of_all.hexdigest()[:16]


def _restart_after_partial_save(cohort: Sequence[Job]) -> list[Job]:
    """Restart runs that began together where a stop interrupted their first common save."""
    again = set[Path]()
    for group in {_group_of(job) for job in cohort} - {None}:
        again.update(job.folder.path for job in _partial_first_save(cohort, group))
    return [job.restarted() if job.folder.path in again else job for job in cohort]


def _partial_first_save(cohort: Sequence[Job], group: str | None) -> list[Job]:
    """The runs of a group if some have a checkpoint, others have none, and none has an earlier one;
    else an empty list."""
    saved = [job for job in cohort if _group_of(job) == group]
    whole = [
        job for job in cohort if _group_of(job) == group or (not job.state and job.environment)
    ]
    has_earlier = any(job.summary or job.folder.previous.exists() for job in saved)
    is_stopped = len(whole) > len(saved) and not has_earlier and _group_digest(whole) == group
    return whole if is_stopped else []


def _group_of(job: Job) -> str | None:
    """The group that the checkpoint of a run names; None without one."""
    return job.state.slot.group_id if job.state is not None and job.state.slot is not None else None


def _resumable_groups(members: Sequence[Job]) -> Iterator[list[Job]]:
    """Split the runs of one group by position: first those that have not ended, then those that
    lack only their results."""
    taken = set[Path]()
    for group in _groups_at_common_state(members):
        taken.update(job.folder.path for job in group)
        yield from _split_equal_rows(group)
    yield from _split_equal_rows([
        job for job in members
        if job.folder.path not in taken and job.is_pending and job.is_trained
    ])  # fmt: skip


def _groups_at_common_state(members: Sequence[Job]) -> Iterator[list[Job]]:
    """Split the runs of one group that have not ended by position.

    After a stop between two files of a common save, some runs are one save ahead: they return to
    their previous checkpoint. So do runs that diverged, or ended without results, since then: a run
    influences the choice of kernels for its group until it ends.
    """
    not_concluded = [job for job in members if job.summary is None]
    left = sorted(not_concluded, key=lambda job: job.end is not None)
    states = _available_states(left, len({job.position for job in members}) > 1)
    while positions := [job.position for job in left if job.end is None]:
        position, here = min(positions), dict[Path, Job]()
        for job in left:
            state = states[job.folder.path].get(position)
            if state is not None and (job.end is None or job.end > position):
                here[job.folder.path] = job.resumed_from(state)
        yield list(here.values())
        left = [job for job in left if job.folder.path not in here]


def _available_states(
    jobs: Sequence[Job], with_previous: bool
) -> dict[Path, dict[tuple[int, int], RunState]]:
    """The states that each run can continue from, by folder and position.

    Args:
        with_previous: whether to read the checkpoints before the last, too.
    """
    found: dict[Path, dict[tuple[int, int], RunState]] = {}
    for job in jobs:
        states = [_previous_state(job)] if with_previous else []
        states.append(job.state)
        found[job.folder.path] = {state.position: state for state in states if state is not None}
    return found


def _split_equal_rows(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Split runs at one position of one group so that no two have the same row."""
    found: dict[tuple[tuple[int, int], int, int], dict[int, Job]] = {}
    for job in jobs:
        assert job.state is not None
        slot, again = job.state.slot, 0
        row, rows = (id(job), 0) if slot is None else (slot.row, slot.rows)
        while row in found.setdefault((job.position, rows, again), {}):
            again += 1  # variants of the same config may have equal digests
        found[job.position, rows, again][row] = job
    for group in found.values():
        yield list(group.values())


def _previous_state(job: Job) -> RunState | None:
    """The state of the checkpoint before the last; None where it cannot be read."""
    with contextlib.suppress(CheckpointError):
        return load_checkpoint(job.folder.previous, job)
    return None


def _batch_key_of(job: Job) -> str:
    """A key that is equal for two jobs which can be trained side by side."""
    data, features = job.data, FeatureSpec.of(job.spec)
    parts = [shape_of_batch(part) for part in (data.train, data.validation)]
    # Sequences that are gathered on demand have to be the same for all runs.
    source = id(data) if is_gathered(data.train) or is_gathered(data.validation) else None
    key = batch_key(features, job.config.training, parts)
    return repr((as_plain(job.config.model), source, key))
