"""A training whose environment is made of functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seqattn.runs import EpochRecord
from seqattn.training import RunProgress, RunState, Session, TrainingRun, train_models


class Recorder(Session):
    """Hands what a training asks and reports to functions.

    Args:
        interval: seconds between saves.
        stop: asked after each step.
        save: gets each state that is to be kept, of any run.
        log: gets the lines about how the training works.
        on_epoch: gets the record of each finished epoch, of any run.
    """

    def __init__(
        self,
        interval: float,
        *,
        stop: Callable[[], bool] = lambda: False,
        save: Callable[[RunState], None] = lambda state: None,
        log: Callable[[str], None] = lambda line: None,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    ) -> None:
        self.interval, self.saved_at = interval, time.monotonic()
        self.on_stop, self.on_save, self.on_log, self.on_epoch = stop, save, log, on_epoch

    def log(self, line: str) -> None:
        self.on_log(line)

    def stop_requested(self) -> bool:
        return self.on_stop()

    def save_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.interval

    def save(self, runs: Sequence[RunProgress]) -> None:
        self.keep(runs)
        self.saved_at = time.monotonic()

    def keep(self, runs: Sequence[RunProgress]) -> None:
        for run in runs:
            assert run.state is not None
            self.on_save(run.state)

    def epoch_end(self, runs: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        for run in runs:
            self.on_epoch(run.history[-1])
        self.keep(to_save)
        if len(to_save) == len(runs):
            self.saved_at = time.monotonic()

    def diverged(self, run: RunProgress) -> None:
        self.keep([run])


def trained(
    runs: Sequence[TrainingRun],
    *,
    states: Mapping[TrainingRun, RunState] | None = None,
    manual_backward: bool = True,
    **functions: Any,
) -> list[RunProgress]:
    """Train runs side by side.

    Args:
        states: where to go on.
        functions: of the `Recorder`.
    """
    session = Recorder(runs[0].config.checkpoint_seconds, **functions)
    return train_models(runs, session, states=states, manual_backward=manual_backward)
