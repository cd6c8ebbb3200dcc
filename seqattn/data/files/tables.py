"""Tables: CSV and TSV as text, Parquet and Arrow with types; read by pyarrow, a stretch at a time.

Long form, a point a row; rows of one sequence stand together:

    sequence,step,x,y
    a,1,-1.02,-0.97
    a,2,-1.05,1.01

Wide form, a sequence a row; empty cells at the end of a row are no points:

    sequence,x_1,y_1,x_2,y_2
    a,-1.02,-0.97,-1.05,1.01
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.piece import (
    DATES,
    LONGEST_LINE,
    Form,
    Piece,
    Ragged,
    first_line,
    offsets_of,
)
from seqattn.data.sequences import Floats
from seqattn.errors import DataError, UsageError

EMPTY = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "none")
BLOCK = 2**20  # bytes of text a stretch; a row that needs more gets more, up to LONGEST_LINE
ROWS = 2**16  # of a typed table a stretch
SHOWN = 40  # signs of a cell in a message
DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}


def arrow() -> Any:
    """pyarrow, or the word of how to get it.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "CSV, TSV, Parquet and Arrow files are read with pyarrow, which is not installed: pip"
            " install pyarrow (it is the extra seqattn[data]). JSON lines, NPZ and NPY need"
            " nothing more."
        ) from None
    return pa


def read_text_table(raw: BinaryIO, name: str, form: Form, *, tabs: bool) -> Iterator[Piece]:
    """Pieces of a CSV or TSV file.

    Args:
        raw: from its first byte on.
        tabs: cells are separated by tabs, unless `form` says otherwise.

    Raises:
        DataError: with row and column, and what would do.
    """
    pa = arrow()
    delimiter = form.delimiter or ("\t" if tabs else ",")
    header = _header(raw, name, delimiter)
    columns = _Columns.find(header, form, name, _few_separators(header, delimiter))
    yield from _pieces(
        _text_batches(pa, raw, name, header, columns, delimiter, form), columns, name
    )


def read_typed_table(file: Path | BinaryIO, name: str, form: Form, *, parquet: bool) -> Iterator[
    Piece
]:  # fmt: skip
    """Pieces of a Parquet or Arrow file.

    Raises:
        DataError: with row and column, and what would do.
    """
    pa = arrow()
    try:
        header, batches = _open_typed(pa, file, parquet)
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = "Parquet" if parquet else "Arrow"
        raise DataError(f"{name}: is no whole {kind} file ({first_line(error)}).") from None
    columns = _Columns.find(header, form, name, "")
    yield from _pieces(_typed_batches(pa, batches, columns, name), columns, name)


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
    """

    path: Path
    group: int | None
    name: str
    form: Form
    is_long: bool
    is_named: bool

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
            header = list(found.physical_schema.names)
            columns = _Columns.find(header, self.form, self.name, "")
            batches = iter(
                found.to_batches(
                    columns=columns.needed, batch_size=ROWS, batch_readahead=1, use_threads=False
                )
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{self.name}: cannot be read ({first_line(error)}).") from None
        yield from _pieces(_typed_batches(pa, batches, columns, self.name), columns, self.name)


def _fragment(path: Path) -> Any:
    import pyarrow.dataset as ds

    (found,) = ds.dataset(str(path), format=KINDS[path.suffix.lower()]).get_fragments()
    return found


KINDS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc"}
"""What pyarrow's datasets call what a file's name ends in."""


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


def fragments_of(files: Sequence[Path], form: Form) -> Iterator[Fragment]:
    """What Parquet and Arrow files are read in, by pyarrow's datasets; those without a row are
    left out.

    Raises:
        DataError: one of them is broken.
    """
    pa = arrow()
    for file in files:
        parquet = KINDS[file.suffix.lower()] == "parquet"
        try:
            whole = _fragment(file)
            header = list(whole.physical_schema.names)
            rows = [group.num_rows for group in whole.row_groups] if parquet else []
            empty = whole.count_rows() == 0
        except (pa.ArrowException, OSError, ValueError) as error:
            name = "Parquet" if parquet else "Arrow"
            raise DataError(f"{file}: is no whole {name} file ({first_line(error)}).") from None
        columns = _Columns.find(header, form, str(file), "")
        named = columns.is_long or columns.sequence is not None
        if empty:
            continue
        if columns.is_long or len(rows) < 2:
            yield Fragment(file, None, str(file), form, columns.is_long, named)
            continue
        for k, n in enumerate(rows):
            if n:
                name = f"{file}, row group {k + 1} of {len(rows)}"
                yield Fragment(file, k, name, form, False, named)


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """Which columns of a table are read, and as what.

    Attributes:
        is_long: a point a row; else a sequence a row.
        sequence, order, group: names, or None.
        features: of a point.
        cells: names of the columns with numbers. Long: one a feature; wide: step by step.
        notes: what a reader should be told.
    """

    is_long: bool
    sequence: str | None
    order: str | None
    group: str | None
    features: tuple[str, ...]
    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        named = [name for name in (self.sequence, self.order, self.group) if name is not None]
        return [*named, *self.cells]

    @classmethod
    def find(cls, header: Sequence[str], form: Form, name: str, hint: str) -> _Columns:
        """
        Raises:
            DataError: columns are missing or doubled.
        """
        found = f"found {_listed(header)}"
        doubled = sorted({cell for cell in header if header.count(cell) > 1})
        if doubled:
            raise DataError(f"{name}:1: the column {doubled[0]!r} stands there twice.")
        if hint:
            raise DataError(f"{name}:1: {hint}; {found}.")
        layout = form.layout
        if layout == "auto":
            long = {form.sequence, form.order} & set(header)
            wide = _wide_columns([cell for cell in header if cell != form.sequence])
            layout = "wide" if wide and form.order not in header else "long"
            if not long and not wide and form.sequence is not None:
                expected = ",".join(
                    [w for w in (form.sequence, form.order) if w]
                    + list(form.features or ("x", "y"))
                )
                raise DataError(
                    f"{name}:1: no column {form.sequence!r}; {found}. Expected the header"
                    f" {expected}"
                )
        if layout == "wide":
            return cls._wide(header, form, name, found)
        return cls._long(header, form, name, found)

    @classmethod
    def _long(cls, header: Sequence[str], form: Form, name: str, found: str) -> _Columns:
        taken = [word for word in (form.sequence, form.order, form.group) if word is not None]
        for word in taken:
            if word not in header:
                expected = ",".join(dict.fromkeys([*taken, *(form.features or ("x", "y"))]))
                raise DataError(
                    f"{name}:1: no column {word!r}; {found}. Expected the header {expected}"
                )
        others = [cell for cell in header if cell not in taken]
        features, notes = _chosen(others, form, name, found)
        return cls(True, form.sequence, form.order, form.group, features, features, notes)

    @classmethod
    def _wide(cls, header: Sequence[str], form: Form, name: str, found: str) -> _Columns:
        sequence = form.sequence if form.sequence in header else None
        if form.group is not None and form.group not in header:
            raise DataError(f"{name}:1: no column {form.group!r}; {found}.")
        others = [cell for cell in header if cell not in (sequence, form.group)]
        steps = _wide_columns(others)
        if not steps:
            raise DataError(
                f"{name}:1: no columns such as x_1, y_1, x_2, y_2, a feature and a step each;"
                f" {found}."
            )
        features, notes = _chosen(list(dict.fromkeys(f for f, _ in steps)), form, name, found)
        numbers = sorted({step for feature, step in steps if feature in features})
        cells = list[str]()
        for step in range(numbers[0], numbers[-1] + 1):
            for feature in features:
                if (feature, step) not in steps:
                    raise DataError(
                        f"{name}:1: there is no column {feature!r} of step {step}, but there are"
                        f" steps {numbers[0]} to {numbers[-1]}; {found}."
                    )
                cells.append(steps[feature, step])
        unread = [cell for cell in others if cell not in steps.values()]
        if unread:
            notes = (*notes, f"left out: {_listed(unread)}")
        return cls(False, sequence, None, form.group, features, tuple(cells), notes)


def _wide_columns(header: Sequence[str]) -> dict[tuple[str, int], str]:
    """(feature, step) -> column, of columns such as x_1, x[2], y.3, lat4, or just 1, 2, 3."""
    found: dict[tuple[str, int], str] = {}
    for cell in header:
        match = re.fullmatch(r"(.*?)[\s_.\-\[(]?(\d{1,9})[\])]?", cell)
        if match:
            found.setdefault((match.group(1) or "value", int(match.group(2))), cell)
    return found


def _chosen(
    others: list[str], form: Form, name: str, found: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Features to be read, and notes."""
    wanted = form.features
    if wanted is None:
        if not others:
            raise DataError(f"{name}:1: has no column with features; {found}.")
        return tuple(others), ()
    missing = [feature for feature in wanted if feature not in others]
    if not missing:
        left_out = [cell for cell in others if cell not in wanted]
        return wanted, ((f"left out: {_listed(left_out)}",) if left_out else ())
    if form.may_rename and len(others) == len(wanted) == len(missing):
        note = f"{', '.join(others)} are read as {', '.join(wanted)}, in this order"
        return tuple(others), (note,)
    raise DataError(f"{name}:1: no column {missing[0]!r}; {found}. Needed are {_listed(wanted)}.")


def _listed(names: Sequence[str]) -> str:
    shown = [name if len(name) <= SHOWN else f"{name[:SHOWN]}..." for name in names[:12]]
    more = [f"and {len(names) - 12} more"] if len(names) > 12 else []
    return ", ".join([*shown, *more]) or "nothing"


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows of a table.

    Attributes:
        first: number of its first row, counted from 1 without the header.
        numbers: (rows, cells), NaN where a cell is empty.
        sequence, order, group: arrays of pyarrow, of texts, of numbers or dates, of texts.
    """

    first: int
    numbers: Floats
    sequence: Any
    order: Any
    group: Any


def _text_batches(
    pa: Any, raw: BinaryIO, name: str, header: list[str], columns: _Columns, delimiter: str,
    form: Form,
) -> Iterator[_Batch]:  # fmt: skip
    bad: list[Any] = []

    def remember(row: Any) -> str:
        bad.append(row)
        return "error"

    block = min(LONGEST_LINE, max(BLOCK, 64 * len(header)))
    first = 1
    try:
        reader = pa.csv.open_csv(
            _CheckedText(raw, name),
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=block, column_names=header
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter, invalid_row_handler=remember, newlines_in_values=False
            ),
            convert_options=pa.csv.ConvertOptions(
                include_columns=columns.needed,
                column_types=dict.fromkeys(columns.needed, pa.string()),
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            if batch.num_rows == 0:
                continue
            cells = [
                _numbers(pa, batch.column(cell), name, first, cell, form.decimal)
                for cell in columns.cells
            ]
            yield _Batch(
                first, np.column_stack(cells), *_named(pa, batch, columns, name, first, form)
            )
            first += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _not_csv(str(error), bad, name, len(header)) from None
    except StopIteration:
        return


def _not_csv(words: str, bad: list[Any], name: str, width: int) -> DataError:
    if bad:
        row = bad[0]
        number = f"row {row.number}" if row.number else "a row"
        text = row.text if len(row.text) <= SHOWN else f"{row.text[:SHOWN]}..."
        return DataError(
            f"{name}: {number} has {row.actual_columns} cells, the header has {width}: {text!r}."
        )
    if "Empty CSV" in words:
        return DataError(f"{name}: has a header but no rows.")
    if "straddling" in words or "block size" in words:
        return DataError(
            f"{name}: has a row of more than {BLOCK // 2**20} MiB; that is no table of sequences."
        )
    return DataError(f"{name}: is not valid CSV ({words.splitlines()[0][:200]}).")


def _numbers(pa: Any, column: Any, name: str, first: int, cell: str, decimal: str) -> Floats:
    """A column of texts as numbers, NaN where one is empty."""
    compute = pa.compute
    if decimal == ",":
        column = compute.replace_substring(column, ",", ".")
    try:
        found: Floats = compute.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
        return found
    except pa.ArrowInvalid:
        pass
    trimmed = compute.utf8_trim_whitespace(column)
    empty = compute.is_in(trimmed, value_set=pa.array(EMPTY))
    texts = compute.if_else(empty, pa.scalar(None, pa.string()), trimmed)
    try:
        cast = compute.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        for row, text in enumerate(texts.to_pylist()):
            if text is not None and not _is_number(pa, text):
                raise _no_number(text, name, first + row, cell, decimal) from None
        raise
    numbers: Floats = cast.to_numpy(zero_copy_only=False)
    return numbers


def _is_number(pa: Any, text: str) -> bool:
    try:
        pa.compute.cast(pa.array([text]), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _no_number(text: str, name: str, row: int, cell: str, decimal: str) -> DataError:
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    hint = ""
    if decimal == "." and re.fullmatch(r"[+-]?\d+,\d+", text):
        hint = " If that is a decimal comma, set data.decimal to ','."
    return DataError(f"{name}: row {row}, column {cell!r} holds {shown!r}, not a number.{hint}")


def _named(
    pa: Any, batch: Any, columns: _Columns, name: str, first: int, form: Form
) -> tuple[Any, Any, Any]:
    """The columns of texts: sequence, order, group."""

    def texts(column: str | None) -> Any:
        if column is None:
            return None
        values = pa.compute.cast(batch.column(column), pa.string())
        empty = pa.compute.fill_null(pa.compute.equal(values, ""), True)
        if pa.compute.any(empty).as_py():
            row = int(np.flatnonzero(empty.to_numpy(zero_copy_only=False))[0])
            raise DataError(f"{name}: row {first + row}, column {column!r} is empty.")
        return values

    order = None
    if columns.order is not None:
        order = _in_order(pa, batch.column(columns.order), name, first, columns.order, form)
    return texts(columns.sequence), order, texts(columns.group)


def _in_order(pa: Any, column: Any, name: str, first: int, cell: str, form: Form) -> NDArray[Any]:
    """Steps as numbers, or as dates: 2001-12-29, 2001-12-29T12:00, or 20011229."""
    if pa.types.is_temporal(column.type):
        try:
            column = pa.compute.cast(column, pa.timestamp("s"), safe=False)
        except pa.ArrowInvalid:
            raise DataError(f"{name}: the column {cell!r} holds {column.type}.") from None
        steps: NDArray[Any] = column.to_numpy(zero_copy_only=False).astype(DATES)
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = pa.compute.utf8_trim_whitespace(column)
        some = texts[0].as_py() if len(texts) else ""
        if re.fullmatch(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?", some or ""):
            try:
                cast = pa.compute.cast(texts, pa.timestamp("s"))
            except pa.ArrowInvalid:
                for row, text in enumerate(texts.to_pylist()):
                    if not re.fullmatch(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?", text or ""):
                        raise DataError(
                            f"{name}: row {first + row}, column {cell!r} holds"
                            f" {str(text)[:SHOWN]!r}, not a date."
                        ) from None
                raise DataError(f"{name}: the column {cell!r} holds a date that is none.") from None
            steps = cast.to_numpy(zero_copy_only=False).astype(DATES)
        else:
            steps = _numbers(pa, texts, name, first, cell, form.decimal)
    else:
        steps = _typed_numbers(pa, column, name, cell)
    missing = np.isnat(steps) if steps.dtype.kind == "M" else ~np.isfinite(steps)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise DataError(f"{name}: row {first + row}, column {cell!r} is empty or not finite.")
    return steps


def _open_typed(pa: Any, file: Path | BinaryIO, parquet: bool) -> tuple[list[str], Iterator[Any]]:
    source = str(file) if isinstance(file, Path) else pa.py_buffer(file.read())
    if parquet:
        opened = pa.parquet.ParquetFile(
            source if isinstance(source, str) else pa.BufferReader(source), memory_map=True
        )
        return list(opened.schema_arrow.names), opened.iter_batches(ROWS)
    mapped = pa.memory_map(source) if isinstance(source, str) else pa.BufferReader(source)
    try:
        table = pa.ipc.open_file(mapped)
        return list(table.schema.names), (
            table.get_batch(k) for k in range(table.num_record_batches)
        )
    except pa.ArrowInvalid:
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
        return list(stream.schema.names), iter(stream)


def _typed_batches(
    pa: Any, batches: Iterator[Any], columns: _Columns, name: str
) -> Iterator[_Batch]:
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
        numbers = [_typed_numbers(pa, batch.column(cell), name, cell) for cell in columns.cells]
        named = _named(pa, batch, columns, name, first, Form())
        yield _Batch(first, np.column_stack(numbers), *named)
        first += batch.num_rows
    if first == 1:
        raise DataError(f"{name}: has columns but no rows.")


def _typed_numbers(pa: Any, column: Any, name: str, cell: str) -> Floats:
    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"{name}: the column {cell!r} holds {kind}, not numbers.")
    try:
        cast = pa.compute.cast(column, pa.float64(), safe=False)
    except pa.ArrowException as error:
        raise DataError(f"{name}: the column {cell!r} is no column of numbers"
                        f" ({first_line(error)}).") from None  # fmt: skip
    found: Floats = cast.to_numpy(zero_copy_only=False)
    return found


# --- sequences ------------------------------------------------------------------------------------


def _pieces(batches: Iterator[_Batch], columns: _Columns, name: str) -> Iterator[Piece]:
    found = False
    made = _long_pieces if columns.is_long else _wide_pieces
    for piece in made(batches, columns, name):
        found = True
        yield replace(piece, notes=columns.notes, is_wide=not columns.is_long)
    if not found:
        raise DataError(f"{name}: has a header but no rows.")


def _wide_pieces(batches: Iterator[_Batch], columns: _Columns, name: str) -> Iterator[Piece]:
    F = len(columns.features)
    for batch in batches:
        n, cells = batch.numbers.shape
        values: Floats = batch.numbers.reshape(n, cells // F, F)
        empty = np.asarray(np.isnan(values).all(axis=2))
        lengths = cells // F - np.where(
            empty.all(axis=1), cells // F, empty[:, ::-1].argmin(axis=1)
        )
        offsets = offsets_of(lengths)

        def where(row: int, feature: int, offsets: Any = offsets, first: int = batch.first) -> str:
            k = int(np.searchsorted(offsets, row, side="right")) - 1
            column = columns.cells[(row - int(offsets[k])) * F + feature]
            return f"row {first + k}, column {column!r}"

        ids = (
            tuple(batch.sequence.to_pylist())
            if batch.sequence is not None
            else tuple(str(batch.first + k) for k in range(n))
        )
        full = bool((lengths == cells // F).all())
        rows = values.reshape(-1, F) if full else values[np.arange(cells // F) < lengths[:, None]]
        yield Piece(
            ids=ids,
            points=Ragged(rows, offsets, columns.features),
            where=where,
            groups=None if batch.group is None else tuple(batch.group.to_pylist()),
        )


def _long_pieces(batches: Iterator[_Batch], columns: _Columns, name: str) -> Iterator[Piece]:
    """Rows as whole sequences: the last of a stretch waits for the next."""
    waiting: list[_Rows] = []
    for batch in batches:
        rows = _Rows.of(batch)
        if waiting and rows.names[0] != waiting[-1].names[-1]:
            yield _Rows.joined(waiting).piece(columns, name)
            waiting = []
        if len(rows.names) == 1:
            waiting.append(rows)
            continue
        last = int(rows.starts[-1])
        whole = [*waiting, rows.part(0, last)]
        yield _Rows.joined(whole).piece(columns, name)
        waiting = [rows.part(last, len(rows.values))]
    if waiting:
        yield _Rows.joined(waiting).piece(columns, name)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a long table, and where each sequence begins.

    Attributes:
        numbers: of each row, counted from 1 without the header.
        names, starts: of each run of rows with one name.
        groups: a word a row, or None.
    """

    values: Floats
    order: Any
    numbers: NDArray[np.int64]
    names: list[str]
    starts: NDArray[np.int64]
    groups: Any

    @classmethod
    def of(cls, batch: _Batch) -> _Rows:
        n = len(batch.numbers)
        names, starts = [""], np.zeros(1, dtype=np.int64)
        if batch.sequence is not None:
            import pyarrow.compute as pc

            runs = pc.run_end_encode(batch.sequence)
            names = runs.values.to_pylist()
            ends = runs.run_ends.to_numpy(zero_copy_only=False).astype(np.int64)
            starts = np.concatenate([[0], ends[:-1]])
        groups = None if batch.group is None else batch.group.to_numpy(zero_copy_only=False)
        return cls(
            batch.numbers, batch.order, np.arange(batch.first, batch.first + n), names, starts,
            groups,
        )  # fmt: skip

    def part(self, first: int, last: int) -> _Rows:
        chosen = (self.starts >= first) & (self.starts < last)
        return _Rows(
            self.values[first:last],
            None if self.order is None else self.order[first:last],
            self.numbers[first:last],
            [name for name, is_in in zip(self.names, chosen, strict=True) if is_in],
            self.starts[chosen] - first,
            None if self.groups is None else self.groups[first:last],
        )

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        """One after the other; a name that goes on is one sequence."""
        if len(parts) == 1:
            return parts[0]
        names, starts, rows = list[str](), list[int](), 0
        for part in parts:
            for name, start in zip(part.names, part.starts.tolist(), strict=True):
                if not names or names[-1] != name:
                    names.append(name)
                    starts.append(rows + start)
            rows += len(part.values)

        def together(found: list[Any]) -> Any:
            return None if found[0] is None else np.concatenate(found)

        return cls(
            np.concatenate([part.values for part in parts]),
            together([part.order for part in parts]),
            np.concatenate([part.numbers for part in parts]),
            names,
            np.array(starts, dtype=np.int64),
            together([part.groups for part in parts]),
        )

    def piece(self, columns: _Columns, name: str) -> Piece:
        offsets = np.concatenate([self.starts, [len(self.values)]]).astype(np.int64)
        numbers = self.numbers
        if self.order is not None:
            self._refuse_disorder(offsets, columns, name)
        groups = None
        if self.groups is not None:
            groups = tuple(str(word) for word in self.groups[self.starts])
            first_of_row = np.repeat(self.groups[self.starts], np.diff(offsets))
            other = np.flatnonzero(first_of_row != self.groups)
            if other.size:
                row = int(other[0])
                raise DataError(
                    f"{name}: row {numbers[row]}, column {columns.group!r} is {self.groups[row]!r},"
                    f" but the sequence began with {first_of_row[row]!r}."
                )

        def where(row: int, feature: int) -> str:
            return f"row {numbers[row]}, column {columns.cells[feature]!r}"

        stem = Path(name).stem or "sequence"
        ids = tuple(self.names) if columns.sequence is not None else (stem,)
        return Piece(
            ids=ids,
            points=Ragged(self.values, offsets, columns.features),
            where=where,
            order=self.order,
            groups=groups,
        )

    def _refuse_disorder(self, offsets: NDArray[np.int64], columns: _Columns, name: str) -> None:
        order = self.order
        ahead = order[1:] > order[:-1]
        ahead[offsets[1:-1] - 1] = True
        wrong = np.flatnonzero(~ahead)
        if not wrong.size:
            return
        row = int(wrong[0]) + 1
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        here, before = (step_text(order[i]) for i in (row, row - 1))
        twice = "stands there twice" if here == before else f"comes after {before}"
        whose = f" of sequence {self.names[k]!r}" if columns.sequence is not None else ""
        raise DataError(
            f"{name}: row {self.numbers[row]}, column {columns.order!r}: step {here}{whose}"
            f" {twice}. Rows of one sequence stand together, in order, each step once."
        )


def step_text(step: Any) -> str:
    """A step as it would stand in a file."""
    if isinstance(step, np.datetime64):
        text = str(step.astype(DATES))
        return text.removesuffix("T00:00:00")
    number = float(step)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


class _CheckedText(io.RawIOBase):
    """A stream that refuses bytes that are no UTF-8, with their line, before they are parsed."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        self.raw, self.name, self.line = raw, name, 2  # the header is behind
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.raw.read(size)
        try:
            self.decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line = self.line + data.count(b"\n", 0, max(error.start, 0))
            raise DataError(
                f"{self.name}:{line}: byte {error.object[error.start]:#04x} is not UTF-8. Save the"
                " file as UTF-8."
            ) from None
        self.line += data.count(b"\n")
        return data


# --- the header -----------------------------------------------------------------------------------


def _header(raw: BinaryIO, name: str, delimiter: str) -> list[str]:
    """The first row that is not blank."""
    line = b"\n"
    first = True
    while line and not line.strip(b"\r\n \t"):
        line = raw.readline(LONGEST_LINE + 1)
        if first:
            if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(f"{name}:1: is UTF-16, not UTF-8. Save the file as UTF-8.")
            line, first = line.removeprefix(b"\xef\xbb\xbf"), False
    if not line:
        raise DataError(f"{name}: is empty. Expected a header row: sequence,step,x,y")
    if len(line) > LONGEST_LINE:
        raise DataError(f"{name}:1: the first row is longer than {LONGEST_LINE // 2**20} MiB.")
    try:
        text = line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}:1: byte {line[error.start]:#04x} in the first row is not UTF-8. Save the file"
            " as UTF-8."
        ) from None
    if "\0" in text:
        raise DataError(f"{name}:1: has zero bytes; that is no text.")
    if "\r" in text:
        raise DataError(f"{name}:1: ends its rows with carriage returns alone. Save it with \\n.")
    try:
        (row,) = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    except (csv.Error, ValueError) as error:
        raise DataError(f"{name}:1: is not valid CSV: {error}.") from None
    return [cell.strip() for cell in row]


def _few_separators(header: Sequence[str], delimiter: str) -> str:
    """What to say of a header that another sign seems to separate; else nothing."""
    if len(header) > 1:
        return ""
    for sign, word in DELIMITERS.items():
        if sign in header[0] and sign != delimiter:
            shown = "\\t" if sign == "\t" else sign
            return (
                f"its columns are separated by {word}, it seems, not by"
                f" {DELIMITERS.get(delimiter, repr(delimiter))}; set data.delimiter to '{shown}'"
            )
    return ""
