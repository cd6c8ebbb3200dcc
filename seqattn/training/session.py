"""Hooks of a training, for files, clocks, signals and people."""

from __future__ import annotations

from collections.abc import Sequence

from seqattn.training.state import RunProgress


class Session:
    """Hooks of a training; the defaults do nothing.

    A method may raise; the training then ends with that error.
    """

    def log(self, line: str) -> None:
        """Take a line about how gradients are computed."""

    def stop_requested(self) -> bool:
        """Whether to save and return; asked after each step."""
        return False

    def save_due(self) -> bool:
        """Whether to save after this step or epoch; asked before each step and after each epoch."""
        return False

    def save(self, runs: Sequence[RunProgress]) -> None:
        """Keep the `checkpoint` of these runs, all or none."""

    def epoch_end(self, runs: Sequence[RunProgress], to_save: Sequence[RunProgress]) -> None:
        """Take in that an epoch has ended.

        Args:
            runs: that trained in it; the last of `history` is its record, and `ended` says which
                of them train no more.
            to_save: whose `checkpoint` to keep, all or none: those that ended, and where a save is
                due the others too.
        """

    def diverged(self, run: RunProgress) -> None:
        """Keep the `checkpoint` of a run from before its `error`."""
