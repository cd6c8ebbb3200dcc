"""A run folder to fill, and who watches it being filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from seqattn.config import Config
from seqattn.data import DataSpec, Splits
from seqattn.data.ridge import RidgeMap
from seqattn.errors import NonFiniteError, Stopped
from seqattn.models import FeatureSpec, Lengths, Seq2SeqModel, build_model, count_parameters
from seqattn.runs import EpochRecord, RunFolder
from seqattn.training import ProcessGroup, RunState, early_stopping
from seqattn.training.schedules import ending


@dataclass(frozen=True)
class Callbacks:
    """Callbacks of a training.

    Attributes:
        begin: takes epochs done already and epochs in all, of all runs, once training starts.
        epoch: takes each finished epoch of each run.
        say: takes a line for people.
        stop: returns the number of a signal that asks to stop, or 0.
        facts: takes seed and noise floor of a single run, before it starts.
    """

    begin: Callable[[int, int], None] = lambda done, epochs: None
    epoch: Callable[[EpochRecord], None] = lambda record: None
    say: Callable[[str], None] = lambda line: None
    stop: Callable[[], int] = lambda: 0
    facts: Callable[[Mapping[str, Any]], None] = lambda facts: None


@dataclass(frozen=True)
class Launch:
    """What started the runs.

    Attributes:
        config_path: where the configs came from, for their git revision.
        provenance: for environment.json: the command, and where values of the config are from.
        processes: that share the training of one config; this is the first of them.
        before_writing: called once everything is found usable.
    """

    config_path: Path | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    processes: ProcessGroup | None = None
    before_writing: Callable[[], None] = lambda: None


@dataclass(frozen=True, eq=False)
class Job:
    """A run folder to fill: where its training stands, or what came of it.

    Attributes:
        config, folder: what to train, and where it goes.
        data: its sequences.
        resume: whether it is to go on from what its folder holds.
        state: where to go on, or where it ended; None before the start.
        threads: those it was trained with so far.
        summary: the content of summary.json of a run with a finite test loss, at the end.
        error: why there is no summary: it diverged, now or before.
        group: a digest of the runs that it began with.
        skipped_checkpoints: checkpoints that could not be gone on from, and why.
        interrupted: whether its training went on from a checkpoint.
        started: when the last training in its folder started; None: it is new.
        resumes_from_previous: whether it goes on from the checkpoint before the last.
        begins_again: whether it starts over, because some of its group have no checkpoint.
        skip_map: where `model.skip: linear` starts; None: it is learned from zero, or is in the
            state.
        start: what its log should say of the weights it starts with.
    """

    config: Config
    folder: RunFolder
    data: Splits
    resume: bool = False
    state: RunState | None = None
    threads: int | None = None
    summary: dict[str, Any] | None = None
    error: NonFiniteError | None = None
    group: str = ""
    skipped_checkpoints: tuple[str, ...] = ()
    interrupted: bool = False
    started: str | None = None
    resumes_from_previous: bool = False
    begins_again: bool = False
    skip_map: RidgeMap | None = None
    start: str = ""

    @property
    def position(self) -> tuple[int, int]:
        return self.state.position if self.state is not None else (0, 0)

    @property
    def is_to_do(self) -> bool:
        """Whether it has neither results nor a reason for none."""
        return self.summary is None and self.error is None

    @property
    def is_trained(self) -> bool:
        """Whether no epoch is left."""
        if self.state is None:
            return False
        training = self.config.training
        losses = [record.validation_loss for record in self.state.history]
        return ending(training, self.state.epoch, early_stopping(training, losses)) is not None

    @property
    def end(self) -> tuple[int, int] | None:
        """The first position at which it trains no more; None while it has not ended."""
        if self.error is not None and self.error.epoch is not None:
            epoch, step = self.error.epoch, self.error.step
            return (epoch, 0) if step is None else (epoch - 1, step)
        return self.position if self.summary or self.error or self.is_trained else None

    @cached_property
    def spec(self) -> DataSpec:
        return DataSpec.of_splits(self.data)

    @property
    def lengths(self) -> Lengths:
        """Of the longest source and the longest target."""
        return Lengths(self.spec.source_length, self.spec.target_length)

    @cached_property
    def parameters(self) -> int:
        """How many numbers its model learns."""
        return count_parameters(self.config.model, FeatureSpec.of(self.spec), self.lengths)

    def new_model(self) -> Seq2SeqModel:
        """Initialised by the seed; a linear skip starts at zero."""
        points = FeatureSpec.of(self.spec)
        return build_model(self.config.model, points, self.config.seed, self.lengths)

    def restarted(self) -> Job:
        """A copy that starts over."""
        return replace(self, state=None, error=None, begins_again=True)

    def resumed_from(self, state: RunState) -> Job:
        """A copy that resumes from a state: of its last checkpoint, or of the one before."""
        from_previous = state is not self.state
        return replace(self, state=state, error=None, resumes_from_previous=from_previous)


def raise_if_stopped(callbacks: Callbacks, jobs: Sequence[Job], where: str) -> None:
    """Raise where a signal asks to stop.

    Args:
        jobs: unfinished jobs; nothing is raised where there are none.
        where: how far they are, and how to continue.

    Raises:
        Stopped: a signal asks to stop.
    """
    number = callbacks.stop()
    if number and jobs:
        place = jobs[0].folder.path if len(jobs) == 1 else jobs[0].folder.path.parent
        raise Stopped(number, f"saved to {place}{'' if where[0] == ';' else ' '}{where}.")
