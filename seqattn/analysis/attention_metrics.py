"""Metrics of attention weights: entropy, weight on padding, and agreement with a known alignment.

The letters in shapes are N (sequences), L (layers), A (heads), T (target steps) and S (source
steps). This module does not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AttentionMetrics:
    """Metrics of cross-attention weights over all valid target steps of a set of sequences.

    Attributes:
        accuracy: (L, A), the share of the aligned target steps at which the true source step has
            the largest weight. A true source step whose weight is equal to the weights of k - 1
            other source steps counts as 1/k; see `largest_weight_shares`. The value is None if
            there are no aligned target steps.
        mass: (L, A), the mean weight of the true source step over the aligned target steps; None if
            there are no aligned target steps.
        entropy_bits: (L, A), the mean entropy of the weights at a target step, in bits; None if the
            weights do not sum to 1, or if there are no valid target steps.
        entropy_share: (L, A), the mean ratio of the entropy to the maximum entropy, which is log2
            of the source length. The mean covers the sequences with two or more source steps. The
            value is None if there are no such sequences, or if the weights do not sum to 1.
        padding_mass: the largest total weight that a head puts on padding at one target step; 0 if
            the attention mask is correct.
        steps: the number of valid target steps.
        aligned: the number of aligned target steps, which are the valid target steps with a true
            source step.
    """

    accuracy: NDArray[np.float64] | None
    mass: NDArray[np.float64] | None
    entropy_bits: NDArray[np.float64] | None
    entropy_share: NDArray[np.float64] | None
    padding_mass: float
    steps: int
    aligned: int

    @property
    def best_head(self) -> tuple[int, int] | None:
        """The indices of the layer and the head with the largest `mass`; None if `mass` is None."""
        if self.mass is None:
            return None
        layer, head = np.unravel_index(int(self.mass.argmax()), self.mass.shape)
        return int(layer), int(head)

    def as_plain(self) -> dict[str, Any]:
        """Return the metrics as plain values for JSON.

        The alignment accuracy and the alignment mass are the values of the best head. The entropies
        are means over all heads. The key `by_head` contains these four metrics for every head, as
        nested lists with the shape (L, A).
        """
        best = self.best_head
        by_name = {
            "alignment_accuracy": self.accuracy,
            "alignment_mass": self.mass,
            "entropy_bits": self.entropy_bits,
            "entropy_share": self.entropy_share,
        }
        summary: dict[str, Any] = {
            name: None
            if values is None
            else float(values[best] if name.startswith("alignment") and best else values.mean())
            for name, values in by_name.items()
        }
        return {
            **summary,
            "padding_mass": self.padding_mass,
            "steps": self.steps,
            "aligned_steps": self.aligned,
            "best_head": None if best is None else list(best),
            "by_head": {
                name: None if values is None else values.tolist()
                for name, values in by_name.items()
            },
        }


class AttentionMetricsAccumulator:
    """An accumulator that computes `AttentionMetrics` from chunks of sequences."""

    def __init__(self, *, is_distribution: bool) -> None:
        """Create an empty accumulator.

        Args:
            is_distribution: whether the weights at each target step sum to 1. If the weights do
                not sum to 1, their entropy is undefined.
        """
        self.is_distribution = is_distribution
        self.at_true: Any = 0.0
        self.mass: Any = 0.0
        self.entropy: Any = 0.0
        self.relative_entropy: Any = 0.0
        self.padding_mass = 0.0
        self.steps = self.relative_steps = self.aligned = 0

    def add(
        self,
        weights: NDArray[np.floating],
        source_lengths: Integers,
        target_keep: NDArray[np.bool_],
        alignment: Integers | None,
    ) -> None:
        """Add the weights of N sequences.

        Args:
            weights: (N, L, A, T, S), non-negative attention weights.
            source_lengths: (N,), the number of source steps of each sequence.
            target_keep: (N, T), a mask that is True at valid target steps.
            alignment: (N, T), the true source step of each target step, or -1 if a target step
                has none; None if the alignment is unknown.
        """
        *_, S = weights.shape
        is_padding = (np.arange(S) >= source_lengths[:, None])[:, None, None, None]
        if is_padding.any():
            sums = np.where(is_padding, weights, 0).sum(axis=-1)
            largest = float((sums * target_keep[:, None, None]).max())
            self.padding_mass = max(self.padding_mass, largest)
        self.steps += int(target_keep.sum())
        if self.is_distribution:
            with np.errstate(divide="ignore", invalid="ignore"):
                entropy = -np.where(weights > 0, weights * np.log2(weights), 0).sum(axis=-1)
            entropy = np.where(target_keep[:, None, None], entropy, 0).sum(
                axis=-1, dtype=np.float64
            )
            self.entropy = self.entropy + entropy.sum(axis=0)
            has_choice = source_lengths > 1
            max_entropy = np.log2(np.maximum(source_lengths, 2))[:, None, None]
            relative = (entropy / max_entropy)[has_choice]
            self.relative_entropy = self.relative_entropy + relative.sum(axis=0)
            self.relative_steps += int(target_keep[has_choice].sum())
        if alignment is not None:
            has_alignment = (alignment >= 0) & target_keep
            true_steps = np.maximum(alignment, 0)[:, None, None, :, None]
            shares = largest_weight_shares(np.where(is_padding, 0, weights))
            mass, at_true = (
                np.where(
                    has_alignment[:, None, None],
                    np.take_along_axis(each, true_steps, axis=-1)[..., 0],
                    0,
                ).sum(axis=(0, -1), dtype=np.float64)
                for each in (weights, shares)
            )
            self.mass, self.at_true = self.mass + mass, self.at_true + at_true
            self.aligned += int(has_alignment.sum())

    def result(self) -> AttentionMetrics:
        """Return the metrics of all sequences added so far."""

        def mean(total: Any, count: int) -> NDArray[np.float64] | None:
            return np.asarray(total / count, dtype=np.float64) if count else None

        entropies = self.is_distribution
        return AttentionMetrics(
            accuracy=mean(self.at_true, self.aligned),
            mass=mean(self.mass, self.aligned),
            entropy_bits=mean(self.entropy, self.steps) if entropies else None,
            entropy_share=mean(self.relative_entropy, self.relative_steps) if entropies else None,
            padding_mass=self.padding_mass,
            steps=self.steps,
            aligned=self.aligned,
        )


def largest_weight_shares(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return where the largest weight of each row is. Equal largest weights share the row.

    Two weights are equal if they are the same floating-point number, without a tolerance. With
    equal weights for all S source steps, each source step has the share 1/S. The largest weight
    cannot be at padding, and a row whose weights are all 0 has no largest weight.

    Args:
        weights: (..., S), non-negative weights, with 0 or NaN at padding.

    Returns:
        (..., S): 1/k for each of the k source steps with the largest weight of a row, and 0 for
        the other source steps.
    """
    known = np.nan_to_num(weights, nan=0.0)
    is_largest = (known == known.max(axis=-1, keepdims=True)) & (known > 0)
    shares: NDArray[np.float64] = is_largest / np.maximum(is_largest.sum(axis=-1, keepdims=True), 1)
    return shares
