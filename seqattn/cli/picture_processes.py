"""Functions that draw each picture of a run in a separate process.

The import of matplotlib and the drawing of three pictures take half as long as the training of a
small run. The fork server therefore imports matplotlib while this process imports torch and trains.
After training, the server starts a process for each picture, and the processes draw at the same
time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from seqattn.runs import RunFolder
from seqattn.runs.fork_server import (
    DRAWING_MODULES,
    blocked_stop_signals,
    end_with_parent,
    start_fork_server,
)
from seqattn.runs.storage import core_count


def start_drawing_server() -> Callable[[RunFolder], Iterator[Path]] | None:
    """Start the fork server with matplotlib, and return a function like `run_pictures.draw_run`
    that draws each picture in a separate process.

    The function returns None if this process has already imported matplotlib or has only one core,
    or if the system has no fork server. The pictures are then drawn in this process.
    """
    if "matplotlib" in sys.modules or core_count() == 1:
        return None
    if start_fork_server(DRAWING_MODULES).get_start_method() != "forkserver":
        return None
    return _draw_run


def _draw_run(folder: RunFolder) -> Iterator[Path]:
    """Draw each picture of a run in a separate process, and yield the path of the picture.

    If a drawing process fails, the calling process draws the picture again and raises any error.
    """
    context = multiprocessing.get_context("forkserver")
    pictures = folder.pictures
    processes = [context.Process(target=_draw_picture, args=(folder, path)) for path in pictures]
    try:
        with blocked_stop_signals(), contextlib.suppress(EOFError, OSError):
            for process in processes:
                process.start()
        for path, process in zip(pictures, processes, strict=True):
            if process.pid is not None:
                process.join()
            if process.exitcode != 0:
                from seqattn.plots.run_pictures import draw_picture

                draw_picture(folder, path)
            yield path
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()


def _draw_picture(folder: RunFolder, path: Path) -> None:
    """Draw one picture. This function is the main function of a drawing process."""
    end_with_parent()
    try:
        from seqattn.plots.run_pictures import draw_picture

        draw_picture(folder, path)
    except BaseException:
        os._exit(1)  # the parent process reports the error
    os._exit(0)
