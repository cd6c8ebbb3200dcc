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
        summary: the content of summary.json, at the end.
        error: why there is none.
        passed_over: checkpoints that could not be gone on from, and why.
        started: when its folder was last gone on with; None: it is new.
        goes_back: whether it goes on from the checkpoint before the last.
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
    started: str | None = None
    goes_back: bool = False

    @property
    def position(self) -> tuple[int, int]:
        return (self.state.epoch, self.state.step) if self.state is not None else (0, 0)

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
    def layout(self) -> Layout:
        data = self.data
        return Layout.of(data.train, data.scaling, data.digests, data.frequency)

    def new_model(self) -> SequenceModel:
        points = self.layout.points
        return build_model(self.config.model, points, self.config.seed)

    def begin_again(self) -> None:
        self.model, self.state = self.new_model(), None

    def go_back(self, state: TrainingState) -> None:
        """To the checkpoint before the last."""
        self.state, self.goes_back = state, True


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
