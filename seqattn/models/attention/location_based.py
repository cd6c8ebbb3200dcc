"""Places, besides contents, decide where to look. Shapes may carry leading axes.

Letters: N sequences, S source length, L the real length of one source, T queries, H width of
the decoder's states, A heads ("[A,]": an axis that is there for several heads only).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from seqattn.config import GaussianWindow as LocalConfig
from seqattn.config import Location as LocationConfig
from seqattn.config import LocationShift as ShiftConfig
from seqattn.config import Section
from seqattn.models.attention.arithmetic import Array, AttentionStep, rounded
from seqattn.models.attention.normalizers import Normalizer
from seqattn.models.layers import Linear, without_autocast

LOCATIONS: dict[type[Section], type[Location]] = {}
"""Knobs -> the location that they describe."""
CONTENTS = "Weights by contents"


class Location(nn.Module, ABC):
    """The interface of every location.

    A subclass names its section of the config, `class LocalWindow(Location, knobs=LocalConfig)`,
    and is then what `build_location` makes of such a section. What a subclass changes, it explains
    anew.
    """

    def __init_subclass__(cls, *, knobs: type[Section] | None = None) -> None:
        super().__init_subclass__()
        if knobs is not None:
            LOCATIONS[knobs] = cls
        if "explain" not in vars(cls) and "weigh" in vars(cls):
            cls.explain = Location.explain  # type: ignore[method-assign]

    @classmethod
    @abstractmethod
    def from_config(cls, config: Any, hidden: int, heads: int) -> Self:
        """The location that its knobs describe, for decoder states of width `hidden`."""

    @abstractmethod
    def weigh(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Weights of queries, from their contents and places.

        Args:
            queries: (..., N, T, H).
            scores: (..., N, [A,] T, S).
            keep: (..., N, [1,] S), or None where every source point is real.
            previous: what the call before returned besides its weights; None: there was none.

        Returns:
            weights (..., N, [A,] T, S), and what the next call starts from; None: nothing.
        """

    def start(self, keep: Tensor | None, content: Tensor) -> Tensor | None:
        """What the first call starts from, (..., N, [A,] S), where calls depend on those before."""
        return None

    def explain(self, step: AttentionStep, normalizer: Normalizer, scores: Array) -> Array:
        """Write how the weights (S,) of one head follow from its printed scores (S,).

        A location without a method of its own shows what the model computed.
        """
        return step.unexplained("Weights", self, step.weights, "weight")


class LocalWindow(Location, knobs=LocalConfig):
    """A window around a place that the query predicts (Luong et al. 2015, eq. 9 and 10, local-p).

        p = (L - 1) sigmoid(v . tanh(W q))
        weight = normalized score within |s - p| <= D, times exp(-(s - p)^2 / (2 sigma^2))

    with sigma = D / 2, as in the paper. A row sums to at most 1: what the Gaussian takes away is
    not given back, as in eq. 10. The paper's S counts places from 1; ours run from 0 to L - 1.
    """

    def __init__(self, hidden: int, heads: int, window: int) -> None:
        super().__init__()
        self.predict = Linear(hidden, hidden, bias=False)
        self.combine = Linear(hidden, heads, bias=False)
        self.heads, self.window = heads, float(window)

    @classmethod
    def from_config(cls, config: LocalConfig, hidden: int, heads: int) -> Self:
        return cls(hidden, heads, config.window)

    def weigh(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None,
    ) -> tuple[Tensor, None]:  # fmt: skip
        *_, S = scores.shape
        centre = self.places(queries, lengths_of(keep, scores).unsqueeze(-1))
        away = torch.arange(S, dtype=centre.dtype, device=scores.device) - centre
        outside = away.detach().abs() > self.window
        weights = normalizer.weigh(scores.masked_fill(outside, -float("inf")), keep, None).weights
        bell = (away.square() * (-2 / self.window**2)).exp()  # 1/(2 sigma^2), D = 2 sigma
        return weights * bell, None

    def places(self, queries: Tensor, lengths: Tensor) -> Tensor:
        """p of each query, (..., N, [A,] T, 1).

        Args:
            queries: (..., N, T, H).
            lengths: broadcasts to (..., N, [A,] T, 1).
        """
        # Times L, the rounding of a product in bfloat16 would be wider than the window.
        with without_autocast(queries):
            share = self.combine(self.predict(queries).tanh()).sigmoid()  # (..., N, T, A)
        if self.heads > 1:
            share = share.mT.unsqueeze(-1)
        return share * (lengths - 1)

    def explain(self, step: AttentionStep, normalizer: Normalizer, scores: Array) -> Array:
        S, places = len(scores), np.arange(len(scores))
        share = self.combine(self.predict(step.query).tanh()).sigmoid()[:, step.head, None]
        formula = "p = (S - 1) sigmoid(v . tanh(W h)), from the checkpoint"
        (centre,) = step.record.add_from_model("Place", formula, share * (S - 1), ["p"], ["p"])[0]
        inside = np.abs(places - centre) <= self.window
        contents = normalizer.explain(step, CONTENTS, scores, inside)
        bell = rounded(np.exp(-2 * ((places - centre) / self.window) ** 2))
        formula = f"times exp(-(s - p)^2 / (2 (D/2)^2)), D = {self.window:g}, s from 0"
        columns = {"by contents": contents, "window": bell, "weight": contents * bell}
        return step.record.add_columns("Weights", formula, columns)


class LocationShiftAddressing(Location, knobs=ShiftConfig):
    """Where it looked last, moved by a learned step (Graves, Wayne and Danihelka 2014, "Neural
    Turing Machines", eq. 7 to 9). From each query come a gate g, a distribution s over relative
    steps, and a sharpness gamma >= 1:

        gated = g content + (1 - g) previous                     (7)
        shifted(i) = sum over j of gated(i - j) s(j)             (8)
        weights = shifted^gamma / sum of shifted^gamma           (9)

    As in the paper the places form a ring, of each source's own length: a step forward from the
    last point leads to the first. Before the first step, all weight is on the last real point,
    with which the decoder starts. The content weights of eq. 5 are those of the score in use.
    """

    def __init__(self, hidden: int, heads: int, steps: int) -> None:
        super().__init__()
        self.control = Linear(hidden, heads * (steps + 2))
        self.heads, self.steps = heads, steps

    @classmethod
    def from_config(cls, config: ShiftConfig, hidden: int, heads: int) -> Self:
        return cls(hidden, heads, config.shift_range)

    def start(self, keep: Tensor | None, content: Tensor) -> Tensor:
        """Where it looked before the first step, (..., N, [A,] S); see `shift`."""
        places = torch.arange(content.shape[-1], device=content.device)
        last = lengths_of(keep, content) - 1
        return (places == last).to(content.dtype).expand(content.select(-2, 0).shape)

    def weigh(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        content = normalizer.weigh(scores, keep, None).weights
        return self.shift(queries, content, keep, previous)

    def shift(
        self, queries: Tensor, content: Tensor, keep: Tensor | None, previous: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """One query after the other.

        Args:
            queries: (..., N, T, H).
            content: (..., N, [A,] T, S), the weights by contents.
            keep: (..., N, [1,] S), or None where every source point is real.
            previous: (..., N, [A,] S), the weights of the query before the first; None: there
                was none.

        Returns:
            weights (..., N, [A,] T, S), and those of the last query.
        """
        *_, T, S = content.shape
        control = self.control(queries)  # (..., N, T, A (steps + 2))
        if self.heads > 1:
            control = control.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
        gate, sharpness, shift = control.split([1, 1, self.steps], dim=-1)
        gate, shift = gate.sigmoid(), shift.softmax(dim=-1)
        gamma = 1 + nn.functional.softplus(sharpness)
        lengths = lengths_of(keep, content)  # (..., N, [1,] 1) or ()
        places = torch.arange(S, device=content.device)
        if previous is None:
            previous = self.start(keep, content)
        step = torch.arange(self.steps, device=content.device) - self.steps // 2
        origins = (places.unsqueeze(-1) - step) % lengths.unsqueeze(-1)  # (..., S, steps)
        real = (torch.ones_like(places, dtype=torch.bool) if keep is None else keep).expand(
            previous.shape
        )
        origins = origins.expand(*previous.shape, self.steps).flatten(-2)
        least = torch.finfo(content.dtype).tiny
        weights = list[Tensor]()
        for t in range(T):
            here = gate.select(-2, t)
            gated = here * content.select(-2, t) + (1 - here) * previous
            moved = gated.gather(-1, origins).unflatten(-1, (S, self.steps))
            shifted = (moved * shift.select(-2, t).unsqueeze(-2)).sum(dim=-1)
            # In logarithms, so that a large gamma cannot make all powers vanish.
            powers = gamma.select(-2, t) * shifted.clamp(min=least).log()
            previous = powers.masked_fill(~real, -float("inf")).softmax(dim=-1)
            weights.append(previous)
        return torch.stack(weights, dim=-2), previous

    def explain(self, step: AttentionStep, normalizer: Normalizer, scores: Array) -> Array:
        S = len(scores)
        contents = normalizer.explain(step, CONTENTS, scores, np.ones(S, dtype=bool))
        control = self.control(step.query)[0].view(self.heads, -1)[step.head]
        gate, gamma = control[0].sigmoid(), 1 + nn.functional.softplus(control[1])
        reach = self.steps // 2
        shifts = range(-reach, reach + 1)
        numbers = torch.cat([gate.view(1), gamma.view(1), control[2:].softmax(-1)])
        g, sharpness, *s = step.record.add_from_model(
            "Gate, sharpness and shift", "from h, by the checkpoint", numbers[None], ["value"],
            ["g", "gamma", *(f"s({j:+d})" for j in shifts)],
        )[0]  # fmt: skip
        previous = (np.arange(S) == S - 1).astype(float)
        if step.previous is not None:
            previous = rounded(step.of_head(step.previous))
        gated = rounded(g * contents + (1 - g) * previous)
        shifted = rounded(sum(s[j + reach] * np.roll(gated, j) for j in shifts))
        power = rounded(shifted**sharpness)
        formula = (
            "gated = g content + (1 - g) previous; shifted(i) = sum of gated(i - j) s(j) round the"
            " ring; weight = shifted^gamma / sum of these"
        )
        columns = {"previous": previous, "gated": gated, "shifted": shifted, "shifted^gamma": power,
                   "weight": power / power.sum()}  # fmt: skip
        return step.record.add_columns("Weights", formula, columns)


def build_location(config: LocationConfig | None, hidden: int, heads: int) -> Location | None:
    """What a config says of places, for decoder states of width `hidden`."""
    return None if config is None else LOCATIONS[type(config)].from_config(config, hidden, heads)


def lengths_of(keep: Tensor | None, like: Tensor) -> Tensor:
    """Real lengths, whole numbers on the device of `like` (..., S): (..., N, [1,] 1) of keep
    (..., N, [1,] S), or () where every one is S."""
    if keep is None:
        return torch.full((), like.shape[-1], device=like.device)
    return keep.sum(dim=-1, keepdim=True)
