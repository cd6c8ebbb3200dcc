"""Normalizers: from scores to weights. `keep` is True where attention may go."""

from __future__ import annotations

from torch import Tensor

SHORT, MANY = 8, 2048


def softmax(scores: Tensor, keep: Tensor | None) -> Tensor:
    """exp(score) over its sum along the source; exactly 0 where attention may not go.

    A row with nothing to attend to has no weights: it comes out as NaN, never as uniform weights
    over padding. Such rows are refused where data are loaded.

    Args:
        scores: (..., N, T, S).
        keep: (..., N, S), or None where every source point is real.

    Returns:
        (..., N, T, S), each row summing to 1.
    """
    if keep is not None:
        scores = scores.masked_fill(~keep.unsqueeze(-2), -float("inf"))
    *_, S = scores.shape
    if S <= SHORT and scores.numel() >= MANY:  # torch takes 40 ns a row, however short the row is
        return scores.movedim(-1, 0).softmax(dim=0).movedim(0, -1)
    return scores.softmax(dim=-1)
