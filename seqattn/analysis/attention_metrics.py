"""What attention weights say: how wide they look, and whether they look where they should.

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
    """Where a model looked, over all real target steps of a part; (L, A) arrays, nested lists in
    `as_plain`.

    Attributes:
        accuracy: share of the steps whose largest weight lies on the true source step; None where
            the task knows none.
        mass: mean weight on the true source step; None likewise.
        entropy_bits: mean entropy of a step's weights over the source; None where weights need not
            sum to 1.
        entropy_share: the same as a share of log2 of the real source points, the most there could
            be; over sources of two points or more. None likewise, and without such a source.
        padding_mass: the largest sum of weights on padding of any step, layer and head. Always 0.
        steps: real target steps; of them `aligned` have a true source step.
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
        """Layer and head with the most weight on the true step; None without a known alignment."""
        if self.mass is None:
            return None
        layer, head = np.unravel_index(int(self.mass.argmax()), self.mass.shape)
        return int(layer), int(head)

    def as_plain(self) -> dict[str, Any]:
        """For JSON. Accuracy and mass are those of the best head, entropies means over all heads;
        `by_head` has each layer's heads."""
        best = self.best_head
        each = {
            "alignment_accuracy": self.accuracy,
            "alignment_mass": self.mass,
            "entropy_bits": self.entropy_bits,
            "entropy_share": self.entropy_share,
        }
        plain: dict[str, Any] = {
            name: None
            if values is None
            else float(values[best] if name.startswith("alignment") and best else values.mean())
            for name, values in each.items()
        }
        return {
            **plain,
            "padding_mass": self.padding_mass,
            "steps": self.steps,
            "aligned_steps": self.aligned,
            "best_head": None if best is None else list(best),
            "by_head": {
                name: None if values is None else values.tolist() for name, values in each.items()
            },
        }


class AttentionMetricsAccumulator:
    """Adds up what weights say, some sequences at a time."""

    def __init__(self, *, is_distribution: bool) -> None:
        """
        Args:
            is_distribution: whether each step's weights sum to 1, so that they have an entropy.
        """
        self.is_distribution = is_distribution
        self.right: Any = 0.0
        self.mass: Any = 0.0
        self.bits: Any = 0.0
        self.share: Any = 0.0
        self.padding = 0.0
        self.steps = self.wide = self.aligned = 0

    def add(
        self,
        weights: NDArray[np.floating],
        source_lengths: Integers,
        target_keep: NDArray[np.bool_],
        alignment: Integers | None,
    ) -> None:
        """Take in some sequences.

        Args:
            weights: (N, L, A, T, S), non-negative.
            source_lengths: (N,).
            target_keep: (N, T), True at real target points.
            alignment: (N, T) true source steps, -1 where there is none; None: known nowhere.
        """
        *_, S = weights.shape
        beyond = np.arange(S) >= source_lengths[:, None]
        if beyond.any():
            sums = np.where(beyond[:, None, None, None], weights, 0).sum(axis=-1)
            self.padding = max(self.padding, float((sums * target_keep[:, None, None]).max()))
        self.steps += int(target_keep.sum())
        if self.is_distribution:
            with np.errstate(divide="ignore", invalid="ignore"):
                bits = -np.where(weights > 0, weights * np.log2(weights), 0).sum(axis=-1)
            bits = np.where(target_keep[:, None, None], bits, 0).sum(axis=-1, dtype=np.float64)
            self.bits = self.bits + bits.sum(axis=0)
            several = source_lengths > 1
            most = np.log2(np.maximum(source_lengths, 2))[:, None, None]
            self.share = self.share + (bits / most)[several].sum(axis=0)
            self.wide += int(target_keep[several].sum())
        if alignment is not None:
            told = (alignment >= 0) & target_keep
            places = np.maximum(alignment, 0)[:, None, None, :, None]
            on_it = np.take_along_axis(weights, places, axis=-1)[..., 0]
            right = weights.argmax(axis=-1) == places[..., 0]
            chosen = told[:, None, None]
            self.mass = self.mass + np.where(chosen, on_it, 0).sum(axis=(0, -1), dtype=np.float64)
            self.right = self.right + (right & chosen).sum(axis=(0, -1))
            self.aligned += int(told.sum())

    def result(self) -> AttentionMetrics:
        """What all sequences so far say together."""

        def mean(total: Any, count: int) -> NDArray[np.float64] | None:
            return np.asarray(total / count, dtype=np.float64) if count else None

        entropies = self.is_distribution
        return AttentionMetrics(
            accuracy=mean(self.right, self.aligned),
            mass=mean(self.mass, self.aligned),
            entropy_bits=mean(self.bits, self.steps) if entropies else None,
            entropy_share=mean(self.share, self.wide) if entropies else None,
            padding_mass=self.padding,
            steps=self.steps,
            aligned=self.aligned,
        )


def largest_weight_shares(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """How often each source step has the largest weight.

    Args:
        weights: (N, T, S) of N sequences of the same lengths, without padding.

    Returns:
        (T, S), rows sum to 1. Of equal largest weights the first counts.
    """
    N, _, S = weights.shape
    places = weights.argmax(axis=-1)
    shares: NDArray[np.float64] = (places[..., None] == np.arange(S)).sum(axis=0) / N
    return shares
