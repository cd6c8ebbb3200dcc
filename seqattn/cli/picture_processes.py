"""Functions that draw each picture of a run or a comparison in a separate process.

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
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from seqattn.runs import RunFolder
from seqattn.runs.fork_server import (
    DRAWING_MODULES,
    TRAINING_MODULES,
    end_with_parent,
    start_fork_server,
)
from seqattn.runs.storage import core_count, temporary_path

if TYPE_CHECKING:
    from seqattn.analysis.comparison.result import ComparisonResult

COMPARISON_MODULES = (*TRAINING_MODULES, "seqattn.cli.preload_pictures")
_Source = TypeVar("_Source", RunFolder, "ComparisonResult")


def start_drawing_server() -> Callable[[RunFolder], Generator[Path]] | None:
    """Start the fork server with matplotlib, and return a function like `run_pictures.draw_run`
    that draws each picture in a separate process.

    The function returns None if this process has already imported matplotlib or has only one core,
    if the system has no fork server, or if the main module is not the command line. The pictures
    are then drawn in this process.
    """
    if _should_draw_here() or start_fork_server(DRAWING_MODULES).get_start_method() != "forkserver":
        return None
    return _draw_run


def start_comparison_server() -> Callable[[ComparisonResult], None] | None:
    """Start the fork server with torch for worker processes, and with matplotlib. Return a function
    like `comparison_pictures.draw_comparison` that draws each picture in a separate process.

    If the pictures are drawn in this process, for a reason that `start_drawing_server` lists, the
    server does not import matplotlib, and the function returns None.
    """
    draws_here = _should_draw_here()
    context = start_fork_server(TRAINING_MODULES if draws_here else COMPARISON_MODULES)
    if draws_here or context.get_start_method() != "forkserver":
        return None
    return _draw_comparison


def _should_draw_here() -> bool:
    return "matplotlib" in sys.modules or core_count() == 1 or not _is_command_line()


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
    """Draw each picture of a run in a separate process, and yield the path of the picture."""
    start_fork_server(DRAWING_MODULES)  # again, if it has been killed
    yield from _draw_in_processes(_draw_run_picture, folder, folder.pictures)


def _draw_comparison(result: ComparisonResult) -> None:
    """Draw each picture of a comparison in a separate process."""
    start_fork_server(COMPARISON_MODULES)  # again, if it has been killed
    for _ in _draw_in_processes(_draw_comparison_picture, result, result.pictures):
        pass


def _draw_run_picture(folder: RunFolder, path: Path) -> None:
    from seqattn.plots.run_pictures import draw_picture

    draw_picture(folder, path)


def _draw_comparison_picture(result: ComparisonResult, path: Path) -> None:
    from seqattn.plots.comparison_pictures import draw_comparison_picture

    draw_comparison_picture(result, path)


def _draw_in_processes(
    draw: Callable[[_Source, Path], None], source: _Source, pictures: Sequence[Path]
) -> Generator[Path]:
    """Draw each picture in a separate process, and yield the path of the picture.

    If a drawing process fails, the calling process draws the picture again and raises any error.

    Args:
        draw: function that draws one picture.
        source: the run or the comparison, the first argument of `draw`.
        pictures: the paths of the pictures, the second argument of `draw`.
    """
    context = multiprocessing.get_context("forkserver")
    processes = {
        path: context.Process(target=_draw_and_exit, args=(draw, source, path)) for path in pictures
    }
    try:
        with contextlib.suppress(EOFError, OSError):
            for process in processes.values():
                process.start()
        for path, process in processes.items():
            if process.pid is not None:
                process.join()
            if process.exitcode != 0:
                draw(source, path)
            yield path
    finally:
        for path, process in processes.items():
            if process.pid is not None:
                process.kill()
                process.join()
                temporary_path(path, process.pid).unlink(missing_ok=True)


def _draw_and_exit(draw: Callable[[_Source, Path], None], source: _Source, path: Path) -> None:
    """Draw one picture. This function is the main function of a drawing process."""
    end_with_parent()
    try:
        draw(source, path)
    except BaseException:
        os._exit(1)  # the parent process reports the error
    os._exit(0)
