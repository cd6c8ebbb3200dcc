"""Functions that draw each picture of a run in a separate process.

For a small run, the import of matplotlib and the drawing of three pictures take a third of the time
of the command. The fork server therefore imports matplotlib while this process imports torch and
trains. After training, the server starts a process for each picture, and the processes draw at the
same time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path

from seqattn.runs import RunFolder
from seqattn.runs.fork_server import DRAWING_MODULES, end_with_parent, start_fork_server
from seqattn.runs.storage import core_count, temporary_path


def start_drawing_server() -> Callable[[RunFolder], Generator[Path]] | None:
    """Start the fork server with matplotlib, and return a function like `run_pictures.draw_run`
    that draws each picture in a separate process.

    The function returns None if this process has already imported matplotlib or has only one core,
    if the system has no fork server, or if the main module is not the command line. The pictures
    are then drawn in this process.
    """
    if "matplotlib" in sys.modules or core_count() == 1 or not _is_command_line():
        return None
    if start_fork_server(DRAWING_MODULES).get_start_method() != "forkserver":
        return None
    return _draw_run


def _is_command_line() -> bool:
    """Return whether the main module is the command line, or code without a file (`python -c`).

    Each process that draws imports the main module again. Another main module, such as a script
    that calls the command line, might train again.
    """
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    is_package = spec is not None and spec.name == "seqattn.__main__"
    return is_package or file is None or Path(file).name == "seqattn"


def _draw_run(folder: RunFolder) -> Generator[Path]:
    """Draw each picture of a run in a separate process, and yield the path of the picture.

    If a drawing process fails, the calling process draws the picture again and raises any error.
    """
    start_fork_server(DRAWING_MODULES)  # again, if it has been killed
    context = multiprocessing.get_context("forkserver")
    pictures = folder.pictures
    processes = {
        path: context.Process(target=_draw_picture, args=(folder, path)) for path in pictures
    }
    try:
        with contextlib.suppress(EOFError, OSError):
            for process in processes.values():
                process.start()
        for path, process in processes.items():
            if process.pid is not None:
                process.join()
            if process.exitcode != 0:
                from seqattn.plots.run_pictures import draw_picture

                draw_picture(folder, path)
            yield path
    finally:
        for path, process in processes.items():
            if process.pid is not None:
                process.kill()
                process.join()
                temporary_path(path, process.pid).unlink(missing_ok=True)


def _draw_picture(folder: RunFolder, path: Path) -> None:
    """Draw one picture. This function is the main function of a drawing process."""
    end_with_parent()
    try:
        from seqattn.plots.run_pictures import draw_picture

        draw_picture(folder, path)
    except BaseException:
        os._exit(1)  # the parent process reports the error
    os._exit(0)
