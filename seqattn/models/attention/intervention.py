"""Interventions on attention weights. An intervention replaces the weights in a forecast, to test
how much the forecast depends on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from seqattn.errors import UsageError

OverrideMode = Literal["uniform", "shuffled", "previous", "one_hot"]
MODES = "uniform, shuffled, previous, or one_hot:K"
SEED = 0


@dataclass(frozen=True)
class Override:
    """Weights that replace the model's own weights in every head and layer.

    Attributes:
        mode: `uniform` gives equal weights to all valid source steps; `shuffled` randomly permutes
            the model's own weights among the valid steps of each row; `previous` uses the weights
            of the previous decoder step (the first step keeps its own weights); `one_hot` puts all
            weight on one source step.
        index: the source step of `one_hot`, counted from 0.
    """

    mode: OverrideMode
    index: int = 0

    @classmethod
    def parse(cls, text: str) -> Override:
        """Parse `uniform`, `shuffled`, `previous` or `one_hot:K`.

        Raises:
            UsageError: if the text has none of these forms.
        """
        mode, colon, index = text.partition(":")
        match mode, bool(colon):
            case ("uniform" | "shuffled" | "previous") as known, False:
                return cls(known)
            case "one_hot", True if index.isascii() and index.isdigit() and len(index) < 10:
                return cls("one_hot", int(index))
        raise UsageError(f"--attention-override {text}: expected {MODES}, K counted from 0.")

    def check(self, shortest: int) -> None:
        """Check that every source has the step of `one_hot`.

        Args:
            shortest: length of the shortest source.

        Raises:
            UsageError: if the shortest source does not have this step.
        """
        if self.mode == "one_hot" and self.index >= shortest:
            raise UsageError(
                f"--attention-override one_hot:{self.index}: the shortest source has {shortest}"
                f" points, so K must lie within 0 and {shortest - 1}."
            )

    def start(self) -> WeightIntervention:
        """Start the intervention for one forecast, at the forecast's first step."""
        return WeightIntervention(self)


class WeightIntervention:
    """An override that is applied to one forecast. The intervention stores the previous weights of
    each layer."""

    def __init__(self, override: Override) -> None:
        self.override = override
        self.prev_weights = dict[int, Tensor]()
        self.generator = torch.Generator().manual_seed(SEED)

    def __call__(self, weights: Tensor, keep: Tensor | None, layer: int = 0) -> Tensor:
        """Return the weights (..., T, S) that replace `weights` (..., T, S).

        Args:
            weights: the model's own weights.
            keep: a mask that broadcasts to (..., S), True at valid source steps; None if all steps
                are valid.
            layer: index of the attention layer.
        """
        *_, S = weights.shape
        valid = torch.ones(S, dtype=torch.bool, device=weights.device) if keep is None else keep
        valid = valid.unsqueeze(-2).expand(weights.shape)
        match self.override.mode:
            case "uniform":
                return valid.to(weights.dtype) / valid.sum(dim=-1, keepdim=True)
            case "one_hot":
                chosen = torch.arange(S, device=weights.device) == self.override.index
                return chosen.to(weights.dtype).expand(weights.shape)
            case "shuffled":
                keys = torch.rand(weights.shape, generator=self.generator).to(weights.device)
                order = keys.masked_fill(~valid, 2.0).argsort(dim=-1)  # padding stays last
                return weights.gather(-1, order)
            case "previous":
                first = self.prev_weights.get(layer, weights.narrow(-2, 0, 1))
                self.prev_weights[layer] = weights.narrow(-2, weights.shape[-2] - 1, 1)
                return torch.cat([first, weights[..., :-1, :]], dim=-2)
            case _:
                assert_never(self.override.mode)
