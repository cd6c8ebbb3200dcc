"""Attention in NumPy with hand-written gradients. Tests compare other implementations with this
module.

The code is simple rather than fast. Each forward function has a backward function. The forward
function returns its result and a cache of intermediate values. The backward function takes the
gradient of the loss with respect to that result and returns the gradients with respect to all
inputs. The backward function processes the steps of the forward function in reverse order. A
comment before each gradient gives the forward step.

    weights = glorot_weights("scaled_dot", query=3, key=5, value=7, width=2, output=4, seed=1)
    output, cache = attention_forward(query, key, value, weights)
    gradients = attention_backward(doutput, cache)

For a loss L, `dx` means dL/dx and has the shape of x. Most gradients follow from three rules:

    y = a @ b       da = dy @ b^T,  db = a^T @ dy       (matrix product)
    y = f(x)        dx = dy * f'(x)                     (elementwise function)
    y = x, x        dx = dy1 + dy2                      (used twice: the gradients add up)

In shapes, "N..." is any number of leading axes (batch, heads), T is the number of queries, and S
the number of keys and values. The widths of query, key and value are Q, C and V. The width of
projected queries and keys is K, and the width of the output is O.
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
    """Compute y = x W.

    Args:
        x: the input, with L rows, (N..., L, inputs).
        weight: the matrix W, (inputs, outputs).

    Returns:
        the output y (N..., L, outputs), and the cache.
    """
    y = x @ weight
    return y, (x, weight)


def linear_backward(dy: Array, cache: Cache) -> tuple[Array, Array]:
    """Return the gradients (dx, dW) of `linear_forward`. All rows share W, so dW is a sum over
    the rows."""
    x, weight = cache
    inputs, outputs = weight.shape
    # y = x @ weight
    dx = dy @ weight.T
    dweight = x.reshape(-1, inputs).T @ dy.reshape(-1, outputs)
    return dx, dweight


# --- scores: the compatibility of each query and key ----------------------------------------------


def scaled_dot_forward(query: Array, key: Array) -> tuple[Array, Cache]:
    """Compute q . k / sqrt(K) (Vaswani et al. 2017, "Attention Is All You Need", eq. 1).

    If the components of q and k are independent with mean 0 and variance 1, q . k has mean 0 and
    variance K. Division by the square root of K, which is the width of a key and not the number of
    keys, gives standard deviation 1. If the mean of the components is not 0, the variance is
    larger.

    Args:
        query: the queries (N..., T, K).
        key: the keys (N..., S, K).

    Returns:
        the scores (N..., T, S), and the cache.
    """
    *_, K = key.shape
    products = query @ key.swapaxes(-1, -2)
    scores = products / np.sqrt(K)
    return scores, (query, key)


def scaled_dot_backward(dscores: Array, cache: Cache) -> tuple[Array, Array]:
    """Return the gradients (dquery, dkey) of `scaled_dot_forward`."""
    query, key = cache
    *_, K = key.shape
    # scores = products / sqrt(K)
    dproducts = dscores / np.sqrt(K)
    # products = query @ key^T
    dquery = dproducts @ key
    dkey = dproducts.swapaxes(-1, -2) @ query
    return dquery, dkey


def general_forward(query: Array, key: Array, weight: Array) -> tuple[Array, Cache]:
    """Compute q^T W k (Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine
    Translation", section 3.1, general).

    Args:
        query: the queries (N..., T, Q).
        key: the keys (N..., S, C).
        weight: the matrix W, (Q, C).

    Returns:
        the scores (N..., T, S), and the cache.
    """
    q = query @ weight  # (N..., T, C)
    scores = q @ key.swapaxes(-1, -2)
    return scores, (query, key, weight, q)


def general_backward(dscores: Array, cache: Cache) -> tuple[Array, Array, Array]:
    """Return the gradients (dquery, dkey, dW) of `general_forward`."""
    query, key, weight, q = cache
    # scores = q @ key^T
    dq = dscores @ key
    dkey = dscores.swapaxes(-1, -2) @ q
    # q = query @ weight
    dquery, dweight = linear_backward(dq, (query, weight))
    return dquery, dkey, dweight


def additive_forward(
    query: Array, key: Array, W: Array, U: Array, b: Array, v: Array
) -> tuple[Array, Cache]:
    """Compute v . tanh(q W + k U + b) (Bahdanau et al. 2015, appendix A.1.2, plus a bias).

    Args:
        query: the queries (N..., T, Q).
        key: the keys (N..., S, C).
        W: the weight of the query, (Q, K).
        U: the weight of the key, (C, K).
        b: the bias, (K,).
        v: the output vector, (K,).

    Returns:
        the scores (N..., T, S), and the cache.
    """
    q = query @ W
    k = key @ U + b
    hidden = np.tanh(q[..., :, None, :] + k[..., None, :, :])  # (N..., T, S, K)
    scores = hidden @ v
    return scores, (query, key, W, U, v, hidden)


def additive_backward(dscores: Array, cache: Cache) -> tuple[Array, ...]:
    """Return the gradients (dquery, dkey, dW, dU, db, dv) of `additive_forward`."""
    query, key, W, U, v, hidden = cache
    (K,) = v.shape
    # scores = hidden @ v
    dhidden = dscores[..., None] * v
    dv = dscores.reshape(-1) @ hidden.reshape(-1, K)
    # hidden = tanh(sum),  and tanh' = 1 - tanh^2
    dsum = dhidden * (1 - hidden**2)
    # sum = q[..., :, None, :] + k[..., None, :, :]
    dq = dsum.sum(axis=-2)
    dk = dsum.sum(axis=-3)
    # k = key @ U + b
    dkey, dU = linear_backward(dk, (key, U))
    db = dk.reshape(-1, K).sum(axis=0)
    # q = query @ W
    dquery, dW = linear_backward(dq, (query, W))
    return dquery, dkey, dW, dU, db, dv


# --- from scores to weights -----------------------------------------------------------------------


def softmax_forward(scores: Array, keep: Bools | None = None) -> tuple[Array, Cache]:
    """Compute w = exp(score) / sum of exp(score) over the valid keys, and w = 0 where `keep` is
    False.

    The largest score of each row is subtracted first. This changes no weight and prevents overflow.

    Args:
        scores: the scores (N..., T, S).
        keep: a mask that broadcasts to (N..., T, S), True at valid keys; None if all keys are
            valid.

    Returns:
        the weights (N..., T, S), in which each row sums to 1, and the cache.

    Raises:
        ValueError: if all keys of a row are masked.
    """
    if keep is not None:
        keep = np.broadcast_to(keep, scores.shape)
        if not keep.any(axis=-1).all():
            raise ValueError("keep leaves a row of scores with nothing to attend to")
        scores = np.where(keep, scores, -np.inf)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights, (weights,)


def softmax_backward(dweights: Array, cache: Cache) -> Array:
    """Return the gradient dscores of `softmax_forward`.

    The Jacobian J of the weights is J_ij = w_i (1 if i = j else 0) - w_i w_j. The gradient is the
    sum of dw_i J_ij over i:

        dscore_j = w_j dw_j - w_j sum_i w_i dw_i = w_j (dw_j - sum_i w_i dw_i),

    where the last sum is the weighted mean of dw. The function never computes the S x S Jacobian.
    At masked keys, w is 0, so the gradient is 0 as well.
    """
    (weights,) = cache
    # weights = exp(scores) / sum(exp(scores))
    mean = (weights * dweights).sum(axis=-1, keepdims=True)
    dscores: Array = weights * (dweights - mean)
    return dscores


def causal_mask(T: int, S: int) -> Bools:
    """Return a mask (T, S) that is True where query t may attend to key s (s <= t)."""
    return np.tril(np.ones((T, S), dtype=bool))


# --- the weighted sum -----------------------------------------------------------------------------


def weighted_sum_forward(weights: Array, values: Array) -> tuple[Array, Cache]:
    """Compute the context (N..., T, O) from weights (N..., T, S) and values (N..., S, O). Return
    the context and the cache."""
    context = weights @ values
    return context, (weights, values)


def weighted_sum_backward(dcontext: Array, cache: Cache) -> tuple[Array, Array]:
    """Return the gradients (dweights, dvalues) of `weighted_sum_forward`."""
    weights, values = cache
    # context = weights @ values
    dweights = dcontext @ values.swapaxes(-1, -2)
    dvalues = weights.swapaxes(-1, -2) @ dcontext
    return dweights, dvalues


# --- attention ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gradients:
    """The gradients with respect to the inputs of `attention_forward`.

    Attributes:
        query, key, value: gradients with respect to the three inputs, shaped like the inputs. If
            the same array was passed as several inputs (self-attention), the gradient of the array
            is the sum of the gradients of these inputs.
        weights: gradients by parameter name, shaped like the parameters.
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
    """Compute attention: for each query, the mean of the values with the weights softmax(scores).

    Args:
        query: the queries (N..., T, Q).
        key: the keys (N..., S, C).
        value: the values (N..., S, V).
        weights: W_Q (Q, K) and W_K (C, K) for `scaled_dot`; W (Q, C) for `general`; W (Q, K), U
            (C, K), b (K,) and v (K,) for `additive`. W_V (V, O) is optional and projects the
            values.
        score: name of the score function.
        keep: mask (N..., S), True at valid keys and False at padding; None if all keys are valid.
        causal: whether query t may attend to keys 0 to t only.

    Returns:
        the output (N..., T, O), and a cache that starts with the weights (N..., T, S).

    Raises:
        ValueError: if shapes do not fit together, or if all keys of a query are masked.
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
    allowed = np.ones((T, S), dtype=bool) if not causal else causal_mask(T, S)
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
    """Return the gradients with respect to all inputs of `attention_forward`.

    Args:
        doutput: the gradient of the loss with respect to the output, (N..., T, O).
        cache: the cache that `attention_forward` returned.
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
    """Draw initial weights for `attention_forward`. The initial biases are 0.

    Each matrix is drawn from U(-b, b) with b = sqrt(6 / (inputs + outputs)) (Glorot and Bengio
    2010, "Understanding the difficulty of training deep feedforward networks", eq. 16).

    Args:
        query, key, value: the widths Q, C and V.
        width: the width K. The score `general` ignores this argument, because its W is (Q, C).
        output: the width O; None for no matrix W_V.
        seed: the seed of NumPy's default generator.
    """
    rng = np.random.default_rng(seed)
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
    weights: dict[str, Array] = {}
    for name, (inputs, outputs) in shapes.items():
        limit = np.sqrt(6 / (inputs + outputs))
        weights[name] = rng.uniform(-limit, limit, size=(inputs, outputs))
    if score == "additive":
        weights["v"], weights["b"] = weights["v"][:, 0], np.zeros(width)
    return weights
