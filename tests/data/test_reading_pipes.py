"""Tables and JSON lines from standard input."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from seqattn.data.files import read_all
from seqattn.data.json_lines import read_json_lines
from seqattn.data.reading import Reading
from seqattn.errors import DataError


@pytest.fixture
def pipe() -> Iterator[tuple[io.BufferedReader, int]]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as raw:
        yield raw, writer


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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_table_from_standard_input_is_read_as_a_file(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "station,hour,x\nb,2,20\na,1,1\nb,1,10\na,2,2\n".encode(encoding)
    (tmp_path / "t.csv").write_bytes(content)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    reading = Reading(series=("station",), time=("hour",))
    piped, file = (read_all(Path(path), reading) for path in ("-", str(tmp_path / "t.csv")))
    assert piped.ids == file.ids == ("b", "a")
    assert piped.points.values.tolist() == file.points.values.tolist() == [[10], [20], [1], [2]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "standard input: is empty"),
        (b"id,t,x\na,1,1\na,2\n", "standard input: line 3 has 2 cells, the header has 3"),
        (b"id,t,x\na,1,1\na,2,n\n", "standard input: .*line 3, column 'x' contains 'n'"),
    ],
)
def test_errors_name_the_line_of_standard_input(
    content: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    with pytest.raises(DataError, match=words):
        read_all(Path("-"), Reading())
