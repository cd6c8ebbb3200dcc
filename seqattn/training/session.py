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
        """Return whether to save after a step or epoch.

        The loop calls this method before each step and after each epoch.
        """
        return False

    def save(self, runs: Sequence[RunProgress]) -> None:
        """Save the `checkpoint` of all these runs.

        If saving fails, or the process is killed, some of the runs may be one save ahead of the
        others.
        """

    def epoch_end(self, runs: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        """Report the end of an epoch, and save the runs in `to_save`.

        Args:
            runs: the runs that trained in the epoch. The last record of `history` is that of the
                epoch, and `ended` is set for runs that have no epoch left.
            to_save: the runs to save. They are the runs that ended, or all runs if a save is due.
                If saving fails, the statement of `save` applies.
        """

    def diverged(self, run: RunProgress) -> None:
        """Save the attribute `checkpoint` of a run that diverged, which is the state before the
        non-finite value."""
