"""The progress bar of the Python API, which works in terminals and in notebooks."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from seqattn.experiments import Callbacks
from seqattn.runs import EpochRecord


@contextlib.contextmanager
def show_bar(name: str, progress: bool | None) -> Iterator[Callbacks]:
    """Show a progress bar for the epochs of all runs during the `with` block.

    Args:
        name: the text before the bar.
        progress: whether to show the bar. With None, the bar is shown only in a terminal or in a
            notebook.

    Yields:
        the callbacks for training.
    """
    if not (_is_interactive() if progress is None else progress):
        yield Callbacks()
        return
    bar_class = _bar_class()
    bar: Any = None

    def begin(done: int, epochs: int) -> None:
        nonlocal bar
        bar = bar_class(total=epochs, initial=done, desc=name, unit="epoch")

    def epoch(record: EpochRecord) -> None:
        if bar is not None:
            bar.set_postfix_str(f"validation loss {record.validation_loss:.4f}", refresh=False)
            bar.update()

    def message(line: str) -> None:
        bar_class.write(line, file=sys.stderr)

    try:
        yield Callbacks(begin, epoch, message)
    finally:
        if bar is not None:
            bar.close()


def _is_interactive() -> bool:
    """Return True if standard error is a terminal or the process is the kernel of a notebook."""
    return _is_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")  # a notebook has imported it
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in shell.config


def _bar_class() -> Any:
    with warnings.catch_warnings():
        # Without ipywidgets, a notebook shows the bar as text, which needs no warning.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    return tqdm
