"""Metrics of attention weights: entropy, and agreement with a known alignment.

Letters: N sequences, L layers, A heads, T target steps, S source steps. NumPy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AttentionMetrics:
    """Metrics of cross-attention weights over all real target steps of a part.

    Attributes:
        accuracy: (L, A) share of the steps whose largest weight is at the true source step; None
            without a known alignment.
        mass: (L, A) mean weight at the true source step; None without a known alignment.
        entropy_bits: (L, A) mean entropy of the weights of a step in bits; None for weights that
            do not sum to 1.
        entropy_share: (L, A) mean entropy as a share of its maximum, log2 of the source length,
            over sources of two or more points; None without such sources, and as above.
        padding_mass: largest sum of weights on padding over steps, layers and heads; 0 for a
            correct mask.
        steps: number of real target steps.
        aligned: number of these with a true source step.
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
        """Layer and head with the largest mass; None without a known alignment."""
        if self.mass is None:
            return None
        layer, head = np.unravel_index(int(self.mass.argmax()), self.mass.shape)
        return int(layer), int(head)

    def as_plain(self) -> dict[str, Any]:
        """The metrics for JSON: accuracy and mass of the best head, entropies as means over heads.

        `by_head` has nested lists (L, A) of each metric.
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
    """Accumulator of `AttentionMetrics` over chunks of sequences."""

    def __init__(self, *, is_distribution: bool) -> None:
        """Start without sequences.

        Args:
            is_distribution: whether the weights of a step sum to 1, so that they have an entropy.
        """
        self.is_distribution = is_distribution
        self.correct: Any = 0.0
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
        """Add N sequences.

        Args:
            weights: (N, L, A, T, S), non-negative.
            source_lengths: (N,) number of source points.
            target_keep: (N, T), True at real target points.
            alignment: (N, T) true source steps, -1 without one; None if unknown.
        """
        *_, S = weights.shape
        is_padding = np.arange(S) >= source_lengths[:, None]
        if is_padding.any():
            sums = np.where(is_padding[:, None, None, None], weights, 0).sum(axis=-1)
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
            true_weights = np.take_along_axis(weights, true_steps, axis=-1)[..., 0]
            correct = weights.argmax(axis=-1) == true_steps[..., 0]
            selected = has_alignment[:, None, None]
            mass = np.where(selected, true_weights, 0)
            self.mass = self.mass + mass.sum(axis=(0, -1), dtype=np.float64)
            self.correct = self.correct + (correct & selected).sum(axis=(0, -1))
            self.aligned += int(has_alignment.sum())

    def result(self) -> AttentionMetrics:
        """The metrics of all sequences so far."""

        def mean(total: Any, count: int) -> NDArray[np.float64] | None:
            return np.asarray(total / count, dtype=np.float64) if count else None

        entropies = self.is_distribution
        return AttentionMetrics(
            accuracy=mean(self.correct, self.aligned),
            mass=mean(self.mass, self.aligned),
            entropy_bits=mean(self.entropy, self.steps) if entropies else None,
            entropy_share=mean(self.relative_entropy, self.relative_steps) if entropies else None,
            padding_mass=self.padding_mass,
            steps=self.steps,
            aligned=self.aligned,
        )


def largest_weight_shares(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Share of the sequences in which each source step has the largest weight.

    Args:
        weights: (N, T, S) weights of N sequences with equal lengths, without padding.

    Returns:
        (T, S), rows sum to 1. Of equal largest weights the first one counts.
    """
    N, _, S = weights.shape
    largest = weights.argmax(axis=-1)
    shares: NDArray[np.float64] = (largest[..., None] == np.arange(S)).sum(axis=0) / N
    return shares
