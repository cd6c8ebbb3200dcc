"""Functions that write to standard output and standard error.

Names, ids and paths may contain any characters. Console markup and emoji codes in them have no
effect. Control characters are escaped, except in data that are written to a file or a pipe.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from seqattn.errors import StorageError

if TYPE_CHECKING:
    from rich.console import Console


def set_encoding() -> None:
    """Set the encoding of stdout to UTF-8 unless stdout is a terminal.

    On a terminal, characters that its encoding cannot represent are escaped.

    If stdout has no buffer, as with `PYTHONUNBUFFERED=1`, the function adds a buffer for each line.
    Without a buffer, Python ignores that a full disk or a closed pipe takes only a part of a text.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        raw: Any = sys.stdout.buffer  # declared as a BinaryIO with a buffer
        if isinstance(raw, io.RawIOBase):
            encoding = sys.stdout.encoding
            sys.stdout.detach()
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, line_buffering=True)
        new_encoding = None if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=new_encoding, errors="backslashreplace")


NOTES = ("PluginChangedWarning",)
"""The names of the warnings that `print_key_warnings` prints as notes."""


def print_key_warnings() -> None:
    """Make Python print the warnings in `NOTES` as notes on stderr, without lines of source code.

    These warnings are about runs that another version of a plugin trained.
    """
    import warnings

    default = warnings.showwarning

    def print_warning(message: Any, category: Any, *place: Any, **more: Any) -> None:
        if category.__name__ in NOTES:
            note(f"{message}.")
        else:
            default(message, category, *place, **more)

    warnings.showwarning = print_warning


def escape_controls(text: str, keep: str = "\n") -> str:
    """Escape the characters in a string that are not printable, except those in `keep`."""
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def note(text: str) -> None:
    """Print a line on stderr. Errors from a closed stderr are ignored."""
    with contextlib.suppress(OSError, ValueError):
        print(escape_controls(text), file=sys.stderr, flush=True)


def show(text: str = "") -> None:
    """Print a line to stdout, with control characters escaped."""
    with _name_stdout():
        print(escape_controls(text))


def write_data(text: str) -> None:
    """Write text to stdout. On a terminal, control characters are escaped."""
    with _name_stdout():
        sys.stdout.write(escape_controls(text, keep="\n\t") if sys.stdout.isatty() else text)


def flush_stdout() -> None:
    """Write the buffered text to stdout. If nobody reads stdout, the text is discarded.

    Raises:
        OSError: if stdout takes no more text, for example because the disk is full. The buffered
            text is discarded, so that the interpreter does not try to write it at the exit.
    """
    try:
        with _name_stdout():
            sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
    except OSError:
        discard_stdout()
        raise


@contextlib.contextmanager
def _name_stdout() -> Iterator[None]:
    """Add the file name "standard output" to errors from writing to stdout."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or "standard output"
        raise


@contextlib.contextmanager
def open_text_output(path: Path | None) -> Iterator[TextIO]:
    """Yield a text buffer, and write its content to a file or to standard output when the `with`
    block ends. A file is written atomically.

    Args:
        path: the file; None for standard output.
    """
    from seqattn.runs.storage import write_output

    text = io.StringIO()
    yield text
    if path is None:
        write_data(text.getvalue())
    else:
        write_output(path, text.getvalue().encode())


def plain_console(**options: Any) -> Console:
    """Create a Rich console that ignores markup in text. Only Rich objects have styles.

    Args:
        options: keyword arguments of `rich.console.Console`.
    """
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(escape_controls(text), **options)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # Rich would exit with code 1

    return Plain(markup=False, emoji=False, highlight=False, **options)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout, and let the terminal wrap them."""
    console = plain_console()
    for line in lines:
        console.print(line, soft_wrap=True)


# --- closed pipes ---------------------------------------------------------------------------------


def check_stdout() -> None:
    """Check that stdout was open when the process started. A command whose result is its output
    calls this function. `seqattn.__main__` opens the null device in place of a closed stdout, so
    the output would be lost without an error.

    Raises:
        StorageError: if stdout was closed.
    """
    if sys.__stdout__ is None:
        raise StorageError(
            "standard output: is closed, so the result would be lost. Connect it to a file or a"
            " pipe, or to /dev/null if you do not need the result."
        )


@contextlib.contextmanager
def ignore_closed_pipe() -> Iterator[None]:
    """Ignore errors from a closed stdout (`| head`) in a `with` block, so the exit code is 0.

    Use this context to print results after all files have been written.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def discard_stdout() -> None:
    """Redirect stdout to the null device after the reader of stdout has closed it."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
