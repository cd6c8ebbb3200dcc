"""The DuckDB database that reads tables, and temporary files that it can open by path.

Each process has one database. The database is in memory and spills to a temporary folder.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.data.chunk import MAX_LINE_BYTES, first_line
from seqattn.errors import DataError

if TYPE_CHECKING:
    import duckdb


HAS_DESCRIPTOR_PATHS = Path("/dev/fd").is_dir()
"""Whether the system has a path for each open file, as Linux and macOS do."""
CAN_OPEN_TWICE = os.name == "posix"
"""Whether a `NamedTemporaryFile` can be opened a second time. Windows refuses this for a file that
is removed automatically when it is closed."""


def unnamed_file() -> Any:
    """Open a temporary file without a name, so that a killed process leaves no file behind. If the
    system has no paths for open files (see `HAS_DESCRIPTOR_PATHS`), the file has a name. `path_of`
    returns a path in both cases."""
    return tempfile.TemporaryFile() if HAS_DESCRIPTOR_PATHS else named_file()


def named_file(suffix: str = "") -> Any:
    """Open a temporary file with a name. The file is removed when it is closed.

    Args:
        suffix: end of the name.
    """
    if CAN_OPEN_TWICE:
        return tempfile.NamedTemporaryFile(suffix=suffix)
    file: Any = tempfile.NamedTemporaryFile(suffix=suffix, delete=False)  # noqa: SIM115
    close = file.close

    def close_and_remove() -> None:
        close()
        Path(file.name).unlink(missing_ok=True)

    file.close = close_and_remove
    return file


def path_of(file: Any) -> str:
    """Return a path through which a file from `unnamed_file` or `named_file` can be opened."""
    return file.name if isinstance(file.name, str) else f"/dev/fd/{file.fileno()}"


MEMORY_LIMIT = "1GB"
"""Maximum memory of the database before it spills to disk."""


THREADS = 2
_databases: dict[int, duckdb.DuckDBPyConnection] = {}
_folders: list[tuple[str, int]] = []
"""The temporary folders of databases, each with the id of the process that created it."""


@contextmanager
def connect(name: str = "") -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection with separate temporary tables and without network access.

    Args:
        name: name of the file to read, for messages.

    Raises:
        DataError: if the database reports an error.
    """
    import duckdb

    connection = _database().cursor()
    try:
        yield connection
    except duckdb.OutOfMemoryException:
        raise DataError(
            f"{name}: needs more memory than {MEMORY_LIMIT} and more room for temporary files than"
            f" {tempfile.gettempdir()} has. Free some, or set TMPDIR to a folder on a larger disk."
        ) from None
    except duckdb.Error as error:
        raise DataError(f"{name}: cannot be read as a table ({first_line(error)}).") from None
    finally:
        connection.close()


def _database() -> duckdb.DuckDBPyConnection:
    """Return the database of this process. The database is reused as long as it is usable, because
    opening a database takes longer than reading a small file."""
    import duckdb

    process = os.getpid()
    if process in _databases:
        try:
            _databases[process].cursor().execute("SELECT 1").fetchall()
        except duckdb.Error:  # a fatal error, for example from a damaged file, made it unusable
            del _databases[process]
    if process not in _databases:
        folder = tempfile.mkdtemp(prefix="seqattn-")
        atexit.register(remove_folders)
        _folders.append((folder, process))
        _databases[process] = duckdb.connect(
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": MEMORY_LIMIT,
                "preserve_insertion_order": "true",  # required by row numbers and lag() OVER ()
                "temp_directory": folder,
                "threads": str(min(THREADS, os.cpu_count() or 1)),
            }
        )
    return _databases[process]


def remove_folders() -> None:
    """Close the database of this process and remove its temporary folders, but not those of the
    process that forked it. A database that is still open when the interpreter ends prints every
    object of its bindings."""
    if (database := _databases.pop(os.getpid(), None)) is not None:
        database.close()
    del database
    for folder, process in _folders:
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)


def literal(value: Any) -> str:
    """Return a value as an SQL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):  # a DECIMAL such as 1.5 cannot be compared with every number
        return f"'{value!r}'::DOUBLE"
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        pairs = (f"{literal(key)}: {literal(entry)}" for key, entry in value.items())
        return f"{{{', '.join(pairs)}}}"
    text = str(value).replace("'", "''")
    return f"'{text}'"


def quote_name(name: str) -> str:
    """Return a column name as a quoted SQL identifier."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def sql_call(function: str, path: Path, **options: Any) -> str:
    """Return SQL that calls a table function on a file. The path is never read as a pattern."""
    arguments = "".join(f", {key} = {literal(value)}" for key, value in options.items())
    name = re.sub(r"[\[*?]", r"[\g<0>]", str(path))  # the database expands these characters
    return f"{function}({literal(name)}{arguments})"


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a compressed text file, without line ends.

    Raises:
        DataError: if the file cannot be decompressed.
    """
    import duckdb

    source = sql_call(
        "read_csv", path, header=False, auto_detect=False, delim="\x01", quote="", escape="",
        columns={"line": "VARCHAR"}, strict_mode=False, hive_partitioning=False,
        max_line_size=MAX_LINE_BYTES, buffer_size=2 * MAX_LINE_BYTES,
    )  # fmt: skip
    with connect(str(path)) as connection:
        try:
            rows = connection.execute(f"SELECT line FROM {source}")
            while lines := rows.fetchmany(10_000):
                yield from (line or "" for (line,) in lines)
        except duckdb.Error as error:
            raise DataError(f"{path}: cannot be decompressed ({first_line(error)}).") from None
