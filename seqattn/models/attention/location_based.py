"""Location-based addressing, in which the weights depend on source positions as well as on content.

In shapes, N is the number of sequences, S the source length, T the number of queries, H the width
of the decoder's states, A the number of heads, and `...` an optional leading axis of runs. "[A,]"
denotes an axis that exists only with several heads. The valid length of a source is L.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from seqattn.config import GaussianWindow as LocalWindowConfig
from seqattn.config import LocationConfig, Section
from seqattn.config import LocationShift as ShiftConfig
from seqattn.errors import PluginError
from seqattn.models.attention.arithmetic import Array, AttentionStep, as_printed
from seqattn.models.attention.normalizers import Normalizer, WeightSemantics, check_meaning
from seqattn.models.layers import Linear, without_autocast

LOCATIONS: dict[type[Section], type[Location]] = {}
"""A mapping from config section to class."""
CONTENT_WEIGHTS = "Content weights"


class Location(nn.Module, ABC):
    """The interface of every method of location-based addressing. Such a method is called a
    location here.

    A subclass registers the config section that selects the subclass, as in `class
    LocalWindow(Location, config=LocalWindowConfig)`. If a subclass overrides `attention_weights`
    but not `explain`, the explanation contains the weights without their arithmetic.

    Attributes:
        is_stochastic: whether the weights depend on random numbers in training. The method
            `attention_weights` of such a location has the additional keyword argument `u`: numbers
            uniform over [0, 1], (..., N, [A,] T, S), in training; otherwise None.
        meaning: the meaning of the weights, which `seqattn.models.base.AttentionMap` describes.
    """

    is_stochastic: ClassVar[bool] = False
    meaning: ClassVar[WeightSemantics] = "distribution"

    def __init_subclass__(cls, *, config: type[Section] | None = None) -> None:
        super().__init_subclass__()
        if config is not None:
            LOCATIONS[config] = cls
        if "explain" not in vars(cls) and "attention_weights" in vars(cls):
            cls.explain = Location.explain  # type: ignore[method-assign]

    @classmethod
    @abstractmethod
    def from_config(cls, config: Any, hidden: int, heads: int) -> Self:
        """Build the location from a config section, for decoder states of width `hidden`."""

    def __call__(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None, u: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Call `attention_weights`, and check the type of the result. Only a stochastic location
        gets the argument `u`.

        Raises:
            PluginError: if `attention_weights` does not return a tuple of length 2.
        """
        random: dict[str, Any] = {"u": u} if self.is_stochastic else {}
        found = self.attention_weights(normalizer, queries, scores, keep, previous, **random)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise PluginError(
                f"{type(self).__name__}.attention_weights: must return (weights, previous), where"
                " the weights have the shape of the scores, and previous is None unless the next"
                f" step depends on the weights of this step; got {type(found).__name__}."
            )
        return found

    @abstractmethod
    def attention_weights(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Compute attention weights from scores and source positions.

        Args:
            normalizer: the normalizer, which turns scores into weights.
            queries: the queries (..., N, T, H).
            scores: the scores (..., N, [A,] T, S).
            keep: mask (..., N, [1,] S), True at valid source steps; None if all steps are valid.
            previous: the weights that the previous call returned as its second result; None at the
                first call, or if the location returns no such weights.

        A stochastic location also gets `u`; see `is_stochastic`.

        Returns:
            the weights (..., N, [A,] T, S), and the weights of the last query (..., N, [A,] S) if
                the next call depends on these weights, otherwise None.
        """

    def initial_weights(self, keep: Tensor | None, content: Tensor) -> Tensor | None:
        """Return the weights before the first step, (..., N, [A,] S), if the weights of a call
        depend on the previous call; otherwise, return None."""
        return None

    def explain(self, step: AttentionStep, normalizer: Normalizer, scores: Array) -> Array:
        """Add the stages in which the weights (S,) of one head are computed from the printed scores
        (S,) of this head.

        The default implementation adds the model's weights without arithmetic.
        """
        return step.add_unexplained("Weights", self, step.weights, "weight")


class LocalWindow(Location, config=LocalWindowConfig):
    """Local attention with a predicted window (local-p in Luong et al. 2015, eq. 9 and 10).

        p = (L - 1) sigmoid(v . tanh(W q))
        weight = (score, normalized over |s - p| <= D) * exp(-(s - p)^2 / (2 sigma^2))

    Here, D is half the width of the window, and sigma = D / 2, as in the paper. As in eq. 10, the
    weights are not normalized again after the multiplication by the Gaussian, so a row sums to at
    most 1. Positions run from 0 to L - 1. In the paper, p is the source length times the sigmoid.
    """

    meaning = "partial"

    def __init__(self, hidden: int, heads: int, window: int) -> None:
        super().__init__()
        self.predict = Linear(hidden, hidden, bias=False)
        self.combine = Linear(hidden, heads, bias=False)
        self.heads, self.window = heads, float(window)

    @classmethod
    def from_config(cls, config: LocalWindowConfig, hidden: int, heads: int) -> Self:
        return cls(hidden, heads, config.window)

    def attention_weights(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None,
    ) -> tuple[Tensor, None]:  # fmt: skip
        *_, S = scores.shape
        centre = self.centres(queries, valid_lengths(keep, scores).unsqueeze(-1))
        distance = torch.arange(S, dtype=centre.dtype, device=scores.device) - centre
        outside = distance.detach().abs() > self.window
        scores = scores.masked_fill(outside, -float("inf"))
        weights = normalizer(scores, keep, None).weights
        gaussian = (distance.square() * (-2 / self.window**2)).exp()  # 1/(2 sigma^2), D = 2 sigma
        return weights * gaussian, None

    def centres(self, queries: Tensor, lengths: Tensor) -> Tensor:
        """Compute the predicted position p for each query, (..., N, [A,] T, 1).

        Args:
            queries: the queries (..., N, T, H).
            lengths: the valid lengths, which broadcast to (..., N, [A,] T, 1).
        """
        # In bfloat16, the rounding error of the sigmoid times L could exceed the window.
        with without_autocast(queries):
            fraction = self.combine(self.predict(queries).tanh()).sigmoid()  # (..., N, T, A)
        if self.heads > 1:
            fraction = fraction.mT.unsqueeze(-1)
        return fraction * (lengths - 1)

    def explain(self, step: AttentionStep, normalizer: Normalizer, scores: Array) -> Array:
        S, positions = len(scores), np.arange(len(scores))
        fraction = self.combine(self.predict(step.query).tanh()).sigmoid()[:, step.head, None]
        p, formula = fraction * (S - 1), "p = (S - 1) sigmoid(v . tanh(W h)), from the checkpoint"
        (centre,) = step.record.add_from_model("Window center", formula, p, ["p"], ["p"])[0]
        inside = np.abs(positions - centre) <= self.window
        content = normalizer.explain(step, CONTENT_WEIGHTS, scores, inside)
        gaussian = as_printed(np.exp(-2 * ((positions - centre) / self.window) ** 2))
        formula = f"times exp(-(s - p)^2 / (2 (D/2)^2)), D = {self.window:g}, s from 0"
        columns = {"content": content, "window": gaussian, "weight": content * gaussian}
        return step.record.add_columns("Weights", formula, columns)


class LocationShiftAddressing(Location, config=ShiftConfig):
    """The location-based addressing of a Neural Turing Machine (Graves, Wayne and Danihelka 2014,
    "Neural Turing Machines", eq. 7 to 9). Linear maps of each query, followed by activation
    functions, give an interpolation gate g, a distribution s over shifts and a sharpening factor
    gamma >= 1. The weights are computed as follows:

        gated = g content + (1 - g) previous                     (7)
        shifted(i) = sum over j of gated(i - j) s(j)             (8)
        weights = shifted^gamma / sum of shifted^gamma           (9)

    As in the paper, the convolution is circular. The convolution runs over the valid steps of each
    source. Before the first step, all weight is on the last valid source step, from which the first
    decoder input comes. The content weights (eq. 5 in the paper) come from the configured score and
    normalizer.
    """

    def __init__(self, hidden: int, heads: int, num_shifts: int) -> None:
        super().__init__()
        self.control = Linear(hidden, heads * (num_shifts + 2))
        self.heads, self.num_shifts = heads, num_shifts

    @classmethod
    def from_config(cls, config: ShiftConfig, hidden: int, heads: int) -> Self:
        return cls(hidden, heads, config.shift_range)

    def initial_weights(self, keep: Tensor | None, content: Tensor) -> Tensor:
        """Return one-hot weights for the last valid source step, (..., N, [A,] S)."""
        positions = torch.arange(content.shape[-1], device=content.device)
        last = valid_lengths(keep, content) - 1
        return (positions == last).to(content.dtype).expand(content.select(-2, 0).shape)

    def attention_weights(
        self, normalizer: Normalizer, queries: Tensor, scores: Tensor, keep: Tensor | None,
        previous: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        content = normalizer(scores, keep, None).weights
        return self.shift(queries, content, keep, previous)

    def shift(
        self, queries: Tensor, content: Tensor, keep: Tensor | None, previous: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Apply equations 7 to 9 to one query after another.

        Args:
            queries: the queries (..., N, T, H).
            content: the content weights (..., N, [A,] T, S).
            keep: mask (..., N, [1,] S), True at valid source steps; None if all steps are valid.
            previous: the weights of the previous query, (..., N, [A,] S); None to use
                `initial_weights`.

        Returns:
            the weights (..., N, [A,] T, S), and the weights of the last query.
        """
        *_, T, S = content.shape
        control = self.control(queries)  # (..., N, T, A (num_shifts + 2))
        if self.heads > 1:
            control = control.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
        gate, sharpness, shift = control.split([1, 1, self.num_shifts], dim=-1)
        gate, shift = gate.sigmoid(), shift.softmax(dim=-1)
        gamma = 1 + nn.functional.softplus(sharpness)
        lengths = valid_lengths(keep, content)  # (..., N, [1,] 1) or ()
        positions = torch.arange(S, device=content.device)
        if previous is None:
            previous = self.initial_weights(keep, content)
        offsets = torch.arange(self.num_shifts, device=content.device) - self.num_shifts // 2
        origins = (positions.unsqueeze(-1) - offsets) % lengths.unsqueeze(-1)
        valid = (torch.ones_like(positions, dtype=torch.bool) if keep is None else keep).expand(
            previous.shape
        )
        shape = (*previous.shape, self.num_shifts)  # (..., S, num_shifts)
        origins = origins.expand(shape)
        smallest = torch.finfo(content.dtype).tiny
        weights = list[Tensor]()
        for t in range(T):
            g_t = gate.select(-2, t)
            gated = g_t * content.select(-2, t) + (1 - g_t) * previous
            # Each shift gathers from its own column. In the backward pass, no two gradients other
            # than 0 are then added to the same value, so the order of the additions, which varies
            # on a GPU, does not change the sum.
            rolled = gated.unsqueeze(-1).expand(shape).gather(-2, origins)
            shifted_weights = (rolled * shift.select(-2, t).unsqueeze(-2)).sum(dim=-1)
            # Powers are computed with logarithms, so that no row underflows to zeros if gamma is
            # large.
            powers = gamma.select(-2, t) * shifted_weights.clamp(min=smallest).log()
            previous = powers.masked_fill(~valid, -float("inf")).softmax(dim=-1)
            weights.append(previous)
        return torch.stack(weights, dim=-2), previous

    def explain(self, step: AttentionStep, normalizer: Normalizer, scores: Array) -> Array:
        S = len(scores)
        content = normalizer.explain(step, CONTENT_WEIGHTS, scores, np.ones(S, dtype=bool))
        control = self.control(step.query)[0].view(self.heads, -1)[step.head]
        gate, gamma = control[0].sigmoid(), 1 + nn.functional.softplus(control[1])
        reach = self.num_shifts // 2
        shifts = range(-reach, reach + 1)
        numbers = torch.cat([gate.view(1), gamma.view(1), control[2:].softmax(-1)])
        g, sharpness, *s = step.record.add_from_model(
            "Gate, sharpness and shift", "from h, by the checkpoint", numbers[None], ["value"],
            ["g", "gamma", *(f"s({j:+d})" for j in shifts)],
        )[0]  # fmt: skip
        previous = (np.arange(S) == S - 1).astype(float)
        if step.previous is not None:
            previous = as_printed(step.of_head(step.previous))
        gated = as_printed(g * content + (1 - g) * previous)
        shifted_weights = as_printed(sum(s[j + reach] * np.roll(gated, j) for j in shifts))
        power = as_printed(shifted_weights**sharpness)
        formula = (
            "gated = g content + (1 - g) previous; shifted(i) = sum of gated(i - j) s(j), circular;"
            " weight = shifted^gamma / sum of these"
        )
        columns = {"previous": previous, "gated": gated, "shifted": shifted_weights,
                   "shifted^gamma": power, "weight": power / power.sum()}  # fmt: skip
        return step.record.add_columns("Weights", formula, columns)


def build_location(config: LocationConfig | None, hidden: int, heads: int) -> Location | None:
    """Build the location that a config section selects, for decoder states of width `hidden`. If
    `config` is None, return None.

    Raises:
        PluginError: if the meaning of the weights is unknown.
    """
    if config is None:
        return None
    found = LOCATIONS[type(config)].from_config(config, hidden, heads)
    check_meaning(found.meaning, type(found).__name__)
    return found


def valid_lengths(keep: Tensor | None, like: Tensor) -> Tensor:
    """Count the valid source steps in the mask `keep` (..., N, [1,] S), and return integers (...,
    N, [1,] 1). If `keep` is None, return a tensor without axes that contains S, the length of the
    last axis of `like`."""
    if keep is None:
        return torch.full((), like.shape[-1], device=like.device)
    return keep.sum(dim=-1, keepdim=True)
