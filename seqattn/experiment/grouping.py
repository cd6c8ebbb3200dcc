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

from seqattn.config import as_plain, leaves
from seqattn.errors import CheckpointError
from seqattn.experiment.job import Job
from seqattn.experiment.resume import HARMLESS
from seqattn.experiment.sizes import estimate_run_memory, memory_budget
from seqattn.training import TrainState, load_state
from seqattn.training.batch_key import batch_key
from seqattn.training.batches import shape_of_batch


def grouped(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs that can share every step, each at one position.

    Those that begin are no more at once than memory allows. They are cut from all jobs, done or
    not, so that who goes with whom does not depend on what was finished before a stop.
    """
    cuts = list(_cuts(jobs))
    for cut in cuts:
        _begin_again(cut)
    began: dict[tuple[str, str | None], list[Job]] = {}
    for cut in cuts:
        for job in cut:
            if job.state is not None:
                began.setdefault((_batch_key_of(job), _group_of(job)), []).append(job)
    for (_, group), members in began.items():
        for together in itertools.chain(_unfinished(members), _unconcluded(members)):
            yield _named(together, group)
    for cut in cuts:
        new = [job for job in cut if job.state is None and job.is_to_do]
        if new:
            yield _named(new, None)


def grouped_anew(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """The same where no checkpoint is at hand, so that all that are not trained begin. Runs that
    began with them begin with them again, unless they have results."""
    for cut in _cuts(jobs):
        left = [job for job in cut if job.is_to_do and not job.is_trained]
        interrupted = _digest(cut) in map(_group_of, cut) and not any(job.summary for job in cut)
        if left:
            yield cut if interrupted else left


def _named(jobs: list[Job], group: str | None) -> list[Job]:
    """
    Args:
        group: that they belong to; None: they are one from now on.
    """
    name = _digest(jobs) if group is None else group
    for job in jobs:
        job.group = name
    return jobs


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


def _begin_again(cut: Sequence[Job]) -> None:
    """After a stop in the first common save, runs that began together begin again: some have a
    checkpoint, others have none, and there is no earlier one to go back to."""
    for group in {_group_of(job) for job in cut} - {None}:
        saved = [job for job in cut if _group_of(job) == group]
        whole = [job for job in cut if _group_of(job) == group or (not job.state and job.started)]
        if (
            len(whole) > len(saved)
            and _digest(whole) == group
            and not any(job.summary or job.folder.previous.exists() for job in saved)
        ):
            for job in whole:
                job.restart()


def _group_of(job: Job) -> str | None:
    """The group of a run that has a checkpoint which says it."""
    return job.state.slot.group if job.state is not None and job.state.slot is not None else None


def _unfinished(members: Sequence[Job]) -> Iterator[list[Job]]:
    """Runs of one group that have not ended, by where they stand.

    After a stop between two files of a common save, some runs are a save ahead: these go back to
    the checkpoint before it. So do runs without a test loss that ended since the common save: until
    it ends, a run has a part in which kernels the others are computed with.
    """
    left = [job for job in members if job.end is None]
    ended = [job for job in members if job.end is not None and job.summary is None]
    several = len({job.position for job in members}) > 1
    before = {id(job): _state_before(job) for job in (*left, *ended) if several}
    while left:
        position = min(job.position for job in left)
        here = list[Job]()
        for job in (*left, *(job for job in ended if job.end is not None and job.end > position)):
            for state in (job.state, before.get(id(job))):
                if state is not None and state.position == position:
                    job.go_back(state)
                    here.append(job)
                    break
        yield from _by_rows(here)
        taken = set(map(id, here))
        left = [job for job in left if id(job) not in taken]
        ended = [job for job in ended if id(job) not in taken]


def _unconcluded(members: Sequence[Job]) -> Iterator[list[Job]]:
    """Runs of which only the results are missing."""
    yield from _by_rows([job for job in members if job.is_to_do and job.is_trained])


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


def _state_before(job: Job) -> TrainState | None:
    """What the checkpoint before the last holds, if it can be read."""
    with contextlib.suppress(CheckpointError):
        return load_state(job.folder.previous, job.new_model(), job.layout)[0]
    return None


def _batch_key_of(job: Job) -> str:
    """Equal where two jobs can be trained side by side."""
    data, points = job.data, job.layout.points
    parts = [shape_of_batch(part) for part in (data.train, data.validation)]
    return repr((as_plain(job.config.model), batch_key(points, job.config.training, parts)))
