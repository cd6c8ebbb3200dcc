"""Writing of attention files without holding all weights in memory."""

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
from seqattn.analysis.evaluation.npz import Spool, StreamedArray, string_array, write_npz
from seqattn.data import Sequences
from seqattn.models import WeightSemantics
from seqattn.runs import attention_contents, masked_weights
from seqattn.runs.output_files import output_file
from seqattn.runs.storage import open_atomic

MAX_MEMORY_BYTES = 2**26
"""Maximum size of the spooled weights in memory; larger ones go to the disk."""


class AttentionSpool(Spool):
    """Temporary file of attention weights until the attention file is written.

    An NPZ file needs the shape of each array first, and one array after the other, but weights
    arrive for all kinds together, some sequences at a time, from parts of different lengths.

    Args:
        folder: folder with space for all weights, uncompressed; None: that of temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        self.meaning: WeightSemantics = "distribution"
        super().__init__(folder, MAX_MEMORY_BYTES)
        self.chunks: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        self.ids: list[Sequence[str]] = []
        self.lengths: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self.alignment: NDArray[np.int64] | None = None

    def start_part(self, part: Sequences, steps: int | None = None) -> None:
        """Start the sequences of a part; their weights are added next.

        Args:
            part: the sequences.
            steps: number of forecast steps of each sequence; None: the length of its target. Only
                then the alignment is known, and only of a single part.
        """
        self.ids.append(part.ids)
        if steps is None:
            self.alignment = part.alignment
        target = part.target_lengths if steps is None else np.full(len(part), steps)
        self.lengths.append((part.source_lengths, target))

    def add(self, meaning: WeightSemantics, maps: Maps, positions: slice) -> None:
        """Add the weights of the next sequences of the current part; an `AttentionCallback`."""
        self.meaning = meaning
        source, target = self.lengths[-1]
        masked = masked_weights(maps, source[positions], target[positions])  # type: ignore[arg-type]
        for name, cells in masked.items():
            self.chunks.setdefault(name, []).append((self.file.tell(), cells.shape))
            self.file.write(np.ascontiguousarray(cells).data)

    def write(self, path: Path) -> None:
        """Write the attention file of a run, byte for byte as `write_arrays` would."""
        with open_atomic(path) as file:
            self._write(file)

    def write_output(self, path: Path) -> None:
        """Write an attention file of the user; see `seqattn.runs.output_files.output_file`."""
        with output_file(path) as file:
            self._write(cast("BinaryIO", _ForwardOnlyFile(file)))

    def _write(self, file: BinaryIO) -> None:
        source, target = (np.concatenate(lengths) for lengths in zip(*self.lengths, strict=True))
        masked = dict[str, StreamedArray]()
        for name, chunks in self.chunks.items():
            shape = len(source), *_padded_shape(chunks)
            masked[name] = StreamedArray(
                shape, np.dtype("<f4"), partial(self._read, name, shape[1:])
            )
        contents = attention_contents(
            masked, ids=(), source_lengths=source, target_lengths=target,
            meaning=self.meaning, alignment=self.alignment,
        )  # fmt: skip
        write_npz(file, {**contents, "ids": string_array(*self.ids)})

    def _read(self, name: str, shape: tuple[int, ...]) -> Iterator[NDArray[np.float32]]:
        """Yield the weights of one kind, some sequences at a time, padded with NaN.

        Args:
            name: key of the kind in the attention file.
            shape: shape of the weights of a sequence in the file.
        """
        for offset, (n, *sizes) in self.chunks[name]:
            self.file.seek(offset)
            cells = np.frombuffer(self.file.read(4 * n * math.prod(sizes)), "<f4").reshape(
                n, *sizes
            )
            if tuple(sizes) != shape:
                more = [
                    (0, 0),
                    *((0, largest - size) for largest, size in zip(shape, sizes, strict=True)),
                ]
                cells = np.pad(cells, more, constant_values=np.nan)
            yield cells


def _padded_shape(chunks: list[tuple[int, tuple[int, ...]]]) -> tuple[int, ...]:
    """The smallest shape that holds the weights of every sequence."""
    return tuple(max(sizes) for sizes in zip(*(shape[1:] for _, shape in chunks), strict=True))


class _ForwardOnlyFile:
    """A file without `seek`, so that `zipfile` does not rewrite earlier bytes: a pipe cannot, and a
    file in append mode would do it wrong."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, content: bytes) -> int:
        return self.file.write(content)

    def flush(self) -> None:
        self.file.flush()


@contextlib.contextmanager
def open_attention_spool(output: Path | None) -> Iterator[AttentionSpool | None]:
    """Context of a spool that writes the user's attention file at the end; None without a file.

    The temporary file is in the folder of the output, which needs the space anyway.
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


__all__ = ["AttentionSpool", "open_attention_spool"]
