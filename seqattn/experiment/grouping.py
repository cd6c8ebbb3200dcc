"""Which jobs share every step of their training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seqattn.config import as_plain
from seqattn.experiment.jobs import Job
from seqattn.experiment.resume import by_position
from seqattn.experiment.sizes import bytes_of_a_run, group_bytes
from seqattn.training.batch_key import batch_key
from seqattn.training.batches import shape_of_batch


def grouped(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs that can share every step, no more at once than memory allows.

    They are cut from all jobs, done or not, so that who goes with whom does not depend on what was
    finished before a stop: beside other runs the last bits of a number may be others.
    """
    alike: dict[str, list[Job]] = {}
    for job in jobs:
        alike.setdefault(_shape_of_step(job), []).append(job)
    for shape in alike.values():
        most = max(1, group_bytes() // bytes_of_a_run(shape[0]))
        if shape[0].data.stream is not None:  # each reads for itself
            most = 1
        for first in range(0, len(shape), most):
            group = [job for job in shape[first : first + most] if job.is_to_do]
            ended: dict[tuple[int, int], list[Job]] = {}  # of whom only the results are missing
            for job in group:
                if job.is_trained:
                    ended.setdefault(job.position, []).append(job)
            yield from ended.values()
            yield from by_position([job for job in group if not job.is_trained])


def _shape_of_step(job: Job) -> str:
    """Equal where two jobs can be trained side by side."""
    data, points = job.data, job.layout.points
    parts = [shape_of_batch(part) for part in (data.train, data.validation)]
    return repr((as_plain(job.config.model), batch_key(points, job.config.training, parts)))
