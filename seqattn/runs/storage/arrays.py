"""Functions that read and write NPZ files with arrays of numbers and text, without pickle."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config.files import open_regular
from seqattn.errors import CheckpointError
from seqattn.runs.storage.atomic import open_atomic

CHUNK_BYTES = 2**16
"""The number of bytes that are read at a time to reach the end of an array."""
MIN_COMPRESSED_BYTES = 2**20
"""The total size of the arrays, in bytes, above which an archive is compressed. Compressing smaller
archives takes more time than it saves."""
MAX_VERIFIED_BYTES = 2**26
"""The maximum size, in bytes, of an array that is read to the end to verify the checksum if only
some rows are needed."""
MAX_WHOLE_BYTES = 2**20
"""The maximum size, in bytes, of an array that is always read completely."""
MAX_UNPACKED_BYTES = 2 * 2**30
"""The maximum number of uncompressed bytes that are read from an archive."""


def write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], *, compressed: bool = True
) -> None:
    """Write an NPZ file atomically.

    Args:
        compressed: whether an archive of large arrays is compressed; see `save_arrays`.
    """
    with open_atomic(path) as file:
        if compressed:
            save_arrays(file, arrays)
        else:
            np.savez(file, allow_pickle=False, **arrays)


def npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the arrays as the bytes of an NPZ file."""
    buffer = io.BytesIO()
    save_arrays(buffer, arrays)
    return buffer.getvalue()


def save_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an NPZ archive to an open file. If the arrays have more than `MIN_COMPRESSED_BYTES`
    bytes, the archive is compressed."""
    large = sum(array.nbytes for array in arrays.values()) > MIN_COMPRESSED_BYTES
    save = np.savez_compressed if large else np.savez
    save(file, allow_pickle=False, **arrays)


def read_arrays(
    path: Path, max_rows: int | None = None, names: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Read arrays of an NPZ file.

    Args:
        names: the names of the arrays to read, as far as the file has them; None to read all.
        max_rows: the number of leading rows to read from each array that has three or more axes,
            more than `MAX_WHOLE_BYTES` bytes and C order; None to read all rows. The checksum of an
            array that is read in part is verified only if the array has at most
            `MAX_VERIFIED_BYTES` bytes.

    Raises:
        CheckpointError: if the file is missing or too large, or is not an NPZ file of plain arrays.
    """
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            return unpack_arrays(file, max_rows, names)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file. Has the training finished?") from None
    except Exception as error:  # a damaged archive can raise errors of five modules
        raise CheckpointError(f"{path}: cannot be read as arrays ({error}).") from None


def unpack_arrays(
    file: Path | IO[bytes], max_rows: int | None = None, names: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Read arrays of an NPZ file, as `read_arrays` does.

    Raises:
        ValueError: if a member is not an array, if two members have the same name, or if the arrays
            are too large. A damaged archive raises errors of several modules.
    """
    with zipfile.ZipFile(file) as archive:
        every = archive.namelist()
        for k, name in enumerate(every):
            if not name.endswith(".npy"):
                raise ValueError(f"its member {name!r} is not an array")
            if name in every[:k]:
                raise ValueError(f"it has {name.removesuffix('.npy')!r} twice")
        members = [
            entry for entry in archive.infolist()
            if names is None or entry.filename.removesuffix(".npy") in names
        ]  # fmt: skip
        sizes = [_read_size(archive, entry, max_rows) for entry in members]
        if sum(sizes) > MAX_UNPACKED_BYTES:
            raise ValueError(f"its uncompressed size is {sum(sizes) / 2**30:.1f} GiB")
        return {
            entry.filename.removesuffix(".npy"): _read_array(archive, entry.filename, max_rows)
            for entry in members
        }


def _read_size(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, max_rows: int | None) -> int:
    """Return the number of bytes that `read_arrays` reads from an array."""
    if max_rows is None or entry.file_size <= MAX_WHOLE_BYTES:
        return entry.file_size
    with archive.open(entry) as member:
        shape, is_fortran, dtype = _header(member)
    if len(shape) < 3 or is_fortran:
        return entry.file_size
    return min(max_rows, shape[0]) * math.prod(shape[1:]) * dtype.itemsize


def _read_array(archive: zipfile.ZipFile, name: str, max_rows: int | None) -> NDArray[Any]:
    """Read an array, or the leading rows of an array; see `read_arrays`."""
    with archive.open(name) as member:
        size = archive.getinfo(name).file_size
        if max_rows is not None and size > MAX_WHOLE_BYTES:
            shape, is_fortran, dtype = _header(member)
            if len(shape) >= 3 and not is_fortran and shape[0] > max_rows and not dtype.hasobject:
                needed = max_rows * math.prod(shape[1:]) * dtype.itemsize
                rows = np.frombuffer(member.read(needed), dtype).reshape(max_rows, *shape[1:])
                while size <= MAX_VERIFIED_BYTES and member.read(CHUNK_BYTES):
                    pass  # zipfile compares the checksum at the end
                return rows
            member.seek(0)
        found: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return found


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an NPY file. Return the shape, a boolean that is True for Fortran order,
    and the dtype."""
    npy = np.lib.format
    is_first = npy.read_magic(member) == (1, 0)
    read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(member)
    return found
