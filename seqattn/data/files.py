"""Files that contain sequences, in several formats."""

from __future__ import annotations

import glob
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from seqattn.data.arrays import read_npy, read_npz
from seqattn.data.chunk import (
    Chunk,
    SeenIds,
    check_values,
    concat_chunks,
)
from seqattn.data.json_lines import has_nested_points, open_lines, read_json_lines
from seqattn.data.reading import Reading
from seqattn.data.tables.connection import named_file
from seqattn.data.tables.read import read_table
from seqattn.errors import DataError

FORMATS = ("csv", "tsv", "json", "jsonl", "npz", "npy", "parquet", "arrow")
TABLES = ("csv", "tsv", "json", "jsonl", "parquet", "arrow")
NESTED = "nested "
SUFFIXES = {
    "csv": "csv", "txt": "csv", "dat": "csv", "tsv": "tsv", "tab": "tsv", "json": "json",
    "jsonl": "jsonl", "ndjson": "jsonl", "npz": "npz", "npy": "npy",
    "parquet": "parquet", "pq": "parquet", "arrow": "arrow", "feather": "arrow", "ipc": "arrow",
}  # fmt: skip


COMPRESSED_SUFFIXES = (".gz", ".zst")
"""Suffixes of compressed text files."""


def read_chunks(
    path: Path, reading: Reading, *, whole: bool = False, name: str = "",
    like: Reading | None = None,
) -> Iterator[Chunk]:  # fmt: skip
    """Yield the sequences of a file chunk by chunk.

    Args:
        path: the file, or `-` for standard input.
        reading: how to read the file.
        whole: whether to yield all sequences of an NPY file or a long table as a single chunk.
        name: name of the file in messages; "" for the path.
        like: the reading of another table, which resolves ambiguities. If None, the reading of the
            training table resolves ambiguities of the input of a model.

    Raises:
        DataError: if the file cannot be used, if a value is infinite or too large, or if two
            sequences have the same name.
    """
    is_input = like is None and not reading.is_training
    name = name or ("standard input" if str(path) == "-" else str(path))
    seen = SeenIds()
    for chunk in _open_chunks(path, name, reading, reading.trained if is_input else like, whole):
        check_values(name, chunk)
        repeated = seen.find_repeat(chunk.ids)
        if repeated is not None:
            raise DataError(
                f"{name}: the sequence {repeated!r} occurs twice. The rows of a sequence must be"
                " together, and every sequence needs a unique name."
                + (" If a row is a point, set data.layout to long." if chunk.is_wide else "")
            )
        notes = [f"is {one.note('in the training')}" for one in chunk.resolutions if is_input]
        yield replace(chunk, notes=(*chunk.notes, *notes))


def read_all(path: Path, reading: Reading, name: str = "") -> Chunk:
    """Read all sequences of a file as one chunk.

    Raises:
        DataError: if the file cannot be used.
    """
    return concat_chunks(list(read_chunks(path, reading, whole=True, name=name)))


def file_format(path: Path, given: str = "auto") -> str:
    """Return the format of a file.

    If `given` is not "auto", return `given`. Otherwise, the suffix determines the format, and
    standard input is CSV.

    Raises:
        DataError: if the suffix is unknown.
    """
    if given != "auto":
        return given
    if str(path) == "-":
        return "csv"
    found = format_of_suffix(path)
    if found is None:
        raise DataError(
            f"{path}: cannot tell its format from its name. End it in"
            f" {', '.join('.' + known for known in FORMATS)}, or say which with data.format."
        )
    return found


def format_of_suffix(path: Path) -> str | None:
    """Return the format for the suffix of a file name, or None if the suffix is unknown."""
    name = Path(path.stem) if path.suffix.lower() in COMPRESSED_SUFFIXES else path
    return SUFFIXES.get(name.suffix.lower().removeprefix("."))


def file_kind(path: Path, form: str) -> str:
    """Return the format of a file, with the prefix `NESTED` if it is a JSON Lines file with one
    sequence per line."""
    return f"{NESTED}{form}" if form == "jsonl" and has_nested_points(path) else form


def check_file(path: Path) -> None:
    """Check that a path is a regular file.

    Raises:
        DataError: if the path is not a regular file.
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


def _open_chunks(
    path: Path, name: str, reading: Reading, like: Reading | None, whole: bool
) -> Iterator[Chunk]:
    if str(path) != "-":
        check_file(path)
    kind = file_format(path, reading.format)
    try:
        if str(path) == "-" and kind == "jsonl":
            yield from read_json_lines(sys.stdin.buffer, name, reading)
        elif str(path) == "-":
            if kind not in ("csv", "tsv"):
                raise DataError(f"{name}: {kind} cannot be read from a stream; give a file.")
            with named_file(".csv") as copy:  # a table is read several times
                shutil.copyfileobj(sys.stdin.buffer, copy)
                copy.flush()
                yield from read_table(Path(copy.name), name, kind, reading, like, whole=whole)
        elif kind == "npy":
            yield from read_npy(path, reading, whole=whole)
        elif kind == "npz":
            yield from read_npz(path, name, reading)
        elif file_kind(path, kind) == f"{NESTED}jsonl":
            with open_lines(path) as raw:
                yield from read_json_lines(raw, name, reading)
        else:
            yield from read_table(path, name, kind, reading, like, whole=whole)
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error}).") from None


def find_files(path: str, form: str = "auto") -> list[Path]:
    """Return the files that a path refers to, sorted by path.

    A path refers to a file, to a folder with data files at any depth, or to all files that match a
    pattern such as `data/*.csv`.

    Args:
        path: the path as the user typed it.
        form: format of the files to find in a folder, or "auto" for any single format.

    Raises:
        DataError: if no file is found, if the path cannot be read, or if a folder contains data
            files of several formats.
    """
    location = Path(path)
    if any(sign in path for sign in "*?[") and not location.exists():
        files = sorted(map(Path, glob.glob(path, recursive=True)))  # noqa: PTH207 (also absolute)
        files = [file for file in files if file.is_file()]
        if not files:
            raise DataError(f"{path}: no file matches this pattern.")
        return files
    if not location.is_dir():
        check_file(location)
        return [location]
    return _find_in_folder(location, form)


def _find_in_folder(folder: Path, form: str) -> list[Path]:
    """Return the data files in a folder and its subfolders, sorted by path. Hidden files, and files
    in hidden subfolders, are left out.

    Raises:
        DataError: if there are no data files, or if the data files have several formats.
    """
    try:
        files = sorted(file for file in folder.rglob("*") if file.is_file())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error}).") from None
    kinds: dict[str, list[Path]] = {}
    for file in files:
        kind = format_of_suffix(file)
        hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if kind is not None and form in ("auto", kind) and not hidden:
            kinds.setdefault(kind, []).append(file)
    if not kinds:
        raise DataError(
            f"{folder}: is a folder without a data file"
            f"{'' if form == 'auto' else f' of format {form}'}; files end in"
            f" {', '.join(f'.{ending}' for ending in SUFFIXES)}."
        )
    if len(kinds) > 1:
        raise DataError(
            f"{folder}: has files of several formats ({', '.join(sorted(kinds))}). Say which:"
            f" data.format: {min(kinds)}, or give a pattern: {folder}/*.{min(kinds)}"
        )
    return next(iter(kinds.values()))


def file_series_names(path: str, files: Sequence[Path]) -> list[str]:
    """Return one name per file, for naming series that have no ids.

    A series gets the name of its file without the suffix. If several files have this name, the
    series gets the path of its file without the suffix. If these names are not unique, because some
    files differ only in their suffixes, each series gets the path of its file with the suffix.

    Args:
        path: the path as the user typed it.
        files: the files that the path refers to.
    """
    count, home = Counter(file.stem for file in files), Path(path)
    is_folder = home.is_dir()
    paths = [file.relative_to(home).as_posix() if is_folder else str(file) for file in files]
    names = [
        file.stem if count[file.stem] == 1 else path.removesuffix(file.suffix)
        for file, path in zip(files, paths, strict=True)
    ]
    return names if len(set(names)) == len(names) else paths
