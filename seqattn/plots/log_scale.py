"""Logarithmic axes for losses. A logarithmic axis cannot show a loss of 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

Reference = tuple[str, float]
"""The name and the loss of a reference line."""

MIN_SHARE = 1e-6
"""A reference loss below this share of the smallest loss is not drawn, because the axis would then
leave too little space for the other losses."""
NOT_DRAWN = "not on the log scale"


def positive_losses(losses: Iterable[ArrayLike]) -> NDArray[np.float64]:
    """Return the finite losses above 0 of all arrays as one flat array."""
    flat = [np.asarray(values, np.float64).ravel() for values in losses]
    every = np.concatenate(flat) if flat else np.empty(0)
    found: NDArray[np.float64] = every[np.isfinite(every) & (every > 0)]
    return found


def count_zeros(losses: Iterable[ArrayLike]) -> int:
    """Return the number of losses that are 0 or less."""
    return sum(int((np.asarray(values, np.float64) <= 0).sum()) for values in losses)


def split_references(
    references: Sequence[Reference], losses: NDArray[np.float64]
) -> tuple[list[Reference], list[Reference]]:
    """Separate the references that the axis can show from the other references.

    Args:
        references: the names and losses of the reference lines.
        losses: the positive losses of the figure. If there are no positive losses, the axis is
            linear and shows every reference. Otherwise, the axis is logarithmic.

    Returns:
        The references that the axis can show, and the other references.
    """
    if not losses.size:
        return list(references), []
    least = MIN_SHARE * losses.min()
    shown = [(name, loss) for name, loss in references if loss >= least]
    return shown, [(name, loss) for name, loss in references if not loss >= least]


def set_loss_scale(axes: Axes, losses: Sequence[ArrayLike], *, vertical: bool = True) -> str:
    """Make the axis of the losses logarithmic if a loss is above 0, and return a note on the scale.

    Args:
        axes: the axes to change.
        losses: all losses of the axes.
        vertical: whether the losses are on the vertical axis.

    Returns:
        A note for the label of the axis, such as " (log scale)"; "" for a linear axis. If a
        logarithmic axis omits losses of 0, the note contains the number of these losses.
    """
    if not positive_losses(losses).size:
        return ""
    if vertical:
        axes.set_yscale("log", nonpositive="mask")
    else:
        axes.set_xscale("log", nonpositive="mask")
    zeros = count_zeros(losses)
    return (
        f" (log scale, without {zeros} {'loss' if zeros == 1 else 'losses'} of 0)"
        if zeros
        else " (log scale)"
    )
