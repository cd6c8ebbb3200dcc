"""When a recurrent step is compiled by torch: `training.compile`."""

from __future__ import annotations

from collections.abc import Callable

from seqattn.errors import UsageError
from seqattn.training.batches import Batch
from seqattn.training.objective import COMPILE_SECONDS, AutogradLoss, LossFn


class StepCompiler:
    """Compiles the steps of autograd; gradients derived by hand are never compiled.

    Args:
        mode: `training.compile`: "on" compiles before the first step; "auto" once the epochs left
            would take longer than a compile by the time of the last, and takes it back where the
            next epoch is no faster; "off" never.
        log: takes a line about who works out the gradients, whenever that changes.
    """

    def __init__(self, mode: str, objective: LossFn, log: Callable[[str], None]) -> None:
        self.mode, self.log = mode, log
        self.objective = objective
        self.seconds_before: float | None = None
        self.decided = mode != "auto"

    def before_training(self, batch: Callable[[], Batch]) -> None:
        """
        Args:
            batch: gives some sequences to try a step with; asked only to compile.

        Raises:
            UsageError: the mode is "on", and torch cannot compile here.
        """
        if self.mode == "on" and isinstance(self.objective, AutogradLoss):
            self.objective.compile(batch())
        self.log(self.objective.name)

    def after_epoch(self, seconds: float, epochs_left: int, batch: Callable[[], Batch]) -> None:
        """
        Args:
            seconds: that the epoch took.
            epochs_left: of the run that has most.
            batch: gives some sequences to try a step with; asked only to compile.
        """
        objective = self.objective
        if self.decided or not isinstance(objective, AutogradLoss):
            return
        if self.seconds_before is not None:
            if seconds > self.seconds_before:
                objective.disable_compile()
                self.log(f"{objective.name}; compilation disabled (no speed-up)")
            self.decided = True
        elif epochs_left * seconds > COMPILE_SECONDS:
            try:
                objective.compile(batch())
            except UsageError as error:
                self.decided = True
                self.log(f"{objective.name}: {error}")
            else:
                self.seconds_before = seconds
                self.log(objective.name)
