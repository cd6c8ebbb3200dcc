"""train.log: what happened in a run, a line for each event.

Each line is a record of the logger `seqattn.run`, with the run's folder as `record.run_folder`. It
goes to train.log first, under any configuration of `logging`, because the log belongs to the run.
The handlers of the program then receive it as levels, filters and `logging.disable` allow.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from seqattn.runs.storage import open_to_append

TRAIN_LOG = "train.log"
PACKAGE, LOGGER = logging.getLogger("seqattn"), logging.getLogger("seqattn.run")
if PACKAGE.level == logging.NOTSET:  # else handlers would receive warnings only, the root's level
    PACKAGE.setLevel(logging.INFO)


class TrainLogHandler(logging.Handler):
    """Appends a record to the train.log in `record.run_folder`.

    No file stays open between two lines, so threads, forked processes and many runs share the
    handler.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """
        Raises:
            OSError: the line cannot be written. `logging` would print it and go on.
        """
        folder: Path = vars(record)["run_folder"]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        with open_to_append(folder / TRAIN_LOG) as file:
            file.write(f"{stamp} {record.msg}\n")


HANDLER = TrainLogHandler()


def log_line(folder: Path, text: str, stacklevel: int = 1) -> None:
    """Log each line of a text for the run in a folder.

    Args:
        stacklevel: the caller that records name, as in `logging.Logger.log`.

    Raises:
        OSError: train.log cannot be written.
    """
    file, number, function, _ = LOGGER.findCaller(stacklevel=stacklevel + 1)
    for line in text.splitlines():
        record = LOGGER.makeRecord(
            LOGGER.name, logging.INFO, file, number, line, (), None, function,
            {"run_folder": folder},
        )  # fmt: skip
        HANDLER.handle(record)
        if LOGGER.isEnabledFor(logging.INFO):
            LOGGER.handle(record)
