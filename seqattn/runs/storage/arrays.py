"""NPZ files of arrays: numbers and texts, never pickles."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.errors import CheckpointError
from seqattn.runs.storage.atomic import open_atomic
from seqattn.runs.storage.files import open_regular

CHUNK = 2**16
"""Bytes that are read at a time to reach the checksum."""
PACKED_FROM = 2**20
"""Bytes of arrays from which on an archive is compressed: for fewer that takes longer than the
disk."""
READ_WHOLE = 2**26
"""Bytes up to which an array is read to its end, where its checksum is compared."""
KEPT_WHOLE = 2**20
"""Bytes up to which an array is kept whole even if only some of its rows are wanted."""
MOST_UNPACKED = 2 * 2**30
"""Bytes that an archive of arrays may unpack to."""


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an NPZ file."""
    with open_atomic(path) as file:
        save_arrays(file, arrays)


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The content of an NPZ file."""
    buffer = io.BytesIO()
    save_arrays(buffer, arrays)
    return buffer.getvalue()


def save_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an NPZ archive to an open file, compressed where the arrays are large."""
    large = sum(array.nbytes for array in arrays.values()) > PACKED_FROM
    save = np.savez_compressed if large else np.savez
    save(file, allow_pickle=False, **arrays)


def read_arrays(path: Path, most: int | None = None) -> dict[str, NDArray[Any]]:
    """Read all arrays of an NPZ file.

    Args:
        most: rows that are wanted of arrays with three axes or more. Of those with more than
            `KEPT_WHOLE` bytes no others are kept, and of those with more than `READ_WHOLE` no
            others are read, and their checksum is not compared. None: all.

    Raises:
        CheckpointError: missing, or no NPZ of plain arrays.
    """
    try:
        with (
            os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file,
            zipfile.ZipFile(file) as archive,
        ):
            odd = [name for name in archive.namelist() if not name.endswith(".npy")]
            if odd:
                raise ValueError(f"{odd[0]!r} in it is no array")
            sizes = [_size_of(archive, entry, most) for entry in archive.infolist()]
            if sum(sizes) > MOST_UNPACKED:
                raise ValueError(f"it unpacks to {sum(sizes) / 2**30:.1f} GiB")
            return {
                name.removesuffix(".npy"): _array_of(archive, name, most)
                for name in archive.namelist()
            }
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file. Has the training finished?") from None
    except Exception as error:  # whatever a broken archive may raise, from five modules
        raise CheckpointError(f"{path}: cannot be read back as arrays ({error}).") from None


def _size_of(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int | None) -> int:
    """Bytes of an array of an archive, or of its first rows."""
    if most is None or entry.file_size <= KEPT_WHOLE:
        return entry.file_size
    with archive.open(entry) as member:
        shape, _, dtype = _header(member)
    rows = (min(most, shape[0]), *shape[1:]) if len(shape) >= 3 else shape
    return math.prod(rows) * dtype.itemsize


def _array_of(archive: zipfile.ZipFile, name: str, most: int | None) -> NDArray[Any]:
    """An array of an archive, or its first rows; see `read_arrays`."""
    with archive.open(name) as member:
        whole = archive.getinfo(name).file_size
        if most is not None and whole > KEPT_WHOLE:
            shape, is_fortran, dtype = _header(member)
            if len(shape) >= 3 and not is_fortran and shape[0] > most and not dtype.hasobject:
                size = most * math.prod(shape[1:]) * dtype.itemsize
                rows = np.frombuffer(member.read(size), dtype).reshape(most, *shape[1:])
                while whole <= READ_WHOLE and member.read(CHUNK):
                    pass  # to its end, where zipfile compares the checksum
                return rows
            member.seek(0)
        found: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return found


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the first axis changes fastest, and dtype of an NPY file."""
    npy = np.lib.format
    is_first = npy.read_magic(member) == (1, 0)
    read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(member)
    return found
