"""Errors that a user can correct, with their exit codes, and functions for parts of messages.

The command line prints the message of such an error without a traceback and exits with the error's
code. Each message must state where the error is, what was found, and what to do. Any other
exception, except an OSError, is a bug, and Python prints its traceback.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path


class SeqattnError(Exception):
    """The base class of errors that a user can correct.

    Attributes:
        exit_code: the exit code of the process.
    """

    exit_code = 1


class UsageError(SeqattnError):
    """An error in the arguments of a command (exit code 2)."""

    exit_code = 2


class ConfigError(SeqattnError):
    """An error that lists all mistakes in a config file and its overrides (exit code 2).

    Attributes:
        mistakes: one line of text per mistake, with file, line, key and remedy.
    """

    exit_code = 2

    def __init__(self, headline: str, mistakes: Sequence[str] = ()) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join([headline, *(f"  {mistake}" for mistake in mistakes)]))


class PluginError(SeqattnError):
    """The error for a plugin that is missing or cannot be used (exit code 2)."""

    exit_code = 2


class DataError(SeqattnError):
    """An error in data that cannot be read or used (exit code 3)."""

    exit_code = 3


class NoRows(DataError):  # noqa: N818  (the name describes the mistake)
    """The error for a table that has a header but no rows (exit code 3)."""


class AmbiguousData(DataError):  # noqa: N818  (the name describes the mistake)
    """The error for a file that can be read in several ways with different results (exit code 3).

    Attributes:
        choices: one mapping per way of reading the file, with the keys of the `data` section that
            select this way.
    """

    def __init__(self, message: str, choices: tuple[Mapping[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.choices = choices


class CheckpointError(SeqattnError):
    """The error for a checkpoint or a run folder that cannot be read or used (exit code 4)."""

    exit_code = 4


class StorageError(SeqattnError):
    """The error for a failed read or write of a file, disk or pipe (exit code 5)."""

    exit_code = 5


class DistributedError(SeqattnError):
    """The error for a failure of distributed training, such as a process or a machine that cannot
    be reached (exit code 5)."""

    exit_code = 5


class FolderLockedError(SeqattnError):
    """The error for a folder that another process has locked for writing (exit code 6)."""

    exit_code = 6


class NonFiniteError(SeqattnError):
    """The error for a loss, gradient or update that is NaN or infinite (exit code 7). A non-finite
    update is never applied.

    Attributes:
        epoch: the epoch in which the value was found, counted from 1; None if the value was found
            after training, or if the error summarizes the runs of several seeds.
        step: the step of the epoch, counted from 1; None if `epoch` is None, or if the value was
            found during the validation after the epoch.
    """

    exit_code = 7

    def __init__(self, message: str, epoch: int | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.epoch, self.step = epoch, step


class ContractError(SeqattnError):
    """The error for a plugin's mechanism, such as a score or a cell, that fails a check of `seqattn
    check-plugin` (exit code 8)."""

    exit_code = 8


class Interrupted(SeqattnError):  # noqa: N818  (a signal is not an error)
    """The interruption of a command by SIGINT (exit code 130) or SIGTERM (exit code 143)."""

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


def unequal_numbers(first: float, second: float) -> tuple[str, str]:
    """Format two different numbers with the fewest decimals, at least one, in which they differ."""
    decimals = 1
    while (texts := (f"{first:.{decimals}f}", f"{second:.{decimals}f}"))[0] == texts[1]:
        decimals += 1
    return texts


def install_command(extra: str) -> str:
    """Return the command that installs an extra of seqattn.

    The command uses the local folder or wheel from which seqattn was installed. If there is no
    such folder or wheel, the command uses the package index.

    Args:
        extra: the name of an extra in pyproject.toml, such as "report".
    """
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    source, options = "seqattn", ""
    try:
        origin = metadata.distribution("seqattn").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # the package was copied and not installed
        origin = None
    if origin is not None:  # seqattn was not installed from an index
        content = json.loads(origin)
        url = urlsplit(content["url"])
        path = Path(url2pathname(url.path))
        if url.scheme == "file" and path.exists():
            source = str(path)
            options = "--editable " if content.get("dir_info", {}).get("editable") else ""
    return f'pip install {options}"{source}[{extra}]"'
