"""Numbers and words that mark missing values, such as -999: in every type of number and every
layout, they are found, or asked about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqattn.data.files import ReadOptions, read_all
from seqattn.errors import AmbiguousData


@pytest.mark.parametrize("mark", [-999.9, -99.9, -99.99, -999.0])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_mark_of_float32_is_found(tmp_path: Path, kind: pa.DataType, mark: float) -> None:
    """The nearest float32 of -999.9 differs from -999.9."""
    path = tmp_path / "a.parquet"
    values = pa.array([10.5, 12, 11, mark, 13, 10, 12], kind)
    pq.write_table(pa.table({"t": range(7), "x": values}), path)
    with pytest.raises(AmbiguousData, match=rf"column 'x' has {mark:g} in 1 cells") as caught:
        read_all(path, ReadOptions())
    (na, _) = caught.value.choices
    found = read_all(path, ReadOptions(na_values=(na["na_values"],))).points.values[:, 0]
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]
    kept = read_all(path, ReadOptions(na_values=())).points.values[3, 0]
    assert np.float32(kept) == np.float32(mark)


def test_a_mark_of_float32_that_was_written_as_float64_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    values = [10.5, 12.0, 11.0, float(np.float32(-999.9)), 13.0, 10.0]
    path.write_text("t,x\n" + "".join(f"{t},{x!r}\n" for t, x in enumerate(values)))
    assert "-999.90002" in path.read_text()
    with pytest.raises(AmbiguousData, match="column 'x' has -999.9 in 1 cells"):
        read_all(path, ReadOptions())
    found = read_all(path, ReadOptions(na_values=("-999.9",))).points.values[:, 0]
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]


def test_a_mark_beyond_float32_does_not_hide_infinity(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values = pa.array([1.5, 2, 1e300, 4, 5])
    pq.write_table(pa.table({"t": range(5), "x": values}), path)
    found = read_all(path, ReadOptions(na_values=("1e300",))).points.values[:, 0]
    assert np.flatnonzero(np.isnan(found)).tolist() == [2]
