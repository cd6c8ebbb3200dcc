"""Mistakes put into the product on purpose, to see that the faults find them.

    SEQATTN_PLANTED=in_place python -m tests.faults.planted train c.yaml

Used by tests only: each fault's oracle must fail on a product with such a mistake.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLE = "SEQATTN_PLANTED"


def plant(name: str | None) -> None:
    """Put in a mistake, if one is named."""
    if name:
        globals()[f"_{name}"]()


def _everywhere(name: str, what: Any) -> None:
    """Replace a function in every module that has imported it."""
    import sys

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("seqattn") and hasattr(module, name):
            setattr(module, name, what)


def _import_all() -> None:
    import seqattn.cli
    import seqattn.experiments.compare
    import seqattn.plots.run_pictures
    import seqattn.training  # noqa: F401


def _in_place() -> None:
    """Files are written where they are, in two halves, with time between those of the best weights:
    of which there is one file, so a half of it is the loss of all."""
    _import_all()

    def write(path: Path, content: bytes, **_: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            time.sleep(0.15 if path.name == "best.safetensors" else 0)
            file.write(content[len(content) // 2 :])

    _everywhere("atomic_write", write)


def _clears() -> None:
    """The earlier run is removed before the training."""
    _import_all()
    from seqattn.experiments.run_folders import prepare_folders as real

    def prepare(jobs: Any, environment: Any) -> None:
        for job in jobs:
            job.folder.clear()
        real(jobs, environment)

    _everywhere("prepare_folders", prepare)


def _no_lock() -> None:
    _import_all()

    @contextlib.contextmanager
    def nobody(folder: Path, *_: Any, **__: Any) -> Iterator[None]:
        yield

    import seqattn.experiments.train_runs
    import seqattn.runs

    _everywhere("exclusive_lock", nobody)
    _everywhere("folder_lock", nobody)
    seqattn.runs.RunFolder.is_available = property(lambda self: True)  # type: ignore[assignment]
    seqattn.experiments.train_runs.check_folder_available = lambda *_, **__: None  # type: ignore[assignment]


def _silent() -> None:
    """A save that fails says nothing."""
    _import_all()
    from seqattn.runs.storage import atomic_write as real

    def write(*args: Any, **options: Any) -> None:
        with contextlib.suppress(OSError):
            real(*args, **options)

    _everywhere("atomic_write", write)


def _deaf() -> None:
    """Signals are not heeded."""
    import signal

    _import_all()

    @contextlib.contextmanager
    def ignore_signals() -> Iterator[Any]:
        from seqattn.cli.stop_signals import StopRequest

        before = [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)]
        yield StopRequest()
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)

    _everywhere("defer_stop_signals", ignore_signals)


def _unchecked() -> None:
    """An output may replace what a command reads."""
    import seqattn.runs.storage  # noqa: F401

    _everywhere("check_outputs", lambda *_: None)


def _replaces() -> None:
    """An output replaces whatever has its name: links, pipes, devices."""
    from seqattn.runs.storage import atomic_write

    def write(path: Path, content: bytes) -> None:
        if path.is_symlink() or path.is_fifo():
            path.unlink()
        atomic_write(path, content)

    _everywhere("write_output", write)


def _half() -> None:
    """An output is written where it is."""
    import seqattn.runs.storage.atomic

    @contextlib.contextmanager
    def opened(path: Path) -> Iterator[Any]:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with seqattn.runs.storage.atomic.os.fdopen(descriptor, "wb") as file:
            yield file

    _everywhere("output_file", opened)


def _colours() -> None:
    """Escape codes are written whether there is a terminal or not."""
    import seqattn.cli.training  # noqa: F401
    from seqattn.cli.output import note

    _everywhere("note", lambda text: note(text) or print("\x1b[31mred\x1b[0m"))  # type: ignore[func-returns-value]


def _hangs_up() -> None:
    """A training ends with its terminal."""
    import signal

    _import_all()
    real = signal.signal

    def obeys(number: int, handler: Any) -> Any:
        return real(number, signal.SIG_DFL if number == signal.SIGHUP else handler)

    signal.signal = obeys  # type: ignore[assignment]


if __name__ == "__main__":
    from seqattn.__main__ import main

    plant(os.environ.get(VARIABLE))
    main()
