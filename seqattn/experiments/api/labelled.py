"""Attention weights as an array with named axes: an `xarray.DataArray` or a `LabelledArray`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqattn.errors import UsageError, install_command

if TYPE_CHECKING:
    import xarray

ArrayLibrary: TypeAlias = Literal["xarray", "numpy"]
LabelledWeights: TypeAlias = "xarray.DataArray | LabelledArray"
STEP_AXES = {
    "cross": ("target_step", "source_step"),
    "encoder_self": ("query_step", "key_step"),
    "decoder_self": ("query_step", "key_step"),
}
"""The names of the last two axes, by kind of attention."""
KEYS = {"cross": "weights", "encoder_self": "encoder_self", "decoder_self": "decoder_self"}
"""The names of the arrays in an attention file, by kind of attention."""


class LabelledArray(NamedTuple):
    """An array with named axes. Its fields have the same names as attributes of `xarray.DataArray`.

    Attributes:
        values: the array.
        dims: the name of each axis.
        coords: the labels along each axis, by axis name.
        attrs: the `kind` of attention and the `meaning` of the weights.
    """

    values: NDArray[Any]
    dims: tuple[str, ...]
    coords: Mapping[str, NDArray[Any]]
    attrs: Mapping[str, str]


def label_weights(
    arrays: Mapping[str, NDArray[Any]], kind: str, library: ArrayLibrary | None
) -> LabelledWeights:
    """Label the axes of attention weights.

    Args:
        arrays: the arrays of an attention file, with NaN in padded cells.
        kind: "cross", "encoder_self" or "decoder_self".
        library: "xarray" for a DataArray, "numpy" for a `LabelledArray`. With None, the result is
            a DataArray if xarray is installed, and otherwise a `LabelledArray`.

    Raises:
        UsageError: if the model does not have this kind of attention, if the library is unknown, or
            if xarray is not installed.
    """
    found = [name for name, key in KEYS.items() if key in arrays]
    if kind not in found:
        raise UsageError(f"kind {kind!r}: this model has {', '.join(found)}.")
    if library not in (None, "xarray", "numpy"):
        raise UsageError(f"library {library!r}: expected xarray, numpy or None.")
    weights = arrays[KEYS[kind]]
    dims = ("sequence", "layer", "head", *STEP_AXES[kind])
    _, L, A, rows, columns = weights.shape
    labels = (
        arrays["ids"],
        np.arange(L),
        np.arange(A),
        1 + np.arange(rows),
        1 + np.arange(columns),
    )
    attrs = {"kind": kind, "meaning": str(arrays["meaning"])}
    labelled = LabelledArray(weights, dims, dict(zip(dims, labels, strict=True)), attrs)
    if library == "numpy":
        return labelled
    try:
        import xarray
    except ImportError:
        if library == "xarray":
            raise UsageError(
                f"A DataArray needs xarray, which is not installed: {install_command('xarray')}"
            ) from None
        return labelled
    return xarray.DataArray(*labelled[:1], dims=dims, coords=labelled.coords, attrs=attrs,
                            name="attention")  # fmt: skip
