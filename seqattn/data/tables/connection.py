"""The database that reads tables: one in memory, which spills to a temporary folder."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.errors import DataError

if TYPE_CHECKING:
    import duckdb

MEMORY = "1GB"
"""What a connection may hold before it writes to the disk."""


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that fetches nothing from a network and leaves nothing behind."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="seqattn-") as folder:
        connection = duckdb.connect(
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": MEMORY,
                "temp_directory": folder,
                "threads": str(min(4, os.cpu_count() or 1)),
            }
        )
        try:
            yield connection
        finally:
            connection.close()


def literal(value: Any) -> str:
    """A value as it stands in SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value) if math.isfinite(value) else f"'{value}'::DOUBLE"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        pairs = (f"{literal(key)}: {literal(entry)}" for key, entry in value.items())
        return f"{{{', '.join(pairs)}}}"
    text = str(value).replace("'", "''")
    return f"'{text}'"


def quoted(name: str) -> str:
    """A column's name as it stands in SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def call(function: str, path: Path, **options: Any) -> str:
    """A table function of a file, as it stands in SQL."""
    given = "".join(f", {key} = {literal(value)}" for key, value in options.items())
    return f"{function}({literal(str(path))}{given})"


def first_lines(path: Path, count: int) -> list[str]:
    """The first lines of a packed text.

    Raises:
        DataError: it cannot be unpacked.
    """
    import duckdb

    source = call(
        "read_csv", path, header=False, auto_detect=False, delim="\x01", quote="", escape="",
        columns={"line": "VARCHAR"}, strict_mode=False,
    )  # fmt: skip
    with connected() as connection:
        try:
            found = connection.execute(f"SELECT line FROM {source} LIMIT {count}").fetchall()
        except duckdb.Error as error:
            raise DataError(f"{path}: cannot be unpacked ({first_line(error)}).") from None
    return [line or "" for (line,) in found]


def first_line(error: BaseException) -> str:
    """What a library says of a broken file, short."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
