"""Pairs of texts from the user's files.

A file is read once. Its symbols become numbers in one array for each side, and each part of the
data refers to ranges of these arrays, so that two million pairs need a few hundred megabytes. The
vocabulary consists of the symbols of the training part.

Which part a source belongs to depends on a hash of the source, the seed and the shares, so that
equal sources are in one part. No pair disappears without being counted: `Notes` say how many pairs
were left out, for which reason, and where the first of them is.

In shapes, N is the number of pairs, and "symbols" the number of all symbols of one side.
"""

from __future__ import annotations

import codecs
import collections.abc
import csv
import gzip
import hashlib
import io
import itertools
import json
import lzma
import re
import unicodedata
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from seqattn.config import UNKNOWN_PATH, Text
from seqattn.config.data import LINKS_OF_WORDS
from seqattn.data.files import check_file
from seqattn.data.sequences import Integers, Sequences
from seqattn.data.spaces import Space
from seqattn.data.spec import Splits
from seqattn.data.tables.connection import read_lines
from seqattn.data.text_sides import FinishedSide, ReadSide, finish_side
from seqattn.data.tokens import SPECIAL, Links
from seqattn.data.windows import RowRanges, WindowNames, Windows
from seqattn.errors import DataError, counted
from seqattn.rng import rng_for

STEM_ENDS = re.compile(r"(?<=\w)['’]s?$"), re.compile(r"(?<=\w)s$")
"""The end of an English possessive, and of a plural. Both are left out, so that boss and
boss's have the same stem."""
HEAD_LINES = 20
"""Number of lines that show which character separates cells."""
COMPRESSED = (".gz", ".xz", ".zst")
"""Suffixes of compressed text files."""
SHIPPED = {"shipped:cmudict": Path(__file__).parent / "shipped" / "cmudict.tsv.xz"}
"""Files of pairs that the package contains."""
MAX_IN_MEMORY = 2**22
"""Largest number of padded symbols of a part whose sequences are arrays in memory."""
PARTS = ("training", "validation", "test")
MAX_FITTED_PAIRS = 200_000
"""Largest number of training pairs to which baselines are fitted."""
GIVE_ENCODING = "Give the encoding of the file, for example data.encoding=cp1252."
LANGUAGES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu
lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr
ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
ara ces cze dan deu dut ell eng fin fra fre ger gre heb hin hun ita jpn kor lat nld nor pol por ron
rus spa swe tur ukr vie zho
"""
"""Codes of languages that may name the columns of pairs: those of ISO 639-1, and of three letters
(ISO 639-2) those of languages with many texts, because most words of three letters are no names."""
SOURCE_NAMES = ("source", "src", "input")
TARGET_NAMES = ("target", "tgt", "trg", "output")
"""Names of the columns of source and target, of which the first that a table has counts."""
REGION = re.compile(r"[-_][a-z]{2,4}$")
LINK = re.compile(r"(\d+)([-p?])(\d+)")
BRACES = re.compile(r"\{([^{},]+),([^{},]+)(?:,([^{},]+))?\}")


class Pair(NamedTuple):
    """A source and a target as text.

    Attributes:
        file: name of the file.
        line: number of the line or record, from 1.
        source, target: the two texts.
        links: the text of known links; "" for none.
        group: the group of the pair; "" for none.
    """

    file: Path
    line: int
    source: str
    target: str
    links: str = ""
    group: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}, line {self.line}"


# --- files ----------------------------------------------------------------------------------------


def parts_of_path(path: str) -> list[Path]:
    """Return the files that a path with braces names: source, target and possibly alignments; or
    the one file of a path without braces."""
    if path in SHIPPED:
        return [SHIPPED[path]]
    found = BRACES.search(path)
    names = [name for name in found.groups() if name is not None] if found else []
    files = [Path(BRACES.sub(name.strip(), path, count=1)) for name in names] or [Path(path)]
    for file in files:
        check_file(file)
    return files


@contextmanager
def _open_binary(path: Path) -> Iterator[BinaryIO]:
    """Open a file, decompressed."""
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    try:
        with openers.get(path.suffix.lower(), open)(path, "rb") as file:
            yield file
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataError(f"{path}: is a damaged compressed file ({error}).") from None


def text_lines(path: Path, encoding: str = "utf-8", advice: str = GIVE_ENCODING) -> Iterator[str]:
    """Yield the lines of a text file without their ends and without a byte order mark. A file that
    begins with the byte order mark of UTF-16 is UTF-16.

    Args:
        path: the file, which may be compressed.
        encoding: the name of its encoding.
        advice: what to do if the file has another encoding, for the error message.

    Raises:
        DataError: if a line is not text in the given encoding.
    """
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise DataError(f"data.encoding: {encoding!r} is no encoding that Python knows.") from None
    number = 0
    if path.suffix.lower() == ".zst":
        if name != "utf-8":
            raise DataError(f"{path}: a file .zst must be UTF-8. Unpack it first: zstd -d")
        yield from read_lines(path)
        return
    with _open_binary(path) as file:
        try:
            if name == "utf-8" and file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                name = encoding = "utf-16"
            file.seek(0)
            if name.startswith(("utf-16", "utf-32")):  # a line end is not one byte
                with io.TextIOWrapper(file, encoding, newline="\n") as text:
                    for line in text:
                        number += 1
                        yield line.rstrip("\r\n")
                return
            for raw in file:
                number += 1
                line = raw.decode(encoding)
                yield (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")
        except UnicodeError as error:
            raise DataError(
                f"{path}, line {number}: is not {encoding} text"
                f" ({getattr(error, 'reason', error)}). {advice}"
            ) from None


def read_pairs(config: Text, path: str, note: list[str]) -> Iterator[Pair]:
    """Yield the pairs of one path of the config, in order.

    Args:
        config: the section `data`.
        path: one of its paths.
        note: a list to which notes about the reading are added.

    Raises:
        DataError: if a file cannot be read, if parallel files have different numbers of lines, or
            if a line or a record has not the columns of the others.
    """
    files = parts_of_path(path)
    if len(files) > 1:
        return _parallel_pairs(files, config.encoding)
    rows, has_names = _open_rows(files[0], config.encoding)
    if has_names:
        return _records(config, files[0], rows, note)
    return _table_pairs(config, files[0], rows, note)


def _open_rows(path: Path, encoding: str) -> tuple[Iterator[tuple[int, Any]], bool]:
    """Return the numbered rows of a file, and whether they are objects with names instead of
    cells."""
    suffixes = [suffix for suffix in map(str.lower, path.suffixes) if suffix not in COMPRESSED]
    match suffixes[-1:]:
        case [".jsonl" | ".ndjson"]:
            return _json_lines(path, encoding), True
        case [".parquet" | ".pq"]:
            return _parquet_rows(path), True
        case [".csv"]:
            return _csv_rows(path, encoding), False
        case _:
            lines = enumerate(text_lines(path, encoding), 1)
            return ((number, line.split("\t")) for number, line in lines if line), False


def first_columns(path: str, encoding: str = "utf-8") -> list[str]:
    """Return the cells of the first row of a file, or the names of its first record."""
    rows, _ = _open_rows(parts_of_path(path)[0], encoding)
    _, row = next(rows, (0, []))
    return list(row)


def _parallel_pairs(files: Sequence[Path], encoding: str) -> Iterator[Pair]:
    readers = [text_lines(file, encoding) for file in files]
    for number, lines in enumerate(itertools.zip_longest(*readers), 1):
        if None in lines:
            short = lines.index(None)
            raise DataError(
                f"{files[short]}: has {number - 1:,} lines, fewer than {files[short - 1]}."
                " Parallel files have one line for each pair."
            )
        yield Pair(files[0], number, *lines)


def _csv_rows(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the numbered cells of rows."""
    lines = text_lines(path, encoding)
    head = list(itertools.islice(lines, HEAD_LINES))
    content = (f"{line}\n" for line in itertools.chain(head, lines))
    reader = csv.reader(content, delimiter=_delimiter(path, head), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, [cell.removesuffix("\n") for cell in row]
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: {error}.") from None


def _delimiter(path: Path, head: list[str]) -> str:
    """Return the character that separates the cells of a CSV file: a comma, a semicolon or a tab.

    Args:
        path: the file.
        head: its first lines.

    Raises:
        DataError: if more than one of them may be meant.
    """
    found = []
    for sign in ",;\t":
        try:
            rows = list(csv.reader((f"{line}\n" for line in head), delimiter=sign))
        except csv.Error:  # the reader of the whole file names the line
            continue
        # The last of several rows may be cut within a cell.
        counts = {len(row) for row in (rows[:-1] if len(head) == HEAD_LINES else rows) if row}
        if len(counts) == 1 and max(counts) > 1:
            found.append(sign)
    if len(found) > 1:
        signs = " or ".join(map(repr, found))
        raise DataError(
            f"{path}: {signs} may separate the cells. Put the cells in quotation marks, or use tabs"
            " in a file .tsv."
        )
    used = [sign for sign in ",;\t" if head and sign in head[0]]
    return next(iter([*found, *used]), ",")


def _table_pairs(
    config: Text, path: Path, rows: Iterable[tuple[int, list[str]]], note: list[str]
) -> Iterator[Pair]:
    """Yield the pairs of a table, whose first row may be a header."""
    columns, count = list[int | None](), 0
    for number, cells in rows:
        if not columns:
            columns, is_header = _read_first_row(config, path, cells, note)
            count = len(cells)
            if is_header:
                continue
        if len(cells) != count:
            raise DataError(
                f"{path}, line {number}: has {counted(len(cells), 'column')}, but the first line"
                f" has {count}. Correct the line."
            )
        yield Pair(path, number, *("" if k is None else cells[k] for k in columns))


def _read_first_row(
    config: Text, path: Path, cells: list[str], note: list[str]
) -> tuple[list[int | None], bool]:
    """Return the indices of the columns of source, target, links and group, and whether the first
    row of a table is a header: if the config names a column, if one cell is of `SOURCE_NAMES` and
    one of `TARGET_NAMES`, or if the cells are different `LANGUAGES`, with or without a region.

    Raises:
        DataError: if there is only one column.
    """
    if len(cells) < 2:
        raise DataError(
            f"{path}, line 1: has one column. A pair has a source and a target, with a tab (TSV) or"
            " a comma (CSV) between them."
        )
    header = [cell.strip() for cell in cells]
    lower = {cell.lower() for cell in header}
    is_header = (
        any((config.source.column, config.target.column, config.alignment, config.group))
        or all(lower.intersection(names) for names in (SOURCE_NAMES, TARGET_NAMES))
        or (
            len(lower) == len(header)
            and all(REGION.sub("", name) in LANGUAGES.split() for name in lower)
        )
    )
    columns = _columns_of(config, header if is_header else None, path, len(cells))
    names = [repr(header[k]) if is_header else str(k + 1) for k in columns[:2] if k is not None]
    has = "columns" if is_header else "the file has no header; columns"
    note.append(f"{path}: {has} {' and '.join(names)} are source and target")
    return columns, is_header


def _columns_of(
    config: Text, header: Sequence[str] | None, path: Path, count: int
) -> list[int | None]:
    """Return the indices of the columns of source, target, links and group. Without names, source
    and target are the two columns that have no other role.

    Raises:
        DataError: if it is unknown which columns are source and target.
    """
    names = [""] * count if header is None else list(header)
    has = f"{count} columns and no header" if header is None else ", ".join(map(repr, names))
    found, lower = _named_columns(config, names, path, has), [name.lower() for name in names]
    for side, usual in enumerate((SOURCE_NAMES, TARGET_NAMES)):
        if found[side] is None:
            found[side] = next((lower.index(name) for name in usual if name in lower), None)
    free = sorted(set(range(count)) - set(found))
    lacking = [side for side, column in enumerate(found[:2]) if column is None]
    if lacking and len(free) != len(lacking):
        raise DataError(
            f"{path}: has {has}. Set data.source.column and data.target.column, so that it is known"
            " which columns are the pair."
        )
    for side, column in zip(lacking, free, strict=False):
        found[side] = column
    if found[0] == found[1]:
        raise DataError(f"{path}: source and target are the same column. Set data.target.column.")
    return found


def _named_columns(config: Text, names: list[str], path: Path, has: str) -> list[int | None]:
    """Return the indices of the columns of source, target, links and group that the config names.

    Raises:
        DataError: if there is no column of such a name.
    """
    named = {"source.column": config.source.column, "target.column": config.target.column,
             "alignment": config.alignment, "group": config.group}  # fmt: skip
    for key, name in named.items():
        if name is not None and name not in names:
            raise DataError(f"{path}: data.{key}: there is no column {name!r}; the file has {has}.")
    return [None if name is None else names.index(name) for name in named.values()]


def _json_lines(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text_lines(path, encoding), 1):
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: is not valid JSON ({error}).") from None
            if not isinstance(record, dict):
                raise DataError(f"{path}, line {number}: expected an object with two texts.")
            yield number, record


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    import duckdb

    try:
        with duckdb.connect() as database:
            result = database.execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = [str(column[0]) for column in result.description]
            number = 0
            while rows := result.fetchmany(10_000):
                for row in rows:
                    number += 1
                    yield number, dict(zip(names, row, strict=True))
    except duckdb.Error as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error}).") from None


def _records(
    config: Text, path: Path, records: Iterable[tuple[int, dict[str, Any]]], note: list[str]
) -> Iterator[Pair]:
    """Yield the pairs of records with named texts."""
    names = list[str | None]()
    for number, record in records:
        if not names:
            keys = list(record)
            if len(keys) < 2:
                raise DataError(
                    f"{path}, line {number}: has {counted(len(keys), 'field')}; a pair has two"
                    " texts."
                )
            names = [
                None if k is None else keys[k] for k in _columns_of(config, keys, path, len(keys))
            ]
            note.append(f"{path}: the fields {names[0]!r} and {names[1]!r} are source and target")
        texts = ["" if name is None else record.get(name, "") for name in names]
        for name, text in zip(names, texts, strict=True):
            if not isinstance(text, str | None):
                raise DataError(
                    f"{path}, line {number}: {name!r} is no text, but {str(text)[:40]}."
                )
        yield Pair(path, number, *(text or "" for text in texts))


# --- numbers --------------------------------------------------------------------------------------


@dataclass
class _Pairs:
    """All pairs of a data set while they are read.

    Attributes:
        keys: for each pair, 64 bits that depend on what the split keeps together.
        hashes: for each pair, 64 bits that depend on its symbols.
    """

    source: ReadSide
    target: ReadSide
    lines: array[int] = field(default_factory=lambda: array("q"))
    keys: array[int] = field(default_factory=lambda: array("Q"))
    hashes: array[int] = field(default_factory=lambda: array("q"))
    part: array[int] = field(default_factory=lambda: array("b"))
    links: list[list[tuple[int, int, bool]]] = field(default_factory=list)
    left_out: dict[str, tuple[int, str]] = field(default_factory=dict)

    def leave_out(self, reason: str, place: str, count: int = 1) -> None:
        """Count pairs that are left out. `place` is the place of the first of them."""
        before, first = self.left_out.get(reason, (0, place))
        self.left_out[reason] = before + count, first


def has_control(text: str) -> bool:
    """Return whether a text has a control character other than a tab."""
    return not text.isprintable() and any(
        unicodedata.category(char) == "Cc" and char != "\t" for char in text
    )


def _key_of(config: Text, pair: Pair) -> int:
    """Return 64 bits that depend on what the split keeps together. Sources that differ only in case
    or in white space are kept together, so that the parts are the same with every unit."""
    by = {"pair": str(pair.line), "group": pair.group}.get(config.split.by, pair.source)
    text = " ".join(unicodedata.normalize("NFC", by).lower().split())
    if config.split.by == "stem":
        for end in STEM_ENDS:
            text = end.sub("", text)
    digest = hashlib.blake2b(f"{config.split.seed}\0{text}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


def _links_of(pair: Pair, source: int, target: int) -> list[tuple[int, int, bool]]:
    """Return the links of a pair.

    Raises:
        DataError: if they cannot be read, or name a symbol that the pair does not have.
    """
    found = list[tuple[int, int, bool]]()
    for word in pair.links.split():
        match = LINK.fullmatch(word)
        if match is None:
            raise DataError(
                f"{pair.place}: {word!r} is no link. Expected links such as 0-0 (sure) or 1p2"
                " (possible), from a source symbol to a target symbol."
            )
        s, t = int(match[1]), int(match[3])
        if s >= source or t >= target:
            raise DataError(
                f"{pair.place}: the link {word} names a symbol beyond the {source} source symbols"
                f" and {target} target symbols (counted from 0)."
            )
        found.append((t, s, match[2] == "-"))
    return found


def _has_links(config: Text) -> bool:
    """Return whether the pairs have known links.

    Raises:
        DataError: if they have, but the symbols are subwords.
    """
    paths = [path for path in (config.path, config.validation_path, config.test_path) if path]
    found = config.alignment is not None or any(len(parts_of_path(path)) == 3 for path in paths)
    if found and "bpe" in (config.source.unit, config.target.unit):
        raise DataError(f"{config.path}: {LINKS_OF_WORDS}.")
    return found


def _read(config: Text, notes: list[str]) -> _Pairs:
    """Read all pairs of all paths of the config.

    Raises:
        DataError: if a file cannot be read as the config says, or has links of subwords.
    """
    found = _Pairs(
        ReadSide(config.source),
        ReadSide(config.target, has_texts=config.target.unit != "character"),
    )
    has_links = _has_links(config)
    for part, path in enumerate((config.path, config.validation_path, config.test_path)):
        if path is None:
            continue
        for pair in read_pairs(config, path, notes):
            source, target = found.source.split(pair.source), found.target.split(pair.target)
            reason = ""
            if not (source and target):
                reason = "an empty side"
            elif max(len(source), len(target)) > config.max_length:
                reason = _too_long(config)
            elif has_control(pair.source) or has_control(pair.target):
                reason = "a control character"
            if reason:
                found.leave_out(reason, pair.place)
                continue
            found.source.add(source, ends=False)
            found.target.add(target, ends=True)
            found.lines.append(pair.line)
            found.keys.append(_key_of(config, pair))
            found.hashes.append(hash((*source, "\t", *target)))
            found.part.append(part)
            if has_links:
                found.links.append(_links_of(pair, len(source), len(target)))
    return found


def load_texts(config: Text, spaces: tuple[Space, Space] | None = None) -> Splits:
    """Read pairs of texts.

    Args:
        config: the section `data`.
        spaces: the spaces with the vocabularies of source and target; None to build them from the
            training part.

    Raises:
        DataError: if a file cannot be read as the config says, or if a part has no pairs.
    """
    if config.path == UNKNOWN_PATH:
        raise DataError("a checkpoint does not contain the path of its data.")
    notes = list[str]()
    pairs = _read(config, notes)
    if not pairs.lines:
        raise DataError(f"{config.path}: has no pair of texts.")
    part = np.frombuffer(pairs.part, dtype=np.int8)
    if config.validation_path is None:
        part = _split(config, np.frombuffer(pairs.keys, dtype=np.uint64))
    _check_parts(config, part)
    pairs.source.known, pairs.target.known = spaces or (None, None)
    sides = [finish_side(pairs.source, part), finish_side(pairs.target, part)]
    part = _leave_out_long(config, pairs, sides, part)
    _check_parts(config, part)
    places = [np.flatnonzero(part == k) for k in range(3)]
    hashes = np.frombuffer(pairs.hashes, dtype=np.int64)
    again = int(np.isin(hashes[part > 0], hashes[part == 0]).sum())
    ids = _Numbers(pairs.lines if config.test_path is None else range(1, len(pairs.lines) + 1))
    train, validation, test = (_part(sides, ids, chosen, pairs.links) for chosen in places)
    notes = [*_size_notes(pairs, places), *notes, *_unknown_notes(sides)]
    if again:
        notes.append(f"{counted(again, 'validation or test pair')} are also in the training part")
    digests = [
        _digest(parts_of_path(path))
        for path in (config.path, config.validation_path, config.test_path)
        if path is not None
    ]
    fitted_on = None
    if isinstance(train, Windows) and len(train) > MAX_FITTED_PAIRS:
        drawn = rng_for(config.split.seed, "sample", 0).permutation(len(train))[:MAX_FITTED_PAIRS]
        fitted_on = train.subset(np.sort(drawn))
        notes.append(f"baselines are fitted to {MAX_FITTED_PAIRS:,} training pairs")
    return Splits(
        train, validation, test, notes=tuple(notes), digests=tuple(digests), fitted_on=fitted_on
    )


def load_pairs(config: Text, path: str, spaces: tuple[Space, Space], notes: list[str]) -> Sequences:
    """Read all pairs of a file in the spaces of a model.

    Args:
        config: the section `data`, without its paths and its split.
        path: the file.
        spaces: the spaces with the vocabularies of source and target.
        notes: a list to which notes about the reading are added.

    Raises:
        DataError: if the file cannot be read as the config says, or if it has no usable pair.
    """
    config = config.model_copy(update={"path": path, "validation_path": None, "test_path": None})
    pairs = _read(config, notes)
    pairs.source.known, pairs.target.known = spaces
    part = np.full(len(pairs.lines), 2, dtype=np.int8)
    sides = [finish_side(pairs.source, part), finish_side(pairs.target, part)] if len(part) else []
    if sides:
        part = _leave_out_long(config, pairs, sides, part)
    notes += _left_out_notes(pairs)
    if not (part == 2).any():
        raise DataError(f"{path}: has no usable pair of texts.")
    for side, name in zip(sides, ("sources", "targets"), strict=True):
        if unknown := round(side.unknown[2] * side.lengths.sum()):
            notes.append(f"unknown to the model: {counted(unknown, 'symbol')} of the {name}")
    return _part(sides, _Numbers(pairs.lines), np.flatnonzero(part == 2), pairs.links)


def _check_parts(config: Text, part: NDArray[np.int8]) -> None:
    """Check that each part has a pair.

    Raises:
        DataError: if a part has none.
    """
    for k, name in enumerate(PARTS):
        if not (part == k).any():
            raise DataError(
                f"{config.path}: the {name} part has no pairs. Give more pairs, or set"
                " data.split.validation and data.split.test."
            )


def _too_long(config: Text) -> str:
    return f"more than {config.max_length} symbols (data.max_length)"


def _leave_out_long(
    config: Text, pairs: _Pairs, sides: Sequence[FinishedSide], part: NDArray[np.int8]
) -> NDArray[np.int8]:
    """Return the part (N,) of each pair, with -1 for pairs whose words are few enough, but whose
    subwords are more than `max_length`."""
    is_long = np.maximum(sides[0].lengths, sides[1].lengths - 1) > config.max_length
    if not is_long.any():
        return part
    first = int(is_long.argmax())
    path = (config.path, config.validation_path, config.test_path)[pairs.part[first]]
    place = f"{path}, line {pairs.lines[first]}"
    pairs.leave_out(_too_long(config), place, int(is_long.sum()))
    return np.where(is_long, np.int8(-1), part)


def _digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 digest of the content of files, one after the other."""
    found = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while block := content.read(2**20):
                found.update(block)
    return found.hexdigest()


def _size_notes(pairs: _Pairs, places: Sequence[Integers]) -> list[str]:
    """Return a note on the number of pairs in each part, and one on the pairs of each reason to
    leave them out."""
    sizes = (f"{len(one):,} {name} pairs" for one, name in zip(places, PARTS, strict=True))
    return ["; ".join(sizes), *_left_out_notes(pairs)]


def _left_out_notes(pairs: _Pairs) -> list[str]:
    return [
        f"{counted(count, 'pair')} left out with {reason}, the first in {first}"
        for reason, (count, first) in pairs.left_out.items()
    ]


def _split(config: Text, keys: NDArray[np.uint64]) -> NDArray[np.int8]:
    """Return the part of each pair: 0 for training, 1 for validation, 2 for test. The keys with the
    smallest hashes belong to the test part, and the next ones to the validation part."""
    kept, inverse = np.unique(keys, return_inverse=True)
    split = config.split
    test, validation = (
        round(size * len(kept)) if size < 1 else int(size)
        for size in (split.test, split.validation)
    )
    part = np.zeros(len(kept), dtype=np.int8)
    part[:test], part[test : test + validation] = 2, 1
    found: NDArray[np.int8] = part[inverse]
    return found


class _Numbers(collections.abc.Sequence[str]):
    """Numbers as names of pairs."""

    def __init__(self, lines: array[int] | range) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(map(str, self.lines[index]))
        return str(self.lines[index])


def _part(
    sides: Sequence[FinishedSide], ids: _Numbers, chosen: Integers,
    links: Sequence[Sequence[tuple[int, int, bool]]],
) -> Sequences:  # fmt: skip
    """Return the sequences of a part: gathered on demand if they are many and have no links."""
    source, target = (
        RowRanges(
            one.values, (0,), one.space.names, one.starts[chosen], one.lengths[chosen], chosen
        )
        for one in sides
    )
    source_space, target_space = sides[0].space, sides[1].space
    texts = None if sides[1].texts is None else sides[1].texts[chosen]
    part = Windows(
        source, target, WindowNames(ids, chosen), has_empty=False, source_space=source_space,
        target_space=target_space, target_texts=texts,
    )  # fmt: skip
    if not links and len(part) * (part.source_steps + part.target_steps) > MAX_IN_MEMORY:
        return part
    whole = part.select(slice(None))
    known = Links.of([links[k] for k in chosen.tolist()]) if links else None
    return Sequences(
        whole.source, whole.source_lengths, whole.target,
        whole.target_lengths, whole.features, tuple(part.ids), links=known,
        target_features=whole.target_features, source_space=source_space,
        target_space=target_space, target_texts=texts,
    )  # fmt: skip


def _unknown_notes(sides: Sequence[FinishedSide]) -> list[str]:
    """Return one note for each side on the size of the vocabulary and the unknown symbols."""
    notes = []
    for side, word in zip(sides, ("source", "target"), strict=True):
        shares = (f"{one:.2%} in {name}" for one, name in zip(side.unknown, PARTS, strict=True))
        size = len(side.space.symbols) - len(SPECIAL)
        unit = "subword" if side.space.unit == "bpe" else side.space.unit
        notes.append(f"{word}: {size:,} {unit}s; unknown: {', '.join(shares)}")
    return notes
