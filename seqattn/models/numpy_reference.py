"""Attention in NumPy with hand-written gradients: the referee of everything else.

Nothing here is fast, and nothing is clever. Every part is a pair: `forward` returns its result and
a cache of what the way back needs, `backward` takes the gradient of the loss with respect to that
result and returns the gradients with respect to everything that went in. Read a backward
function from top to bottom: it walks the forward lines from last to first, and each gradient
stands under the forward line (quoted after `#`) that it undoes.

    weights = glorot_weights("scaled_dot", query=3, key=5, value=7, width=2, output=4, seed=1)
    output, cache = attention_forward(query, key, value, weights)
    gradients = attention_backward(doutput, cache)

Three rules are all it takes, for any loss L, with `dx` short for dL/dx, shaped like x:

    y = a @ b       da = dy @ b^T,  db = a^T @ dy       (each number of a met a row of b)
    y = f(x)        dx = dy * f'(x)                     (numbers that never met)
    y = x, x        dx = dy1 + dy2                      (used twice: the gradients add up)

Sizes: N stands for any leading axes (batch, heads) or none; T queries, S keys and values,
Q, C and V the widths of query, key and value, K the width in which queries and keys meet, O the
width of the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Cache = tuple[Any, ...]
ScoreName = Literal["scaled_dot", "general", "additive"]


# --- a linear map ---------------------------------------------------------------------------------


def linear_forward(x: Array, weight: Array) -> tuple[Array, Cache]:
    """y = x W.

    Args:
        x: (N..., L, inputs).
        weight: (inputs, outputs).

    Returns:
        y (N..., L, outputs), and the cache.
    """
    y = x @ weight
    return y, (x, weight)


def linear_backward(dy: Array, cache: Cache) -> tuple[Array, Array]:
    """(dx, dW) of `linear_forward`. One W served every row, so its gradient is summed over them."""
    x, weight = cache
    inputs, outputs = weight.shape
    # y = x @ weight
    dx = dy @ weight.T
    dweight = x.reshape(-1, inputs).T @ dy.reshape(-1, outputs)
    return dx, dweight


# --- scores: how well each key suits each query ---------------------------------------------------


def scaled_dot_forward(query: Array, key: Array) -> tuple[Array, Cache]:
    """q . k / sqrt(K) (Vaswani et al. 2017, "Attention Is All You Need", eq. 1).

    Where the components of q and k are independent, with mean 0 and variance 1, q . k has mean 0
    and variance K: the root of the *width* (not of the number of keys) brings the standard
    deviation back to 1. With another mean the variance is larger.

    Args:
        query: (N..., T, K).
        key: (N..., S, K).

    Returns:
        scores (N..., T, S), and the cache.
    """
    *_, K = key.shape
    products = query @ key.swapaxes(-1, -2)
    scores = products / np.sqrt(K)
    return scores, (query, key)


def scaled_dot_backward(dscores: Array, cache: Cache) -> tuple[Array, Array]:
    """(dquery, dkey) of `scaled_dot_forward`."""
    query, key = cache
    *_, K = key.shape
    # scores = products / sqrt(K)
    dproducts = dscores / np.sqrt(K)
    # products = query @ key^T
    dquery = dproducts @ key
    dkey = dproducts.swapaxes(-1, -2) @ query
    return dquery, dkey


def general_forward(query: Array, key: Array, weight: Array) -> tuple[Array, Cache]:
    """q . W k (Luong et al. 2015, "Effective Approaches to Attention-based NMT", 3.1, general).

    Args:
        query: (N..., T, Q).
        key: (N..., S, C).
        weight: W, (Q, C).

    Returns:
        scores (N..., T, S), and the cache.
    """
    asked = query @ weight  # what each query would like to see in a key, (N..., T, C)
    scores = asked @ key.swapaxes(-1, -2)
    return scores, (query, key, weight, asked)


def general_backward(dscores: Array, cache: Cache) -> tuple[Array, Array, Array]:
    """(dquery, dkey, dW) of `general_forward`."""
    query, key, weight, asked = cache
    # scores = asked @ key^T
    dasked = dscores @ key
    dkey = dscores.swapaxes(-1, -2) @ asked
    # asked = query @ weight
    dquery, dweight = linear_backward(dasked, (query, weight))
    return dquery, dkey, dweight


def additive_forward(
    query: Array, key: Array, W: Array, U: Array, b: Array, v: Array
) -> tuple[Array, Cache]:
    """v . tanh(q W + k U + b) (Bahdanau et al. 2015, appendix A.1.2, plus a bias).

    Args:
        query: (N..., T, Q).
        key: (N..., S, C).
        W: (Q, K).
        U: (C, K).
        b: (K,).
        v: (K,).

    Returns:
        scores (N..., T, S), and the cache.
    """
    asked = query @ W
    offered = key @ U + b
    met = np.tanh(asked[..., :, None, :] + offered[..., None, :, :])  # (N..., T, S, K)
    scores = met @ v
    return scores, (query, key, W, U, v, met)


def additive_backward(dscores: Array, cache: Cache) -> tuple[Array, ...]:
    """(dquery, dkey, dW, dU, db, dv) of `additive_forward`."""
    query, key, W, U, v, met = cache
    (K,) = v.shape
    # scores = met @ v
    dmet = dscores[..., None] * v
    dv = dscores.reshape(-1) @ met.reshape(-1, K)
    # met = tanh(sum),  and tanh' = 1 - tanh^2
    dsum = dmet * (1 - met**2)
    # sum = asked[..., :, None, :] + offered[..., None, :, :]: each query met S keys, each key T
    dasked = dsum.sum(axis=-2)
    doffered = dsum.sum(axis=-3)
    # offered = key @ U + b
    dkey, dU = linear_backward(doffered, (key, U))
    db = doffered.reshape(-1, K).sum(axis=0)
    # asked = query @ W
    dquery, dW = linear_backward(dasked, (query, W))
    return dquery, dkey, dW, dU, db, dv


# --- from scores to weights -----------------------------------------------------------------------


def softmax_forward(scores: Array, keep: Bools | None = None) -> tuple[Array, Cache]:
    """w = exp(score) / sum of exp(score) over the keys; exactly 0 where `keep` is False.

    The largest score is taken off first: it changes no weight, and no exp can overflow.

    Args:
        scores: (N..., T, S).
        keep: broadcasts to (N..., T, S), True where attention may go.

    Returns:
        weights (N..., T, S), each row summing to 1, and the cache.

    Raises:
        ValueError: a row in which attention may go nowhere. It has no weights.
    """
    if keep is not None:
        keep = np.broadcast_to(keep, scores.shape)
        if not keep.any(axis=-1).all():
            raise ValueError("keep leaves a row of scores with nothing to attend to")
        scores = np.where(keep, scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = raised / raised.sum(axis=-1, keepdims=True)
    return weights, (weights,)


def softmax_backward(dweights: Array, cache: Cache) -> Array:
    """dscores of `softmax_forward`.

    The Jacobian has w_j - w_j^2 on its diagonal and -w_i w_j elsewhere. So with
    dw_i/dscore_j = w_i (1 if i = j else 0) - w_i w_j, summed over i,

        dscore_j = w_j dw_j - w_j sum_i w_i dw_i = w_j (dw_j - sum_i w_i dw_i):

    a score gains by how much better its key does than the average does. The S x S Jacobian is
    never made. Where attention may not go w is 0, and so is the gradient.
    """
    (weights,) = cache
    # weights = exp(scores) / sum(exp(scores))
    average = (weights * dweights).sum(axis=-1, keepdims=True)
    dscores: Array = weights * (dweights - average)
    return dscores


def causal_keep(T: int, S: int) -> Bools:
    """(T, S): query t may look at keys 0 to t, never ahead."""
    return np.tril(np.ones((T, S), dtype=bool))


# --- the weighted sum -----------------------------------------------------------------------------


def weighted_sum_forward(weights: Array, values: Array) -> tuple[Array, Cache]:
    """The context: weights (N..., T, S) and values (N..., S, O) -> (N..., T, O), and the cache."""
    context = weights @ values
    return context, (weights, values)


def weighted_sum_backward(dcontext: Array, cache: Cache) -> tuple[Array, Array]:
    """(dweights, dvalues) of `weighted_sum_forward`."""
    weights, values = cache
    # context = weights @ values
    dweights = dcontext @ values.swapaxes(-1, -2)
    dvalues = weights.swapaxes(-1, -2) @ dcontext
    return dweights, dvalues


# --- all of it ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gradients:
    """What `attention_backward` returns.

    Attributes:
        query, key, value: shaped like the inputs. Where one array was given for several of them
            (self-attention), its gradient is their sum.
        weights: by name, shaped like the weights.
    """

    query: Array
    key: Array
    value: Array
    weights: dict[str, Array]


def attention_forward(
    query: Array,
    key: Array,
    value: Array,
    weights: Mapping[str, Array],
    *,
    score: ScoreName = "scaled_dot",
    keep: Bools | None = None,
    causal: bool = False,
) -> tuple[Array, Cache]:
    """Each query's average of the values, weighted by how well their keys suit it.

    Args:
        query: (N..., T, Q).
        key: (N..., S, C).
        value: (N..., S, V).
        weights: of the score, `scaled_dot`: W_Q (Q, K) and W_K (C, K); `general`: W (Q, C);
            `additive`: W (Q, K), U (C, K), b (K,) and v (K,). And W_V (V, O), or without it the
            values are averaged as they are.
        score: how well a key suits a query.
        keep: (N..., S), True at real keys, False at padding; None: all are real.
        causal: query t may look at keys 0 to t only.

    Returns:
        output (N..., T, O), and the cache: its first entry is the attention weights (N..., T, S).

    Raises:
        ValueError: shapes that do not fit, or a query that may look at nothing.
    """
    *lead, T, _ = query.shape
    *lead_of_keys, S, _ = key.shape
    if lead != lead_of_keys or value.shape[:-1] != key.shape[:-1]:
        raise ValueError(
            f"query {query.shape}, key {key.shape} and value {value.shape} must share their"
            " leading axes, key and value their length too"
        )
    scores: Array
    match score:
        case "scaled_dot":
            queries, query_cache = linear_forward(query, weights["W_Q"])
            keys, key_cache = linear_forward(key, weights["W_K"])
            scores, score_cache = scaled_dot_forward(queries, keys)
            score_cache = (query_cache, key_cache, score_cache)
        case "general":
            scores, score_cache = general_forward(query, key, weights["W"])
        case "additive":
            parts = (weights[name] for name in ("W", "U", "b", "v"))
            scores, score_cache = additive_forward(query, key, *parts)
        case _:
            assert_never(score)
    allowed = np.ones((T, S), dtype=bool) if not causal else causal_keep(T, S)
    if keep is not None:
        allowed = allowed & keep[..., None, :]
    attention, softmax_cache = softmax_forward(scores, allowed)
    if "W_V" in weights:
        values, value_cache = linear_forward(value, weights["W_V"])
    else:
        values, value_cache = value, ()
    output, sum_cache = weighted_sum_forward(attention, values)
    return output, (attention, score, score_cache, softmax_cache, value_cache, sum_cache)


def attention_backward(doutput: Array, cache: Cache) -> Gradients:
    """The gradients of everything that went into `attention_forward`.

    Args:
        doutput: (N..., T, O), of a loss with respect to the output.
        cache: from `attention_forward`.
    """
    _, score, score_cache, softmax_cache, value_cache, sum_cache = cache
    dweights: dict[str, Array] = {}
    # output = attention @ values
    dattention, dvalue = weighted_sum_backward(doutput, sum_cache)
    # values = value @ W_V
    if value_cache:
        dvalue, dweights["W_V"] = linear_backward(dvalue, value_cache)
    # attention = softmax(scores)
    dscores = softmax_backward(dattention, softmax_cache)
    # scores = score(query, key)
    match score:
        case "scaled_dot":
            query_cache, key_cache, score_cache = score_cache
            dqueries, dkeys = scaled_dot_backward(dscores, score_cache)
            dkey, dweights["W_K"] = linear_backward(dkeys, key_cache)
            dquery, dweights["W_Q"] = linear_backward(dqueries, query_cache)
        case "general":
            dquery, dkey, dweights["W"] = general_backward(dscores, score_cache)
        case _:
            dquery, dkey, *rest = additive_backward(dscores, score_cache)
            dweights |= dict(zip(("W", "U", "b", "v"), rest, strict=True))
    return Gradients(dquery, dkey, dvalue, dweights)


def glorot_weights(
    score: ScoreName,
    *,
    query: int,
    key: int,
    value: int,
    width: int,
    output: int | None,
    seed: int,
) -> dict[str, Array]:
    """Fresh weights for `attention_forward`, biases 0.

    Each matrix is uniform within sqrt(6 / (inputs + outputs)) of its own two widths (Glorot and
    Bengio 2010, "Understanding the difficulty of training deep feedforward networks", eq. 16).

    Args:
        query, key, value: Q, C and V.
        width: K; `general` has none, its W is (Q, C).
        output: O, or None for values as they are: a matrix that is not used is not made.
        seed: of NumPy's default generator.
    """
    numbers = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, int]]
    match score:
        case "scaled_dot":
            shapes = {"W_Q": (query, width), "W_K": (key, width)}
        case "general":
            shapes = {"W": (query, key)}
        case "additive":
            shapes = {"W": (query, width), "U": (key, width), "v": (width, 1)}
        case _:
            assert_never(score)
    if output is not None:
        shapes["W_V"] = (value, output)
    drawn: dict[str, Array] = {}
    for name, (inputs, outputs) in shapes.items():
        limit = np.sqrt(6 / (inputs + outputs))
        drawn[name] = numbers.uniform(-limit, limit, size=(inputs, outputs))
    if score == "additive":
        drawn["v"], drawn["b"] = drawn["v"][:, 0], np.zeros(width)
    return drawn
