"""Reader of the arrays in an NPZ archive. The reader accepts no pickled objects."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seqattn.data.files.chunk import first_line
from seqattn.errors import DataError, unequal_numbers
from seqattn.runs.storage import MAX_UNPACKED_BYTES


def read_npz_arrays(file: Path | BinaryIO, name: str) -> dict[str, NDArray[Any]]:
    """Return all arrays of an NPZ file by name.

    Raises:
        DataError: if the file is damaged, is too large when decompressed, or contains Python
            objects.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if size > MAX_UNPACKED_BYTES:
                largest = max(entries, key=lambda entry: entry.file_size)
                total, most = unequal_numbers(size / 2**30, MAX_UNPACKED_BYTES / 2**30)
                raise DataError(
                    f"{name}: unpacks to {total} GiB ({largest.filename!r} alone to"
                    f" {largest.file_size / 2**30:.1f}); at most {most} GiB are"
                    " unpacked. Save it as NPY, which is mapped instead."
                )
            arrays: dict[str, NDArray[Any]] = {}
            for entry in entries:
                key = entry.filename.removesuffix(".npy")
                if not entry.filename.endswith(".npy"):
                    raise DataError(f"{name}: {entry.filename!r} in it is not an array.")
                if key in arrays:
                    raise DataError(f"{name}: has {key!r} twice.")
                with archive.open(entry) as member:
                    arrays[key] = _read_array(member, entry, name, key)
            return arrays
    except DataError:
        raise
    except Exception as error:  # damaged archives raise errors from several modules
        raise DataError(f"{name}: is a damaged NPZ file ({first_line(error)}).") from None


def _read_array(member: Any, entry: zipfile.ZipInfo, name: str, key: str) -> NDArray[Any]:
    version = np.lib.format.read_magic(member)
    read = {(1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0}.get(version)  # fmt: skip
    if read is None:
        raise DataError(f"{name}: {key!r} is of NPY version {version}, which is not supported.")
    shape, fortran, dtype = read(member)
    if dtype.hasobject:
        raise DataError(
            f"{name}: {key!r} contains Python objects, which are never loaded. Save numbers or"
            " texts."
        )
    count = 1
    for length in shape:
        count *= int(length)
    expected = count * dtype.itemsize
    if expected < 0 or expected > entry.file_size:
        raise DataError(
            f"{name}: {key!r} is truncated: according to its header, it has {expected} bytes."
        )
    data = member.read(expected)
    if len(data) != expected:
        raise DataError(f"{name}: {key!r} is cut short.")
    array: NDArray[Any] = np.frombuffer(data, dtype=dtype, count=count)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
