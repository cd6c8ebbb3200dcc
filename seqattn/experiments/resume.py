"""Functions that load the newest usable checkpoint of a run, and check that the run can be
resumed."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path

from seqattn.config import PATH_KEYS, Config, config_differences
from seqattn.config.plugins import plugin_changes
from seqattn.errors import CheckpointError, ConfigError, DataError
from seqattn.experiments.job import Job
from seqattn.runs import RunFolder
from seqattn.runs.checkpoint_file import CheckpointFile
from seqattn.training import LearningRate, RunState, check_data_unchanged
from seqattn.training.checkpoints import MUTABLE_ON_RESUME, read_training, restore_state


def load_latest_checkpoint(job: Job) -> Job:
    """Add the state of the newest usable checkpoint to the job, and the reasons why newer
    checkpoints were skipped. A job without checkpoints gets no state.

    Raises:
        CheckpointError: if the run has checkpoints or finished epochs, but no usable checkpoint.
        ConfigError: if the config belongs to another run.
        DataError: if the data files have changed since training began.
    """
    folder, reasons = job.folder, list[str]()
    for path in (folder.last, folder.previous):
        if not path.exists():
            if path == folder.last and folder.previous.exists():
                reasons.append(f"{path}: is missing.")
            continue
        try:
            state, file = load_checkpoint(path, job)
        except CheckpointError as error:
            reasons.append(str(error))
            continue
        skipped = (
            *job.previous_environment.get("skipped_checkpoints", ()),
            *(f"Skipped checkpoint: {reason}" for reason in reasons),
        )
        if job.config.training.start_from is not None:
            job = replace(job, data=replace(job.data, scaling=file.spec.scaling))
        return replace(
            job, state=state, checkpoint=path, skipped_checkpoints=skipped,
            changed_plugins=plugin_changes(file.config, job.config),
            previous_epochs=file.config.training.epochs,
        )  # fmt: skip
    if not reasons and folder.metrics.exists() and folder.read_metrics():
        reasons.append(f"{folder.metrics} lists epochs, but their checkpoints are missing.")
    if reasons:
        reasons.append(
            f"No usable checkpoint is left. To train from the beginning, remove {folder.path}"
            " and repeat the command."
        )
        raise CheckpointError("\n".join(reasons))
    return job


def load_checkpoint(path: Path, job: Job) -> tuple[RunState, CheckpointFile]:
    """Read a checkpoint from which a job can continue, and return its state and the file.

    Raises:
        CheckpointError, ConfigError, DataError: see `load_latest_checkpoint`.
    """
    file = read_training(path)
    check_resumable(job.folder, file.config, job.config, file.epoch)
    try:
        check_data_unchanged(job.spec.digests, file.spec.digests, "since the training began")
    except DataError as error:
        raise DataError(f"{error}{_changed_files(job)}") from None
    return restore_state(file, job.new_model()), file


def _changed_files(job: Job) -> str:
    """Return a sentence that lists up to five files that have changed since training began. Return
    an empty string if each path in the config refers to a single file, or if no file has changed.
    """
    before, now = job.folder.read_data_files(), job.data.digests_by_file
    if not before or not now:
        return ""
    found = [
        f"{name} is {'missing' if name not in now else 'new' if name not in before else 'another'}"
        for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)
    ]  # fmt: skip
    more = f", and {len(found) - 5} more" if len(found) > 5 else ""
    return (
        f" In {getattr(job.config.data, 'path', '')}: {', '.join(found[:5])}{more}."
        if found
        else ""
    )


def check_same_split(job: Job) -> None:
    """Check that the series are split into the same parts as when training began. Earlier versions
    split series differently.

    Raises:
        CheckpointError: if a series was in another part, or was split at another step.
    """
    if job.state is None or not job.data.split:
        return
    before = job.folder.read_split()
    if before and before != list(job.data.split):
        raise CheckpointError(
            f"{job.folder.split}: this version of seqattn does not split the series into the parts"
            " with which training began. Continuing would train on sequences that were held out."
            " Train again with --overwrite, or under another --name."
        )


def check_same_rates(job: Job) -> None:
    """Check that the schedule gives the learning rates with which the finished epochs were trained.
    Earlier versions had other schedules.

    Raises:
        CheckpointError: if the learning rate of an epoch differs from the rate that the schedule
            gives now.
    """
    if job.state is None or job.is_trained:
        return
    rate = LearningRate(job.config.training)
    for record in job.state.history:
        now = rate.value
        if not math.isclose(now, record.learning_rate, rel_tol=1e-6, abs_tol=1e-12):
            raise CheckpointError(
                f"{job.checkpoint or job.folder.last}: epoch {record.epoch} was trained at"
                f" learning rate {record.learning_rate:g}, and training.learning_rate_schedule"
                f" gives it {now:g} in this version. Continuing would mix two schedules. Train"
                " again with --overwrite, or under another --name."
            )
        rate.update(record.validation_loss)


def check_resumable(folder: RunFolder, before: Config, config: Config, epoch: int) -> None:
    """Check that a run can be resumed with a config. The config may differ from the checkpoint's
    config only in the keys of `MUTABLE_ON_RESUME`.

    Args:
        before: config of the checkpoint.
        epoch: number of finished epochs.

    Raises:
        ConfigError: if a change of the config would result in another run, or if the config has
            fewer epochs than the run has finished.
    """
    changed = config_differences(before, config)
    lines = [
        f"{k}: {old} -> {new}" for k, (old, new) in changed.items() if k not in MUTABLE_ON_RESUME
    ]
    if "training.epochs" in changed:
        old, new = changed["training.epochs"]
        lines += [
            f"training.epochs: {old} -> {new}, and {key} depends on the number of epochs, so"
            " the finished epochs would have been different (over_epochs fixes its duration)"
            for key in config.training.keys_spanning_all_epochs()
        ]
    if config.training.epochs < epoch:
        lines.append(
            f"training.epochs: {epoch} epochs are finished, but only {config.training.epochs}"
            " are requested"
        )
    if lines:
        harmless = [
            f"{k}: {old} -> {new}" for k, (old, new) in changed.items()
            if k in MUTABLE_ON_RESUME and k not in ("name", *PATH_KEYS)  # not in checkpoints
            and not any(line.startswith(f"{k}: ") for line in lines)
        ]  # fmt: skip
        if harmless:
            lines.append(f"(allowed changes: {'; '.join(harmless)})")
        raise ConfigError(
            f"{folder.path}: cannot be resumed with another config. These changes would result"
            " in a different run. Use the old values, or start another run with --name, which can"
            " begin with the best weights of this run (--set"
            f" training.start_from={shlex.quote(str(folder.path))}):",
            lines,
        )
