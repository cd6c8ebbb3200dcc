"""Which jobs share every step of their training.

A group is a function of the runs that begin together, and a run stays in it to its end: what a run
computes, to the last bit, depends on how many rows its group has, on which of them is its own, and
on when the others end. A resumed group is therefore made of the same rows, and runs that ended
after the position it goes on from are trained to their ends again, with the same results.
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
from seqattn.experiment.job import Job
from seqattn.experiment.resume import HARMLESS, load_checkpoint
from seqattn.experiment.sizes import estimate_run_memory, memory_budget
from seqattn.models import FeatureSpec
from seqattn.training import RunState
from seqattn.training.batch_key import batch_key
from seqattn.training.batches import shape_of_batch


def grouped(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that can share every step, each group at one position; they know their `group`.

    Those that begin are no more at once than memory allows. They are cut from all jobs, done or
    not, so that who goes with whom does not depend on what was finished before a stop.
    """
    cuts = [_restarted(cut) for cut in _cuts(jobs)]
    resumed: dict[tuple[str, str | None], list[Job]] = {}
    for job in itertools.chain(*cuts):
        if job.state is not None:
            resumed.setdefault((_batch_key_of(job), _group_of(job)), []).append(job)
    groups = [
        [replace(job, group=name or _digest(group)) for job in group]
        for (_, name), members in resumed.items()
        for group in _with_state(members)
    ]
    new = [[job for job in cut if job.state is None and job.is_to_do] for cut in cuts]
    return groups + [[replace(job, group=_digest(cut)) for job in cut] for cut in new if cut]


def grouped_anew(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """The same where no checkpoint is at hand, so that all that are not trained begin. Runs that
    began with them begin with them again, unless they have results."""
    for cut in _cuts(jobs):
        left = [job for job in cut if job.is_to_do and not job.is_trained]
        interrupted = _digest(cut) in map(_group_of, cut) and not any(job.summary for job in cut)
        if left:
            yield cut if interrupted else left


def _cuts(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs of one shape, no more at once than memory allows."""
    alike: dict[str, list[Job]] = {}
    for job in jobs:
        alike.setdefault(_batch_key_of(job), []).append(job)
    for shape in alike.values():
        most = max(1, memory_budget() // estimate_run_memory(shape[0]))
        for first in range(0, len(shape), most):
            yield shape[first : first + most]


def _digest(jobs: Sequence[Job]) -> str:
    """Of the configs of runs that begin together; what may change on a resume is no part of it."""
    of_all = hashlib.sha256()
    for job in jobs:
        values = [(".".join(at), value) for at, value in leaves(as_plain(job.config))]
        of_all.update(repr([row for row in values if row[0] not in HARMLESS]).encode())
    return of_all.hexdigest()[:16]


def _restarted(cut: Sequence[Job]) -> list[Job]:
    """After a stop in the first common save, runs that began together begin again."""
    again = set[Path]()
    for group in {_group_of(job) for job in cut} - {None}:
        again.update(job.folder.path for job in _stopped_in_first_save(cut, group))
    return [job.restarted() if job.folder.path in again else job for job in cut]


def _stopped_in_first_save(cut: Sequence[Job], group: str | None) -> list[Job]:
    """The runs of a group of which some have a checkpoint, others have none, and there is no
    earlier one to go back to; none where that is not so."""
    saved = [job for job in cut if _group_of(job) == group]
    whole = [job for job in cut if _group_of(job) == group or (not job.state and job.started)]
    has_earlier = any(job.summary or job.folder.previous.exists() for job in saved)
    is_stopped = len(whole) > len(saved) and not has_earlier and _digest(whole) == group
    return whole if is_stopped else []


def _group_of(job: Job) -> str | None:
    """The group of a run that has a checkpoint which says it."""
    return job.state.slot.group if job.state is not None and job.state.slot is not None else None


def _with_state(members: Sequence[Job]) -> Iterator[list[Job]]:
    """Runs of one group, by where they go on: first those that have not ended, then those of which
    only the results are missing."""
    taken = set[Path]()
    for group in _unfinished(members):
        taken.update(job.folder.path for job in group)
        yield from _by_rows(group)
    yield from _by_rows([
        job for job in members
        if job.folder.path not in taken and job.is_to_do and job.is_trained
    ])  # fmt: skip


def _unfinished(members: Sequence[Job]) -> Iterator[list[Job]]:
    """Runs of one group that have not ended, by where they stand.

    After a stop between two files of a common save, some runs are a save ahead: these go back to
    the checkpoint before it. So do runs without a test loss that ended since the common save: until
    it ends, a run has a part in which kernels the others are computed with.
    """
    not_concluded = [job for job in members if job.summary is None]
    left = sorted(not_concluded, key=lambda job: job.end is not None)
    states = _states_at_hand(left, len({job.position for job in members}) > 1)
    while positions := [job.position for job in left if job.end is None]:
        position, here = min(positions), dict[Path, Job]()
        for job in left:
            state = states[job.folder.path].get(position)
            if state is not None and (job.end is None or job.end > position):
                here[job.folder.path] = job.resumed_from(state)
        yield list(here.values())
        left = [job for job in left if job.folder.path not in here]


def _states_at_hand(
    jobs: Sequence[Job], with_previous: bool
) -> dict[Path, dict[tuple[int, int], RunState]]:
    """By folder and position what each run can go on from: its state, and where some runs are ahead
    of others that of the checkpoint before."""
    found: dict[Path, dict[tuple[int, int], RunState]] = {}
    for job in jobs:
        states = [_state_before(job)] if with_previous else []
        states.append(job.state)
        found[job.folder.path] = {state.position: state for state in states if state is not None}
    return found


def _by_rows(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Runs that stand at one place of one group, each with a row of its own."""
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


def _state_before(job: Job) -> RunState | None:
    """What the checkpoint before the last holds, if it can be read."""
    with contextlib.suppress(CheckpointError):
        return load_checkpoint(job.folder.previous, job)
    return None


def _batch_key_of(job: Job) -> str:
    """Equal where two jobs can be trained side by side."""
    data, points = job.data, FeatureSpec.of(job.spec)
    parts = [shape_of_batch(part) for part in (data.train, data.validation)]
    return repr((as_plain(job.config.model), batch_key(points, job.config.training, parts)))
