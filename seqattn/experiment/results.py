"""What a finished training leaves: forecasts, weights, summary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from seqattn.config import as_plain
from seqattn.data.files.writing import forecast_arrays
from seqattn.errors import NotFiniteError
from seqattn.evaluation import Evaluation, FreeRun, References, evaluate_runs
from seqattn.experiment.jobs import Job
from seqattn.storage import write_arrays, write_json
from seqattn.training import Run, TrainingState


def conclude(finished: Sequence[tuple[Job, Run]]) -> None:
    """Score the best epochs' weights on the test part and write the data files.

    Each run is scored alone: what its weights are worth, to the last bit, does not depend on which
    others end beside it.
    """
    known: dict[int, tuple[References, References]] = {}
    for job, run in finished:
        data, state = job.data, job.state
        assert state is not None
        if id(data) not in known:
            test, validation = (
                References.of(part, data.train, data.rule, data.scaling)
                for part in (data.test, data.validation)
            )
            known[id(data)] = test, validation
        tested, validated = known[id(data)]
        run.model.load_state_dict(state.best_weights)
        ((evaluation, free),) = evaluate_runs(run.model, 1, data.test, tested, data.scaling)
        _write_results(job, evaluation, free, validated)


def write_divergence(job: Job, error: NotFiniteError, state: TrainingState) -> None:
    """The summary of a run that left the finite numbers, and has no forecasts."""
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


def _of_training(job: Job, state: TrainingState) -> dict[str, Any]:
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


def _write_results(job: Job, evaluation: Evaluation, free: FreeRun, validated: References) -> None:
    """A run's forecasts, weights and summary."""
    folder, state, config, data = job.folder, job.state, job.config, job.data
    assert state is not None
    if not math.isfinite(evaluation.loss + evaluation.loss_teacher_forced):
        job.error = NotFiniteError(
            f"The test loss is {evaluation.loss} free running, {evaluation.loss_teacher_forced}"
            f" teacher-forced, with the weights of epoch {state.best_epoch}. All losses of the"
            " training were finite, and its checkpoints are kept."
        )
        write_divergence(job, job.error, state)
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
        **_of_training(job, state),
        "validation_noise_floor": validated.noise_floor,
        "validation_baselines": validated.baselines,
        "stopped_early": state.epoch < config.training.epochs,
    }
    write_arrays(folder.predictions, forecast_arrays(data.test, free.values, with_target=True))
    if free.maps:
        write_arrays(folder.attention, free.attention_arrays(data.test, steps_real=True))
    write_json(folder.summary, summary)
    job.summary = summary
    folder.say(f"finished: test loss {summary['test_loss']:.6g}, best epoch {state.best_epoch}")
