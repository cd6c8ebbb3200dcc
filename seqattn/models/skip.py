"""A linear skip connection from the source window to the forecast (`model.skip: linear`).

    forecast[t, g] = network[t, g] + sum over s, f of W[t, g, s, f] source[s, f] + b[t, g]

In many real series, a value is close to a linear function of past values. For such series, one
linear map from the window to all steps of the forecast is a strong baseline (Zeng et al. 2023, "Are
Transformers Effective for Time Series Forecasting?", LTSF-Linear). The network learns the residual
of the map.

The weight and the bias of the network's output layer are initialized to zero, so the initial
forecast is the output of the map alone. ReZero (Bachlechner et al. 2020, "ReZero is All You Need")
instead multiplies a residual branch by a scalar that is initialized to zero.

`model.skip_map` selects how W and b are determined:

- `frozen`: ridge regression on the training sequences (`seqattn.data.ridge`) determines W and b,
  and training does not change them. At the first training step, the gradient of the squared error
  is nonzero only in the output layer.
- `finetuned`: W and b start from the result of the same ridge regression and are trained with the
  network. In each step, Adam can change each of the T * G * S * F weights by about the learning
  rate, even if the gradient of the weight is very small. A high learning rate can therefore destroy
  a fitted map with many weights.
- `learned`: W and b are initialized to zero and trained. With `data.relative`, the initial forecast
  repeats the last source point. Otherwise, the initial forecast is 0 in the units of the model.

`build_model` sets W and b to zero and makes them trainable. Before training,
`seqattn.experiments.prepare` fits W and b unless `model.skip_map` is `learned`, and freezes W
and b if `model.skip_map` is `frozen`. If a ridge regression would take too long, W and b are
initialized and trained as with `learned`.

The map has a fixed shape, so all sources must have S points, and all forecasts must have at most T
points. In free running, each decoder input after the first is the complete forecast of the previous
step, including the output of the map.

In shapes, N is the number of sequences, S the source length, T the target length, F the number of
source features, G the number of target features, and `...` an optional leading axis of runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqattn.errors import DataError, UsageError
from seqattn.models.layers import Linear, TiedLinear, affine, without_autocast
from seqattn.models.modality import FeatureSpec


class Lengths(NamedTuple):
    """The length of the longest source, and the length of the longest target."""

    source: int
    target: int


class LinearSkip(nn.Module):
    """A linear map with the weight W and the bias b, which the docstring of the module defines.

    Args:
        lengths: the lengths S and T.
        source_dim: the number of source features, F.
        target_dim: the number of target features, G.

    Attributes:
        weight: the weight W, (T, G, S, F), or (R, T, G, S, F) for R runs.
        bias: the bias b, (T, G), or (R, T, G) for R runs.
        init_bound: the number 0, so that weight and bias are initialized to zero.
        is_trainable: whether an optimizer changes weight and bias.
    """

    def __init__(self, lengths: Lengths, source_dim: int, target_dim: int) -> None:
        super().__init__()
        S, T = self.lengths = lengths
        self.weight = nn.Parameter(torch.empty(T, target_dim, S, source_dim))
        self.bias = nn.Parameter(torch.empty(T, target_dim))
        self.init_bound = 0.0
        self.is_trainable = True

    def set_weights(self, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> None:
        """Copy W (T, G, S, F) and b (T, G) into the parameters."""
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(weight))
            self.bias.copy_(torch.from_numpy(bias))

    def __call__(self, source: Tensor, lengths: Tensor | None, steps: int) -> Tensor:
        """Compute the output of the map in the dtype of the weights, even under autocast. If the
        output were in bfloat16, the network would have to learn the rounding errors of the map.

        Args:
            source: the sources (..., N, L, F) with L >= S. Steps after the first S are never read.
            lengths: the number of valid steps of each source, (..., N); None if all L steps are
                valid.
            steps: the number of forecast steps, at most T.

        Returns:
            the output (..., N, steps, G).
        """
        *_, L, _ = source.shape
        self.check_steps(steps)
        self.check_sources([L] if lengths is None else lengths.flatten().tolist())
        return self.apply_weights(source, steps)

    def apply_weights(self, source: Tensor, steps: int) -> Tensor:
        """Compute the output like `__call__`, but without checks of the lengths and the steps."""
        S, _ = self.lengths
        parameters: tuple[Tensor, Tensor] = self.weight, self.bias
        if not self.is_trainable:
            parameters = self.weight.detach(), self.bias.detach()
        weight = parameters[0][..., :steps, :, :, :].flatten(-2).flatten(-3, -2)
        bias = parameters[1][..., :steps, :].flatten(-2)
        with without_autocast(source):
            output = affine(source[..., :S, :].flatten(-2), weight, bias)
        return output.view(*output.shape[:-1], steps, -1)

    def check_sources(self, lengths: Iterable[int], ids: Iterable[str] | None = None) -> None:
        """Check that the map has weights for all sources.

        Args:
            lengths: the length of each source.
            ids: the sequence ids for the error message; None if the ids are unknown.

        Raises:
            DataError: if a length is not S.
        """
        S, _ = self.lengths
        lengths = list(lengths)
        wrong = next((k for k, length in enumerate(lengths) if length != S), None)
        if wrong is None:
            return
        name = "a source" if ids is None else f"the source of sequence {list(ids)[wrong]!r}"
        raise DataError(
            f"model.skip: linear was trained on sources of {S} points and has weights for this"
            f" length only; {name} has {lengths[wrong]}. Give each source {S} points."
        )

    def check_steps(self, steps: int) -> None:
        """Check that the map has weights for all forecast steps.

        Raises:
            UsageError: if `steps` is greater than T.
        """
        _, T = self.lengths
        if steps > T:
            raise UsageError(
                f"model.skip: linear was trained to forecast {T} steps and has weights for no more;"
                f" {steps} were requested. Request {T} or fewer, or train with a longer target."
            )


def build_skip(
    kind: str, lengths: Lengths | None, features: FeatureSpec, output: Linear | TiedLinear
) -> LinearSkip | None:
    """Build the skip connection of a model. If the model has a skip connection, also set
    `init_bound` of the output layer to 0, so that this layer is initialized to zero.

    Args:
        kind: the value of `model.skip`.
        lengths: the lengths S and T; None if the lengths are unknown.
        features: the features of source and target.
        output: the model's last layer.

    Returns:
        the skip connection, or None if `kind` is `none`.

    Raises:
        ValueError: if `kind` is `linear` and `lengths` is None.
    """
    if kind == "none":
        return None
    if lengths is None:
        raise ValueError("model.skip: linear needs the lengths of source and target")
    output.init_bound = 0.0
    return LinearSkip(lengths, features.source_dim, features.target_dim)
