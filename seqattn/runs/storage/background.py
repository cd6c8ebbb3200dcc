"""Writes in a background thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundWriter:
    """Runs one write at a time in a thread, because most of a write is waiting for the disk. Use as
    a context; at its end all is written."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.pending: Future[None] | None = None

    def begin(self, write: Callable[[], None]) -> None:
        """Start a write once the one before has ended.

        Raises:
            OSError: the one before failed.
        """
        self.wait()
        self.pending = self.pool.submit(write)

    def wait(self) -> None:
        """Wait until all is written.

        Raises:
            OSError: a write failed.
        """
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def ask(self) -> None:
        """Raise the error of a write that has failed by now."""
        if self.pending is not None and self.pending.done():
            self.wait()

    def __enter__(self) -> BackgroundWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.wait()
        except OSError:
            if kind is None:
                raise
        finally:
            self.pool.shutdown()
