"""A linear map from the source window to the forecast, beside the network (`model.skip: linear`).

    forecast[t, g] = network[t, g] + sum over s, f of W[t, g, s, f] source[s, f] + b[t, g]

Many real series are close to linear in their past, and one linear map from the window to all steps
of the forecast is a strong forecaster of them (Zeng et al. 2023, "Are Transformers Effective for
Time Series Forecasting?", LTSF-Linear). Here the network only has to learn what the map misses.

Weight and bias of the network's output layer start at zero, so that the first forecast is the
map's, and nothing random is in it. A residual branch that starts at zero is from ReZero
(Bachlechner et al. 2020, "ReZero is All You Need"); they scale the branch by a number that starts
at 0, where we start the branch's last layer at 0.

`model.skip_map` says where W and b come from:

- `frozen`: the ridge regression of the training sequences (`seqattn.data.ridge`), which stays as it
  is. The first gradient reaches the output layer alone.
- `finetuned`: the same, trained with the network. Adam moves each of the T G S F weights by about
  the learning rate at each step, however small its gradient, so that a high rate destroys a fitted
  map that has many.
- `learned`: both start at zero, and are trained. The first forecast is 0 everywhere (with
  `data.relative`, the last source point).

`build_model` makes W and b zero and trained; `seqattn.experiments.skip_start` fits and freezes them
before a training begins.

A map has one shape, so all sources have S points and all forecasts T at most. What the network is
fed back when it runs free is the whole forecast, the map's share included.

Letters: N sequences, S source length, T target length, F features of a source point, G of a target
point.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqattn.errors import DataError, UsageError
from seqattn.models.layers import Linear, affine, without_autocast


class Lengths(NamedTuple):
    """Points that every source and every target has."""

    source: int
    target: int


class LinearSkip(nn.Module):
    """W and b of the module's docstring.

    Args:
        lengths: S and T.
        given: F, features of a source point.
        said: G, features of a target point.

    Attributes:
        weight: (T, G, S, F); a leading axis is one of runs.
        bias: (T, G); likewise.
        bound: how far from 0 both start: not at all.
        trained: whether an optimizer changes them.
    """

    def __init__(self, lengths: Lengths, given: int, said: int) -> None:
        super().__init__()
        S, T = self.lengths = lengths
        self.weight = nn.Parameter(torch.empty(T, said, S, given))
        self.bias = nn.Parameter(torch.empty(T, said))
        self.bound = 0.0
        self.trained = True

    def start_at(self, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> None:
        """
        Args:
            weight: (T, G, S, F).
            bias: (T, G).
        """
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(weight))
            self.bias.copy_(torch.from_numpy(bias))

    def __call__(self, source: Tensor, lengths: Tensor | None, steps: int) -> Tensor:
        """The map's share of a forecast, in the weights' type even under autocast: a first guess in
        bfloat16 would leave the network rounding errors to learn.

        Args:
            source: (..., N, L, F) with L >= S; what stands beyond S is never read.
            lengths: (..., N) real points of each source; None: all L.
            steps: of the forecast, T at most.

        Returns:
            (..., N, steps, G).

        Raises:
            DataError: a source has not S points.
            UsageError: more steps than T.
        """
        *_, L, _ = source.shape
        self.check_steps(steps)
        self.check_sources([L] if lengths is None else lengths.flatten().tolist())
        return self.mapped(source, steps)

    def mapped(self, source: Tensor, steps: int) -> Tensor:
        """The same for sources that were checked before."""
        S, _ = self.lengths
        whole: tuple[Tensor, Tensor] = self.weight, self.bias
        if not self.trained:
            whole = self.weight.detach(), self.bias.detach()
        weight = whole[0][..., :steps, :, :, :].flatten(-2).flatten(-3, -2)
        bias = whole[1][..., :steps, :].flatten(-2)
        with without_autocast(source):
            mapped = affine(source[..., :S, :].flatten(-2), weight, bias)
        return mapped.view(*mapped.shape[:-1], steps, -1)

    def check_sources(self, lengths: Iterable[int], ids: Iterable[str] | None = None) -> None:
        """Refuse sources that the map has no weights for.

        Args:
            lengths: points of each source.
            ids: their names, for the message; None: there are none.

        Raises:
            DataError: one has another number of points than S.
        """
        S, _ = self.lengths
        places = list(lengths)
        wrong = next((k for k, length in enumerate(places) if length != S), None)
        if wrong is None:
            return
        name = "a source" if ids is None else f"the source of sequence {list(ids)[wrong]!r}"
        raise DataError(
            f"model.skip: linear was trained on sources of {S} points and has weights for exactly"
            f" these; {name} has {places[wrong]}. Give each source {S} points."
        )

    def check_steps(self, steps: int) -> None:
        """Refuse a longer forecast than the map has weights for.

        Raises:
            UsageError: more steps than T.
        """
        _, T = self.lengths
        if steps > T:
            raise UsageError(
                f"model.skip: linear was trained to forecast {T} steps and has weights for no more;"
                f" {steps} were asked for. Ask for {T} or fewer, or train with a longer target."
            )


def build_skip(
    kind: str, lengths: Lengths | None, given: int, said: int, output: Linear
) -> LinearSkip | None:
    """The skip of a model, and its output layer made to start at zero beside it.

    Args:
        kind: `model.skip`.
        lengths: S and T; None: they vary, or nobody said.
        given, said: features of a source and of a target point.
        output: the model's last layer.

    Raises:
        ValueError: a linear skip without lengths.
    """
    if kind == "none":
        return None
    if lengths is None:
        raise ValueError("model.skip: linear needs the lengths of source and target")
    output.bound = 0.0
    return LinearSkip(lengths, given, said)
