"""Preparation of jobs: the data and the progress of each run, its newest usable checkpoint, and the
initial weights of a run that starts with the weights of another run or with a fitted linear map."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from seqattn.config import Config, Training, as_plain, as_value, config_differences
from seqattn.config.plugins import plugin_changes
from seqattn.data import Splits, fixed_shape, load_data
from seqattn.data.ridge import MAX_WORK, RidgeMap, ridge_map, ridge_work
from seqattn.data.text_measures import has_words, is_sacrebleu_installed
from seqattn.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    NonFiniteError,
    UsageError,
    install_command,
)
from seqattn.experiments.job import Job, StartingPoint
from seqattn.experiments.memory_estimate import check_memory
from seqattn.models import Seq2SeqModel
from seqattn.runs import RunFolder, check_summary, find_run, seed_of_folder
from seqattn.runs.checkpoint_file import CheckpointFile, read_checkpoint
from seqattn.training import RunState, check_data_unchanged
from seqattn.training.checkpoints import (
    MUTABLE_ON_RESUME,
    fill_model,
    read_training,
    restore_state,
)


def prepare_jobs(
    configs: Sequence[tuple[Config, RunFolder]], *, resume: bool, overwrite: bool = False
) -> list[Job]:
    """Load the data of each run, and the progress of each run if `resume` is true. Runs with the
    same section `data` share the data."""
    splits: dict[str, Splits] = {}
    jobs = []
    for config, folder in configs:
        # The scaling of the other run replaces the scaling that would be fitted to these data.
        fits_scaling = config.training.start_from is None
        key = repr((config.data, fits_scaling))
        if key not in splits:
            splits[key] = load_data(config.data, fits_scaling=fits_scaling)
        if fixed_shape(config.data) is None:
            check_memory(config, splits[key])
        replaces = overwrite and folder.is_run
        job = Job(config, folder, splits[key], resume, replaces)
        check_fit(config, job.data)
        parts = job.data.train, job.data.validation, job.data.test
        points = max(max(part.source_steps, part.target_steps) for part in parts)
        longest = getattr(config.model, "longest", None)
        if longest is not None and points > longest:
            raise UsageError(
                f"model.longest is {longest}, but the data have sequences of {points} points: each"
                " point needs a learned position. Increase model.longest, or set model.positions:"
                " sinusoidal."
            )
        jobs.append(_load_progress(job) if resume else job)
    return with_shared_scaling(with_starting_points(jobs))


def _check_training(training: Training, data: Splits) -> None:
    """Check that the measure and the batches of the section `training` fit the sequences.

    Raises:
        ConfigError: if the measure is for other symbols, needs sacrebleu and lacks it, or if a
            batch cannot hold the longest sequence.
    """
    monitor = training.monitor
    if monitor != "loss" and not data.train.target_space.symbols:
        raise ConfigError(
            f"training.monitor: {monitor} is a measure of symbols, but the targets of these data"
            " are vectors. Set training.monitor=loss."
        )
    if monitor == "bleu" and not has_words(data.train.target_space):
        raise ConfigError(
            "training.monitor: bleu compares words, but the target symbols of these data are"
            " characters. Set training.monitor=symbol_error_rate."
        )
    if monitor == "bleu" and not is_sacrebleu_installed():
        raise ConfigError(
            "training.monitor: bleu needs sacrebleu, which is not installed:"
            f" {install_command('text')}"
        )
    longest = max(data.train.source_steps, data.train.target_steps)
    if training.sequences_per_batch(longest) == 0:
        raise ConfigError(
            f"training.batch_size: {training.batch_size} tokens are fewer than the longest"
            f" sequence of the training part has, {longest}. Increase training.batch_size."
        )


def check_fit(config: Config, data: Splits) -> None:
    """Check that the sections `model` and `training` fit the sequences.

    Raises:
        ConfigError: if a key is for symbols, but the steps are vectors, or the other way round.
        DataError: if `model.skip` is `linear`, which needs sources and targets of one length, and
            lengths differ.
    """
    _check_training(config.training, data)
    spaces = data.train.source_space, data.train.target_space
    has_symbols = any(space.symbols for space in spaces)
    if getattr(config.model, "embedding", None) is not None and not has_symbols:
        raise ConfigError(
            "model.embedding: the steps of these data are vectors, which have no embedding. Set"
            " model.embedding=null."
        )
    if getattr(config.model, "copying", False) and not all(space.symbols for space in spaces):
        raise ConfigError(
            "model.copying: true copies symbols of the source, but the sources or the targets of"
            " these data are vectors. Set model.copying=false."
        )
    if config.model.skip == "none":
        return
    if has_symbols:
        raise ConfigError(
            f"model.skip: {config.model.skip} maps vectors, but the steps of these data are"
            " symbols. Set model.skip=none."
        )
    shown, is_fixed = [], True
    for side in ("source", "target"):
        parts = (data.train, data.validation, data.test)
        lengths = np.concatenate([getattr(part, f"{side}_lengths") for part in parts])
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest == longest:  # the model is built for the length of the arrays
            longest = getattr(data.train, f"{side}_steps")
        is_fixed = is_fixed and shortest == longest
        shown.append(f"{shortest} to {longest}" if shortest < longest else str(longest))
    if not is_fixed:
        raise DataError(
            "model.skip: linear needs one length for all sources and one length for all targets,"
            f" because its map has a weight for each point. Here, sources have {shown[0]} points"
            f" and targets {shown[1]}. Cut all sequences to equal lengths (data.window of a file),"
            " generate equal lengths (data.variable_length: false, no data.min_..., no"
            " data.test_length), or set model.skip: none."
        )


def _load_progress(job: Job) -> Job:
    """Add the progress in the run folder to the job: the state from which training continues, and
    the summary of a finished run or the error of a diverged run.

    A diverged run is not trained again: training is deterministic, so it would diverge again.
    """
    folder, config = job.folder, job.config
    environment = folder.read_environment() if folder.is_run else {}
    job = load_latest_checkpoint(replace(job, previous_environment=environment))
    state = job.state
    if state is None:
        return job
    if folder.summary.exists():
        summary = check_summary(folder, as_plain(config.model), config.seed)
        at = summary.get("diverged_at")
        if not summary.get("diverged"):
            # A change of training.epochs can change why the run ended, and thus its summary.
            stopped_early = job.ending == "early stopping"
            if job.is_trained and summary["stopped_early"] == stopped_early:
                job = replace(job, summary=summary)
        # A non-finite test loss counts only if no epoch is left: with more epochs, the new best
        # epoch may have a finite test loss.
        elif job.is_trained if at is None else at["epoch"] <= config.training.epochs:
            at = at or {"epoch": None, "step": None}
            job = replace(job, error=NonFiniteError(
                f"{folder.path}: diverged after {state.epoch} complete epochs, and would diverge"
                f" again: {summary['diverged']} --overwrite trains the run from the beginning; to"
                " keep it, give the new run another --name.",
                at["epoch"], at["step"],
            ))  # fmt: skip
    return job


# --- checkpoints ----------------------------------------------------------------------------------


def load_latest_checkpoint(job: Job) -> Job:
    """Add the state of the newest usable checkpoint to the job, and the reasons why newer
    checkpoints were skipped. A job without checkpoints gets no state.

    Raises:
        CheckpointError: if the run has checkpoints or finished epochs, but no usable checkpoint.
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
            job = replace(job, data=job.data.fitted_as(file.spec.source, file.spec.target))
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
    """Read a checkpoint from which a job can continue, and return its state and the file. An error
    about changed data names a file, if a path in the config refers to several."""
    file = read_training(path)
    check_resumable(job.folder, file.config, job.config, file.epoch)
    try:
        check_data_unchanged(job.spec.digests, file.spec.digests, "since the training began")
    except DataError as error:
        before, now = job.folder.read_data_files(), job.data.digests_by_file
        names = sorted({name for name, _ in before.items() ^ now.items()})
        known = bool(before and now and names)
        files = f" Changed files: {len(names)}, such as {names[0]}." if known else ""
        raise DataError(f"{error}{files}") from None
    _check_vocabularies(file, job)
    return restore_state(file, job.new_model()), file


def _check_vocabularies(file: CheckpointFile, job: Job) -> None:
    """Check that the symbols of a checkpoint and of a job have the same numbers.

    Raises:
        DataError: if they have not. Another version of sentencepiece may learn other subwords.
    """
    for side in ("source", "target"):
        if getattr(file.spec, side).symbols != getattr(job.spec, side).symbols:
            raise DataError(
                f"data.{side}: the subwords learned from these data are not those of the run,"
                " probably because another version of sentencepiece is installed. Install the"
                " version with which the run began."
            )


def check_resumable(folder: RunFolder, before: Config, config: Config, epoch: int) -> None:
    """Check that a run can be resumed with a config. The config may differ from the checkpoint's
    config only in the keys of `MUTABLE_ON_RESUME`.

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
            f"training.epochs: {old} -> {new}, on which {key} depends (over_epochs fixes that)"
            for key in config.training.keys_spanning_all_epochs()
        ]
    if config.training.epochs < epoch:
        lines.append(f"training.epochs: {epoch} are finished -> {config.training.epochs}")
    if lines:
        raise ConfigError(
            f"{folder.path}: cannot be resumed with another config. Use the old values, or start"
            " another run with its best weights (--name NAME --set"
            f" training.start_from={shlex.quote(str(folder.path))}):",
            lines,
        )


# --- the weights of another run (training.start_from) ---------------------------------------------


def with_starting_points(jobs: Sequence[Job]) -> list[Job]:
    """Read the starting point of each job that starts from the beginning and has
    `training.start_from`. Jobs with the same source share its weights.

    Raises:
        CheckpointError: if a source cannot be read, has no finished epoch, or has other weights
            than when the run was started before.
        ConfigError: if the weights do not fit a job.
    """
    known = dict[Path, StartingPoint]()

    def with_start(job: Job) -> Job:
        if job.config.training.start_from is None or job.state is not None or job.start is not None:
            return job
        path = _source_path(job)
        if path not in known:
            known[path] = _read_source(path)
        start, before = known[path], job.previous_environment.get("start_from")
        if job.folder.path.resolve() in (path.resolve(), *path.resolve().parents):
            raise ConfigError(
                f"training.start_from: {path} is in the folder of this run. Give this run another"
                " --name."
            )
        if before and before["run"] == start.run and before["sha256"] != start.record["sha256"]:
            raise CheckpointError(
                f"{job.folder.path}: was started with other weights than {path} has now (SHA-256"
                f" {before['sha256'][:12]}... -> {start.record['sha256'][:12]}...). Start again"
                " with --overwrite."
            )
        _check_fits(start, job)
        return replace(job, start=start)

    return [with_start(job) for job in jobs]


def with_shared_scaling(jobs: Sequence[Job]) -> list[Job]:
    """Give each job with `training.start_from` the scaling of its source. Jobs with the same
    sequences and equal scaling share their data, so that they can be trained side by side."""
    shared = dict[tuple[int, str], Splits]()

    def with_data(job: Job) -> Job:
        if job.config.training.start_from is None:
            return job
        spec = job.spec if job.start is None else job.start.spec
        data = job.data.fitted_as(spec.source, spec.target)
        key = id(job.data.train), json.dumps([data.train.source_space.as_plain(),
                                              data.train.target_space.as_plain()])  # fmt: skip
        return replace(job, data=shared.setdefault(key, data))

    return [with_data(job) for job in jobs]


def _source_path(job: Job) -> Path:
    """Return the run folder or checkpoint file that a job starts from. In a folder of many seeds,
    this is the run with the seed of the job."""
    path, seed = Path(str(job.config.training.start_from)), job.config.seed
    if RunFolder(path).is_run or not path.is_dir():
        return path
    seeds = [k for each in path.glob("seed-*") if (k := seed_of_folder(each)) is not None]
    if seeds and seed not in seeds:
        raise CheckpointError(
            f"training.start_from: {path} has no run with seed {seed}, only with"
            f" {', '.join(map(str, sorted(seeds)))}. Give the folder of one run."
        )
    return path / f"seed-{seed}" if seeds else path


def _read_source(path: Path) -> StartingPoint:
    try:
        _, checkpoint = find_run(path)
        if path.is_dir() and not checkpoint.exists():
            raise CheckpointError(f"{path}: has no finished epoch, so it has no best weights.")
        return StartingPoint.of(read_checkpoint(checkpoint), str(path))
    except CheckpointError as error:
        raise CheckpointError(f"training.start_from: {error}") from None


def _check_fits(start: StartingPoint, job: Job) -> None:
    """Check that a job has the model, the features, the units and the kind of scaling of its
    starting point. The error lists all differences."""
    pairs: dict[str, tuple[Any, Any]] = {
        key: values
        for key, values in config_differences(start.config, job.config).items()
        if key.startswith("model.")
    }
    pairs |= {
        "source features": (list(start.spec.source_features), list(job.spec.source_features)),
        "target features": (list(start.spec.target_features), list(job.spec.target_features)),
        "data.scaling": (
            str(getattr(start.config.data, "scaling", "none")),
            str(getattr(job.config.data, "scaling", "none")),
        ),
    }
    for side in ("source", "target"):
        old, new = (getattr(spec, side).needed_by_weights(side) for spec in (start.spec, job.spec))
        pairs |= {key: (old.get(key), new.get(key)) for key in {**old, **new}}
    units = job.spec.units
    pairs |= {f"data.units.{name}": (unit, units[name])
              for name, unit in start.spec.units.items() if name in units}  # fmt: skip
    lines = [
        f"{key}: {start.run} has {as_value(old)}, this run has {as_value(new)}"
        for key, (old, new) in pairs.items()
        if old != new
    ]
    if lines:
        raise ConfigError(
            f"training.start_from: this run needs the model, the features, the scaling and the"
            f" vocabularies of {start.run}. Give these values:",
            lines,
        )
    fill_model(job.new_model(), start.weights, Path(start.run))


# --- the initial map of model.skip: linear --------------------------------------------------------


def fit_skip_maps(groups: Sequence[Sequence[Job]]) -> list[list[Job]]:
    """Fit the initial map of each new job whose linear skip starts from a map that ridge regression
    fits. A resumed job needs no fit, because its checkpoint contains the map."""
    fitted: dict[int, RidgeMap] = {}

    def fit(job: Job) -> Job:
        if job.state is not None or job.start is not None or not starts_at_map(job):
            return job
        data = job.data
        if id(data) not in fitted:
            fitted[id(data)] = ridge_map(data.baseline_part, data.validation)
        return replace(job, skip_map=fitted[id(data)])

    return [[fit(job) for job in group] for group in groups]


def build_initial_model(job: Job) -> Seq2SeqModel:
    """Build the model, and draw its initial weights with the seed, or use the weights of the job's
    starting point. If the linear skip starts from a fitted map, it gets the weights of this map,
    and is frozen if `model.skip_map` is `frozen`."""
    model = job.new_model()
    if model.skip is not None and starts_at_map(job):
        model.skip.is_trainable = job.config.model.skip_map == "finetuned"
        if job.skip_map is not None:
            model.skip.set_weights(job.skip_map.weight, job.skip_map.bias)
    if job.start is not None:
        model.load_state_dict(job.start.weights)
    return model


def _has_fitted_map(job: Job) -> bool:
    model = job.config.model
    return model.skip == "linear" and model.skip_map != "learned"


def starts_at_map(job: Job) -> bool:
    """Return whether the linear skip of a new run starts from a fitted map instead of zero. The map
    may have been fitted for another run, from whose weights this run starts."""
    starts_from_run = job.config.training.start_from is not None
    return _has_fitted_map(job) and (
        starts_from_run or ridge_work(job.data.baseline_part) <= MAX_WORK
    )


def describe_skip_start(job: Job) -> str:
    """Return a line for the log about the initial map, or "" if there is nothing to report."""
    train, found = job.data.baseline_part, job.skip_map
    if found is not None:
        return (
            f"model.skip: linear starts at the ridge map of {len(train):,} training sequences,"
            f" penalty {found.penalty:g} of the mean eigenvalue: validation loss {found.loss:.6g}"
        )
    if not _has_fitted_map(job) or starts_at_map(job):
        return ""
    numbers = train.source_steps * len(train.features)
    most = math.floor((MAX_WORK * numbers**3 / ridge_work(train)) ** (1 / 3) + 1e-9)
    return (
        f"model.skip: linear starts at zero and is trained, because a source has {numbers:,}"
        f" numbers, and a ridge map of these data can have at most {most:,} inputs. Shorten the"
        " source, or set model.skip_map: learned."
    )
