"""Places, besides contents, decide where to look. Shapes may carry leading axes.

Letters: N sequences, S source length, L the real length of one source, T queries, H width of
the decoder's states, A heads ("[A,]": an axis that is there for several heads only).
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor, nn

from seqattn.attention.normalizers import Normalizer
from seqattn.config import LocalWindow as LocalConfig
from seqattn.config import Location as LocationConfig
from seqattn.config import LocationShift as ShiftConfig
from seqattn.layers import Linear, without_autocast


class LocalWindow(nn.Module):
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

    def weigh(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None
    ) -> Tensor:
        """Weights (..., N, [A,] T, S) from queries (..., N, T, H) and scores of their shape."""
        *_, S = scores.shape
        centre = self.places(queries, lengths_of(keep, scores).unsqueeze(-1))
        away = torch.arange(S, dtype=centre.dtype, device=scores.device) - centre
        outside = away.detach().abs() > self.window
        weights = normalizer.weigh(scores.masked_fill(outside, -float("inf")), keep, None).weights
        return weights * (away.square() * (-2 / self.window**2)).exp()  # 1/(2 sigma^2), D = 2 sigma

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


class LocationShiftAddressing(nn.Module):
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

    def start(self, keep: Tensor | None, content: Tensor) -> Tensor:
        """Where it looked before the first step, (..., N, [A,] S); see `weigh`."""
        places = torch.arange(content.shape[-1], device=content.device)
        last = lengths_of(keep, content) - 1
        return (places == last).to(content.dtype).expand(content.select(-2, 0).shape)

    def weigh(
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


def build_location(
    config: LocationConfig | None, hidden: int, heads: int
) -> LocalWindow | LocationShiftAddressing | None:
    """What a config says of places, for decoder states of width `hidden`."""
    match config:
        case None:
            return None
        case LocalConfig():
            return LocalWindow(hidden, heads, config.window)
        case ShiftConfig():
            return LocationShiftAddressing(hidden, heads, config.shift_range)
        case _:
            assert_never(config)


def lengths_of(keep: Tensor | None, like: Tensor) -> Tensor:
    """Real lengths, whole numbers on the device of `like` (..., S): (..., N, [1,] 1) of keep
    (..., N, [1,] S), or () where every one is S."""
    if keep is None:
        return torch.full((), like.shape[-1], device=like.device)
    return keep.sum(dim=-1, keepdim=True)
