"""Conversion of the arrays and DataFrames of the Python API to sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.evaluation.frames import FrameReader
from seqattn.data import Sequences
from seqattn.data.frames import frame_kind
from seqattn.errors import DataError
from seqattn.training import LoadedModel


def is_single_sequence(source: Any) -> bool:
    """Return whether a source is a single sequence: an array (S, F)."""
    return frame_kind(source) is None and np.ndim(source) == 2


def source_sequences(
    source: Any, trained: LoadedModel, message: Callable[[str], None]
) -> Sequences:
    """Convert an array (N, S, F) or (S, F), or a DataFrame, to sequences without targets.

    Args:
        source: array in the units of the data, with NaN or masked elements as padding, or a
            DataFrame.
        trained: model of the run.
        message: function that is called with each note on how a DataFrame is read.

    Raises:
        DataError: if the values are not numbers, if the shape is wrong, or if the source contains
            infinity, or NaN anywhere but in the padding at the end of a sequence.
    """
    if frame_kind(source) is not None:
        return FrameReader.of(trained, source, message).read_sources()
    spec = trained.spec
    try:
        values = np.asarray(_fill_masked(source), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"expected an array of numbers: {error}.") from None
    values = values[None] if values.ndim == 2 else values
    F = len(spec.source_features)
    if values.ndim != 3 or values.shape[2] != F or 0 in values.shape:
        raise DataError(
            f"expected an array (N, S, {F}) or (S, {F}) with the features"
            f" {', '.join(spec.source_features)}; got {np.shape(source)}."
        )
    keep: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=2))
    lengths = keep.sum(axis=1)
    is_prefix = np.arange(values.shape[1]) < lengths[:, None]
    wrong_steps = (keep != is_prefix) | (np.isfinite(values).any(axis=2) != keep)
    invalid = wrong_steps.any(axis=1) | np.isinf(values).any(axis=(1, 2)) | (lengths == 0)
    if np.any(invalid):
        raise DataError(
            f"sequence {int(np.argmax(invalid))}: not all numbers before its end are finite. Use"
            " NaN only to pad a shorter sequence at its end."
        )
    N = len(values)
    return Sequences(
        np.where(keep[:, :, None], values, 0.0), lengths,
        np.zeros((N, 0, len(spec.target_features))), np.zeros(N, dtype=np.int64),
        spec.source_features, tuple(str(k) for k in range(N)), target_features=spec.target_features,
    )  # fmt: skip


def _fill_masked(source: Any) -> Any:
    """Return a source with NaN in the masked elements of its masked arrays."""
    if isinstance(source, np.ma.MaskedArray):
        return np.ma.filled(source.astype(np.float64), np.nan)
    if isinstance(source, list | tuple):
        return [_fill_masked(each) for each in source]
    return source
