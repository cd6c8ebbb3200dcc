"""Tables and JSON lines from files and pipes: who reads them, in which blocks, and how much."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from seqattn.data import files
from seqattn.data import json_lines as blocks
from seqattn.data.chunk import Chunk
from seqattn.data.files import read_all, read_chunks
from seqattn.data.json_lines import read_json_lines
from seqattn.data.reading import Reading
from seqattn.data.tables import piped
from seqattn.data.tables.piped import read_piped_table
from seqattn.errors import DataError

HEAD = b"sequence,step,x,y\n"
BLOCK = 2**19


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piped, "BLOCK_BYTES", BLOCK)


class Watched(io.BytesIO):
    """Remembers which threads read."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.threads = set[int]()

    def _note(self) -> None:
        self.threads.add(threading.get_ident())

    def read(self, size: int | None = -1) -> bytes:
        self._note()
        return super().read(size)

    def read1(self, size: int | None = -1) -> bytes:
        self._note()
        return super().read1(size)


def table(rows: int, width: int = 4) -> bytes:
    lines = (f"s{row // width},{row % width},{row}.5,{-row}" for row in range(rows))
    return HEAD + "\n".join(lines).encode() + b"\n"


def pieces(content: bytes) -> Iterator[Chunk]:
    return read_piped_table(io.BytesIO(content), "t.csv", "csv", Reading())


def test_no_other_thread_reads_a_table() -> None:
    """A thread that reads ahead aborts the process when an error ends the interpreter first."""
    raw = Watched(table(150_000).replace(b",1.5,", b",wrong,", 1))
    with pytest.raises(DataError, match="row 2, column 'x' contains 'wrong'"):
        list(read_piped_table(raw, "t.csv", "csv", Reading()))
    assert raw.threads == {threading.get_ident()}


def test_a_table_of_several_blocks_is_read_whole() -> None:
    content = table(150_001)
    assert len(content) > 3 * BLOCK
    found = list(pieces(content))
    values = np.concatenate([piece.points.values for piece in found])
    assert np.array_equal(values[:, 0], np.arange(150_001) + 0.5)
    assert np.array_equal(values[:, 1], -np.arange(150_001))
    assert [name for piece in found for name in piece.ids] == [f"s{k}" for k in range(37_501)]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b"z,0,1\n", "line 100002 has 3 cells, the header has 4: 'z,0,1'"),
        (b"z,0,1,n\n", "row 100001, column 'y' contains 'n'"),
        (b"z\xff,0,1,1\n", "t.csv: line 100002 is not UTF-8"),
        (b"z,0,1," + b"1" * (17 * 2**20), "line 100002 is longer than 16 MiB"),
    ],
    ids=["cells", "number", "utf-8", "long"],
)
def test_rows_are_counted_over_all_blocks(row: bytes, words: str) -> None:
    content = table(100_000)
    assert len(content) > BLOCK
    with pytest.raises(DataError, match=words):
        list(pieces(content + row))


def test_a_line_break_in_quotes_is_never_cut_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where quotes are open at the end of a block, a column that nobody reads would hide it."""
    monkeypatch.setattr(piped, "BLOCK_BYTES", 256)
    head, form = b"sequence,step,x,note\n", Reading(features=("x",))

    def read(rows: bytes) -> list[float]:
        found = read_piped_table(io.BytesIO(head + rows), "t.csv", "csv", form)
        return [value for piece in found for (value,) in piece.points.values.tolist()]

    broken = b"".join(b'a,%d,1,"two\nlines"\n' % k for k in range(100))
    with pytest.raises(
        DataError, match=r"line \d+ has a quote that is not closed, or a line break"
    ):
        read(broken)
    assert read(broken[: 8 * 18]) == [1] * 8  # all in one block
    assert read(b"".join(b'a,%d,2,5" pipe\n' % k for k in range(100))) == [2] * 100


@pytest.fixture
def pipe() -> Iterator[tuple[io.BufferedReader, int]]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as raw:
        yield raw, writer


def test_a_slow_pipe_is_answered_as_it_comes(pipe: tuple[io.BufferedReader, int]) -> None:
    """Each sequence as soon as it is whole: of a table, when the next begins."""
    raw, writer = pipe
    os.write(writer, HEAD + b"a,1,1,1\na,2,2,2\nb,1,3,3\nb,2,")
    found = read_piped_table(raw, "-", "csv", Reading())
    assert next(found).ids == ("a",)
    os.write(writer, b"4,4\nc,1,5,5\n")
    second = next(found)
    assert (second.ids, second.points.values.tolist()) == (("b",), [[3, 3], [4, 4]])
    os.close(writer)
    assert [piece.ids for piece in found] == [("c",)]


def test_json_lines_of_a_slow_pipe_are_answered_as_they_come(
    pipe: tuple[io.BufferedReader, int],
) -> None:
    raw, writer = pipe
    os.write(writer, b'{"source": [1, 2]}\n{"source": [3')
    found = read_json_lines(raw, "-", Reading())
    assert next(found).points.values.tolist() == [[1], [2]]
    os.write(writer, b", 4, 5]}\n")
    second = next(found)
    assert (second.ids, second.points.values.tolist()) == (("2",), [[3], [4], [5]])
    os.close(writer)
    assert list(found) == []


def test_a_fast_pipe_gives_the_blocks_of_the_file(
    pipe: tuple[io.BufferedReader, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forecasts of another batch differ in their last digits."""
    monkeypatch.setattr(blocks, "PIPE_WAIT_SECONDS", 60.0)  # however loaded this machine is
    raw, writer = pipe
    content = table(100_000)

    def send() -> None:
        for first in range(0, len(content), 5003):
            os.write(writer, content[first : first + 5003])
        os.close(writer)

    sender = threading.Thread(target=send)
    sender.start()
    sizes = [len(piece) for piece in read_piped_table(raw, "-", "csv", Reading())]
    sender.join()
    assert sizes == [len(piece) for piece in pieces(content)]


def test_a_pipe_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sequence, or all that is needed at once, held against a bound; a file has none."""

    class Endless(io.BytesIO):
        """A header, and rows for ever: all of one sequence, or of 5 points each."""

        def __init__(self, length: int | None) -> None:
            super().__init__()
            self.length, self.given = length, 0

        def read1(self, size: int | None = -1) -> bytes:
            assert self.given < 100_000, "read far beyond the bound"
            rows = range(self.given, self.given + 50)
            self.given += 50
            text = b"".join(b"s%d,%d,%d,2\n" % (k // (self.length or 10**9), k, k) for k in rows)
            return text if rows.start else HEAD + text

    def stdin(length: int | None) -> None:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Endless(length)))

    monkeypatch.setattr(files, "MAX_PIPED", 1000)
    monkeypatch.setattr(piped, "MAX_PIPED", 1000)
    monkeypatch.setattr(piped, "BLOCK_BYTES", 1)
    words = "standard input: the series 's0' has more than 1,000 numbers"
    for reader in (read_chunks, read_all):
        stdin(None)
        with pytest.raises(DataError, match=words):
            list(reader(Path("-"), Reading()))  # type: ignore[call-overload]
    stdin(5)
    with pytest.raises(
        DataError, match="has more than 1,000 numbers, and all of them must be in memory at once"
    ):
        read_all(Path("-"), Reading())


def values_of(content: str, options: Reading) -> dict[str, list[list[float]]]:
    """Return the values of each sequence of a table from a pipe."""
    found = read_piped_table(io.BytesIO(content.encode()), "t.csv", "csv", options)
    return {name: c.points.of(k).tolist() for c in found for k, name in enumerate(c.ids)}


def test_later_cells_are_cleaned_like_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piped, "BLOCK_BYTES", 200)
    cells = {90: "-999", 91: " NA ", 92: " 5.5", 93: "", 94: "missing"}
    rows = [f"s{k // 10},{k % 10}, {cells.get(k, f'{k}.25')}" for k in range(100)]
    rows = [row if k < 80 else f" {row}" for k, row in enumerate(rows)]
    content = "\n".join(["unique_id,t,x", *rows]) + "\n"
    found = values_of(content, Reading(na_values=("-999",), series=("unique_id",), time=("t",)))
    assert list(found) == [f"s{k}" for k in range(10)]
    last = np.array(found["s9"])[:, 0]
    assert np.flatnonzero(np.isnan(last)).tolist() == [0, 1, 3, 4]
    assert last[2] == 5.5


@pytest.mark.parametrize("first", [0, 30])
def test_later_rows_of_a_wide_table_keep_the_decimal_mark(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Without the commas of earlier rows, a point would be a decimal mark."""
    monkeypatch.setattr(piped, "BLOCK_BYTES", 200)
    rows = [f"a{k};{k};1.0{k},5;1.3{k}" if k < 75 else f"a{k};{k};1.0{k};1.3{k}"
            for k in range(10, 100)]  # fmt: skip
    rows[:first] = [f"a{k};{k};{k};{2 * k}" for k in range(10, 10 + first)]
    content = "\n".join(["id;x_1;x_2;x_3", *rows]) + "\n"
    found = values_of(content, Reading())
    assert found["a70"] == [[70], [1070.5], [1370]]
    assert found["a99"] == [[99], [1099], [1399]]


def test_a_decimal_comma_after_decimal_points_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piped, "BLOCK_BYTES", 200)
    rows = [f"a{k};{k};1.0{k}1;1.3{k}{',5' if k > 80 else '1'}" for k in range(10, 100)]
    with pytest.raises(DataError, match="contains '1.3.*,5', not a number"):
        values_of("\n".join(["id;x_1;x_2;x_3", *rows]) + "\n", Reading())
