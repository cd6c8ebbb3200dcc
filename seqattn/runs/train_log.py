"""The log of a run, `train.log`, with one line for each event.

Each line comes from a record of the logger `seqattn.run`. The attribute `run_folder` of the record
is the run folder. The record is always written to `train.log`, regardless of the configuration of
`logging`. The other handlers then receive the record, subject to levels, filters and
`logging.disable`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from seqattn.runs.storage import open_to_append

TRAIN_LOG = "train.log"
PACKAGE, LOGGER = logging.getLogger("seqattn"), logging.getLogger("seqattn.run")
if PACKAGE.level == logging.NOTSET:  # the level of the root logger would hide INFO
    PACKAGE.setLevel(logging.INFO)


class TrainLogHandler(logging.Handler):
    """A handler that appends a record to the `train.log` in the folder `record.run_folder`.

    The file is closed after each line, so threads, forked processes and many runs can share the
    handler.

    Attributes:
        held: the lines of each folder in a `hold_lines` block.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[Path, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record.

        Raises:
            OSError: if the line cannot be written. Other handlers of `logging` print such an error
                and continue.
        """
        folder: Path = vars(record)["run_folder"]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        line = f"{stamp} {record.msg}\n"
        if folder in self.held:
            self.held[folder].append(line)
            return
        with open_to_append(folder / TRAIN_LOG) as file:
            file.write(line)


HANDLER = TrainLogHandler()


def log_line(folder: Path, text: str, stacklevel: int = 1) -> None:
    """Write each line of a text to the `train.log` of a run.

    Args:
        folder: the run folder.
        text: one or more lines.
        stacklevel: the number of stack frames up to the caller that the records name, as in
            `logging.Logger.log`.

    Raises:
        OSError: if `train.log` cannot be written.
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


@contextlib.contextmanager
def hold_lines(folders: Sequence[Path]) -> Iterator[None]:
    """Keep the lines for the logs of these folders in memory during the `with` block. A new run
    uses this while its folder still contains the run that it will replace.

    `HANDLER.held.pop(FOLDER)` ends this for one folder and returns its lines. At the end of the
    block, the lines of the other folders are discarded.
    """
    HANDLER.held.update((folder, []) for folder in folders)
    try:
        yield
    finally:
        for folder in folders:
            HANDLER.held.pop(folder, None)
