"""Hooks of a training: saving, stopping and reporting."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.training.state import RunProgress


class Session:
    """Hooks of a training; the defaults do nothing.

    A method may raise; the training then ends with that error.
    """

    def log(self, line: str) -> None:
        """Log a line about the backend of the gradients."""

    def stop_requested(self) -> bool:
        """Whether to save and return; called after each step."""
        return False

    def save_due(self) -> bool:
        """Whether to save after this step or epoch; called before a step and after an epoch."""
        return False

    def save(self, runs: Sequence[RunProgress]) -> None:
        """Save the `checkpoint` of these runs, all or none."""

    def epoch_end(self, runs: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        """Report the end of an epoch, and save.

        Args:
            runs: the runs that trained in it; the last of `history` is its record, and `ended` is
                set for those that train no more.
            to_save: the runs whose `checkpoint` to save, all or none: those that ended, and where a
                save is due the others too.
        """

    def diverged(self, run: RunProgress) -> None:
        """Save the `checkpoint` of a run from before its `error`."""
