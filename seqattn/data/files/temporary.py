"""Temporary files that a library can open a second time by path."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

HAS_DESCRIPTOR_PATHS = Path("/dev/fd").is_dir()
"""Whether the system has a path for each open file, as Linux and macOS do."""
CAN_OPEN_TWICE = os.name == "posix"
"""Whether a `NamedTemporaryFile` can be opened a second time. Windows refuses this for a file that
is removed automatically when it is closed."""


def unnamed_file() -> Any:
    """Open a temporary file without a name, so that a killed process leaves no file behind. If the
    system has no paths for open files (see `HAS_DESCRIPTOR_PATHS`), the file has a name. `path_of`
    returns a path in both cases."""
    return tempfile.TemporaryFile() if HAS_DESCRIPTOR_PATHS else named_file()


def named_file(suffix: str = "") -> Any:
    """Open a temporary file with a name. The file is removed when it is closed.

    Args:
        suffix: end of the name.
    """
    if CAN_OPEN_TWICE:
        return tempfile.NamedTemporaryFile(suffix=suffix)
    file: Any = tempfile.NamedTemporaryFile(suffix=suffix, delete=False)  # noqa: SIM115
    close = file.close

    def close_and_remove() -> None:
        close()
        Path(file.name).unlink(missing_ok=True)

    file.close = close_and_remove
    return file


def path_of(file: Any) -> str:
    """Return a path through which a file from `unnamed_file` or `named_file` can be opened."""
    return file.name if isinstance(file.name, str) else f"/dev/fd/{file.fileno()}"
