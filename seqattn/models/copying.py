"""Copying by pointing: source symbols as outputs (See, Liu and Manning 2017, "Get To The Point:
Summarization with Pointer-Generator Networks", section 2.2).

An output is generated from the vocabulary with the probability g, and otherwise copied from the
source step to which the attention points (eq. 8 and 9, where g is called p_gen):

    g_t = sigmoid(w_c . c_t + w_h . h_t + w_x . x_t + b)
    P(w) = g_t P_vocabulary(w) + (1 - g_t) * sum of the weights of the source steps with symbol w

with the context c_t, the decoder state h_t and the embedded decoder input x_t. Weights with a sum
below 1 are divided by their sum; if all are 0, nothing is copied. P_vocabulary is the softmax over
all V symbols, and training and decoding read P as they read a softmax: as logits, of which the
logarithm of P is a valid choice.

The paper adds the unknown source symbols of each article to the vocabulary. Here, a source symbol
that the target vocabulary lacks stands for the unknown symbol.

In shapes, N is the number of sequences, S the source length, L a number of target steps, V and W
the numbers of target and source symbols, and `...` an optional leading axis of runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from seqattn.errors import UsageError
from seqattn.models.attention import Attention
from seqattn.models.layers import Linear, at_least_float32
from seqattn.models.modality import FeatureSpec


class Copier(nn.Module):
    """The mixture of generated and copied symbols; see the docstring of the module.

    Args:
        width: the width of context, decoder state and embedded decoder input together.
        copied_symbols: the target symbol for which each of W source symbols stands.

    Attributes:
        gate: the map to the argument of the sigmoid.
        copied_symbols: (W,), which all runs share. It is not stored with the parameters, because
            the vocabularies determine it.
    """

    copied_symbols: Tensor

    def __init__(self, width: int, copied_symbols: Sequence[int]) -> None:
        super().__init__()
        self.gate = Linear(width, 1)
        numbers = torch.tensor(copied_symbols, dtype=torch.int64)
        self.register_buffer("copied_symbols", numbers, persistent=False)

    def symbols(self, source: Tensor) -> Tensor:
        """Return the target symbols (..., N, S) for which source steps (..., N, S, 1) stand."""
        return self.copied_symbols[source.squeeze(-1)]

    def __call__(self, logits: Tensor, inputs: Tensor, weights: Tensor, symbols: Tensor) -> Tensor:
        """Return the logarithms (..., N, L, V) of the probabilities P of all symbols. The smallest
        normal number of the dtype replaces smaller probabilities, so that all logarithms are
        finite.

        Args:
            logits: the logits (..., N, L, V) of P_vocabulary.
            inputs: context, decoder state and embedded decoder input, (..., N, L, width).
            weights: the attention weights (..., N, L, S).
            symbols: the result (..., N, S) of the method `symbols`. There may be B times as many
                queries as sequences; see `Attention.attend`.
        """
        N, M = symbols.shape[-2], weights.shape[-3]
        if M > N:
            symbols = symbols.repeat_interleave(M // N, dim=-2)
        logits, gate = at_least_float32(logits), self.gate(inputs)
        least = torch.finfo(logits.dtype).tiny
        # Divided by a smaller sum, the gradient of weights that are almost 0 would overflow.
        pointed = weights / weights.sum(dim=-1, keepdim=True).clamp(min=math.sqrt(least))
        # g = exp(-softplus(-z)), because ONNX Runtime rounds small values of the sigmoid.
        generated = (logits.log_softmax(dim=-1) - softplus(-gate)).exp()
        copied = (-softplus(gate)).exp() * pointed
        places = symbols.unsqueeze(-2).expand_as(copied)
        return generated.scatter_add(-1, places, copied).clamp(min=least).log()


def build_copier(attention: Attention, width: int, features: FeatureSpec) -> Copier:
    """Build the mixture of a model with the given attention; see `Copier`.

    Raises:
        UsageError: if the attention weights may be negative, which those of a plugin can be.
    """
    weighting = attention.location or attention.normalizer
    if weighting.meaning == "strength":
        raise UsageError(
            "model.copying: true needs weights that are a distribution, but those of"
            f" {type(weighting).__name__} may be negative. Set model.copying=false."
        )
    # An estimate of memory counts the parameters of a model without vocabularies.
    return Copier(width, features.copied_symbols or ())
