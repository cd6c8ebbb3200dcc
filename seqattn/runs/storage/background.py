"""A background thread that writes files while training continues."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundWriter:
    """A thread that runs one write at a time. At the end of a `with` block, the writer waits for
    the last write.
    """

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.pending: Future[None] | None = None

    def submit(self, write: Callable[[], None]) -> None:
        """Wait until the previous write has ended, and start the next write.

        Raises:
            OSError: if the previous write failed.
        """
        self.wait()
        self.pending = self.pool.submit(write)

    def wait(self) -> None:
        """Wait until the pending write has ended.

        Raises:
            OSError: if the write failed.
        """
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def raise_if_failed(self) -> None:
        """Raise the error of the pending write if this write has already failed.

        Raises:
            OSError: if the write failed.
        """
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
