"""The user's own sequences: files in and out, in seven formats."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from seqattn.data.files.arrays import read_npy, read_npz
from seqattn.data.files.lines import read_json_lines
from seqattn.data.files.piece import (
    MOST_PIPED,
    Form,
    Piece,
    Ragged,
    Seen,
    check_values,
    joined,
    offsets_of,
)
from seqattn.data.files.rows import step_text
from seqattn.data.files.text import read_text_table
from seqattn.data.files.typed import read_typed_table
from seqattn.errors import DataError

FORMATS = ("csv", "tsv", "jsonl", "npz", "npy", "parquet", "arrow")
ENDINGS = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "npz": "npz",
    "npy": "npy", "parquet": "parquet", "pq": "parquet", "arrow": "arrow", "feather": "arrow",
    "ipc": "arrow",
}  # fmt: skip


def read_pieces(path: Path, form: Form, *, whole: bool = False) -> Iterator[Piece]:
    """A file's sequences, some at a time, in bounded memory.

    Args:
        path: `-` is standard input.
        whole: they are wanted together, so what is mapped need not be cut up.

    Raises:
        DataError: with file, row and column, and what would do.
        UsageError: a table, and no pyarrow to read it.
    """
    name = "standard input" if str(path) == "-" else str(path)
    seen = Seen()
    for piece in _opened(path, name, form, whole):
        check_values(name, piece)
        again = seen.again(piece.ids)
        if again is not None:
            raise DataError(
                f"{name}: the sequence {again!r} comes twice. Rows of one sequence stand together,"
                " and every sequence has a name of its own."
                + (" If a row is a point, set data.layout to long." if piece.is_wide else "")
            )
        yield piece


def read_all(path: Path, form: Form) -> Piece:
    """All sequences of a file.

    Raises:
        DataError, UsageError: see `read_pieces`.
    """
    found, numbers = list[Piece](), 0
    for piece in read_pieces(path, form, whole=True):
        found.append(piece)
        numbers += piece.points.values.size
        if str(path) == "-" and numbers > MOST_PIPED:
            raise DataError(
                f"standard input: has more than {MOST_PIPED:,} numbers, and all are needed at once."
                " Write them to a file, and give that instead."
            )
    return joined(found)


def format_of(path: Path, given: str = "auto") -> str:
    """The format of a file, by its ending where `given` is auto; standard input is CSV.

    Raises:
        DataError: an ending that is none of them.
    """
    if given != "auto":
        return given
    if str(path) == "-":
        return "csv"
    ending = path.suffix.lower().removeprefix(".")
    if ending not in ENDINGS:
        raise DataError(
            f"{path}: cannot tell its format from its name. End it in"
            f" {', '.join('.' + known for known in FORMATS)}, or say which with data.format."
        )
    return ENDINGS[ending]


def check_file(path: Path) -> None:
    """
    Raises:
        DataError: there is no regular file to read.
    """
    text = str(path)
    if "://" in text or (text.startswith(("http:/", "https:/", "s3:/", "ftp:/"))):
        raise DataError(f"{path}: is an address. Nothing is fetched from a network; give a file.")
    try:
        if path.is_dir():
            raise DataError(f"{path}: is a directory. Give a file.")
        if not path.exists():
            raise DataError(f"{path}: no such file.")
        if not path.is_file():
            raise DataError(f"{path}: is not a regular file. Give a file, or - for standard input.")
    except (OSError, ValueError) as error:
        raise DataError(f"{text[:200]!r}: cannot be read ({error}).") from None


def _opened(path: Path, name: str, form: Form, whole: bool) -> Iterator[Piece]:
    if str(path) == "-":
        bounded = replace(form, most=MOST_PIPED)
        yield from _of_stream(sys.stdin.buffer, name, format_of(path, form.format), bounded)
        return
    check_file(path)
    kind = format_of(path, form.format)
    try:
        if kind == "npy":
            yield from read_npy(path, form, whole=whole)
        elif kind == "npz":
            yield from read_npz(path, name, form)
        elif kind in ("parquet", "arrow"):
            yield from read_typed_table(path, name, form, parquet=kind == "parquet")
        else:
            with path.open("rb") as raw:
                yield from _of_stream(raw, name, kind, form)
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error}).") from None


def _of_stream(raw: BinaryIO, name: str, kind: str, form: Form) -> Iterator[Piece]:
    match kind:
        case "csv" | "tsv":
            yield from read_text_table(raw, name, form, tabs=kind == "tsv")
        case "jsonl":
            yield from read_json_lines(raw, name, form)
        case _:
            raise DataError(f"{name}: {kind} cannot be read from a stream; give a file.")


__all__ = [
    "ENDINGS",
    "FORMATS",
    "Form",
    "Piece",
    "Ragged",
    "Seen",
    "check_file",
    "format_of",
    "joined",
    "offsets_of",
    "read_all",
    "read_pieces",
    "step_text",
]
