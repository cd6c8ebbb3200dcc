"""The class that decides whether to compile a recurrent step, according to `training.compile`."""

from __future__ import annotations

from collections.abc import Callable

from seqattn.errors import UsageError
from seqattn.training.batches import Batch
from seqattn.training.objective import COMPILE_SECONDS, AutogradLoss, LossFn


class StepCompiler:
    """A compiler that decides for each group of runs whether to compile the recurrent step.

    Only the steps of `AutogradLoss` can be compiled. In mode "on", the step is compiled before the
    first epoch of a group, and in mode "off", it is never compiled. In mode "auto", it is compiled
    at the end of an epoch if the remaining epochs will probably take longer than a compilation. In
    the epoch after the compilation, torch also compiles for other shapes, such as a smaller last
    batch, so the duration of this epoch is not used. If the second epoch after the compilation
    takes longer than the last eager epoch, the compiler returns to eager steps.

    Args:
        log: function that receives a line whenever the backend of the gradients changes.

    Attributes:
        is_futile: whether a compilation has failed or brought no speed-up. Mode "auto" then
            compiles nothing in later epochs and groups.
        eager_seconds: duration in seconds of the last epoch before the compilation, until the
            speed-up of the compilation is known; None at other times.
        is_warm: whether an epoch has finished since the last compilation.
    """

    def __init__(self, log: Callable[[str], None] = lambda line: None) -> None:
        self.is_futile = False
        self._write, self._logged_backend = log, ""

    def _log(self, addition: str = "") -> None:
        """Log the backend, and store its name, so that a smaller group with the same backend does
        not log it again."""
        self._logged_backend = self.loss_fn.name
        self._write(self.loss_fn.name + addition)

    def start_group(self, mode: str, loss_fn: LossFn, batch: Callable[[], Batch]) -> None:
        """Store the loss of a new group, and compile the recurrent step of its model if the mode is
        "on".

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
        if loss_fn.name != self._logged_backend:
            self._log()

    def after_epoch(self, seconds: float, epochs_left: int, batch: Callable[[], Batch]) -> None:
        """In mode "auto", compile the step if this will probably save time, or return to eager
        steps if compilation saved no time.

        Args:
            seconds: duration of the last epoch.
            epochs_left: largest number of remaining epochs of any run.
            batch: function that returns a batch on which a compiled step is tried.
        """
        loss_fn = self.loss_fn
        if loss_fn.name != self._logged_backend:  # a step could not be captured as a CUDA graph
            self._log()
        if self.mode != "auto" or self.is_futile or not isinstance(loss_fn, AutogradLoss):
            return
        if self.eager_seconds is not None and not self.is_warm:
            self.is_warm = True
        elif self.eager_seconds is not None:
            self.is_futile = seconds > self.eager_seconds
            self.eager_seconds = None
            if self.is_futile:
                loss_fn.disable_compile()
                self._log("; compilation disabled (no speed-up)")
        elif not self.is_compiled and epochs_left * seconds > COMPILE_SECONDS:
            try:
                loss_fn.compile(batch())
            except UsageError as error:
                self.is_futile = True
                self._log(f": {error}")
            else:
                self.is_compiled, self.eager_seconds = True, seconds
                self._log()
