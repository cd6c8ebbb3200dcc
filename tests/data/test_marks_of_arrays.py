"""Numbers such as -999 in NPY and NPZ files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.data.chunk import Chunk
from seqattn.data.files import read_all, read_chunks
from seqattn.data.reading import Reading
from seqattn.errors import AmbiguousData


def with_mark(dtype: Any = np.float64, mark: float = -999.0) -> np.ndarray:
    values = np.arange(240, dtype=dtype).reshape(10, 12, 2) / 10
    values[3, 4, 0] = values[7, 0, 0] = mark
    return values


def write_npy(path: Path, values: np.ndarray) -> Path:
    np.save(path.with_suffix(".npy"), values)
    return path.with_suffix(".npy")


def write_source(path: Path, values: np.ndarray) -> Path:
    np.savez(path.with_suffix(".npz"), source=values, features=np.array(["a", "b"]))
    return path.with_suffix(".npz")


def write_target(path: Path, values: np.ndarray) -> Path:
    np.savez(path.with_suffix(".npz"), source=values + 2000, target=values)
    return path.with_suffix(".npz")


def points(chunk: Chunk) -> np.ndarray:
    part = chunk.points if chunk.target is None else chunk.target
    return part.values.reshape(10, 12, 2)


Writer = Callable[[Path, np.ndarray], Path]
EACH = pytest.mark.parametrize("write", [write_npy, write_source, write_target])


@EACH
@pytest.mark.parametrize(
    ("dtype", "mark"), [(np.float64, -999.0), (np.float32, -999.9), (np.int64, -9999.0)]
)
def test_na_values_are_missing(dtype: Any, mark: float, write: Writer, tmp_path: Path) -> None:
    values = with_mark(dtype, mark)
    read = points(read_all(write(tmp_path / "x", values), Reading(na_values=(f"{mark:g}",))))
    assert np.argwhere(np.isnan(read)).tolist() == [[3, 4, 0], [7, 0, 0]]
    assert np.array_equal(read[~np.isnan(read)], values[values != values[3, 4, 0]])


@EACH
def test_a_distant_number_of_a_training_file_is_a_question(write: Writer, tmp_path: Path) -> None:
    file = write(tmp_path / "x", with_mark())
    with pytest.raises(AmbiguousData, match=r"has -999 in 2 cells.* between 0 and "):
        read_all(file, Reading(is_training=True))
    read = points(read_all(file, Reading(is_training=True, na_values=())))
    assert (read == -999).sum() == 2
    (note,) = {note for chunk in read_chunks(file, Reading(is_training=False))
               for note in chunk.notes}  # fmt: skip
    assert "it is read as a value" in note
