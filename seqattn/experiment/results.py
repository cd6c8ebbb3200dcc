"""What a finished training leaves: forecasts, weights, summary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from seqattn.config import as_plain
from seqattn.data import Splits
from seqattn.data.files.writing import forecast_arrays
from seqattn.errors import NotFiniteError
from seqattn.evaluation import Evaluation, FreeRun, References, Scored, evaluate_runs
from seqattn.experiment.attention_file import AttentionSpool
from seqattn.experiment.jobs import Job
from seqattn.storage import write_arrays, write_json
from seqattn.training import Run
from seqattn.training.batches import BatchShape, shape_of_batch
from seqattn.training.stack import Stack


def conclude(finished: Sequence[tuple[Job, Run]]) -> None:
    """Score the best epochs' weights on the test part and write the data files.

    Runs whose test parts have one shape are scored side by side, each on its own.
    """
    of_shape: dict[BatchShape, list[tuple[Job, Run]]] = {}
    known: dict[int, tuple[References, References]] = {}
    for job, run in finished:
        assert job.state is not None
        run.model.load_state_dict(job.state.best_weights)
        of_shape.setdefault(shape_of_batch(job.data.test), []).append((job, run))
        if id(job.data) not in known:
            known[id(job.data)] = _references(job.data)
    for together in of_shape.values():
        each = [
            Scored(job.data.test, known[id(job.data)][0], job.data.scaling) for job, _ in together
        ]
        stack = Stack([run.model for _, run in together])
        with AttentionSpool(together[0][0].folder.path, [one.part for one in each]) as spool:
            scored = evaluate_runs(stack.model, each, with_attention=False, watch=spool.add)
            for k, ((job, _), (evaluation, free)) in enumerate(zip(together, scored, strict=True)):
                weights = partial(spool.write, k) if job.config.model.has_attention else None
                _write_results(job, evaluation, free, known[id(job.data)][1], weights)


def _references(data: Splits) -> tuple[References, References]:
    """Of the test and of the validation part."""
    tested, validated = (
        References.of(part, data.train, data.rule, data.scaling)
        for part in (data.test, data.validation)
    )
    return tested, validated


def _write_results(
    job: Job,
    evaluation: Evaluation,
    free: FreeRun,
    validated: References,
    weights: Callable[[Path], None] | None,
) -> None:
    """A run's forecasts, weights and summary.

    Args:
        weights: writes its attention file; None: it has no attention.
    """
    folder, state, config, data = job.folder, job.state, job.config, job.data
    assert state is not None
    if not math.isfinite(evaluation.loss + evaluation.loss_teacher_forced):
        job.error = NotFiniteError(
            f"The test loss is {evaluation.loss}. The run's checkpoints are kept; no summary is."
        )
        folder.say(f"ended: {job.error}")
        return
    scored = evaluation.as_plain()
    loss, forced = scored.pop("loss"), scored.pop("loss_teacher_forced")
    summary = {
        "name": config.name,
        "seed": config.seed,
        "test_loss": loss,
        "test_loss_teacher_forced": forced,
        **scored,
        "validation_loss": state.best_loss,
        "validation_noise_floor": validated.noise_floor,
        "validation_baselines": validated.baselines,
        "best_epoch": state.best_epoch,
        "epochs": state.epoch,
        "stopped_early": state.epoch < config.training.epochs,
        "parameters": sum(weight.numel() for weight in state.weights.values()),
        "model": as_plain(config.model),
        "data": list(data.notes),
        "seconds": sum(record.seconds for record in state.history),
    }
    write_arrays(folder.predictions, forecast_arrays(data.test, free.values, with_target=True))
    if weights is not None:
        weights(folder.attention)
    write_json(folder.summary, summary)
    job.summary = summary
    folder.say(f"finished: test loss {summary['test_loss']:.6g}, best epoch {state.best_epoch}")
