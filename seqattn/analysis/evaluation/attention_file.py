"""A writer of attention files that does not keep all weights in memory."""

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
from seqattn.data.sequences import Integers
from seqattn.data.tokens import Links
from seqattn.models import WeightSemantics
from seqattn.runs import attention_contents, masked_weights
from seqattn.runs.storage import open_atomic, output_file

MAX_MEMORY_BYTES = 2**26
"""Maximum size of the weights that are kept in memory, in bytes. If the weights need more memory,
all of them are moved to a file on disk."""


class AttentionSpool(Spool):
    """A temporary file that collects attention weights until the attention file is written.

    An NPZ file contains one array after another, and each array begins with its shape. The weights,
    however, arrive in chunks of sequences. Each chunk contains the weights of all kinds of
    attention, and the sequences of different chunks may have different lengths.

    Args:
        folder: a folder with space for all uncompressed weights; None for the system's folder of
            temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        self.meaning: WeightSemantics = "distribution"
        super().__init__(folder, MAX_MEMORY_BYTES)
        self.chunks: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        self.ids: list[Sequence[str]] = []
        self.lengths: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self.alignment: NDArray[np.int64] | None = None
        self.links: Links | None = None
        self.has_own_lengths = False  # as forecasts of symbols have

    def start_part(self, part: Sequences, steps: int | None = None) -> None:
        """Start a part. The next calls to `add` add the weights of the sequences in this part.

        Args:
            part: the sequences.
            steps: the number of forecast steps of each sequence. If `steps` is None, the forecast
                of each sequence has as many steps as the target, and the attention file contains
                the alignment, if it is known. In this case, there must be only one part.
        """
        self.ids.append(part.ids)
        self.has_own_lengths = part.target_space.vocabulary_size > 0
        if steps is None:
            self.links = part.links
            self.alignment = part.alignment if part.links is None else None
        target = part.target_lengths if steps is None else np.full(len(part), steps)
        self.lengths.append((part.source_lengths, target.copy()))

    def add(
        self, meaning: WeightSemantics, maps: Maps, positions: slice, lengths: Integers
    ) -> None:
        """Add the weights of the next sequences of the current part.

        This method is an `AttentionCallback`.
        """
        self.meaning = meaning
        source, target = self.lengths[-1]
        if self.has_own_lengths:
            target[positions] = lengths
        masked = masked_weights(maps, source[positions], target[positions])  # type: ignore[arg-type]
        for name, cells in masked.items():
            self.chunks.setdefault(name, []).append((self.file.tell(), cells.shape))
            self.file.write(np.ascontiguousarray(cells).data)

    def write(self, path: Path) -> None:
        """Write the attention file of a run.

        The file is byte-for-byte identical to the file that `write_arrays` would write.
        """
        with open_atomic(path) as file:
            self._write(file)

    def write_output(self, path: Path) -> None:
        """Write the attention file to a path that the user chose.

        See `seqattn.runs.storage.output_file`.
        """
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
            meaning=self.meaning, alignment=self.alignment, links=self.links,
        )  # fmt: skip
        write_npz(file, {**contents, "ids": string_array(*self.ids)})

    def _read(self, name: str, shape: tuple[int, ...]) -> Iterator[NDArray[np.float32]]:
        """Yield the weights of one kind of attention, padded with NaN, in chunks of sequences.

        Args:
            name: the key of this kind of attention in the attention file.
            shape: the shape of the weights of one sequence in the file.
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
    """Return the smallest shape into which the weights of every sequence fit."""
    return tuple(max(sizes) for sizes in zip(*(shape[1:] for _, shape in chunks), strict=True))


class _ForwardOnlyFile:
    """A file without the method `seek`, so that `zipfile` does not rewrite earlier bytes.

    A pipe cannot rewrite bytes. A file in append mode would append the new bytes instead of
    replacing earlier bytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, content: bytes) -> int:
        return self.file.write(content)

    def flush(self) -> None:
        self.file.flush()


@contextlib.contextmanager
def open_attention_spool(output: Path | None) -> Iterator[AttentionSpool | None]:
    """Open an attention spool that writes the user's attention file when the context ends without
    an exception.

    If possible, the temporary file is in the folder of the output, because this folder needs enough
    space for the output in any case.

    Args:
        output: the path of the attention file. If the path is None, the context provides None
            instead of a spool.
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
