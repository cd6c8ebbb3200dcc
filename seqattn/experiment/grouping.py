"""Which jobs share every step of their training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seqattn.config import as_plain
from seqattn.experiment.jobs import Job
from seqattn.experiment.resume import by_position
from seqattn.experiment.sizes import bytes_of_a_run, group_bytes


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
    training, train, validation = job.config.training, job.data.train, job.data.validation
    ragged = [bool(keep.all()) for part in (train, validation)
              for keep in (part.source_keep, part.target_keep)]  # fmt: skip
    masked = [part.target_observed is not None for part in (train, validation)]
    return repr(
        (
            as_plain(job.config.model), training.batch_size, training.optimizer, training.momentum,
            training.weight_decay, training.compile, training.precision,
            training.record_attention,
            training.teacher_forcing.coin, training.checkpoint_seconds,
            train.source.shape, train.target.shape, validation.source.shape,
            validation.target.shape, ragged, masked,
        )
    )  # fmt: skip
