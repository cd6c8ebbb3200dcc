"""Made sequences as a whole file, in a form that `read_chunks` reads back."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from seqattn.data.files.table_file import TEXTS, TableFile
from seqattn.data.files.writing import SEQUENCE, STEP, forecast_arrays, json_line
from seqattn.data.sequences import Floats, Sequences
from seqattn.errors import DataError, UsageError


def write_sequences(
    part: Sequences, form: str, *, wide: bool = False, goes_on: bool
) -> tuple[bytes, str]:
    """Sequences as the content of a file, and the `data:` section that reads it.

    Args:
        form: one of `FORMATS`.
        wide: a table of a sequence a row.
        goes_on: the target goes on where the source ends, so both are one path. In a table others
            get columns of their own for the target.

    Raises:
        UsageError: a form that cannot hold them; or Arrow, and no pyarrow.
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
        kept = ("ids", "features", "said", "source", "source_lengths", "target", "target_lengths")
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{key: arrays[key] for key in kept})
        return buffer.getvalue(), ""
    cut = _one_cut(part)
    if (form == "npy" or wide) and not goes_on:
        raise UsageError(
            f"{'a wide table' if wide else 'NPY'} has one path a sequence, and these have sources"
            " and targets of their own. Write JSON lines or NPZ."
        )
    if goes_on:
        if cut is None:
            raise UsageError(
                "tables and NPY have one path a sequence, and no one number says where the sources"
                " of these end. Write JSON lines or NPZ."
            )
        paths = [np.concatenate(both) for both in zip(source, target, strict=True)]
        columns = list(part.features)
        section = cut
    else:
        longest = [max(len(s), len(t)) for s, t in zip(source, target, strict=True)]
        paths = [
            np.concatenate([_stretched(s, n), _stretched(t, n)], axis=1)
            for s, t, n in zip(source, target, longest, strict=True)
        ]
        target_columns = [f"target_{name}" for name in part.target_features]
        columns = [*part.features, *target_columns]
        section = (
            f"  source_features: [{', '.join(part.features)}]\n"
            f"  target_features: [{', '.join(target_columns)}]\n"
        )
    if form == "npy":
        buffer = io.BytesIO()
        L = max(map(len, paths))
        np.save(buffer, np.stack([_stretched(path, L) for path in paths]), allow_pickle=False)
        return buffer.getvalue(), section
    return _table(part.ids, paths, columns, form, wide=wide), section


def _one_cut(part: Sequences) -> str | None:
    """What says where sources end, in all of them; None where nothing short does."""
    if (part.source_lengths == part.source_lengths[0]).all():
        return f"  source_length: {part.source_lengths[0]}\n"
    if (part.target_lengths == part.target_lengths[0]).all():
        return f"  target_length: {part.target_lengths[0]}\n"
    return None


def _stretched(path: Floats, length: int) -> Floats:
    more = np.full((length - len(path), path.shape[1]), np.nan)
    return np.concatenate([path, more])


def _table(
    ids: Sequence[str], paths: Sequence[Floats], columns: Sequence[str], form: str, *, wide: bool
) -> bytes:
    if form not in (*TEXTS, "parquet", "arrow"):
        raise DataError(f"there is no format {form!r}.")
    words = np.empty(len(ids), dtype=object)
    words[:] = list(ids)
    if wide:
        L = max(map(len, paths))
        values = np.stack([_stretched(path, L) for path in paths]).reshape(len(paths), -1)
        names = [SEQUENCE, *(f"{name}_{step}" for step in range(1, L + 1) for name in columns)]
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
