"""Usual names of series id and time columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seqattn.data.reading import join_names
from seqattn.data.tables.table import Table
from seqattn.errors import DataError

SERIES_NAMES = (
    "unique_id", "series_id", "series", "sequence_id", "sequence", "seq", "ts_id", "item_id", "id",
    "utterance", "trip_id", "trip", "track_id", "track", "trajectory", "session_id", "session",
    "subject", "patient", "participant", "trial", "episode", "run", "sample", "store", "item",
    "dept", "sku", "product", "ticker", "symbol", "station", "sensor_id", "sensor", "device_id",
    "device", "meter", "user_id", "user", "customer", "country", "region", "city", "site", "name",
)  # fmt: skip
"""Usual names of series ids, the least ambiguous first."""
SURE_SERIES = 9  # number of names at the start of the list that are unambiguous
BLOCK_SERIES = 24  # number of names that indicate series ids if the rows of each id are contiguous
TIME_NAMES = (
    "ds", "timestamp", "datetime", "date_time", "date", "time", "step", "time_step", "timestep",
    "frame", "time_idx", "t", "tick", "period", "year_week", "yearweek", "iso_week", "isoweek",
    "epiweek", "year_month", "yearmonth", "year", "quarter", "month", "week", "day", "hour",
    "minute", "second", "epoch", "index", "idx",
)  # fmt: skip
"""Usual names of time columns, the least ambiguous first."""
SURE_TIMES = 9  # number of names at the start of the list that are unambiguous


def fold_name(name: str) -> str:
    """Convert a column name to the form of the usual names."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def known_names(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the columns with a usual name, the least ambiguous first.

    Args:
        names: names of columns.
        known: usual names, such as `SERIES_NAMES`.
    """
    ranks = {name: rank for rank, name in enumerate(known)}
    found = [name for name in names if fold_name(name) in ranks]
    return sorted(found, key=lambda name: ranks[fold_name(name)])


def check_names(table: Table, names: Sequence[str], config_keys: str) -> None:
    """Check that columns exist.

    Args:
        table: the table to search.
        names: names of the columns.
        config_keys: config keys that contain these names, for the message.

    Raises:
        DataError: if a column is missing.
    """
    for name in names:
        if name not in table.header:
            raise DataError(
                f"{table.name}: no column {name!r} ({config_keys}); found"
                f" {join_names(table.header)}."
            )
