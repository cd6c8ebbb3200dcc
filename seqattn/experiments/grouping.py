"""Division of jobs into groups that share every step of their training.

A group consists of the runs that begin together. Each run has one row of the stacked parameters. A
run stays in its group until the run ends, because the last bits of its results depend on the number
of rows of the group, on the row of the run, and on when the other runs end. A resumed group
therefore has the same rows as before, unless the command continues only a part of its runs. Runs
that ended after the position from which the group continues are trained again until they end, and
their results are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from seqattn.config import Config, Model, as_plain, leaves, plugins
from seqattn.errors import CheckpointError
from seqattn.experiments.job import Job
from seqattn.experiments.memory_estimate import (
    check_memory_of_runs,
    estimate_run_memory,
    memory_budget,
)
from seqattn.experiments.prepare import load_checkpoint, prepare_jobs
from seqattn.models import FeatureSpec, Lengths, ModelOutput, Seq2SeqModel, build_model
from seqattn.models.registration import check_output
from seqattn.runs import RunFolder, check_folder_available
from seqattn.training import RunState
from seqattn.training.batches import is_gathered, shape_of_batch
from seqattn.training.checkpoints import MUTABLE_ON_RESUME
from seqattn.training.learner import batch_key
from seqattn.training.state import StackedParams, train_mode


def group_jobs(jobs: Sequence[Job]) -> list[list[Job]]:
    """Divide the pending jobs into groups of jobs that have the same position and can share every
    step.

    Memory limits the size of new groups. Jobs that are finished or have a checkpoint count toward
    this limit, so a stop does not move the boundaries between groups.
    """
    cohorts = [_restart_partially_saved(cohort) for cohort in _cohorts(jobs)]
    resumed: dict[tuple[str, str | None], list[Job]] = {}
    for job in itertools.chain(*cohorts):
        if job.state is not None:
            resumed.setdefault((_batch_key_of(job), _saved_group_id(job)), []).append(job)
    groups = [
        (saved_id or _group_id(group), group)
        for (_, saved_id), members in resumed.items()
        for group in _resumable_groups(members)
    ]
    new = [[job for job in cohort if job.state is None and job.is_pending] for cohort in cohorts]
    groups += [(_group_id(group), group) for group in new if group]
    # The models of a group have the same config, so their parameters are counted once.
    return [
        [replace(job, group_id=group_id, counted=group[0].parameters) for job in group]
        for group_id, group in groups
    ]


def groups_to_train(
    configs: Sequence[tuple[Config, RunFolder]],
) -> list[list[tuple[Config, RunFolder]]]:
    """Return the groups of the runs that have epochs left, for machines that have no checkpoints.

    Runs with results are left out.
    """
    for _, folder in configs:
        check_folder_available(folder, resume=True, overwrite=False)
    check_memory_of_runs([config for config, _ in configs])
    jobs = prepare_jobs(configs, resume=True)
    return [
        [(job.config, job.folder) for job in group] for group in groups_without_checkpoints(jobs)
    ]


def groups_without_checkpoints(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Yield groups for machines that have no checkpoints, where each run starts over.

    A run that has epochs left starts with its original group, unless a member of that group already
    has results.
    """
    for cohort in _cohorts(jobs):
        pending = [job for job in cohort if job.is_pending and not job.is_trained]
        has_results = any(job.summary for job in cohort)
        was_one_group = _group_id(cohort) in map(_saved_group_id, cohort)
        if pending:
            yield cohort if was_one_group and not has_results else pending


def _cohorts(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Yield the jobs that have the same batch key (see `_batch_key_of`), in parts that fit the
    memory budget."""
    by_key: dict[str, list[Job]] = {}
    for job in jobs:
        by_key.setdefault(_batch_key_of(job), []).append(job)
    for members in by_key.values():
        limit = max(1, memory_budget() // estimate_run_memory(members[0]))
        for first in range(0, len(members), limit):
            yield members[first : first + limit]


def _group_id(jobs: Sequence[Job]) -> str:
    """Compute a digest of the configs of runs that begin together. Values that may change on a
    resume do not affect the digest."""
    sha256 = hashlib.sha256()
    for job in jobs:
        values = [(".".join(at), value) for at, value in leaves(as_plain(job.config))]
        sha256.update(repr([pair for pair in values if pair[0] not in MUTABLE_ON_RESUME]).encode())
    return sha256.hexdigest()[:16]


def _saved_group_id(job: Job) -> str | None:
    return job.state.slot.group_id if job.state is not None and job.state.slot is not None else None


def _restart_partially_saved(cohort: Sequence[Job]) -> list[Job]:
    """Restart the runs of each group if a stop interrupted the first save of the group: some of its
    runs have a checkpoint, the others have none, and no run has an earlier checkpoint."""

    def partially_saved(group_id: str | None) -> list[Job]:
        saved = {job for job in cohort if _saved_group_id(job) == group_id}
        unsaved = {job for job in cohort if not job.state and job.previous_environment}
        whole = [job for job in cohort if job in saved | unsaved]
        has_earlier = any(job.summary or job.folder.previous.exists() for job in saved)
        is_partial = len(whole) > len(saved) and not has_earlier and _group_id(whole) == group_id
        return whole if is_partial else []

    group_ids = set(map(_saved_group_id, cohort)) - {None}
    restarted = {*itertools.chain(*map(partially_saved, group_ids))}
    return [job.restarted() if job in restarted else job for job in cohort]


def _resumable_groups(members: Sequence[Job]) -> Iterator[list[Job]]:
    """Split the runs of one group into groups whose runs have the same position.

    The groups of runs that have not ended come first. The groups of runs that have ended, but lack
    their results, come last.
    """
    taken = set[Path]()
    for group in _groups_at_common_position(members):
        taken.update(job.folder.path for job in group)
        yield from _split_equal_rows(group)
    yield from _split_equal_rows([
        job for job in members
        if job.folder.path not in taken and job.is_pending and job.is_trained
    ])  # fmt: skip


def _groups_at_common_position(members: Sequence[Job]) -> Iterator[list[Job]]:
    """Form groups of runs that continue from the same position, until each run that has not ended
    is in a group.

    All runs began in one group. After a stop between two files of a common save, some runs are one
    save ahead. Such a run returns to its previous checkpoint. A run that diverged, or ended without
    results, also returns to its checkpoint at the common position if it ended after this position,
    because a run influences the choice of kernels for its group until the run ends.
    """
    without_results = [job for job in members if job.summary is None]
    left = sorted(without_results, key=lambda job: job.end_position is not None)
    with_previous = len({job.position for job in members}) > 1
    states = {job.folder.path: _states_by_position(job, with_previous) for job in left}
    while positions := [job.position for job in left if job.end_position is None]:
        position, here = min(positions), dict[Path, Job]()
        for job in left:
            state = states[job.folder.path].get(position)
            if state is not None and (job.end_position is None or job.end_position > position):
                here[job.folder.path] = job.resumed_from(state)
        yield list(here.values())
        left = [job for job in left if job.folder.path not in here]


def _states_by_position(job: Job, with_previous: bool) -> dict[tuple[int, int], RunState]:
    """Return the states from which a run can continue, by position (epoch, step): its state and, if
    requested, the state of the previous checkpoint, unless this checkpoint cannot be read."""
    states = {job.position: job.state} if job.state is not None else {}
    if with_previous:
        with contextlib.suppress(CheckpointError):
            previous, _ = load_checkpoint(job.folder.previous, job)
            states.setdefault(previous.position, previous)
    return states


def _split_equal_rows(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Split runs of one group into groups whose runs have the same position but different rows."""
    found: dict[tuple[tuple[int, int], int, int], dict[int, Job]] = {}
    for job in jobs:
        assert job.state is not None
        slot, again = job.state.slot, 0
        row, group_size = (id(job), 0) if slot is None else (slot.row, slot.group_size)
        while row in found.setdefault((job.position, group_size, again), {}):
            again += 1  # equal variants of a comparison have equal group ids
        found[job.position, group_size, again][row] = job
    for group in found.values():
        yield list(group.values())


def _batch_key_of(job: Job) -> str:
    """Return a key that is equal for two jobs if they can be trained side by side."""
    data, features = job.data, FeatureSpec.of(job.spec)
    parts = [shape_of_batch(part) for part in (data.train, data.validation)]
    # If sequences are gathered on demand, or if their lengths determine the sizes of the batches,
    # all runs must share the same data.
    training = job.config.training
    must_share = is_gathered(data.train) or is_gathered(data.validation)
    shared = id(data) if must_share or training.batch_type == "tokens" else None
    key = batch_key(features, training, parts)
    model = job.config.model
    alone = None if is_batchable(model, features, job.lengths) else str(job.folder.path)
    return repr((as_plain(model), shared, key, alone))


# --- models with plugin parts ---------------------------------------------------------------------


R, N, S, T = 3, 5, 7, 4
"""Numbers of runs and sequences, and maximum numbers of source and target steps, in the comparison.
The numbers differ, so that a wrong axis changes the result."""
TOLERANCE = 1e-4

_known: dict[str, bool] = {}
"""The results by section `model`, features and lengths."""


def is_batchable(config: Model, features: FeatureSpec, lengths: Lengths) -> bool:
    """Return whether runs of a model can be trained side by side.

    If runs are trained side by side, the parameters of each module have a leading axis of runs. A
    plugin may contain modules that cannot handle this axis, such as `torch.nn.Linear`. If a part of
    the model comes from a plugin, the function therefore computes forecasts of several runs side by
    side, and compares them with the forecasts of each run alone.
    """
    if not (sources := list(plugins.used_sources(config))):
        return True
    key = repr((as_plain(config), features, lengths))
    if key not in _known:
        with plugins.plugin_errors(sources, "a forecast of the model"):
            _known[key] = _compare(config, features, lengths)
    return _known[key]


@dataclass(frozen=True)
class _FixedNumbers:
    """A source of random numbers that gives each of several runs (None for a run alone) the same
    numbers."""

    runs: int | None

    def uniform(self, name: str, *shape: int) -> Tensor:
        """Return numbers in [0, 1), with a leading axis of runs if there are several runs."""
        numbers = torch.linspace(0.05, 0.95, torch.Size(shape).numel()).reshape(shape)
        return numbers if self.runs is None else numbers.expand(self.runs, *shape)


def _compare(config: Model, features: FeatureSpec, lengths: Lengths) -> bool:
    models = [build_model(config, features, seed, lengths) for seed in range(R)]
    has_fixed_lengths = config.skip == "linear"
    source_steps = lengths.source if has_fixed_lengths else min(S, lengths.source)
    target_steps = lengths.target if has_fixed_lengths else min(T, lengths.target)
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(R, N, source_steps, features.source_dim, generator=generator)
    target = torch.randn(R, N, target_steps, features.target_dim, generator=generator)
    valid = None
    if not has_fixed_lengths:
        valid = torch.tensor([source_steps - k % source_steps for k in range(N)]).expand(R, N)
    with torch.no_grad():
        alone = [
            _forecasts(model, source[k], target[k], None if valid is None else valid[k], None)
            for k, model in enumerate(models)
        ]
        try:
            together = _forecasts(StackedParams(models).model, source, target, valid, R)
        except Exception:  # a module without an axis of runs may raise any exception
            return False
    expected = [torch.stack(values) for values in zip(*alone, strict=True)]
    return all(
        a.shape == b.shape and torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        for a, b in zip(together, expected, strict=True)
    )


def _forecasts(
    model: Seq2SeqModel, source: Tensor, target: Tensor, valid: Tensor | None, runs: int | None
) -> list[Tensor]:
    """Return the forecasts of a training pass with and without teacher forcing, the teacher-forced
    forecast of the validation, and the free-running forecast."""
    T, name = target.shape[-2], type(model).__name__

    def forward(is_forced: bool, rng: _FixedNumbers | None) -> ModelOutput:
        found = model.forward(
            source, target, source_lengths=valid, rng=rng,
            teacher_forcing=torch.full((T,), is_forced),
        )  # fmt: skip
        return check_output(found, f"{name}.forward")

    with train_mode(model):
        outputs = [forward(is_forced, _FixedNumbers(runs)) for is_forced in (True, False)]
    free = model.forecast(source, T, source_lengths=valid)
    outputs += [forward(True, None), check_output(free, f"{name}.forecast")]
    return [output.values for output in outputs]
