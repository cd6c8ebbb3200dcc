"""The decision on whether to compile a recurrent step, according to `training.compile`."""

from __future__ import annotations

from collections.abc import Callable

from seqattn.errors import UsageError
from seqattn.training.batches import Batch
from seqattn.training.objective import COMPILE_SECONDS, AutogradLoss, LossFn


class StepCompiler:
    """A compiler that decides for each group of runs whether to compile the recurrent step.

    Only the steps of `AutogradLoss` can be compiled. With mode "on" the compiler compiles before
    the first step, and with "off" it never compiles. With "auto" it compiles when the remaining
    epochs will probably take longer than a compilation. Torch compiles again in the next epoch, for
    a smaller last batch and for validation, so that this epoch is not measured. If the epoch after
    it is no faster than the last eager epoch, the compiler returns to eager steps.

    Args:
        log: function that receives a line about the backend of the gradients whenever it changes.

    Attributes:
        is_futile: whether a compilation has failed or brought no speed-up. Mode "auto" then
            compiles nothing in later epochs and groups.
        eager_seconds: duration in seconds of the last epoch before a compilation whose speed-up is
            not known yet; None at other times.
        is_warm: whether an epoch has finished since that compilation.
    """

    def __init__(self, log: Callable[[str], None] = lambda line: None) -> None:
        self.log, self.is_futile = log, False

    def start_group(self, mode: str, loss_fn: LossFn, batch: Callable[[], Batch]) -> None:
        """Take over the loss of a new group, and compile its recurrent step if the mode is "on".

        Args:
            mode: value of `training.compile`.
            loss_fn: the loss of the group, which has eager steps.
            batch: function that returns a batch on which a compiled step is tried.

        Raises:
            UsageError: if the mode is "on" and torch cannot compile on this machine.
        """
        self.mode, self.loss_fn = mode, loss_fn
        self.eager_seconds: float | None = None
        self.is_compiled = self.is_warm = False
        if mode == "on" and isinstance(loss_fn, AutogradLoss):
            loss_fn.compile(batch())
        self.log(loss_fn.name)

    def after_epoch(self, seconds: float, epochs_left: int, batch: Callable[[], Batch]) -> None:
        """In mode "auto", compile the step if this will probably save time, or return to eager
        steps if compilation saved no time.

        Args:
            seconds: duration of the last epoch.
            epochs_left: largest number of remaining epochs of a run.
            batch: function that returns a batch on which a compiled step is tried.
        """
        loss_fn = self.loss_fn
        if self.mode != "auto" or self.is_futile or not isinstance(loss_fn, AutogradLoss):
            return
        if self.eager_seconds is not None and not self.is_warm:
            self.is_warm = True
        elif self.eager_seconds is not None:
            self.is_futile = seconds > self.eager_seconds
            self.eager_seconds = None
            if self.is_futile:
                loss_fn.disable_compile()
                self.log(f"{loss_fn.name}; compilation disabled (no speed-up)")
        elif not self.is_compiled and epochs_left * seconds > COMPILE_SECONDS:
            try:
                loss_fn.compile(batch())
            except UsageError as error:
                self.is_futile = True
                self.log(f"{loss_fn.name}: {error}")
            else:
                self.is_compiled, self.eager_seconds = True, seconds
                self.log(loss_fn.name)
