"""Reader of tables in CSV, TSV, JSON, Parquet and Arrow files.

A file becomes a `Table` with raw columns. Each column becomes a `Column` of numbers, times or
words. The columns determine whether the table is a `LongTable` or a `WideTable`, whose rows become
`Chunk` objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from seqattn.data.chunk import Chunk
from seqattn.data.reading import LONG_LAYOUT, Reading, Resolution
from seqattn.data.tables.long import LongTable
from seqattn.data.tables.roles import infer_long_table
from seqattn.data.tables.table import Table, open_table
from seqattn.data.tables.wide import WideTable, find_wide_table
from seqattn.errors import AmbiguousData, DataError

RolesFound = tuple[LongTable | WideTable, tuple[Resolution, ...]]
"""A table with the roles of its columns, and how its ambiguities were resolved."""


def find_roles(table: Table, reading: Reading, like: Reading | None = None) -> RolesFound:
    """Find the layout of a table and the roles of its columns.

    Args:
        table: the rows.
        reading: how to read the table.
        like: the reading of another table, which resolves ambiguities, or None.

    Raises:
        AmbiguousData: if the table can be read in several ways, and the other table does not show
            which is right.
    """
    resolutions: tuple[Resolution, ...] = ()
    while True:
        try:
            wide = find_wide_table(table, reading)
            found = infer_long_table(table, reading) if wide is None else wide.with_columns()
        except AmbiguousData as ambiguity:
            if like is None:
                raise
            resolution = reading.resolve(ambiguity, like)
        else:
            return found, resolutions
        resolutions = (*resolutions, resolution)
        reading = replace(reading, **{resolution.key: resolution.value})  # type: ignore[arg-type]


def read_table(
    path: Path, name: str, kind: str, reading: Reading, like: Reading | None, *, whole: bool
) -> Iterator[Chunk]:
    """Yield the sequences of a table file in chunks.

    Args:
        path: the file.
        name: name of the file, for messages.
        kind: format of the file.
        reading: how to read the file.
        like: the reading of another table, which resolves ambiguities, or None.
        whole: whether to yield all sequences of a long table as one chunk.
    """
    with open_table(path, name, kind, reading) as table:
        found, resolutions = find_roles(table, as_trained(table, reading, like), like)
        for chunk in found.chunks(whole=whole):
            yield replace(chunk, resolutions=resolutions)


def as_trained(table: Table, reading: Reading, like: Reading | None) -> Reading:
    """Return the reading of a table with the roles of the training table, if these roles are known,
    and with the feature names of the file. If `may_rename` is set, these names may differ from the
    requested names.

    Raises:
        DataError: if a feature is missing and no column can replace it.
    """
    if (trained := reading.trained) is not None:
        reading = reading.with_trained_decimal(table.delimiter)
        _check_layout(table, reading, trained)
        is_wide = find_wide_table(table, reading) is not None
        reading = reading.with_trained_roles(table.name, table.header, is_wide=is_wide)
    requested = reading.number_columns
    if not requested or not reading.may_rename or set(requested) <= set(table.header):
        return reading
    found, _ = find_roles(table, replace(reading, features=None), like)
    if isinstance(found, WideTable):
        return reading
    available = found.numbers
    if len(available) == len(requested) and not set(available) & set(requested):
        names = f"{', '.join(available)} are read as {', '.join(requested)}"
        table.notes.append(f"{names}, in this order")
        words = [name for name in reading.features or () if name not in requested]
        return replace(reading, features=(*available, *words))
    missing = next(name for name in requested if name not in table.header)
    raise DataError(
        f"{table.name}: no column {missing!r}; found {', '.join(table.header[:12])}. Needed are"
        f" {', '.join(requested)}. Rename the columns in the file."
    )


def _check_layout(table: Table, reading: Reading, trained: Reading) -> None:
    """Check that a table is not wide if the training table was long and the user set its layout.

    Raises:
        DataError: if the table is wide.
    """
    columns = {*trained.series_columns, *trained.time_columns}
    if reading.layout != LONG_LAYOUT or columns <= set(table.header):
        return
    if find_wide_table(table, replace(reading, layout="auto", series="auto", features=None)):
        raise DataError(
            f"{table.name}: each row is a sequence, but in the training table each row was a step."
            " Set data.layout to wide (--set data.layout=wide)."
        )
