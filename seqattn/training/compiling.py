"""`training.compile`: when torch compiles a recurrent step."""

from __future__ import annotations

from collections.abc import Callable

from seqattn.errors import UsageError
from seqattn.training.batches import Batch
from seqattn.training.objective import COMPILE_SECONDS, AutogradLoss, LossFn


class StepCompiler:
    """Compiles the steps of autograd; gradients derived by hand are never compiled.

    Args:
        mode: `training.compile`: "on" compiles before the first step; "auto" once the remaining
            epochs would take longer than a compilation, judged by the duration of the last epoch,
            and undoes it if the next epoch is no faster; "off" never.
        log: called with a line about the backend of the gradients, whenever it changes.
    """

    def __init__(self, mode: str, loss_fn: LossFn, log: Callable[[str], None]) -> None:
        self.mode, self.log = mode, log
        self.loss_fn = loss_fn
        self.seconds_before: float | None = None
        self.decided = mode != "auto"

    def before_training(self, batch: Callable[[], Batch]) -> None:
        """Compile where the mode is "on".

        Args:
            batch: returns sequences to try a step with.

        Raises:
            UsageError: the mode is "on", and torch cannot compile here.
        """
        if self.mode == "on" and isinstance(self.loss_fn, AutogradLoss):
            self.loss_fn.compile(batch())
        self.log(self.loss_fn.name)

    def after_epoch(self, seconds: float, epochs_left: int, batch: Callable[[], Batch]) -> None:
        """Compile where it pays, or disable it where the epoch after it was no faster.

        Args:
            seconds: duration of the epoch.
            epochs_left: the most of any run.
            batch: returns sequences to try a step with.
        """
        loss_fn = self.loss_fn
        if self.decided or not isinstance(loss_fn, AutogradLoss):
            return
        if self.seconds_before is not None:
            if seconds > self.seconds_before:
                loss_fn.disable_compile()
                self.log(f"{loss_fn.name}; compilation disabled (no speed-up)")
            self.decided = True
        elif epochs_left * seconds > COMPILE_SECONDS:
            try:
                loss_fn.compile(batch())
            except UsageError as error:
                self.decided = True
                self.log(f"{loss_fn.name}: {error}")
            else:
                self.seconds_before = seconds
                self.log(loss_fn.name)
