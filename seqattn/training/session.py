"""The hooks that save, stop and report a training run."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.training.state import RunProgress


class Session:
    """The hooks of a training run. The default methods do nothing.

    If a method raises an exception, training ends with this exception.
    """

    def log(self, line: str) -> None:
        """Log a line about the gradient backend."""

    def stop_requested(self) -> bool:
        """Return whether to save and stop. The loop calls this method after each step."""
        return False

    def save_due(self) -> bool:
        """Return whether a save is due.

        The loop calls this method before each step, for a save after the step, and also after each
        epoch.
        """
        return False

    def save(self, progress: Sequence[RunProgress]) -> None:
        """Save the attribute `state` of each run.

        If saving fails, or the process is killed, some of the runs may be one save ahead of the
        others.
        """

    def epoch_end(self, progress: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        """Report the end of an epoch, and save the runs in `to_save`.

        Args:
            progress: progress of the runs that finished the epoch without diverging. The last
                record of `history` describes the epoch, and `ending` is set for runs that have no
                epoch left.
            to_save: progress of the runs to save: all these runs if a save is due, otherwise only
                the runs that have ended. If saving fails, some runs may be ahead, as after `save`.
        """

    def diverged(self, progress: RunProgress) -> None:
        """Save the attribute `state` of a run that diverged, which is the state before the
        non-finite value."""
