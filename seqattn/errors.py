"""Errors that a user can correct, and the wording of counts in messages.

Every error here ends the program with its exit code and its message, never with a
traceback. A message says where, what was found, and what to do. A bug raises something
else and keeps its traceback.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence


class SeqattnError(Exception):
    """A mistake outside the program. `exit_code` is what the process ends with."""

    exit_code = 1


class UsageError(SeqattnError):
    """A command that cannot be carried out as it was given (exit 2)."""

    exit_code = 2


class ConfigError(SeqattnError):
    """All mistakes of a config file and its overrides at once (exit 2).

    Attributes:
        mistakes: one line each, already carrying file, line, path and remedy.
    """

    exit_code = 2

    def __init__(self, headline: str, mistakes: Sequence[str] = ()) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join([headline, *(f"  {mistake}" for mistake in mistakes)]))


class DataError(SeqattnError):
    """Sequences that cannot be used (exit 3)."""

    exit_code = 3


class NoRows(DataError):  # noqa: N818  it says what is wrong
    """A table with a header and nothing below it."""


class AmbiguousData(DataError):  # noqa: N818  it is a question
    """A file that can be read in two ways, which differ (exit 3).

    Attributes:
        choices: what settles it: keys of the data section and their values, one mapping a way.
    """

    def __init__(self, message: str, choices: tuple[Mapping[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.choices = choices


class CheckpointError(SeqattnError):
    """A checkpoint or run folder that cannot be read back (exit 4)."""

    exit_code = 4


class StorageError(SeqattnError):
    """The disk or a pipe refused (exit 5)."""

    exit_code = 5


class DistributedError(SeqattnError):
    """Other processes of one training, or another machine, cannot be reached (exit 5)."""

    exit_code = 5


class FolderLockedError(SeqattnError):
    """Another process writes to the same folder (exit 6)."""

    exit_code = 6


class NonFiniteError(SeqattnError):
    """A loss, gradient or update that is NaN or infinite (exit 7). No step is made with it.

    Attributes:
        epoch: of the training, from 1, in which it was found; None: after the training.
        step: of the epoch, from 1; None: at the validation after the epoch.
    """

    exit_code = 7

    def __init__(self, message: str, epoch: int | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.epoch, self.step = epoch, step


class Stopped(SeqattnError):  # noqa: N818  (being told to stop is no error)
    """SIGINT or SIGTERM (exit 130 or 143)."""

    def __init__(self, number: int, message: str = "stopped") -> None:
        self.exit_code = 128 + number
        super().__init__(f"{signal.Signals(number).name}: {message}")


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 seed`, `0 seeds`, `1,200 seeds`.

    Args:
        noun: for one.
        plural: for all other numbers; with an s without.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
