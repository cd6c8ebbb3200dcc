"""The door: `seqattn` and `python -m seqattn`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Run the command line. A signal that comes while it is still being imported ends it at once,
    with the exit code it has later, and without a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    _open_closed_streams()
    from seqattn.cli import main as run

    run()


def _open_closed_streams() -> None:
    """Without this the first files to be opened would be taken for standard output and error."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _leave(number: int, frame: Any) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
