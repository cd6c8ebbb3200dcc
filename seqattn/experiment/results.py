"""What a finished training leaves: forecasts, weights, summary."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from seqattn.config import as_plain
from seqattn.data import Splits
from seqattn.errors import NonFiniteError
from seqattn.evaluation import Evaluation, ForecastChunk, References, evaluate
from seqattn.experiment.attention_file import AttentionSpool
from seqattn.experiment.job import Job
from seqattn.experiment.predictions_file import ForecastSpool
from seqattn.storage import write_json
from seqattn.training import Run, TrainState


def conclude(finished: Sequence[tuple[Job, Run]]) -> None:
    """Score the best epochs' weights on the test part and write the data files. Nothing is said in
    the logs: within `write_transaction` no file shows yet.

    Each run is scored alone: what its weights are worth, to the last bit, does not depend on which
    others end beside it.
    """
    known: dict[int, tuple[References, References]] = {}
    for job, run in finished:
        data, state = job.data, job.state
        assert state is not None
        if id(data) not in known:
            known[id(data)] = _references(data)
        tested, validated = known[id(data)]
        run.model.load_state_dict(state.best_weights)
        with (
            ForecastSpool(job.folder.path, data.test) as forecasts,
            AttentionSpool(job.folder.path) as attention,
        ):
            attention.begin(data.test)

            def keep(chunk: ForecastChunk) -> None:
                forecasts.add(chunk.values)
                chunk.show(attention.add)

            evaluation = evaluate(run.model, data.test, tested, data.scaling, keep=keep)
            weights = attention.write if job.config.model.has_attention else None
            _write_results(job, evaluation, forecasts, validated, weights)


def write_divergence(job: Job, error: NonFiniteError, state: TrainState) -> None:
    """The summary of a diverged run, which has no forecasts."""
    at = None if error.epoch is None else {"epoch": error.epoch, "step": error.step}
    summary = {
        "name": job.config.name,
        "seed": job.config.seed,
        "diverged": str(error),
        "diverged_at": at,
        "test_loss": None,
        **_of_training(job, state),
    }
    write_json(job.folder.summary, summary)


def _of_training(job: Job, state: TrainState) -> dict[str, Any]:
    """What a summary says of a training, however it ended."""
    return {
        "validation_loss": state.best_loss if state.best_epoch else None,
        "best_epoch": state.best_epoch,
        "epochs": state.epoch,
        "parameters": sum(weight.numel() for weight in state.weights.values()),
        "model": as_plain(job.config.model),
        "data": list(job.data.notes),
        "seconds": sum(record.seconds for record in state.history),
    }


def _references(data: Splits) -> tuple[References, References]:
    """Of the test part, and of the validation part in the units of the losses while training, with
    the same baselines: the best of one is drawn beside the losses of the other."""
    tested = References.of_data(data.test, data)
    validated = References.of_data(data.validation, data, as_trained=True)
    return tested.with_those_of(validated), validated.with_those_of(tested)


def _write_results(
    job: Job,
    evaluation: Evaluation,
    forecasts: ForecastSpool,
    validated: References,
    weights: Callable[[Path], None] | None,
) -> None:
    """A run's forecasts, weights and summary.

    Args:
        weights: writes its attention file; None: it has no attention.
    """
    folder, state, config = job.folder, job.state, job.config
    assert state is not None
    if not math.isfinite(evaluation.loss + evaluation.loss_teacher_forced):
        job.error = NonFiniteError(
            f"The test loss is {evaluation.loss} free running, {evaluation.loss_teacher_forced}"
            f" teacher-forced, with the weights of epoch {state.best_epoch}. All losses of the"
            " training were finite, and its checkpoints are kept."
        )
        write_divergence(job, job.error, state)
        return
    scored = evaluation.as_plain()
    loss, forced = scored.pop("loss"), scored.pop("loss_teacher_forced")
    summary = {
        "name": config.name,
        "seed": config.seed,
        "test_loss": loss,
        "test_loss_teacher_forced": forced,
        **scored,
        **_of_training(job, state),
        "validation_noise_floor": validated.noise_floor,
        "validation_baselines": validated.baselines,
        "stopped_early": state.epoch < config.training.epochs,
    }
    forecasts.write(folder.predictions)
    if weights is not None:
        weights(folder.attention)
    write_json(folder.summary, summary)
    job.summary = summary


def say_how_they_ended(jobs: Iterable[Job]) -> None:
    """The last line of each log, once the results are safe on the disk."""
    for job in jobs:
        if job.error is not None:
            job.folder.say(f"ended: {job.error}")
        elif job.summary is not None:
            loss, best = job.summary["test_loss"], job.summary["best_epoch"]
            job.folder.say(f"finished: test loss {loss:.6g}, best epoch {best}")
