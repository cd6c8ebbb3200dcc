"""Search for duration columns in a Parquet file. Parquet stores durations as integers.

Programs that write Parquet with Arrow store the Arrow schema as metadata. The schema is a
FlatBuffers message in base64 (https://arrow.apache.org/docs/format/Columnar.html, Schema.fbs).
"""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from seqattn.data.tables.connection import sql_call

if TYPE_CHECKING:
    import duckdb

DURATION = 18
"""Tag of the type `Duration` in Schema.fbs."""
SECONDS_OF_UNIT = (1.0, 1e-3, 1e-6, 1e-9)
"""Length of each unit in seconds, by unit number: second, millisecond, microsecond, nanosecond."""
MILLISECOND = 1


def read_durations(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[str, float]:
    """Return the length in seconds of the unit of each duration column, by column name. If the file
    has no readable Arrow schema, the result is empty.

    Raises:
        duckdb.Error: if the file is damaged.
    """
    found = connection.execute(
        f"SELECT value FROM {sql_call('parquet_kv_metadata', path)} WHERE key = 'ARROW:schema'"
    ).fetchall()
    try:
        return _parse_schema(base64.b64decode(bytes(found[0][0]))) if found else {}
    except (ValueError, struct.error, IndexError):  # Arrow did not write this schema
        return {}


def _parse_schema(message: bytes) -> dict[str, float]:
    begin = 8 if message[:4] == b"\xff\xff\xff\xff" else 4
    buffer = memoryview(message)[begin:]

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(f"<{form}", buffer, at)[0])

    def field(table: int, index: int) -> int:
        """Return the position of a field of a FlatBuffers table, or 0 if the field has its default
        value."""
        layout = table - number("i", table)
        if 4 + 2 * index >= number("H", layout):
            return 0
        offset = number("H", layout + 4 + 2 * index)
        return table + offset if offset else 0

    def follow(at: int) -> int:
        return at + number("I", at)

    schema = follow(field(follow(0), 2))
    fields = follow(field(schema, 1))
    found = {}
    for k in range(min(number("I", fields), len(buffer))):
        column = follow(fields + 4 + 4 * k)
        kind = field(column, 2)
        if not kind or number("B", kind) != DURATION:
            continue
        name = follow(field(column, 0))
        text = bytes(buffer[name + 4 : name + 4 + number("I", name)]).decode()
        unit = field(follow(field(column, 3)), 0)
        found[text] = SECONDS_OF_UNIT[number("h", unit) if unit else MILLISECOND]
    return found
