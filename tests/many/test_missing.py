"""Unobserved target cells in a training over several processes, against the same in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.faults.nursery import Nursery
from tests.many.several import losses, together, words
from tests.many_files import folder_of, long


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("density", [0.7, 0.15])
def test_shares_weigh_what_was_observed_of_them(
    kind: str, density: float, nursery: Nursery, tmp_path: Path
) -> None:
    """A share may have many observed cells, few, or none, whatever its number of points."""
    numbers = np.random.default_rng(1)
    tables = []
    for k in range(3):
        table = long(30, 30 * k)
        step = table["step"].to_numpy()
        for name in "ab":
            column = table[name].to_numpy().copy()
            column[(step > 3) & (numbers.random(len(step)) > density)] = np.nan
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, pa.array(column, from_pandas=True))
        tables.append(table)
    folder_of(tmp_path / "d", *tables)
    path, cache = ("d", "always") if kind == "folder" else ("d/part-0.parquet", "auto")
    sets = ["data.kind=file", f"data.path={path}", f"data.cache={cache}", "data.source_length=3",
            "data.missing=interpolate", "data.split.validation=0.3", "data.split.test=0.3",
            "training.epochs=4", "training.batch_size=5",
            "training.teacher_forcing.probability=0.5"]  # fmt: skip
    alone = nursery.run(words("one", sets=sets), tmp_path)
    assert alone.code == 0, alone.err
    done = together(nursery, tmp_path, 2, words("many", sets=sets))
    assert [each.code for each in done] == [0, 0], done
    one, many = (losses(tmp_path / "outputs" / name) for name in ("one", "many"))
    assert one.shape == many.shape == (4, 3)
    assert np.isfinite(one).all()
    assert np.abs(one - many).max() < 1e-5
