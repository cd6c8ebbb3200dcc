"""Errors that a user can correct, with their exit codes, and the format of counts in messages.

The command line prints the message of such an error without a traceback and exits with the error's
code. Each message states where the error is, what was found, and what to do. A bug raises another
exception and keeps its traceback.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence


class SeqattnError(Exception):
    """Base class of errors that a user can correct.

    Attributes:
        exit_code: exit code of the process.
    """

    exit_code = 1


class UsageError(SeqattnError):
    """Invalid arguments of a command (exit 2)."""

    exit_code = 2


class ConfigError(SeqattnError):
    """All mistakes in a config file and its overrides (exit 2).

    Attributes:
        mistakes: one line per mistake, with file, line, key and remedy.
    """

    exit_code = 2

    def __init__(self, headline: str, mistakes: Sequence[str] = ()) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join([headline, *(f"  {mistake}" for mistake in mistakes)]))


class DataError(SeqattnError):
    """Data that cannot be read or used (exit 3)."""

    exit_code = 3


class NoRows(DataError):  # noqa: N818  (names what is wrong)
    """A table that has a header but no rows (exit 3)."""


class AmbiguousData(DataError):  # noqa: N818  (names what is wrong)
    """A file that can be read in several ways with different results (exit 3).

    Attributes:
        choices: one mapping per way of reading the file, with the keys of the `data` section that
            select this way.
    """

    def __init__(self, message: str, choices: tuple[Mapping[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.choices = choices


class CheckpointError(SeqattnError):
    """A checkpoint or a run folder that cannot be read (exit 4)."""

    exit_code = 4


class StorageError(SeqattnError):
    """A failed read or write of a file, disk or pipe (exit 5)."""

    exit_code = 5


class DistributedError(SeqattnError):
    """A failure to reach a process or machine during distributed training (exit 5)."""

    exit_code = 5


class FolderLockedError(SeqattnError):
    """A folder that another process has locked for writing (exit 6)."""

    exit_code = 6


class NonFiniteError(SeqattnError):
    """A loss, gradient or update that is NaN or infinite (exit 7). A non-finite update is never
    applied.

    Attributes:
        epoch: epoch in which the value was found, counted from 1; None if it was found after
            training.
        step: step of the epoch, counted from 1; None if the value was found during the validation
            after the epoch.
    """

    exit_code = 7

    def __init__(self, message: str, epoch: int | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.epoch, self.step = epoch, step


class Interrupted(SeqattnError):  # noqa: N818  (a signal is not an error)
    """The interruption of a command by SIGINT or SIGTERM (exit 130 or 143)."""

    def __init__(self, number: int, message: str = "interrupted") -> None:
        self.exit_code = 128 + number
        super().__init__(f"{signal.Signals(number).name}: {message}")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a number together with a noun, such as `1 seed`, `0 seeds` or `1,200 seeds`.

    Args:
        number: the number.
        noun: the noun in the singular.
        plural: the noun in the plural; the default appends an s to `noun`.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
