"""The job, which describes the training of one run, its starting point, and the callbacks and
launch settings of the training."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from seqattn.config import Config
from seqattn.data import DataSpec, Splits
from seqattn.data.ridge import RidgeMap
from seqattn.errors import CheckpointError, Interrupted, NonFiniteError
from seqattn.models import FeatureSpec, Lengths, Seq2SeqModel, build_model, count_parameters
from seqattn.runs import EpochRecord, RunFolder
from seqattn.runs.checkpoint_file import CheckpointFile, write_checkpoint
from seqattn.training import ProcessGroup, RunState, build_early_stopper
from seqattn.training.checkpoints import as_arrays, as_tensors
from seqattn.training.optimization import Ending, find_ending


@dataclass(frozen=True)
class Callbacks:
    """Progress callbacks and the stop signal.

    Attributes:
        begin: function that is called when training starts. Its arguments are the number of
            finished epochs and the total number of epochs, both summed over the runs, and the
            number of runs.
        epoch: function that is called with the run folder and the record of each finished epoch of
            each run.
        ended: function that is called with the folder of a run when its training has ended.
        message: function that is called with a line for the user.
        stop: function that returns the number of the signal that requests a stop, or 0. Training
            calls this function after each step, between groups of runs, and between pictures. Once
            the result is not 0, it must not become 0 again.
    """

    begin: Callable[[int, int, int], None] = lambda done, epochs, runs: None
    epoch: Callable[[Path, EpochRecord], None] = lambda folder, record: None
    ended: Callable[[Path], None] = lambda folder: None
    message: Callable[[str], None] = lambda line: None
    stop: Callable[[], int] = lambda: 0


@dataclass(frozen=True)
class Launch:
    """The settings of the command that starts the runs.

    Attributes:
        config_path: path of the config file, or None if there is no file. The path determines the
            git revision in `environment.json`; see `find_git_revision`.
        provenance: entries of `environment.json` with the command and the origins of the config
            values.
        processes: the processes that train a single run together, of which this process is process
            0; None if this process is alone.
        workers: number of worker processes that train groups of runs at the same time; None to
            choose the number automatically.
        before_writing: function that is called after all checks and before the first file is
            written.
    """

    config_path: Path | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    processes: ProcessGroup | None = None
    workers: int | None = 1
    before_writing: Callable[[], None] = lambda: None


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


@dataclass(frozen=True, eq=False)
class Job:
    """The training of one run, with its config, data, run folder and progress.

    Attributes:
        resume: whether the command continues runs; `state` and `checkpoint` determine where this
            run continues.
        replaces: whether the run replaces a run that its folder contains (`--overwrite`).
        state: the newest state of the run. Before training, this is the state from which training
            continues, or None for a new run. After training in this process, this is the final
            state.
        checkpoint: the file that training continues from, or None for a run that starts at the
            beginning.
        previous_environment: content of `environment.json` before training starts or continues;
            empty for a new run.
        summary: content of `summary.json` if the run ended with a finite test loss, otherwise None.
        error: the error of a run that diverged, in this call or before a resume; otherwise None.
        group_id: digest of the configs of this run and of the runs that began together with it.
        skipped_checkpoints: for each unusable checkpoint, a line with the reason.
        changed_plugins: for each plugin that has changed since the run was trained, a line with
            both digests.
        previous_epochs: `training.epochs` of the checkpoint; 0 for a new run.
        is_restarted: whether the run starts over because other runs of its group have no
            checkpoint.
        start: starting point of a run that begins with the weights of another run; None for any
            other run, and after a resume from a checkpoint.
        skip_map: fitted initial map of `model.skip: linear`; None if no map was fitted.
        counted: the number of parameters of the model; None if they are not counted yet.
    """

    config: Config
    folder: RunFolder
    data: Splits
    resume: bool = False
    replaces: bool = False
    state: RunState | None = None
    checkpoint: Path | None = None
    previous_environment: Mapping[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] | None = None
    error: NonFiniteError | None = None
    group_id: str = ""
    skipped_checkpoints: tuple[str, ...] = ()
    changed_plugins: tuple[str, ...] = ()
    previous_epochs: int = 0
    is_restarted: bool = False
    start: StartingPoint | None = None
    skip_map: RidgeMap | None = None
    counted: int | None = None

    @property
    def position(self) -> tuple[int, int]:
        return self.state.position if self.state is not None else (0, 0)

    @property
    def environment_of_state(self) -> Mapping[str, Any]:
        """The entries of `environment.json` that describe how the state was trained.

        `environment.json` describes the last start of the run. Training may have ended before the
        first save after this start, so the entries of the checkpoint replace the entries of the
        file.
        """
        return self.previous_environment if self.state is None else {
            **self.previous_environment, **self.state.environment
        }  # fmt: skip

    @property
    def keeps_files(self) -> bool:
        """Whether the files of an earlier training remain in the folder until the first save. If
        the command ends before this save, the folder is therefore unchanged, except for the log of
        a resumed run."""
        return self.replaces or self.state is not None

    @property
    def start_record(self) -> Mapping[str, Any] | None:
        """The record of the starting point (see `StartingPoint.record`), also after a resume; None
        if the config has no `training.start_from`."""
        if self.config.training.start_from is None:
            return None
        before: Mapping[str, Any] | None = self.previous_environment.get("start_from")
        return before if self.start is None else self.start.record

    @property
    def is_pending(self) -> bool:
        """Whether the run has neither results nor an error."""
        return self.summary is None and self.error is None

    @property
    def ending(self) -> Ending | None:
        """The reason why no epoch is left to train; None if epochs are left."""
        if self.state is None:
            return None
        training = self.config.training
        stopper = build_early_stopper(training, self.state.monitored_values(training.monitor))
        return find_ending(training, self.state.epoch, stopper)

    @property
    def is_trained(self) -> bool:
        """Whether no epoch is left to train."""
        return self.ending is not None

    @property
    def end_position(self) -> tuple[int, int] | None:
        """The position (epoch, step) at which training ended; None if training has not ended."""
        if self.error is not None and self.error.epoch is not None:
            epoch, step = self.error.epoch, self.error.step
            return (epoch, 0) if step is None else (epoch - 1, step)
        return self.position if self.summary or self.error or self.is_trained else None

    @cached_property
    def spec(self) -> DataSpec:
        return DataSpec.of_splits(self.data)

    @property
    def lengths(self) -> Lengths:
        """The lengths of the longest source and the longest target."""
        return Lengths(self.spec.source_length, self.spec.target_length)

    @cached_property
    def parameters(self) -> int:
        """The number of parameters of the model."""
        if self.counted is not None:
            return self.counted
        return count_parameters(self.config.model, FeatureSpec.of(self.spec), self.lengths)

    def new_model(self) -> Seq2SeqModel:
        """Build the model, and draw its initial weights with the seed. The weights of a linear skip
        are initialized to zero."""
        features = FeatureSpec.of(self.spec)
        return build_model(self.config.model, features, self.config.seed, self.lengths)

    def restarted(self) -> Job:
        """Return a copy of the job that starts from the beginning."""
        return replace(self, state=None, checkpoint=None, error=None, is_restarted=True)

    def resumed_from(self, state: RunState) -> Job:
        """Return a copy of the job that continues from a state.

        Args:
            state: the state of this job, or the state of the previous checkpoint.
        """
        path = self.checkpoint if state is self.state else self.folder.previous
        return replace(self, state=state, checkpoint=path, error=None)


def raise_if_stopped(callbacks: Callbacks, jobs: Sequence[Job], hint: str) -> None:
    """Raise an error if a stop is requested and there are jobs to report. The error names the run
    folder of a single job, or the parent folder of several jobs.

    Args:
        hint: end of the sentence "saved to FOLDER ...", such as the epoch and how to continue.

    Raises:
        Interrupted: if a signal requests a stop, and `jobs` is not empty.
    """
    number = callbacks.stop()
    if number and jobs:
        path = jobs[0].folder.path
        raise Interrupted(number, f"saved to {path if len(jobs) == 1 else path.parent}{hint}.")
