"""`training.compile`: the decision to compile a recurrent step."""

from __future__ import annotations

from collections.abc import Callable

from seqattn.errors import UsageError
from seqattn.training.batches import Batch
from seqattn.training.objective import COMPILE_SECONDS, AutogradLoss, LossFn


class StepCompiler:
    """Decides for the groups of a training, one after the other, whether to compile a step.

    Only the steps of `AutogradLoss` are compiled. Manually derived gradients never are.

    Args:
        mode: `training.compile`. "on" compiles before the first step. "auto" compiles once the
            remaining epochs would take longer than a compilation, judged by the last epoch, and
            returns to eager steps if the next epoch is no faster. "off" never compiles.
        log: function that receives a line about the backend of the gradients whenever it changes.

    Attributes:
        may_compile: whether "auto" may still compile. It is False after a compilation that failed
            or that brought no speed-up, also for later groups.
        eager_seconds: duration in seconds of the last epoch before a compilation whose speed-up is
            not known yet; None at other times.
    """

    def __init__(self, mode: str, log: Callable[[str], None] = lambda line: None) -> None:
        self.mode, self.log = mode, log
        self.may_compile = mode == "auto"

    def start_group(self, loss_fn: LossFn, batch: Callable[[], Batch]) -> None:
        """Begin with the loss of a group, and compile its step if the mode is "on".

        Args:
            loss_fn: the loss of the group, which has eager steps.
            batch: function that returns a batch to try a step with.

        Raises:
            UsageError: if the mode is "on" and torch cannot compile on this machine.
        """
        self.loss_fn = loss_fn
        self.eager_seconds: float | None = None
        self.is_compiled = False
        if self.mode == "on" and isinstance(loss_fn, AutogradLoss):
            loss_fn.compile(batch())
        self.log(loss_fn.name)

    def after_epoch(self, seconds: float, epochs_left: int, batch: Callable[[], Batch]) -> None:
        """Compile if that saves time, or return to eager steps if it has not saved time.

        Args:
            seconds: duration of the last epoch.
            epochs_left: largest number of remaining epochs of a run.
            batch: function that returns a batch to try a step with.
        """
        loss_fn = self.loss_fn
        if not self.may_compile or not isinstance(loss_fn, AutogradLoss):
            return
        if self.eager_seconds is not None:
            self.may_compile = seconds <= self.eager_seconds
            self.eager_seconds = None
            if not self.may_compile:
                loss_fn.disable_compile()
                self.log(f"{loss_fn.name}; compilation disabled (no speed-up)")
        elif not self.is_compiled and epochs_left * seconds > COMPILE_SECONDS:
            try:
                loss_fn.compile(batch())
            except UsageError as error:
                self.may_compile = False
                self.log(f"{loss_fn.name}: {error}")
            else:
                self.is_compiled, self.eager_seconds = True, seconds
                self.log(loss_fn.name)
