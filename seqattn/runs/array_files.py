"""Functions that build the arrays of `attention.npz`, read the NPZ files of a run folder, and write
the titles of their sequences.

In shapes, N is the number of sequences, L the number of layers, A the number of heads, T the number
of target steps, S the number of source steps, and F the number of features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqattn.errors import CheckpointError
from seqattn.runs.storage import read_arrays

Arrays = dict[str, NDArray[Any]]


class LinksLike(Protocol):
    """The known links of sequences of symbols; see `seqattn.data.tokens.Links`."""

    @property
    def starts(self) -> NDArray[np.int64]: ...
    @property
    def target(self) -> NDArray[np.int64]: ...
    @property
    def source(self) -> NDArray[np.int64]: ...
    @property
    def sure(self) -> NDArray[np.bool_]: ...


PER_SEQUENCE = frozenset({
    "source", "target", "forecast", "weights", "encoder_self", "decoder_self", "ids", "labels",
    "source_lengths", "target_lengths", "alignment", "source_times", "target_times",
    "source_observed",
})  # fmt: skip
"""The names of the arrays whose first axis is the axis of sequences."""
SEQUENCES = ("ids", "source_lengths", "target_lengths")
"""The names of the arrays that each file with sequences has."""
MAX_ID_LETTERS = 20


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
    links: LinksLike | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an attention file, with NaN in padded cells and, in `decoder_self`,
    above the diagonal.

    Args:
        weights: the cross-attention weights (N, L, A, T, S).
        ids, source_lengths, target_lengths: of the N sequences.
        meaning: the meaning of the weights; see `seqattn.models.AttentionMap`.
        alignment: the true source step of each target step, (N, T), or -1 for a target step without
            a true source step; None if the alignment is unknown.
        encoder_self: the self-attention weights of the encoder, (N, L, A, S, S); None if the model
            has no such weights.
        decoder_self: the causal self-attention weights of the decoder, (N, L, A, T, T); None if the
            model has no such weights.
        links: the known links of symbols; see `attention_contents`.
    """
    maps = {"cross": weights, "encoder_self": encoder_self, "decoder_self": decoder_self}
    known = {kind: cells for kind, cells in maps.items() if cells is not None}
    return attention_contents(
        masked_weights(known, source_lengths, target_lengths), ids=ids, meaning=meaning,
        source_lengths=source_lengths, target_lengths=target_lengths, alignment=alignment,
        links=links,
    )  # fmt: skip


def attention_contents(
    masked: Mapping[str, Any],
    *,
    ids: Sequence[str],
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    meaning: str,
    alignment: NDArray[np.int64] | None,
    links: LinksLike | None = None,
) -> dict[str, Any]:
    """Return the arrays of an attention file from masked weights, in the order in which the file
    stores them.

    Known links of symbols are an array `links` (K, 4): the index of the sequence, the target step,
    the source step, and 1 for a sure or 0 for a possible link.
    """
    known: dict[str, Any] = {}
    if links is not None:
        sequence = np.repeat(np.arange(len(links.starts) - 1), np.diff(links.starts))
        known = {"links": np.stack([sequence, links.target, links.source, links.sure], axis=1)}
    return {
        "weights": masked["weights"],
        "axes": np.array(["sequence", "layer", "head", "target_step", "source_step"]),
        "kind": np.array("cross"),
        **{name: cells for name, cells in masked.items() if name != "weights"},
        **({} if alignment is None else {"alignment": alignment}),
        **known,
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
    """Return attention weights with NaN in padded cells and, in `decoder_self`, above the diagonal.

    Args:
        maps: the weights (N, L, A, rows, columns) by kind. The kinds are `cross`, `encoder_self`
            and `decoder_self`.
        source_lengths, target_lengths: of the N sequences.

    Returns:
        the weights by array name in the file.
    """
    *_, T, S = maps["cross"].shape
    of_target = np.arange(T) < target_lengths[:, None]
    of_source = np.arange(S) < source_lengths[:, None]

    def masked(
        cells: NDArray[np.floating], rows: NDArray[np.bool_], columns: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        keep = (rows[:, :, None] & columns[:, None, :])[:, None, None]
        return np.where(keep, cells, np.nan).astype(np.float32, copy=False)

    arrays = {"weights": masked(maps["cross"], of_target, of_source)}
    if "encoder_self" in maps:
        arrays["encoder_self"] = masked(maps["encoder_self"], of_source, of_source)
    if "decoder_self" in maps:
        cells = masked(maps["decoder_self"], of_target, of_target)
        arrays["decoder_self"] = np.where(np.tri(T, dtype=bool), cells, np.float32(np.nan))
    return arrays


def read_predictions(path: Path, max_rows: int | None = None) -> Arrays:
    """Read `predictions.npz`.

    Args:
        max_rows: the maximum number of sequences to read if the file has a large array; None to
            read all sequences. See `seqattn.runs.storage.read_arrays`.

    Returns:
        the arrays by name, such as `source` (N, S, F), `target` and `forecast` (N, T, G) with G
            target features, the ids, the labels and the lengths.
    """
    return _read_with(
        path, ("source", "target", "forecast", "features", "said", "labels", *SEQUENCES), max_rows
    )


def read_attention(path: Path, max_rows: int | None = None) -> Arrays:
    """Read `attention.npz`.

    Returns:
        the arrays by name, such as `weights` (N, L, A, T, S), the ids, the lengths, and `alignment`
            (N, T) if it is known. The file of a Transformer also has `encoder_self` (N, L, A, S, S)
            and `decoder_self` (N, L, A, T, T).
    """
    return _read_with(path, ("weights", "meaning", *SEQUENCES), max_rows)


def read_matching_attention(predictions: Path, path: Path, max_rows: int | None = None) -> Arrays:
    """Read an attention file.

    Raises:
        CheckpointError: if the predictions file exists and contains other sequences.
    """
    attention = read_attention(path, max_rows)
    if not predictions.exists():
        return attention
    ids = read_arrays(predictions, names={"ids"})["ids"], attention["ids"]
    rows = None if max_rows is None else min(map(len, ids))
    if not np.array_equal(ids[0][:rows], ids[1][:rows]):
        raise CheckpointError(
            f"{path}: ids: differ from those of {predictions}, so the files are of different runs."
            " Train again (--overwrite) to write both."
        )
    return attention


def read_lengths(path: Path) -> list[tuple[int, int]]:
    """Read the source and target length of each sequence in `attention.npz`, and no other array."""
    arrays = read_arrays(path, names={"source_lengths", "target_lengths"})
    pairs = zip(arrays["source_lengths"].tolist(), arrays["target_lengths"].tolist(), strict=True)
    return list(pairs)


def read_film(path: Path) -> Arrays:
    """Read `film.npz`.

    Returns:
        the arrays by name, such as `weights` (E, P, L, A, T, S) of P probe sequences at E epochs,
            `epochs` (E,), the ids, the labels and the lengths.
    """
    return _read_with(path, ("weights", "epochs", "meaning", "labels", *SEQUENCES))


def read_parameter_history(path: Path) -> Arrays:
    """Read `parameter_history.npz`.

    Returns:
        the arrays by name: `parameters` (E, P) with P values at each of E epochs, `epochs` (E,),
            and the `names` (K,) and `shapes` (K, D) of K tensors. A row of `parameters` contains
            the values of these tensors one after another. A shape with fewer than D axes is padded
            with -1 at the end.
    """
    return _read_with(path, ("parameters", "epochs", "names", "shapes"))


def _read_with(path: Path, needed: Sequence[str], max_rows: int | None = None) -> Arrays:
    """Read an NPZ file, and check that it has the needed arrays. The checksums of the file show
    damage, so the arrays themselves are not checked.

    Raises:
        CheckpointError: if the file cannot be read, or lacks an array.
    """
    arrays = read_arrays(path, max_rows)
    if missing := [key for key in needed if key not in arrays]:
        raise CheckpointError(
            f"{path}: {missing[0]}: is missing. The file was not written by seqattn. Train again"
            " (--overwrite) to write it."
        )
    if max_rows is not None and "ids" in arrays:
        # Only large arrays were read in part; the others are truncated to the same rows.
        rows = min((len(array) for array in arrays.values() if array.ndim >= 3), default=0)
        for key in PER_SEQUENCE & arrays.keys() if rows < len(arrays["ids"]) else ():
            arrays[key] = arrays[key][:rows]
    return arrays


def select_sequences(
    arrays: Mapping[str, NDArray[Any]], indices: Sequence[int]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of the sequences at the given indices."""
    found = {
        name: array[list(indices)] if name in PER_SEQUENCE and len(array) else array
        for name, array in arrays.items()
    }
    if "links" in arrays:
        links = arrays["links"]
        pieces = [
            np.insert(links[links[:, 0] == k, 1:], 0, n, axis=1) for n, k in enumerate(indices)
        ]
        found["links"] = np.concatenate(pieces)
    return found


def sequence_titles(arrays: Mapping[str, NDArray[Any]], split: str = "test") -> list[str]:
    """Return the title of each sequence in a picture or in a text: the name of the split, the id of
    the sequence (shortened if it is long), and the label of the sequence, if it has one.

    Args:
        arrays: arrays with the keys "ids" and "labels", such as those of `predictions.npz`.
        split: the name of the split.
    """
    ids = ["".join(c if c.isprintable() else "?" for c in str(name)) for name in arrays["ids"]]
    labels = [str(label) for label in arrays["labels"]] or [""] * len(ids)
    return [
        f"{split} {name}" + (f"\n{label}" if label else "")
        for name, label in zip(shorten_names(ids, MAX_ID_LETTERS), labels, strict=True)
    ]


def symbol_texts(arrays: Mapping[str, NDArray[Any]], key: str, n: int) -> list[list[str]] | None:
    """Return the symbols of the first n sequences, without padding; None for vectors.

    Args:
        arrays: arrays such as those of `predictions.npz`.
        key: "source", "target" or "forecast".
        n: the number of sequences.
    """
    vocabulary = arrays.get(f"{'source' if key == 'source' else 'target'}_vocabulary")
    if vocabulary is None:
        return None
    texts = []
    for row in arrays[key][:n, :, 0]:
        numbers = row[np.isfinite(row)].astype(np.int64)
        texts.append([str(vocabulary[number]) for number in numbers[numbers > 0]])
    return texts


def shorten_name(name: str, max_letters: int) -> str:
    """Return a name, shortened to at most `max_letters` characters. An ellipsis replaces the middle
    of a longer name, because long names often have the same beginning."""
    if len(name) <= max_letters:
        return name
    half = max_letters // 2
    return f"{name[: max_letters - half - 1]}…{name[-half:]}"


def shorten_names(names: Sequence[str], max_letters: int) -> list[str]:
    """Shorten names; see `shorten_name`. If two different names would become equal, the maximum
    number of characters of all names is increased until they differ."""
    longest, different = max(map(len, names), default=0), len(set(names))
    for letters in range(max_letters, longest):
        short = [shorten_name(name, letters) for name in names]
        if len(set(short)) == different:
            return short
    return list(names)
