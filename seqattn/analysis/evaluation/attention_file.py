"""Attention weights on their way to an NPZ file, without holding them all in memory."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation import Maps
from seqattn.analysis.evaluation.npz import Rows, Spool, texts, write_npz
from seqattn.data import Sequences
from seqattn.models import WeightSemantics
from seqattn.runs import attention_contents, masked_weights
from seqattn.runs.output_files import output_file
from seqattn.runs.storage import open_atomic

IN_MEMORY = 2**26
"""Bytes of weights from which on they wait on the disk."""


class AttentionSpool(Spool):
    """Weights in a file without a name until all of them go to an attention file.

    An NPZ file takes one array after the other, and their shapes first, but weights come for all
    kinds, some sequences at a time, and of several parts that are not equally long.

    Args:
        folder: where there is room for all of them, uncompressed; None: that of temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        self.meaning: WeightSemantics = "distribution"
        super().__init__(folder, IN_MEMORY)
        self.chunks: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        self.ids: list[Sequence[str]] = []
        self.lengths: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self.alignment: NDArray[np.int64] | None = None

    def begin(self, part: Sequences, steps: int | None = None) -> None:
        """Say whose weights come next.

        Args:
            steps: that are forecast of each sequence; None: as many as its known target has. The
                alignment is known only then, and only of one part.
        """
        self.ids.append(part.ids)
        if steps is None:
            self.alignment = part.alignment
        target = part.target_lengths if steps is None else np.full(len(part), steps)
        self.lengths.append((part.source_lengths, target))

    def add(self, meaning: WeightSemantics, maps: Maps, places: slice) -> None:
        """Take in the weights of some sequences of the part that was begun last, in their order;
        see `seqattn.analysis.evaluation.AttentionCallback`."""
        self.meaning = meaning
        source, target = self.lengths[-1]
        masked = masked_weights(maps, source[places], target[places])  # type: ignore[arg-type]
        for name, cells in masked.items():
            self.chunks.setdefault(name, []).append((self.file.tell(), cells.shape))
            self.file.write(np.ascontiguousarray(cells).data)

    def write(self, path: Path) -> None:
        """The attention file of a run: the bytes that `write_arrays` would write."""
        with open_atomic(path) as file:
            self._write(file)

    def write_output(self, path: Path) -> None:
        """The same as a file that a user named; see `seqattn.runs.output_files.output_file`."""
        with output_file(path) as file:
            self._write(cast("BinaryIO", _Forwards(file)))

    def _write(self, file: BinaryIO) -> None:
        source, target = (np.concatenate(lengths) for lengths in zip(*self.lengths, strict=True))
        masked = dict[str, Rows]()
        for name, chunks in self.chunks.items():
            shape = len(source), *_widest(chunks)
            masked[name] = Rows(shape, np.dtype("<f4"), partial(self._read, name, shape[1:]))
        contents = attention_contents(
            masked, ids=(), source_lengths=source, target_lengths=target,
            meaning=self.meaning, alignment=self.alignment,
        )  # fmt: skip
        write_npz(file, {**contents, "ids": texts(*self.ids)})

    def _read(self, name: str, shape: tuple[int, ...]) -> Iterator[NDArray[np.float32]]:
        """Weights of one kind, some sequences at a time, NaN beyond their own rows and columns.

        Args:
            shape: of a sequence's weights in the file.
        """
        for place, (n, *own) in self.chunks[name]:
            self.file.seek(place)
            cells = np.frombuffer(self.file.read(4 * n * math.prod(own)), "<f4").reshape(n, *own)
            if tuple(own) != shape:
                more = [(0, 0), *((0, most - size) for most, size in zip(shape, own, strict=True))]
                cells = np.pad(cells, more, constant_values=np.nan)
            yield cells


def _widest(chunks: list[tuple[int, tuple[int, ...]]]) -> tuple[int, ...]:
    """The shape that holds the weights of each sequence."""
    return tuple(max(sizes) for sizes in zip(*(shape[1:] for _, shape in chunks), strict=True))


class _Forwards:
    """A file that is only ever written on: `zipfile` goes back to what it has written where it can,
    which a pipe cannot, and a file that is appended to does wrong."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, content: bytes) -> int:
        return self.file.write(content)

    def flush(self) -> None:
        self.file.flush()


@contextlib.contextmanager
def spool_for(output: Path | None) -> Iterator[AttentionSpool | None]:
    """A spool whose weights go to a file that a user named, at the end; None: there is none.

    The weights wait in the folder of that file, where there is to be room for them.
    """
    if output is None:
        yield None
        return
    folder = Path(os.path.realpath(output)).parent
    is_ours = not output.exists() or output.is_file()
    usable = is_ours and folder.is_dir() and os.access(folder, os.W_OK)
    with AttentionSpool(folder if usable else None) as spool:
        yield spool
        spool.write_output(output)


__all__ = ["AttentionSpool", "spool_for"]
