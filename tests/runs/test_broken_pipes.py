"""An output into a pipe whose reader leaves: it is lost, and that is told."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seqattn.errors import StorageError
from seqattn.runs.output_files import write_output
from tests.conftest import Ended

pytestmark = pytest.mark.usefixtures("untraced_graphs")


@contextmanager
def read_in_part(pipe: Path) -> Iterator[None]:
    """A reader that leaves after the first byte."""
    os.mkfifo(pipe)

    def read() -> None:
        with pipe.open("rb", buffering=0) as file:
            file.read(1)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    yield
    reader.join(60)


def test_a_named_pipe_whose_reader_leaves(tmp_path: Path) -> None:
    with read_in_part(tmp_path / "pipe"), pytest.raises(StorageError, match="pipe: Broken pipe: "):
        write_output(tmp_path / "pipe", bytes(2**20))


def test_an_open_descriptor_whose_reader_has_left() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with pytest.raises(StorageError, match=rf"/dev/fd/{writer}: Broken pipe: "):
            write_output(Path(f"/dev/fd/{writer}"), b"lost")
    finally:
        os.close(writer)


def test_the_command_says_so(
    attention_run: Path, seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    with read_in_part(tmp_path / "page.html"):
        done = seqattn("report", attention_run, "--output", "page.html")
    assert done.code == 5
    assert "seqattn: page.html: Broken pipe: " in done.err
