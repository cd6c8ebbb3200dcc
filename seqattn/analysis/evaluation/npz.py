"""A writer of NPZ files that does not keep entire arrays in memory."""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from seqattn.runs.storage import MIN_COMPRESSED_BYTES

STRINGS_PER_CHUNK = 2**14


class Spool:
    """A temporary file for the rows of the arrays in an NPZ file. The temporary file is closed at
    the end of a `with` block.

    Args:
        folder: a folder with space for all uncompressed rows; None for the system's folder of
            temporary files.
        in_memory: the maximum size of the file in memory, in bytes. A larger file is moved to disk.
    """

    def __init__(self, folder: Path | None, in_memory: int) -> None:
        where = None if folder is None else str(folder)
        self.file: IO[bytes] = tempfile.SpooledTemporaryFile(in_memory, dir=where)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


@dataclass(frozen=True)
class StreamedArray:
    """An array that is written in chunks of rows.

    Attributes:
        shape: the shape of the array.
        dtype: the type of the elements.
        parts: a function that returns the chunks in order. A chunk with n rows is an array with the
            shape (n, ...).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    parts: Callable[[], Iterable[NDArray[Any]]]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def string_array(*several: Sequence[str]) -> StreamedArray:
    """Return a `StreamedArray` with the same content as `np.array(strings, dtype=np.str_)`, where
    `strings` is the concatenation of the lists in `several`.

    Args:
        several: lists of strings.
    """

    def parts() -> Iterator[Sequence[str]]:
        for words in several:
            for first in range(0, len(words), STRINGS_PER_CHUNK):
                yield words[first : first + STRINGS_PER_CHUNK]

    longest = max((len(word) for some in parts() for word in some), default=0)
    dtype = np.dtype(f"U{max(longest, 1)}")
    shape = (sum(map(len, several)),)
    return StreamedArray(
        shape, dtype, lambda: (np.array(list(some), dtype=dtype) for some in parts())
    )


def write_npz(file: BinaryIO, arrays: Mapping[str, NDArray[Any] | StreamedArray]) -> None:
    """Write an NPZ file.

    The file is byte-for-byte identical to the file that `seqattn.runs.storage.save_arrays` would
    write.
    """
    packed = sum(one.nbytes for one in arrays.values()) > MIN_COMPRESSED_BYTES
    how = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, one in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if isinstance(one, np.ndarray):
                    np.lib.format.write_array(member, one, allow_pickle=False)
                    continue
                descr = np.lib.format.dtype_to_descr(one.dtype)
                head = {"descr": descr, "fortran_order": False, "shape": one.shape}
                np.lib.format.write_array_header_1_0(member, head)
                for some in one.parts():
                    member.write(np.ascontiguousarray(some, one.dtype).tobytes())
