"""Tensors of all windows, gathered a few at a time, are those of arrays of all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from seqattn.config import resolve
from seqattn.data import Splits, Windows, load_data
from seqattn.training import batches
from seqattn.training.batches import (
    Batch,
    GatheredBatch,
    batch_of,
    to_tensors,
)

LONG = ["data.window.source=5", "data.window.target=3", "data.split.by=time"]


def table(path: Path, lengths: list[int], empty: float) -> Path:
    numbers = np.random.default_rng(7)
    rows = ["id,step,a,b"]
    for k, length in enumerate(lengths):
        for t in range(length):
            cells = [f"{value:.4f}" for value in numbers.normal(size=2)]
            if numbers.uniform() < empty:
                cells[int(numbers.integers(2))] = ""
            rows.append(f"s{k},{t + 1},{','.join(cells)}")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(params=["plain", "gaps", "instance", "features", "ragged"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Splits:
    ragged = [int(n) for n in np.random.default_rng(5).integers(6, 11, 40)]
    lengths, empty, sets = {
        "plain": ([80] * 3, 0, LONG),
        "gaps": ([80] * 3, 0.1, [*LONG, "data.missing=interpolate"]),
        "instance": ([80] * 3, 0.1,
                     [*LONG, "data.missing=interpolate", "data.normalize=instance"]),
        "features": ([80] * 3, 0, [*LONG, "data.source_features=[a,b]",
                                   "data.target_features=[b]"]),
        "ragged": (ragged, 0, ["data.source_length=4"]),
    }[request.param]  # fmt: skip
    file = table(tmp_path / "own.csv", lengths, empty)
    return load_data(
        resolve(None, ["name=n", "data.kind=file", f"data.path={file}", *sets]).config.data
    )


@pytest.mark.parametrize("numbers", [1, 40, 2**18])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_windows_become_the_same_tensors(
    data: Splits, numbers: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "GATHER_CHUNK", numbers)
    assert isinstance(data.train, Windows)
    found = batch_of(data.train, dtype=dtype)
    wanted = to_tensors(data.train, dtype=dtype)
    assert isinstance(found, Batch)
    assert found.shape == wanted.shape
    for key in ("source", "target", "source_lengths", "target_keep"):
        one, other = getattr(found, key), getattr(wanted, key)
        assert (one is None) == (other is None), key
        assert one is None or (one.dtype == other.dtype and torch.equal(one, other)), key


def test_windows_that_are_read_in_order_are_gathered(data: Splits) -> None:
    found = batch_of(data.test, keep_tensors=False)
    wanted = to_tensors(data.test)
    assert isinstance(found, GatheredBatch)
    assert found.shape == wanted.shape
    some, same = found.take(slice(2, 5)), wanted.take(slice(2, 5))
    assert torch.equal(some.source, same.source)
    assert torch.equal(some.target, same.target)
