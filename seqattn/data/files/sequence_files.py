"""Conversion of generated sequences to files that `read_chunks` can read."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from seqattn.data.files.table_file import TEXT_FORMATS, TableFile
from seqattn.data.files.writing import SEQUENCE, STEP, forecast_arrays, json_line
from seqattn.data.sequences import Floats, Sequences
from seqattn.errors import DataError, UsageError


def write_sequences(
    part: Sequences, form: str, *, wide: bool = False, is_continuation: bool
) -> tuple[bytes, str]:
    """Convert sequences to the content of a file.

    Args:
        part: the sequences.
        form: csv, tsv, jsonl, npz, npy, parquet or arrow.
        wide: whether to write a table with one sequence per row.
        is_continuation: whether the target continues the source. If True, a table or an NPY file
            contains source and target as one series. If False, a table contains the target in
            separate columns. JSONL and NPZ files always contain separate sources and targets.

    Returns:
        the content of the file, and the keys that a `data:` section needs for reading the file.

    Raises:
        UsageError: if the format cannot represent the sequences, or if the format is Arrow and
            pyarrow is not installed.
        DataError: if the format is unknown.
    """
    source = [p[:n] for p, n in zip(part.source, part.source_lengths, strict=True)]
    target = [p[:n] for p, n in zip(part.target, part.target_lengths, strict=True)]
    if form == "jsonl":
        lines = [
            json_line(name, {"source": s, "target": t})
            for name, s, t in zip(part.ids, source, target, strict=True)
        ]
        names = ", ".join(part.features)
        return "".join(lines).encode(), f"  features: [{names}]\n"
    if form == "npz":
        arrays = forecast_arrays(part, part.target, with_target=True)
        keys = ("ids", "features", "said", "source", "source_lengths", "target", "target_lengths")
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{key: arrays[key] for key in keys})
        return buffer.getvalue(), ""
    if is_continuation:
        section, columns = _cut_section(part), list(part.features)
        paths = [np.concatenate(both) for both in zip(source, target, strict=True)]
    elif form == "npy" or wide:
        raise UsageError(
            f"{'a wide table' if wide else 'NPY'} contains one path per sequence, but these"
            " sequences have separate sources and targets. Write JSON lines or NPZ."
        )
    else:
        paths = [_concat_columns(s, t) for s, t in zip(source, target, strict=True)]
        target_columns = [f"target_{name}" for name in part.target_features]
        columns = [*part.features, *target_columns]
        section = (
            f"  source_features: [{', '.join(part.features)}]\n"
            f"  target_features: [{', '.join(target_columns)}]\n"
        )
    if form == "npy":
        buffer = io.BytesIO()
        np.save(buffer, _stack_padded(paths), allow_pickle=False)
        return buffer.getvalue(), section
    return _write_table(part.ids, paths, columns, form, wide=wide), section


def _cut_section(part: Sequences) -> str:
    """Return the line of the config that defines where the sources end.

    Raises:
        UsageError: if the lengths of both sources and targets vary.
    """
    for key, lengths in (
        ("source_length", part.source_lengths), ("target_length", part.target_lengths),
    ):  # fmt: skip
        if (lengths == lengths[0]).all():
            return f"  {key}: {lengths[0]}\n"
    raise UsageError(
        "tables and NPY contain one path per sequence, but no single length defines where the"
        " sources of these sequences end. Write JSON lines or NPZ."
    )


def _stack_padded(paths: Sequence[Floats]) -> Floats:
    """Return the arrays of N sequences as one array (N, L, F), padded with NaN."""
    found = np.full((len(paths), max(map(len, paths)), paths[0].shape[1]), np.nan)
    for row, path in zip(found, paths, strict=True):
        row[: len(path)] = path
    return found


def _concat_columns(source: Floats, target: Floats) -> Floats:
    """Return the source and the target as columns of one array (L, F + G), padded with NaN."""
    F = source.shape[1]
    found = np.full((max(len(source), len(target)), F + target.shape[1]), np.nan)
    found[: len(source), :F] = source
    found[: len(target), F:] = target
    return found


def _write_table(
    ids: Sequence[str], paths: Sequence[Floats], columns: Sequence[str], form: str, *, wide: bool
) -> bytes:
    if form not in (*TEXT_FORMATS, "parquet", "arrow"):
        raise DataError(f"there is no format {form!r}.")
    words = np.empty(len(ids), dtype=object)
    words[:] = list(ids)
    if wide:
        stacked = _stack_padded(paths)
        values, steps = stacked.reshape(len(paths), -1), range(1, stacked.shape[1] + 1)
        names = [SEQUENCE, *(f"{name}_{step}" for step in steps for name in columns)]
        first = [words]
    else:
        values = np.concatenate(list(paths))
        lengths = [len(path) for path in paths]
        names = [SEQUENCE, STEP, *columns]
        first = [np.repeat(words, lengths), np.concatenate([np.arange(1, n + 1) for n in lengths])]
    buffer = io.BytesIO()
    table = TableFile(buffer, form, names)
    table.append([*first, *values.T])
    table.close()
    return buffer.getvalue()
