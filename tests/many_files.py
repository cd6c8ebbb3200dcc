"""Folders of Parquet and Arrow files of noisy paths."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

LENGTHS = (4, 5, 6)


def wide(n: int, first: int, ragged: bool = False) -> pa.Table:
    """n sequences of 6 points, named s0, s1, ...; the second half is the first half backwards."""
    numbers = np.random.default_rng(first)
    points = numbers.normal(size=(n, 6, 2)) * [3.0, 0.5] + [1e3, -2.0]
    points[:, 3:] = points[:, 2::-1]
    if ragged:
        for k in range(n):
            points[k, LENGTHS[(first + k) % 3] :] = np.nan
    columns: dict[str, Any] = {"sequence": [f"s{first + k}" for k in range(n)]}
    for t, (j, name) in itertools.product(range(6), enumerate("ab")):
        columns[f"{name}_{t + 1}"] = points[:, t, j]
    return pa.table(columns)


def long(n: int, first: int) -> pa.Table:
    table = wide(n, first)
    return pa.table({
        "sequence": np.repeat(table["sequence"].to_pylist(), 6),
        "step": np.tile(np.arange(1, 7), n),
        **{name: np.stack([table[f"{name}_{t}"].to_numpy() for t in range(1, 7)], 1).ravel()
           for name in "ab"},
    })  # fmt: skip


def folder_of(home: Path, *tables: pa.Table, kind: str = "parquet", group: int = 17) -> Path:
    home.mkdir(exist_ok=True)
    for k, table in enumerate(tables):
        if kind == "parquet":
            pq.write_table(table, home / f"part-{k}.parquet", row_group_size=group)
        else:
            feather.write_feather(table, str(home / f"part-{k}.arrow"), compression="uncompressed")
    return home
