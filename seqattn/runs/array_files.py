"""The NPZ files of a run folder: what an attention file holds, and checks of what is read.

Letters: N sequences, L layers, A heads, T target steps, S source steps, F features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from seqattn.errors import CheckpointError
from seqattn.runs.storage import read_arrays

Arrays = dict[str, NDArray[Any]]
Meaning = Literal["distribution", "partial", "strength"]

OF_SEQUENCES = frozenset({
    "source", "target", "forecast", "weights", "encoder_self", "decoder_self", "ids", "labels",
    "source_lengths", "target_lengths", "alignment",
})  # fmt: skip
"""Arrays whose first axis is that of the sequences."""


def attention_arrays(
    weights: NDArray[np.floating],
    *,
    ids: Sequence[str],
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    meaning: str,
    alignment: NDArray[np.int64] | None = None,
    encoder_self: NDArray[np.floating] | None = None,
    decoder_self: NDArray[np.floating] | None = None,
) -> dict[str, NDArray[Any]]:
    """The arrays of an attention file; cells outside of a sequence are NaN.

    Args:
        weights: (N, L, A, T, S), of the decoder over the source.
        meaning: of the numbers; see `seqattn.models.AttentionMap`.
        alignment: (N, T), the source step that determines each target step, -1 where none does.
        encoder_self: (N, L, A, S, S), of the source over itself.
        decoder_self: (N, L, A, T, T), of the target over its own earlier steps.
    """
    maps = {"cross": weights, "encoder_self": encoder_self, "decoder_self": decoder_self}
    known = {kind: cells for kind, cells in maps.items() if cells is not None}
    return attention_contents(
        masked_weights(known, source_lengths, target_lengths), ids=ids, meaning=meaning,
        source_lengths=source_lengths, target_lengths=target_lengths, alignment=alignment,
    )  # fmt: skip


def attention_contents(
    masked: Mapping[str, Any],
    *,
    ids: Sequence[str],
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    meaning: str,
    alignment: NDArray[np.int64] | None,
) -> dict[str, Any]:
    """The arrays of an attention file, in the order of the file.

    Args:
        masked: weights by their names in the file; see `masked_weights`.
    """
    return {
        "weights": masked["weights"],
        "axes": np.array(["sequence", "layer", "head", "target_step", "source_step"]),
        "kind": np.array("cross"),
        **{name: cells for name, cells in masked.items() if name != "weights"},
        **({} if alignment is None else {"alignment": alignment}),
        "meaning": np.array(meaning),
        "ids": np.array(list(ids)),
        "source_lengths": source_lengths,
        "target_lengths": target_lengths,
    }


def masked_weights(
    maps: Mapping[str, NDArray[np.floating]],
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
) -> dict[str, NDArray[np.float32]]:
    """Weights by their names in a file, `weights` first; cells outside of a sequence are NaN."""
    *_, T, S = maps["cross"].shape
    of_target = np.arange(T) < target_lengths[:, None]
    of_source = np.arange(S) < source_lengths[:, None]

    def masked(
        cells: NDArray[np.floating], rows: NDArray[np.bool_], columns: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        keep = (rows[:, :, None] & columns[:, None, :])[:, None, None]
        return np.where(keep, cells, np.nan).astype(np.float32, copy=False)

    found = {"weights": masked(maps["cross"], of_target, of_source)}
    if "encoder_self" in maps:
        found["encoder_self"] = masked(maps["encoder_self"], of_source, of_source)
    if "decoder_self" in maps:
        cells = masked(maps["decoder_self"], of_target, of_target)
        found["decoder_self"] = np.where(np.tri(T, dtype=bool), cells, np.float32(np.nan))
    return found


def read_predictions(path: Path, most: int | None = None) -> Arrays:
    """predictions.npz: source (N, S, F), target and forecast (N, T, F'), ids, labels, lengths.

    Args:
        most: sequences that are wanted of a large file; None: all.

    Raises:
        CheckpointError: missing, or not what a training writes.
    """
    arrays = _CheckedArrays(path, most)
    N, S, F = arrays.of_numbers("source", None, None, None)
    _, T, outputs = arrays.of_numbers("target", N, None, None)
    arrays.of_numbers("forecast", N, T, outputs)
    arrays.texts("features", F)
    if "said" in arrays.arrays:  # older versions had one list for both
        arrays.texts("said", outputs)
    elif outputs != F:
        raise arrays.wrong("forecast", f"expected {F} features, got {outputs}")
    arrays.sequences(N, S, T, labels=True)
    return arrays.arrays


def read_attention(path: Path, most: int | None = None) -> Arrays:
    """attention.npz: weights (N, L, A, T, S), a Transformer's encoder_self (N, L, A, S, S) and
    decoder_self (N, L, A, T, T), alignment (N, T), ids, lengths.

    Args:
        most: sequences that are wanted of a large file; None: all.

    Raises:
        CheckpointError: missing, or not what a training writes.
    """
    arrays = _CheckedArrays(path, most)
    N, _, _, T, S = arrays.of_numbers("weights", None, None, None, None, None)
    for key, size in (("encoder_self", S), ("decoder_self", T)):
        if key in arrays.arrays:
            arrays.of_numbers(key, N, None, None, size, size)
    arrays.sequences(N, S, T)
    arrays.attention(N, T, S)
    return arrays.arrays


def read_attention_of(predictions: Path, path: Path, most: int | None = None) -> Arrays:
    """`read_attention`, checked to be of the sequences of a predictions file, if that exists.

    Raises:
        CheckpointError: a file cannot be read, or they are of different sequences.
    """
    attention = read_attention(path, most)
    if not predictions.exists():
        return attention
    ids = read_predictions(predictions, most)["ids"], attention["ids"]
    rows = None if most is None else min(map(len, ids))
    if not np.array_equal(ids[0][:rows], ids[1][:rows]):
        raise CheckpointError(
            f"{path}: ids: are not those of {predictions}, so the two files are of different runs;"
            " training again (--overwrite) writes both anew."
        )
    return attention


def read_lengths(path: Path) -> list[tuple[int, int]]:
    """Source and target length of each sequence in attention.npz, without its weights.

    Raises:
        CheckpointError: missing, or not what a training writes.
    """
    arrays = _CheckedArrays(path, 1, cut=False)
    N = len(arrays["ids"])
    source, target = (arrays.whole(f"{side}_lengths", (N,)) for side in ("source", "target"))
    return list(zip(source.tolist(), target.tolist(), strict=True))


def read_film(path: Path) -> Arrays:
    """film.npz: weights (frames, P, L, A, T, S) of P probe sequences, epochs (frames,).

    Raises:
        CheckpointError: missing, or not what a training writes.
    """
    arrays = _CheckedArrays(path)
    frames, P, _, _, T, S = arrays.of_numbers("weights", None, None, None, None, None, None)
    epochs = arrays.whole("epochs", (frames,))
    if (epochs < 0).any() or (np.diff(epochs) <= 0).any():
        raise arrays.wrong("epochs", "expected epochs that count up")
    arrays.sequences(P, S, T, labels=True)
    arrays.attention(P, T, S)
    return arrays.arrays


class _CheckedArrays:
    """The arrays of a file, with checks of one of them."""

    def __init__(self, path: Path, most: int | None = None, *, cut: bool = True) -> None:
        self.path, self.arrays = path, read_arrays(path, most)
        if most is not None and cut:
            self._cut()

    def _cut(self) -> None:
        """Keep as many rows of each array as were read of a large one."""
        rows = min((len(array) for array in self.arrays.values() if array.ndim >= 3), default=0)
        if "ids" in self.arrays and rows < len(self["ids"]):
            for key in OF_SEQUENCES & self.arrays.keys():
                self.arrays[key] = self.arrays[key][:rows]

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self.arrays:
            raise self.wrong(key, "is needed, and is not there")
        return self.arrays[key]

    def wrong(self, key: str, reason: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path}: {key}: {reason}. The file is damaged, or another program's; training"
            " again (--overwrite) writes it anew."
        )

    def of_numbers(self, key: str, *sizes: int | None) -> tuple[int, ...]:
        """Floating-point numbers, no axis empty.

        Args:
            sizes: of each axis; None: any.

        Returns:
            the array's shape.
        """
        array = self[key]
        if array.dtype.kind != "f" or array.ndim != len(sizes) or 0 in array.shape:
            raise self.wrong(key, f"expected floating-point numbers with {len(sizes)} axes, got"
                             f" {array.dtype} of shape {array.shape}")  # fmt: skip
        known = zip(sizes, array.shape, strict=True)
        return self.shaped(key, tuple(n if size is None else size for size, n in known)).shape

    def shaped(self, key: str, shape: tuple[int, ...]) -> NDArray[Any]:
        array = self[key]
        if array.shape != shape:
            raise self.wrong(key, f"expected the shape {shape}, got {array.shape}")
        return array

    def whole(self, key: str, shape: tuple[int, ...]) -> NDArray[Any]:
        array = self.shaped(key, shape)
        if array.dtype.kind not in "iu":
            raise self.wrong(key, f"expected whole numbers, got {array.dtype}")
        return array

    def texts(self, key: str, *lengths: int) -> None:
        array = self[key]
        if array.dtype.kind != "U" or array.ndim != 1 or len(array) not in lengths:
            raise self.wrong(key, f"expected {lengths[0]:,} texts, got {array.dtype} of shape"
                             f" {array.shape}")  # fmt: skip

    def sequences(self, N: int, S: int, T: int, *, labels: bool = False) -> None:
        """Ids of N sequences, and their lengths of at most S and T steps."""
        self.texts("ids", N)
        if labels:
            self.texts("labels", N, 0)
        for key, most in (("source_lengths", S), ("target_lengths", T)):
            lengths = self.whole(key, (N,))
            if (lengths < 1).any() or (lengths > most).any():
                raise self.wrong(key, f"expected lengths within 1 and {most}, got"
                                 f" {int(lengths.min())} to {int(lengths.max())}")  # fmt: skip

    def attention(self, N: int, T: int, S: int) -> None:
        """What the weights of attention mean, and the alignment."""
        meaning = self["meaning"]
        if meaning.ndim != 0 or str(meaning) not in get_args(Meaning):
            raise self.wrong("meaning", f"expected one of {', '.join(get_args(Meaning))}")
        if "alignment" in self.arrays:
            places = self.whole("alignment", (N, T))
            if (places < -1).any() or (places >= S).any():
                raise self.wrong("alignment", f"expected source steps below {S}, or -1")
