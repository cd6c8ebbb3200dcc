"""Lines of text tables that are no rows: comments, and text before the header."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.errors import DataError

TIMES = "".join(f"{t},{t * t},{t * 1.5 + 0.25}\n" for t in range(8))
VALUES = [t * 1.5 + 0.25 for t in range(8)]


def values(path: Path, options: Reading | None = None) -> list[float]:
    return [float(x) for x in read_all(path, options or Reading()).points.values[:, -1]]


@pytest.mark.parametrize("head", ["# log\n", "", "// log\n", "  % log\n"])
def test_a_comment_sign_inside_a_line_is_kept(tmp_path: Path, head: str) -> None:
    path = tmp_path / "ids.csv"
    sign = head.strip().partition(" ")[0] or "#"
    rows = [f"{t},{t * t},A{sign}{s}" for s in (1, 2) for t in range(4)]
    path.write_text(f"{head}t,x,id\n" + f"\n{sign} more\n".join(rows) + "\n")
    read = read_all(path, Reading(comment=sign))
    assert read.ids == (f"A{sign}1", f"A{sign}2")
    assert read.points.values[:, 0].tolist() == [0, 1, 4, 9] * 2
    if head:
        assert read_all(path, Reading()).ids == read.ids


def test_a_number_with_a_comment_sign_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# log\nt,y,x\n" + TIMES.replace("7.75", "7#999") + "8,64,1.5\n# end\n")
    with pytest.raises(DataError, match="line 8, column 'x' contains '7#999'"):
        read_all(path, Reading())


def test_a_line_inside_quotes_is_no_comment(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f'"A\n# {s}",{t},{t * t}' for s in (1, 2) for t in range(4)]
    path.write_text("# log\nid,t,x\n" + "\n".join(rows) + "\n")
    assert read_all(path, Reading()).ids == ("A\n# 1", "A\n# 2")


def test_comments_in_a_table_of_one_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# log\nx\n" + "\n# a\n".join(str(t * t) for t in range(8)) + "\n")
    assert values(path) == [t * t for t in range(8)]


def test_errors_count_the_comments(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# log\n\nt,y,x\n# a\n" + TIMES + "# b\n8,2,9,3\n")
    with pytest.raises(DataError, match="line 14 has 4 cells, the header has 3"):
        read_all(path, Reading())


def packed_by_duckdb(path: Path, text: str) -> None:
    rows = path.with_suffix(".txt")
    rows.write_text(text)
    duckdb.sql(
        f"COPY (SELECT * FROM read_csv('{rows}', header=false, delim='\x01', quote='', escape='',"
        f" columns={{'line': 'VARCHAR'}})) TO '{path}' (FORMAT csv, HEADER false, QUOTE '',"
        " DELIMITER '\x01', ESCAPE '', COMPRESSION zstd)"
    )


@pytest.mark.parametrize(
    ("ending", "write"),
    [
        ("csv", Path.write_text),
        ("csv.gz", lambda path, text: path.write_bytes(gzip.compress(text.encode()))),
        ("csv.zst", packed_by_duckdb),
    ],
)
@pytest.mark.parametrize("separator", [",", "  "])
def test_comments_of_compressed_files(
    tmp_path: Path, ending: str, write: Callable[[Path, str], object], separator: str
) -> None:
    path = tmp_path / f"t.{ending}"
    write(path, ("# log\nt,y,x\n# a\n" + TIMES + "# b\n").replace(",", separator))
    assert values(path) == VALUES


@pytest.mark.parametrize(
    ("head", "skip"),
    [
        ('"Exported by\nTool X"\n', 0),
        ('"Exported by\nTool\nX"\n"c\nd"\n', 0),
        ('"Exported by\nTool X",,\n', 2),
        ('Exported by\n\n"Tool X"\n', 0),
        ('# log\n"a\nb"\n# c\n', 0),
    ],
)
def test_line_breaks_in_quotes_before_the_header(tmp_path: Path, head: str, skip: int) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{head}t,y,x\n{TIMES}")
    assert values(path, Reading(skip_rows=skip)) == VALUES


def test_a_line_break_in_a_header_that_lacks_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f'"{k}",{line}\n' for k, line in enumerate(TIMES.splitlines(), start=1))
    path.write_text(f'"t","y","x\n[m]"\n{rows}')
    assert values(path) == VALUES


@pytest.mark.parametrize("encoding", [None, "utf-16", "UTF16"])
@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("head", ['"t",y,x\n', "# log\nt,y,x\n", '"a\nb"\nt,y,x\n'])
def test_both_byte_orders_of_utf_16(
    tmp_path: Path, encoding: str | None, order: str, head: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(f"\ufeff{head}{TIMES}".encode(f"utf-16-{order}"))
    read = read_all(path, Reading(encoding=encoding))
    assert read.points.values[:, -1].tolist() == VALUES
    assert ("read as UTF-16" in read.notes) == (encoding is None)


def test_years_with_gaps_are_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Country,2000,2005,2010,2020\nA,1,2,3,4\nB,2,3,4,2001\nC,3,4,5,6\n")
    with pytest.raises(DataError, match="there is no column 'value' of step 2001"):
        read_all(path, Reading())
    assert len(read_all(path, Reading(layout="long")).points.values) == 3


def test_rows_of_years_have_no_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("A,1900,1950,1970\nB,1901,1920,1990\nC,1850,1871,1890\n")
    assert len(read_all(path, Reading(layout="long")).points.values) == 3


@pytest.mark.parametrize("first", ["sep={}", '"sep={}"', "SEP={}"])
@pytest.mark.parametrize("separator", [";", "\t", "^"])
@pytest.mark.parametrize("rest", ["t;x\n", "# log\nt;x\n", "\nt;x\n"])
def test_a_first_line_that_declares_the_separator(
    tmp_path: Path, first: str, separator: str, rest: str
) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{t};{x}\n" for t, x in enumerate(VALUES))
    path.write_text(first.format(separator) + f"\n{rest}{rows}".replace(";", separator))
    assert values(path) == VALUES
    assert values(path, Reading(skip_rows=1)) == VALUES
