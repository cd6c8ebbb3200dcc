"""A run folder to fill, and who watches it being filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqattn.config import Config
from seqattn.data import Splits
from seqattn.errors import NotFiniteError, Stopped
from seqattn.models import SequenceModel, build_model
from seqattn.runs import EpochRecord, RunFolder
from seqattn.training import (
    Layout,
    TrainingState,
    early_stopping,
)


@dataclass(frozen=True)
class Watchers:
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
        passed_over: checkpoints that could not be gone on from, and why.
        started: when its folder was last gone on with; None: it is new.
        goes_back: whether it goes on from the checkpoint before the last.
        begins_again: whether its checkpoints are of no use to the runs that it began with.
        start: what its log should say of the weights it starts with.
    """

    config: Config
    folder: RunFolder
    data: Splits
    model: SequenceModel | None = None
    state: TrainingState | None = None
    threads: int | None = None
    summary: dict[str, Any] | None = None
    error: NotFiniteError | None = None
    passed_over: list[str] = field(default_factory=list)
    group: str = ""
    started: str | None = None
    goes_back: bool = False
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
        return self.state.epoch >= training.epochs or early_stopping(training, losses).ran_out

    @property
    def end(self) -> tuple[int, int] | None:
        """The first position at which it trains no more; None while it has not ended."""
        if self.error is not None and self.error.epoch is not None:
            epoch, step = self.error.epoch, self.error.step
            return (epoch, 0) if step is None else (epoch - 1, step)
        return self.position if self.summary or self.error or self.is_trained else None

    @property
    def layout(self) -> Layout:
        data = self.data
        return Layout.of(data.train, data.scaling, data.digests, data.frequency)

    def new_model(self) -> SequenceModel:
        layout = self.layout
        return build_model(self.config.model, layout.points, self.config.seed, layout.lengths)

    def begin_again(self) -> None:
        """Train it from its start, whatever came of it."""
        self.model, self.state, self.error, self.begins_again = self.new_model(), None, None, True

    def go_back(self, state: TrainingState) -> None:
        """Train it from a state of its past: that of its last checkpoint, or of the one before."""
        self.goes_back = state is not self.state
        self.state, self.error = state, None


def leave_if_told(watchers: Watchers, jobs: Sequence[Job], where: str) -> None:
    """
    Args:
        jobs: what is left undone; with none there is nothing to leave.
        where: it stands, and how to go on.

    Raises:
        Stopped: a signal asks to stop.
    """
    number = watchers.stop()
    if number and jobs:
        place = jobs[0].folder.path if len(jobs) == 1 else jobs[0].folder.path.parent
        raise Stopped(number, f"saved to {place}{'' if where[0] == ';' else ' '}{where}.")
