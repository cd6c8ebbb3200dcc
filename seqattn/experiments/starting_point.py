"""The start of a run with the weights of another run, which `training.start_from` names.

The source is read only when a run starts from the beginning. A resumed run has its weights and its
scaling in its own checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from seqattn.config import Config, as_value, config_differences
from seqattn.data import DataSpec, Splits
from seqattn.errors import CheckpointError, ConfigError
from seqattn.runs import RunFolder, find_run, seed_of_folder
from seqattn.runs.checkpoint_file import CheckpointFile, read_checkpoint, write_checkpoint
from seqattn.training.checkpoints import as_arrays, as_tensors, fill_model

if TYPE_CHECKING:
    from seqattn.experiments.job import Job


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """The weights of the best epoch of a run, with which another run starts.

    Attributes:
        run: the run folder or the checkpoint file, as text.
        epoch: the best epoch.
        weights: weights by parameter name.
        config: config of the run, without its name and the paths of its data files.
        spec: spec of the data of the run. It contains the scaling, which the new run keeps.
    """

    run: str
    epoch: int
    weights: dict[str, Tensor]
    config: Config
    spec: DataSpec

    @classmethod
    def of(cls, file: CheckpointFile, run: str) -> StartingPoint:
        """Take the weights of the best epoch from a checkpoint.

        Raises:
            CheckpointError: if no epoch was finished before the checkpoint.
        """
        weights, epoch = file.tensors, file.epoch
        if file.is_training:
            weights, epoch = file.below("best."), int(file.metadata["best_epoch"])
        if not weights:
            raise CheckpointError(f"{file.path}: has no finished epoch, so it has no best weights.")
        return cls(run, epoch, as_tensors(weights), file.config, file.spec)

    @cached_property
    def record(self) -> dict[str, Any]:
        """The entry `start_from` of `environment.json` and `summary.json`: the run, its best epoch,
        and a SHA-256 digest of its weights."""
        sha256 = hashlib.sha256()
        for name, weight in sorted(self.weights.items()):
            sha256.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
            sha256.update(weight.numpy().tobytes())
        return {"run": self.run, "epoch": self.epoch, "sha256": sha256.hexdigest()}

    def as_bytes(self) -> bytes:
        """Return the content of a checkpoint file with the weights, config and spec."""
        metadata = {"kind": "model", "epoch": self.epoch}
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "start.safetensors"
            write_checkpoint(path, as_arrays(self.weights), self.config, self.spec, metadata)
            return path.read_bytes()


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
                f" {before['sha256'][:12]}... before, {start.record['sha256'][:12]}... now), and"
                " has no checkpoint of its own. Restore the weights, or start again with"
                " --overwrite."
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
        scaling = job.data.scaling if job.start is None else job.start.spec.scaling
        key = id(job.data.train), json.dumps(scaling.as_plain())
        return replace(job, data=shared.setdefault(key, replace(job.data, scaling=scaling)))

    return [with_data(job) for job in jobs]


def _source_path(job: Job) -> Path:
    """Return the run folder or checkpoint file that a job starts from. In a folder of many seeds,
    this is the run with the seed of the job.

    Raises:
        CheckpointError: if the folder of many seeds has no run with this seed.
    """
    path, seed = Path(str(job.config.training.start_from)), job.config.seed
    if RunFolder(path).is_run or not path.is_dir():
        return path
    seeds = [k for each in path.glob("seed-*") if (k := seed_of_folder(each)) is not None]
    if seeds and seed not in seeds:
        raise CheckpointError(
            f"training.start_from: {path} has no run with seed {seed}, only with"
            f" {', '.join(map(str, sorted(seeds)))}. Each seed starts from the run with its own"
            " seed. To start from one run, give its folder."
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
    starting point.

    Raises:
        ConfigError: if a value differs; the error lists all differences.
        CheckpointError: if the shape of a weight differs because the sequences have other lengths.
    """
    scaling, own = start.spec.scaling, job.data.scaling
    pairs: dict[str, tuple[Any, Any]] = {
        key: values
        for key, values in config_differences(start.config, job.config).items()
        if key.startswith("model.")
    }
    pairs |= {
        "source features": (list(start.spec.source_features), list(job.spec.source_features)),
        "target features": (list(start.spec.target_features), list(job.spec.target_features)),
        "data.scaling": (_scaling_method(start.config), _scaling_method(job.config)),
        "data.relative": (scaling.relative, own.relative),
        "data.normalize: instance": (scaling.instance, own.instance),
    }
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
            f"training.start_from: this run needs the model, the features and the scaling of"
            f" {start.run}. Give these values:",
            lines,
        )
    fill_model(job.new_model(), start.weights, Path(start.run))


def _scaling_method(config: Config) -> str:
    return str(getattr(config.data, "scaling", "none"))
