"""Entry point of `seqattn` and `python -m seqattn`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Run the command line.

    A signal during the imports ends the process with the same exit code as later, without a
    traceback.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit_on_signal)
    _open_closed_streams()
    from seqattn.cli import main as run

    run()


def _open_closed_streams() -> None:
    """Open closed standard streams on the null device; else the next opened files would get their
    descriptors and receive what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _exit_on_signal(number: int, frame: Any) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
