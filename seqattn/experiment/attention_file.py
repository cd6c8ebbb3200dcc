"""Weights of test sequences on their way to attention.npz, without holding them all in memory."""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from seqattn.data import Sequences
from seqattn.evaluation import Maps
from seqattn.models import MapMeaning
from seqattn.runs import attention_contents, masked_weights
from seqattn.storage import PACKED_FROM, whole_file

IN_MEMORY = 2**26
"""Bytes of weights from which on they wait on the disk."""


class AttentionSpool:
    """Weights of a run, in a file without a name until they go to attention.npz.

    An NPZ file takes one array after the other, but weights come for all kinds, some sequences at a
    time.

    Args:
        folder: where there is room for all of them, uncompressed.
        part: the sequences.
    """

    def __init__(self, folder: Path, part: Sequences) -> None:
        self.part = part
        self.meaning: MapMeaning = "distribution"
        self.file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(folder))  # noqa: SIM115
        self.places: dict[str, list[tuple[int, int]]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

    def __enter__(self) -> AttentionSpool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.file.close()

    def add(self, meaning: MapMeaning, maps: Maps, places: slice) -> None:
        """Take in the weights of some sequences, in their order; see `seqattn.evaluation.Watch`."""
        self.meaning = meaning
        part = self.part
        masked = masked_weights(maps, part.source_lengths[places], part.target_lengths[places])  # type: ignore[arg-type]
        for name, cells in masked.items():
            self.shapes[name] = (len(part), *cells.shape[1:])
            self.places.setdefault(name, []).append((self.file.tell(), cells.nbytes))
            self.file.write(np.ascontiguousarray(cells).data)

    def write(self, path: Path) -> None:
        """The attention file: the bytes that `write_arrays` would write."""
        part = self.part
        contents = attention_contents(
            self.shapes, ids=part.ids, source_lengths=part.source_lengths,
            target_lengths=part.target_lengths, meaning=self.meaning, alignment=part.alignment,
        )  # fmt: skip
        size = sum(
            one.nbytes if isinstance(one, np.ndarray) else 4 * math.prod(one)
            for one in contents.values()
        )
        packed = zipfile.ZIP_DEFLATED if size > PACKED_FROM else zipfile.ZIP_STORED
        with whole_file(path) as file, zipfile.ZipFile(file, "w", packed) as archive:
            for name, one in contents.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    if isinstance(one, np.ndarray):
                        np.lib.format.write_array(member, one, allow_pickle=False)
                        continue
                    head = {"descr": "<f4", "fortran_order": False, "shape": one}
                    np.lib.format.write_array_header_1_0(member, head)
                    for cells in self._chunks(name):
                        member.write(cells)

    def _chunks(self, name: str) -> Iterator[bytes]:
        for place, size in self.places[name]:
            self.file.seek(place)
            yield self.file.read(size)


__all__ = ["AttentionSpool"]
