"""A run folder to fill, and who watches it being filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqattn.config import Config
from seqattn.data import DataSpec, Splits
from seqattn.errors import NonFiniteError, Stopped
from seqattn.models import FeatureSpec, Lengths, Seq2SeqModel, build_model
from seqattn.runs import EpochRecord, RunFolder
from seqattn.training import (
    TrainState,
    early_stopping,
)


@dataclass(frozen=True)
class Callbacks:
    """Whom a training tells what happens, and whom it asks whether to stop.

    Attributes:
        begin: epochs done already and epochs in all, of all runs, once training starts.
        facts: what the losses of a single run can be read by, before it starts.
        epoch: each finished epoch of each run.
        say: a line for people.
        stop: the number of a signal that asks to stop, or 0.
    """

    begin: Callable[[int, int], None] = lambda done, epochs: None
    epoch: Callable[[EpochRecord], None] = lambda record: None
    say: Callable[[str], None] = lambda line: None
    stop: Callable[[], int] = lambda: 0
    facts: Callable[[Mapping[str, Any]], None] = lambda facts: None


@dataclass
class Job:
    """A run folder to fill: what is known before its training, and what came of it.

    Attributes:
        config, folder: what to train, and where it goes.
        data: its sequences.
        model: initialised.
        state: where to go on, where it ended; None before the start.
        threads: those it was trained with so far.
        summary: the content of summary.json of a run with a finite test loss, at the end.
        error: why it has none: it diverged, now or before.
        group: a digest of the runs that it began with.
        skipped_checkpoints: checkpoints that could not be gone on from, and why.
        started: when its folder was last gone on with; None: it is new.
        resumes_from_previous: whether it goes on from the checkpoint before the last.
        begins_again: whether its checkpoints are of no use to the runs that it began with.
        start: what its log should say of the weights it starts with.
    """

    config: Config
    folder: RunFolder
    data: Splits
    model: Seq2SeqModel | None = None
    state: TrainState | None = None
    threads: int | None = None
    summary: dict[str, Any] | None = None
    error: NonFiniteError | None = None
    skipped_checkpoints: list[str] = field(default_factory=list)
    group: str = ""
    started: str | None = None
    resumes_from_previous: bool = False
    begins_again: bool = False
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
        return self.state.epoch >= training.epochs or early_stopping(training, losses).should_stop

    @property
    def end(self) -> tuple[int, int] | None:
        """The first position at which it trains no more; None while it has not ended."""
        if self.error is not None and self.error.epoch is not None:
            epoch, step = self.error.epoch, self.error.step
            return (epoch, 0) if step is None else (epoch - 1, step)
        return self.position if self.summary or self.error or self.is_trained else None

    @property
    def spec(self) -> DataSpec:
        return DataSpec.of_splits(self.data)

    def new_model(self) -> Seq2SeqModel:
        spec = self.spec
        lengths = Lengths(spec.source_length, spec.target_length)
        return build_model(self.config.model, FeatureSpec.of(spec), self.config.seed, lengths)

    def restart(self) -> None:
        """Train it from its start, whatever came of it."""
        self.model, self.state, self.error, self.begins_again = self.new_model(), None, None, True

    def go_back(self, state: TrainState) -> None:
        """Train it from a state of its past: that of its last checkpoint, or of the one before."""
        self.resumes_from_previous = state is not self.state
        self.state, self.error = state, None


def raise_if_stopped(callbacks: Callbacks, jobs: Sequence[Job], where: str) -> None:
    """
    Args:
        jobs: what is left undone; with none there is nothing to leave.
        where: it stands, and how to go on.

    Raises:
        Stopped: a signal asks to stop.
    """
    number = callbacks.stop()
    if number and jobs:
        place = jobs[0].folder.path if len(jobs) == 1 else jobs[0].folder.path.parent
        raise Stopped(number, f"saved to {place}{'' if where[0] == ';' else ' '}{where}.")
