"""Tables with types, Parquet and Arrow, one file or a folder of them; read by pyarrow, a stretch at
a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from seqattn.data.files.cells import arrow, names_and_order, numbers_of
from seqattn.data.files.columns import Columns
from seqattn.data.files.piece import Form, Piece, first_line
from seqattn.data.files.rows import Batch, pieces_of
from seqattn.errors import DataError

ROWS = 2**16  # of a table a stretch
KINDS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc"}
"""What pyarrow's datasets call what a file's name ends in."""


def read_typed_table(file: Path | BinaryIO, name: str, form: Form, *, parquet: bool) -> Iterator[
    Piece
]:  # fmt: skip
    """Pieces of a Parquet or Arrow file.

    Raises:
        DataError: with row and column, and what would do.
    """
    pa = arrow()
    try:
        schema, batches = open_typed(pa, file, parquet)
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = "Parquet" if parquet else "Arrow"
        raise DataError(f"{name}: is no whole {kind} file ({first_line(error)}).") from None
    columns = _columns(pa, schema, form, name)
    yield from pieces_of(_typed_batches(pa, batches, columns, name), columns, name)


@dataclass(frozen=True, eq=False)
class Fragment:
    """Some rows of one file of many: a row group of a Parquet file with a sequence a row, else all.
    It keeps nothing of the file: the metadata of a row group alone can take 65 KB.

    Attributes:
        path: the file.
        group: which row group; None: the whole file.
        name: for messages.
        is_long: whether a row is a point.
        is_named: whether its sequences have names of their own.
        alone: what its sequence is called where it has but one.
    """

    path: Path
    group: int | None
    name: str
    form: Form
    is_long: bool
    is_named: bool
    alone: str

    def pieces(self) -> Iterator[Piece]:
        """
        Raises:
            DataError: with row and column, and what would do.
        """
        pa = arrow()
        try:
            found = _fragment(self.path)
            if self.group is not None:
                found = found.subset(row_group_ids=[self.group])
            columns = _columns(pa, found.physical_schema, self.form, self.name)
            batches = iter(
                found.to_batches(
                    columns=columns.needed, batch_size=ROWS, batch_readahead=1, use_threads=False
                )
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{self.name}: cannot be read ({first_line(error)}).") from None
        found_batches = _typed_batches(pa, batches, columns, self.name)
        yield from pieces_of(found_batches, columns, self.name, self.alone)


def files_of(path: Path, form: str = "auto") -> list[Path]:
    """The Parquet and Arrow files of a folder and of those below it, by name; or one such file.

    Args:
        form: only parquet, or only arrow; auto: both.

    Raises:
        DataError: there is none.
    """
    try:
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        wanted = [end for end, kind in KINDS.items()
                  if form == "auto" or (form == "parquet") == (kind == "parquet")]  # fmt: skip
        files = [file for file in files if file.suffix.lower() in wanted and file.is_file()]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if not files:
        what = "has no" if path.exists() else "no such folder; it would hold"
        raise DataError(f"{path}: {what} files that end in {', '.join(wanted)}.")
    return files


def fragments_of(files: Sequence[Path], form: Form, home: Path) -> Iterator[Fragment]:
    """What Parquet and Arrow files are read in, by pyarrow's datasets; those without a row are
    left out.

    Args:
        home: the folder that they lie in, or the one file.

    Raises:
        DataError: one of them is broken.
    """
    pa = arrow()
    stems = Counter(file.stem for file in files)
    for file in files:
        alone = file.stem
        if stems[alone] > 1:
            alone = file.relative_to(home).with_suffix("").as_posix()
        parquet = KINDS[file.suffix.lower()] == "parquet"
        try:
            whole = _fragment(file)
            schema = whole.physical_schema
            rows = [group.num_rows for group in whole.row_groups] if parquet else []
            empty = whole.count_rows() == 0
        except (pa.ArrowException, OSError, ValueError) as error:
            name = "Parquet" if parquet else "Arrow"
            raise DataError(f"{file}: is no whole {name} file ({first_line(error)}).") from None
        columns = _columns(pa, schema, form, str(file))
        named = columns.is_long or columns.sequence is not None
        if empty:
            continue
        if columns.is_long or len(rows) < 2:
            yield Fragment(file, None, str(file), form, columns.is_long, named, alone)
            continue
        for k, n in enumerate(rows):
            if n:
                name = f"{file}, row group {k + 1} of {len(rows)}"
                yield Fragment(file, k, name, form, False, named, alone)


def _fragment(path: Path) -> Any:
    import pyarrow.dataset as ds

    (found,) = ds.dataset(str(path), format=KINDS[path.suffix.lower()]).get_fragments()
    return found


def _columns(pa: Any, schema: Any, form: Form, name: str) -> Columns:
    """
    Raises:
        DataError: columns are missing or doubled.
    """
    columns = Columns.find(list(schema.names), form, name, "")
    if columns.order is None:
        return columns
    kind = schema.field(columns.order).type
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return columns
    said = f"times in {columns.order!r} are of the zone {kind.tz}, and are read and written as UTC"
    return replace(columns, notes=(*columns.notes, said))


def open_typed(pa: Any, file: Path | BinaryIO, parquet: bool) -> tuple[Any, Iterator[Any]]:
    """Schema and batches of a Parquet file, or of an Arrow file or stream.

    Raises:
        ArrowException, OSError, ValueError: it is none.
    """
    source = str(file) if isinstance(file, Path) else pa.py_buffer(file.read())
    if parquet:
        opened = pa.parquet.ParquetFile(
            source if isinstance(source, str) else pa.BufferReader(source), memory_map=True
        )
        return opened.schema_arrow, opened.iter_batches(ROWS)
    mapped = pa.memory_map(source) if isinstance(source, str) else pa.BufferReader(source)
    try:
        table = pa.ipc.open_file(mapped)
        return table.schema, (table.get_batch(k) for k in range(table.num_record_batches))
    except pa.ArrowInvalid:
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
        return stream.schema, iter(stream)


def _typed_batches(pa: Any, batches: Iterator[Any], columns: Columns, name: str) -> Iterator[Batch]:
    first = 1
    while True:
        try:
            batch = next(batches, None)
            if batch is not None:
                batch.validate(full=True)  # a broken offset would be followed out of memory
        except (pa.ArrowException, OSError, ValueError, IndexError) as error:
            raise DataError(
                f"{name}: is broken after row {first - 1} ({first_line(error)})."
            ) from None
        if batch is None:
            break
        if batch.num_rows == 0:
            continue
        at = {word: batch.schema.get_field_index(word) for word in columns.needed}
        batch = batch.select([at[word] for word in columns.needed])
        numbers = [numbers_of(pa, batch.column(cell), name, cell) for cell in columns.cells]
        named = names_and_order(pa, batch, columns, name, first, Form())
        yield Batch(first, np.column_stack(numbers), *named)
        first += batch.num_rows
    if first == 1:
        raise DataError(f"{name}: has columns but no rows.")
