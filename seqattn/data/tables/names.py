"""Names of columns that say what they are, and names in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seqattn.data.files.columns import join_names
from seqattn.data.tables.table import Table
from seqattn.errors import DataError

SERIES_NAMES = (
    "unique_id", "series_id", "series", "sequence_id", "sequence", "seq", "ts_id", "item_id", "id",
    "utterance", "trip_id", "trip", "track_id", "track", "trajectory", "session_id", "session",
    "subject", "patient", "participant", "trial", "episode", "run", "sample", "store", "item",
    "dept", "sku", "product", "ticker", "symbol", "station", "sensor_id", "sensor", "device_id",
    "device", "meter", "user_id", "user", "customer", "country", "region", "city", "site", "name",
)  # fmt: skip
"""Names of series ids, the surest first."""
SURE_SERIES = 9  # so many of them are nothing else
BLOCK_SERIES = 24  # so many are series ids where their rows stand together
TIME_NAMES = (
    "ds", "timestamp", "datetime", "date_time", "date", "time", "step", "time_step", "timestep",
    "frame", "time_idx", "t", "tick", "period", "year", "quarter", "month", "week", "day", "hour",
    "minute", "second", "epoch", "index", "idx",
)  # fmt: skip
"""Names of time columns, the surest first."""
SURE_TIMES = 9  # likewise


def fold_name(name: str) -> str:
    """A name as it is looked up."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def known_names(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Those of some columns that are called as known ones are, the surest first.

    Args:
        known: such as `SERIES_NAMES`.
    """
    ranks = {name: rank for rank, name in enumerate(known)}
    found = [name for name in names if fold_name(name) in ranks]
    return sorted(found, key=lambda name: ranks[fold_name(name)])


def check_names(table: Table, names: Sequence[str], what: str) -> None:
    """
    Raises:
        DataError: a column is not there.
    """
    for name in names:
        if name not in table.header:
            raise DataError(
                f"{table.name}: no column {name!r} ({what}); found {join_names(table.header)}."
            )
