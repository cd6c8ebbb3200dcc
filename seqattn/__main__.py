"""The door: `seqattn` and `python -m seqattn`."""

from __future__ import annotations

import os
import signal
from typing import Any


def main() -> None:
    """Run the command line. A signal that comes while it is still being imported ends it at once,
    with the exit code it has later, and without a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from seqattn.cli import main as run

    run()


def _leave(number: int, frame: Any) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
