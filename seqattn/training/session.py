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
        """Save the attribute `checkpoint` of all these runs. If saving fails, save none of the
        runs."""

    def epoch_end(self, runs: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        """Report the end of an epoch, and save the runs in `to_save`.

        Args:
            runs: the runs that were trained in the epoch. The last record of `history` belongs to
                this epoch, and `ended` is set for runs that have no epoch left.
            to_save: the runs to save: the runs that ended, or all runs if a save is due. If saving
                fails, none of these runs is saved.
        """

    def diverged(self, run: RunProgress) -> None:
        """Save the attribute `checkpoint` of a run that diverged, which is the state before the
        non-finite value."""
