"""The results of a finished run: forecasts, attention weights and summary."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from seqattn.analysis.evaluation import Evaluation, ForecastChunk, ReferenceLosses, evaluate
from seqattn.analysis.evaluation.attention_file import AttentionSpool
from seqattn.analysis.evaluation.predictions_file import ForecastSpool
from seqattn.config import as_plain
from seqattn.data import Splits
from seqattn.errors import NonFiniteError
from seqattn.experiments.job import Job
from seqattn.models import Seq2SeqModel
from seqattn.training import RunState

ReferencesOfData = dict[int, tuple[ReferenceLosses, ReferenceLosses]]
"""Reference losses of the test part and of the validation part, by the `id` of the data."""


def write_results(job: Job, model: Seq2SeqModel, references: ReferencesOfData) -> Job:
    """Evaluate the weights of the best epoch on the test part, and write the files of the results.

    This function logs nothing, because the files do not exist until the caller's transaction ends.
    Each run is evaluated alone, so that its metrics do not depend on other runs that end at the
    same time.

    Args:
        job: a job whose training has ended.
        model: model of the job's config, on the device that trained the run. This function copies
            the best weights into the model.
        references: reference losses of the data of other runs, by the `id` of the data. If the
            losses of this job's data are missing, the function adds them.

    Returns:
        the job with a summary, or with an error if the test loss is not finite.
    """
    data, folder = job.data, job.folder
    assert job.state is not None
    if id(data) not in references:
        references[id(data)] = _references(data)
    tested, validated = references[id(data)]
    model.load_state_dict(job.state.best_weights)
    with ForecastSpool(folder.path, data.test) as forecasts, AttentionSpool(folder.path) as weights:
        weights.start_part(data.test)

        def keep(chunk: ForecastChunk) -> None:
            forecasts.add(chunk.values)
            chunk.emit_attention(weights.add)

        evaluation = evaluate(model, data.test, tested, data.scaling, on_chunk=keep)
        if not math.isfinite(evaluation.loss + evaluation.loss_teacher_forced):
            return _diverged_at_test(job, evaluation)
        summary = _summary(job, evaluation, validated)
        forecasts.write(folder.predictions)
        if job.config.model.has_attention:
            weights.write(folder.attention)
    # A stop during the last save can leave an old history, although the checkpoint is complete.
    folder.write_metrics(job.state.history)
    folder.write_summary(summary)
    return replace(job, summary=summary)


def _diverged_at_test(job: Job, evaluation: Evaluation) -> Job:
    assert job.state is not None
    error = NonFiniteError(
        f"The test loss is {evaluation.loss} free running, {evaluation.loss_teacher_forced}"
        f" teacher-forced, with the weights of epoch {job.state.best_epoch}. All losses of the"
        " training were finite, and its checkpoints are kept."
    )
    write_divergence(job, error, job.state)
    return replace(job, error=error)


def _summary(job: Job, evaluation: Evaluation, validated: ReferenceLosses) -> dict[str, Any]:
    """Return the content of `summary.json` of a run with a finite test loss."""
    state, config = job.state, job.config
    assert state is not None
    scored = evaluation.as_plain()
    loss, teacher_forced = scored.pop("loss"), scored.pop("loss_teacher_forced")
    return {
        "name": config.name,
        "seed": config.seed,
        "test_loss": loss,
        "test_loss_teacher_forced": teacher_forced,
        **scored,
        **_of_training(job, state),
        "validation_noise_floor": validated.noise_floor,
        "validation_baselines": validated.baselines,
        "stopped_early": job.ending == "early stopping",
    }


def write_divergence(job: Job, error: NonFiniteError, state: RunState) -> None:
    """Write the summary of a diverged run. The summary contains the error and no test loss."""
    at = None if error.epoch is None else {"epoch": error.epoch, "step": error.step}
    summary = {
        "name": job.config.name,
        "seed": job.config.seed,
        "diverged": str(error),
        "diverged_at": at,
        "test_loss": None,
        **_of_training(job, state),
    }
    job.folder.write_summary(summary)


def _of_training(job: Job, state: RunState) -> dict[str, Any]:
    """Return the entries of a summary that finished runs and diverged runs have in common."""
    return {
        "validation_loss": state.best_loss if state.best_epoch else None,
        "best_epoch": state.best_epoch,
        "epochs": state.epoch,
        "parameters": job.parameters,
        "model": as_plain(job.config.model),
        "task": job.config.data.kind,
        "data": list(job.data.notes),
        "start_from": None if job.start_record is None else dict(job.start_record),
        "skipped_checkpoints": list(job.skipped_checkpoints),
        "interrupted": job.checkpoint is not None,
        "seconds": sum(record.seconds for record in state.history),
    }


def _references(data: Splits) -> tuple[ReferenceLosses, ReferenceLosses]:
    """Compute the reference losses of the test part and of the validation part.

    Baselines that only one of the parts has are left out. The losses of the validation part are in
    the units of the training losses, because the loss curve shows both.
    """
    tested = ReferenceLosses.from_splits(data.test, data)
    validated = ReferenceLosses.from_splits(data.validation, data, in_training_units=True)
    return tested.keep_shared(validated), validated.keep_shared(tested)
