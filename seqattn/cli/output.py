"""Standard output and standard error: text that cannot steer a terminal, readers that leave early.

Names, ids and paths come from files. They are printed as they are: no console markup, no emoji
codes, and control characters spelled out where a terminal would obey them.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def prepare_streams() -> None:
    """A character that a terminal's encoding lacks is spelled out instead of ending the program;
    files and pipes get UTF-8, as every file that seqattn writes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = None if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


def show_renamed_keys() -> None:
    """What an earlier version named or split another way is told once on stderr, as a note and
    without a line of code."""
    import warnings

    others = warnings.showwarning

    def shown(message: Any, category: Any, *place: Any, **more: Any) -> None:
        if category.__name__ in ("RenamedKeyWarning", "SplitsChangedWarning"):
            note(f"{message}.")
        else:
            others(message, category, *place, **more)

    warnings.showwarning = shown


def printable(text: str, keep: str = "\n") -> str:
    """Text with control characters spelled out, but for those in `keep`."""
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode()
        for sign in text
    )


def note(text: str) -> None:
    """A line on stderr. A closed terminal stops nothing."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(text), file=sys.stderr, flush=True)


def show(text: str = "") -> None:
    """A line on stdout for people."""
    print(printable(text))


def write_data(text: str) -> None:
    """Text for a file or another program, on stdout: as it is, unless a terminal shows it."""
    sys.stdout.write(printable(text, keep="\n\t") if sys.stdout.isatty() else text)


@contextlib.contextmanager
def text_output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is written whole or not at all."""
    from seqattn.runs.output_files import write_output

    text = io.StringIO()
    yield text
    if path is None:
        write_data(text.getvalue())
    else:
        write_output(path, text.getvalue().encode())


def plain_console(**options: Any) -> Console:
    """A Rich console that prints text as it is; styles are given by objects, never by markup.

    Args:
        options: of `rich.console.Console`.
    """
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # Rich would end the process with status 1

    return Plain(markup=False, emoji=False, highlight=False, **options)


def print_lines(lines: Iterable[str]) -> None:
    """Sentences on stdout; the terminal wraps them."""
    console = plain_console()
    for line in lines:
        console.print(line, soft_wrap=True)


# --- readers that leave early ---------------------------------------------------------------------

READER_LEFT = 128 + 13
"""Exit status of a filter that was ended by SIGPIPE."""


def leave_with_the_reader() -> None:
    """For commands that only print: end like any filter when the reader leaves (`| head`), by
    SIGPIPE, status 141. Call it once all files are written."""
    if hasattr(signal, "SIGPIPE"):
        sys.stdout.flush()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


@contextlib.contextmanager
def after_the_work() -> Iterator[None]:
    """For what is printed when all work is done and saved, by commands that leave files: a reader
    that left early (`| head`) makes it no failure, and the exit status stays 0."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def discard_stdout() -> None:
    """Nothing more can be said on stdout: what is left in its buffer goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
