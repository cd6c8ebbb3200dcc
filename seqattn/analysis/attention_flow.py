"""Attention rollout and attention flow of a Transformer: how much of output step t comes from
source step s, through all layers (Abnar and Zuidema 2020, "Quantifying Attention Flow in
Transformers").

Both read the weights as a graph. Its nodes are the states of each step after each layer. As in the
paper, the weights are averaged over heads, and a residual connection passes on half of a state, so
an edge has the weight of

    A' = 0.5 A + 0.5 I

for attention weights A. The paper defines this for the self-attention of one stack. The following
extension to an encoder-decoder is ours. A_l, B_l and C_l are the weights of the encoder's
self-attention (S, S), the decoder's self-attention (T, T) and the cross-attention (T, S) in layer
l of L. Both sublayers of the decoder have a residual connection:

    R_0 = I,  R_l = A'_l R_(l-1)                                          (S, S), encoder
    D_0 = 0,  D_l = 0.5 B'_l D_(l-1) + 0.5 C_l R_L                        (T, S), decoder

The rows of D_L sum to 1 - 2^-L if those of all weights sum to 1. The rest belongs to the decoder's
own inputs, whatever the weights are, so the rollout is D_L with each row divided by its sum.

The flow from s to t is the maximum flow from the input of the encoder at step s to the output of
the decoder at step t, where the weights above are the capacities of the edges: A'_l from each
encoder state to those of the next layer, 0.5 C_l from the last encoder states to the states of
decoder layer l, B'_l between the steps of the decoder, and 0.5 for the residual connection around
the cross-attention. A flow may use an edge in full for each pair (s, t), so flows are no shares,
and their rows do not sum to 1.

Both leave out what the weights do not show: values, output maps, norms and feed-forward layers.

In shapes, L is the number of layers, A the number of heads, T the target length, S the source
length, and `...` optional leading axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import maximum_flow

from seqattn.errors import UsageError

Floats = NDArray[np.float64]
AttributionMethod = Literal["rollout", "flow"]
UNITS = 2**28
"""The capacity 1 in the whole numbers of scipy. Twice of it is an int32."""


def attention_rollout(
    encoder_self: NDArray[Any], decoder_self: NDArray[Any], cross: NDArray[Any]
) -> Floats:
    """Compute the attention rollout (..., T, S), whose rows sum to 1; see the module.

    Args:
        encoder_self: the weights (..., L, A, S, S), with 0 or NaN at padding, as in the next two.
        decoder_self: the weights (..., L, A, T, T).
        cross: the weights (..., L, A, T, S).

    Returns:
        the rollout; 0 at padding.
    """
    encoder, decoder, read = map(_mean_over_heads, (encoder_self, decoder_self, cross))
    L, S = encoder.shape[-3], encoder.shape[-1]
    in_encoder, found = np.eye(S), np.zeros_like(read[..., 0, :, :])
    for k in range(L):
        in_encoder = _with_residual(encoder[..., k, :, :]) @ in_encoder
    for k in range(L):
        found = _with_residual(decoder[..., k, :, :]) @ found / 2
        found = found + read[..., k, :, :] @ in_encoder / 2
    return divide_rows(found)


def attention_flow(
    encoder_self: NDArray[Any], decoder_self: NDArray[Any], cross: NDArray[Any]
) -> Floats:
    """Compute the attention flow (T, S) of one sequence; see the module.

    Args:
        encoder_self: the weights (L, A, S, S), with 0 or NaN at padding, as in the next two.
        decoder_self: the weights (L, A, T, T).
        cross: the weights (L, A, T, S).

    Returns:
        the maximum flow of each pair of steps, from 0 to 1; 0 at padding.
    """
    graph, T, S = _flow_graph(*map(_mean_over_heads, (encoder_self, decoder_self, cross)))
    last, _ = graph.shape
    flows = [[maximum_flow(graph, s, last - T + t).flow_value for s in range(S)] for t in range(T)]
    return np.array(flows, dtype=np.float64) / UNITS


def _flow_graph(encoder: Floats, decoder: Floats, read: Floats) -> tuple[csr_array, int, int]:
    """Return the capacities (nodes, nodes) from one node to another, T and S.

    The nodes are the encoder's inputs, the states of each encoder layer, and for each decoder layer
    the states after the self-attention and then those after the cross-attention. The decoder's
    inputs are left out, because nothing of the source reaches them.
    """
    L, T, S = read.shape
    first_of_decoder = (L + 1) * S
    edges = list[tuple[int, int, Floats]]()  # first node of the readers, of the read ones, weights
    for k in range(L):
        edges.append(((k + 1) * S, k * S, _with_residual(encoder[k])))
        after_self = first_of_decoder + 2 * k * T
        after_cross = after_self + T
        if k:
            edges.append((after_self, after_self - T, _with_residual(decoder[k])))
        edges.append((after_cross, after_self, np.eye(T) / 2))
        edges.append((after_cross, L * S, read[k] / 2))
    rows, columns, capacities = list[Any](), list[Any](), list[Any]()
    for reader, origin, weights in edges:
        whole = np.floor(weights * UNITS).astype(np.int32)
        at, of = whole.nonzero()
        rows.append(origin + of)
        columns.append(reader + at)
        capacities.append(whole[at, of])
    nodes = first_of_decoder + 2 * L * T
    places = np.concatenate(rows), np.concatenate(columns)
    graph = coo_array((np.concatenate(capacities), places), shape=(nodes, nodes)).tocsr()
    return graph, T, S


def attribute_to_sources(
    arrays: Mapping[str, NDArray[Any]], method: AttributionMethod
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an attention file with the rollout, or with the flow divided by the sum
    of its row, in place of the weights: `weights` (N, 1, 1, T, S) with NaN at padding. `meaning` is
    the method, and there is no self-attention.

    Raises:
        UsageError: if the weights are not those of a Transformer.
    """
    if "encoder_self" not in arrays:
        raise UsageError(
            f"--show {method}: needs the self-attention of a Transformer, which this model does not"
            " have. Its encoder states carry other source steps in a way that no weights show."
        )
    cross = arrays["weights"]
    shares = np.full((len(cross), 1, 1, *cross.shape[-2:]), np.nan)
    lengths = zip(arrays["target_lengths"], arrays["source_lengths"], strict=True)
    for n, (T, S) in enumerate(lengths):
        maps = (arrays["encoder_self"][n, ..., :S, :S], arrays["decoder_self"][n, ..., :T, :T],
                cross[n, ..., :T, :S])  # fmt: skip
        found = attention_rollout(*maps) if method == "rollout" else attention_flow(*maps)
        shares[n, 0, 0, :T, :S] = divide_rows(found)
    kept = {name: each for name, each in arrays.items()
            if name not in ("encoder_self", "decoder_self")}  # fmt: skip
    return {**kept, "weights": shares, "meaning": np.array(method)}


def divide_rows(values: Floats) -> Floats:
    """Divide each row of values (..., T, S) by its sum. Rows of zeros stay as they are."""
    sums = values.sum(axis=-1, keepdims=True)
    shares: Floats = np.divide(values, sums, out=np.zeros_like(values), where=sums > 0)
    return shares


def _mean_over_heads(weights: NDArray[Any]) -> Floats:
    mean: Floats = np.nan_to_num(np.asarray(weights, dtype=np.float64)).mean(axis=-3)
    return mean


def _with_residual(weights: Floats) -> Floats:
    return (weights + np.eye(weights.shape[-1])) / 2
