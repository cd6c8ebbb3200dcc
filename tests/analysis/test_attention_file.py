"""attention.npz written without holding all weights, and read in part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.analysis.evaluation import attention_file, npz
from seqattn.analysis.evaluation.attention_file import AttentionSpool
from seqattn.data import Sequences
from seqattn.errors import CheckpointError
from seqattn.runs import attention_arrays
from seqattn.runs.storage import arrays as npz_arrays
from seqattn.runs.storage import read_arrays, write_arrays

N, S, T, LAYERS, A, R = 23, 5, 3, 2, 7, 2


def part() -> Sequences:
    numbers = np.random.default_rng(1)
    return Sequences(
        numbers.normal(size=(N, S, 2)), numbers.integers(1, S + 1, N),
        numbers.normal(size=(N, T, 2)), numbers.integers(1, T + 1, N),
        ("x", "y"), tuple(f"s{k}" for k in range(N)),
        alignment=numbers.integers(-1, S, (N, T)),
    )  # fmt: skip


def weights(kinds: list[str]) -> dict[Any, Any]:
    shape = {"cross": (T, S), "encoder_self": (S, S), "decoder_self": (T, T)}
    numbers = np.random.default_rng(2)
    return {
        kind: numbers.random((R, N, LAYERS, A, *shape[kind]), dtype=np.float32) for kind in kinds
    }


@pytest.mark.parametrize("packed_from", [2**20, 100], ids=["stored", "compressed"])
@pytest.mark.parametrize("in_memory", [2**26, 100], ids=["memory", "disk"])
@pytest.mark.parametrize("kinds", [["cross"], ["cross", "encoder_self", "decoder_self"]], ids=len)
def test_a_spooled_attention_file_has_the_bytes_of_one_written_at_once(
    kinds: list[str],
    in_memory: int,
    packed_from: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of weights that come 5 sequences at a time."""
    for module in (npz_arrays, npz):
        monkeypatch.setattr(module, "MIN_COMPRESSED_BYTES", packed_from)
    monkeypatch.setattr(attention_file, "MAX_MEMORY_BYTES", in_memory)
    found, sequences = weights(kinds), part()
    for run in range(R):
        with AttentionSpool(tmp_path) as spool:
            spool.start_part(sequences)
            for first in range(0, N, 5):
                places = slice(first, min(first + 5, N))
                maps = {kind: cells[run, places] for kind, cells in found.items()}
                spool.add("strength", maps, places, sequences.target_lengths[places])
            spool.write(tmp_path / f"{run}.npz")
    for run in range(R):
        maps = {kind: cells[run] for kind, cells in found.items()}
        arrays = attention_arrays(
            maps.pop("cross"), ids=sequences.ids, source_lengths=sequences.source_lengths,
            target_lengths=sequences.target_lengths, meaning="strength",
            alignment=sequences.alignment, **maps,
        )  # fmt: skip
        write_arrays(tmp_path / "whole.npz", arrays)
        assert (tmp_path / f"{run}.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"0.npz", "1.npz", "whole.npz"}


def test_the_first_rows_of_a_file_too_large_to_be_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    cells = np.arange(N * 4 * 3, dtype=np.float32).reshape(N, 4, 3)
    write_arrays(path, {"weights": cells, "ids": np.array([str(k) for k in range(N)])})
    monkeypatch.setattr(npz_arrays, "MAX_VERIFIED_BYTES", 100)
    monkeypatch.setattr(npz_arrays, "MAX_WHOLE_BYTES", 100)
    monkeypatch.setattr(npz_arrays, "MAX_UNPACKED_BYTES", 800)
    with pytest.raises(CheckpointError, match="its uncompressed size is"):
        read_arrays(path)
    found = read_arrays(path, 7)
    assert np.array_equal(found["weights"], cells[:7])
    assert len(found["ids"]) == N
    with pytest.raises(CheckpointError, match="its uncompressed size is"):
        read_arrays(path, 20)
    write_arrays(path, {"weights": np.asfortranarray(cells)})
    with pytest.raises(CheckpointError, match="its uncompressed size is"):
        read_arrays(path, 7)  # rows of an array in Fortran order are not consecutive
    monkeypatch.setattr(npz_arrays, "MAX_VERIFIED_BYTES", 10_000)
    monkeypatch.setattr(npz_arrays, "MAX_WHOLE_BYTES", 10_000)
    monkeypatch.setattr(npz_arrays, "MAX_UNPACKED_BYTES", 10_000)
    assert np.array_equal(read_arrays(path, 7)["weights"], cells)
