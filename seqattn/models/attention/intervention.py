"""A hand on the weights: what does a forecast lose when a model may not look where it would?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from seqattn.errors import UsageError

OverrideMode = Literal["uniform", "shuffled", "previous", "one_hot"]
WAYS = "uniform, shuffled, previous, or one_hot:K"
SEED = 0


@dataclass(frozen=True)
class Override:
    """Which weights take the place of the model's own, in every head and layer.

    Attributes:
        way: `uniform`: all real source points alike; `shuffled`: the model's own weights, dealt
            out at random among the real points of each row; `previous`: those of the step before
            (the first step keeps its own); `one_hot`: all on one source point.
        place: of `one_hot`, counted from 0.
    """

    way: OverrideMode
    place: int = 0

    @classmethod
    def parse(cls, text: str) -> Override:
        """From uniform, shuffled, previous or one_hot:K.

        Raises:
            UsageError: it is none of these.
        """
        way, colon, place = text.partition(":")
        match way, bool(colon):
            case ("uniform" | "shuffled" | "previous") as known, False:
                return cls(known)
            case "one_hot", True if place.isascii() and place.isdigit() and len(place) < 10:
                return cls("one_hot", int(place))
        raise UsageError(f"--attention-override {text}: expected {WAYS}, K counted from 0.")

    def check(self, shortest: int) -> None:
        """Hold it against the sequences it is for.

        Args:
            shortest: real points of the shortest source.

        Raises:
            UsageError: a place that some source does not have.
        """
        if self.way == "one_hot" and self.place >= shortest:
            raise UsageError(
                f"--attention-override one_hot:{self.place}: the shortest source has {shortest}"
                f" points, so K must lie within 0 and {shortest - 1}."
            )

    def begin(self) -> WeightIntervention:
        """For one forecast from its first step on."""
        return WeightIntervention(self)


class WeightIntervention:
    """An override at work: it knows the step before, of each place in the model it is laid on."""

    def __init__(self, override: Override) -> None:
        self.override = override
        self.before = dict[int, Tensor]()
        self.numbers = torch.Generator().manual_seed(SEED)

    def __call__(self, weights: Tensor, keep: Tensor | None, where: int = 0) -> Tensor:
        """What stands in for weights (..., T, S) of T steps.

        Args:
            keep: broadcasts to (..., S), True at real source points; None: all are.
            where: which of the model's attentions this is.
        """
        *_, S = weights.shape
        real = torch.ones(S, dtype=torch.bool, device=weights.device) if keep is None else keep
        real = real.unsqueeze(-2).expand(weights.shape)
        match self.override.way:
            case "uniform":
                return real.to(weights.dtype) / real.sum(dim=-1, keepdim=True)
            case "one_hot":
                place = torch.arange(S, device=weights.device) == self.override.place
                return place.to(weights.dtype).expand(weights.shape)
            case "shuffled":
                keys = torch.rand(weights.shape, generator=self.numbers).to(weights.device)
                order = keys.masked_fill(~real, 2.0).argsort(dim=-1)  # padding stays behind
                return weights.gather(-1, order)
            case "previous":
                first = self.before.get(where, weights.narrow(-2, 0, 1))
                self.before[where] = weights.narrow(-2, weights.shape[-2] - 1, 1)
                return torch.cat([first, weights[..., :-1, :]], dim=-2)
            case _:
                assert_never(self.override.way)
