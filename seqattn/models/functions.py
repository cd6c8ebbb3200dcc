"""Functions of autograd with backward passes by hand, for large models on the CPU.

For these two functions, autograd needs several passes over the largest tensors of a training step.
A pass by hand needs fewer, and less memory. Small models are faster with autograd, so
`computes_scores` and `computes_loss` say where the functions are used. docs/performance.md has the
measurements, and names other functions that gained nothing.

In shapes, N is the number of sequences, S the source length, T the number of queries or of target
steps, W the width of a state, K the width of queries and keys, V the number of symbols, and `...`
an optional leading axis of runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

# Measured thresholds. No threshold changes a result by more than rounding.
MIN_HIDDEN_UNITS = 2**15  # smallest N * T * S * K for `additive_scores`
UNITS_AT_ONCE = 2**19  # largest N * T * S * K of a chunk
MIN_LOGITS = 2**18  # smallest N * T * V for `cross_entropy_of_states`
LOGITS_AT_ONCE = 2**22  # largest N * T * V of a chunk: fewer read the weight more often


def computes_scores(queries: Tensor, keys: Tensor) -> bool:
    """Return whether `additive_scores` is faster than the plain operations.

    On the CPU, torch computes the sigmoid of float32 numbers several times faster than the tanh.
    The function needs the features innermost in memory (see `seqattn.models.layers`).
    """
    units = queries.shape[-2] * keys.numel()
    is_usual = keys.dtype is torch.float32 and keys.stride(-1) == queries.stride(-1) == 1
    return units >= MIN_HIDDEN_UNITS and is_usual and _is_plain(keys)


def computes_loss(states: Tensor, weight: Tensor) -> bool:
    """Return whether `cross_entropy_of_states` is faster than the plain operations."""
    *_, W = states.shape
    return states.numel() // W * weight.shape[-2] >= MIN_LOGITS and _is_plain(states)


def _is_plain(x: Tensor) -> bool:
    """Return whether x is on the CPU, without autocast, whose products round to bfloat16, and not
    in a compilation or an export, which need torch's operations."""
    return x.is_cpu and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def _check_single_derivative() -> None:
    """Refuse a backward pass with `create_graph`, which would leave out these functions."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "additive scores and the loss of symbols have no second derivatives for large batches"
            " on the CPU. Use smaller batches."
        )


def additive_scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """Compute v . tanh(q + k) for each pair of a query and a key, (..., N, T, S).

    With s = sigmoid(2 (q + k)), a score is 2 v . s - sum(v), and its derivative with respect to q
    and to k is 4 v s (1 - s).

    Args:
        queries: the projected queries (..., N, T, K).
        keys: the keys (..., N, S, K).
        v: the vector v, (..., K).
    """
    units = keys[..., 0, :, :].numel() * queries.shape[-2]  # of one sequence of each run
    at_once = max(1, UNITS_AT_ONCE // units)
    chunks = zip(queries.split(at_once, -3), keys.split(at_once, -3), strict=True)
    scores = [_AdditiveScores.apply(*chunk, v) for chunk in chunks]  # type: ignore[no-untyped-call]
    return scores[0] if len(scores) == 1 else torch.cat(scores, dim=-3)


class _AdditiveScores(Function):
    """The hidden units of all pairs can be the largest tensor of a training step, so both passes
    are made for chunks of sequences that fit into the cache."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        s = torch.add(queries.unsqueeze(-2), keys.unsqueeze(-3)).mul_(2).sigmoid_()
        ctx.save_for_backward(s, v)
        by_run = v.view(-1, v.shape[-1])
        rows = s.reshape(len(by_run), -1, v.shape[-1])
        # torch.bmm computes several narrow products slowly.
        products = [torch.mv(*run) for run in zip(rows, 2 * by_run, strict=True)]
        return torch.stack(products).sub_(by_run.sum(-1, keepdim=True)).view(s.shape[:-1])

    @staticmethod
    def backward(ctx: Any, dscores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _check_single_derivative()
        s, v = ctx.saved_tensors
        R, K = v.numel() // v.shape[-1], v.shape[-1]
        flat = dscores.reshape(R, 1, -1)
        dv = 2 * (flat @ s.reshape(R, -1, K)) - flat.sum(-1, keepdim=True)
        four_v = 4 * v.view(*v.shape[:-1], *[1] * (s.dim() - v.dim() - 1), K)
        weighted = torch.addcmul(s, s, s, value=-1).mul_(dscores.unsqueeze(-1))
        dqueries = weighted.sum(-2).mul_(four_v)
        if weighted.shape[-3] > 1:
            return dqueries, weighted.sum(-3).mul_(four_v), dv.view_as(v)
        return dqueries, weighted.squeeze(-3).mul_(four_v), dv.view_as(v)


def cross_entropy_of_states(
    states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, share: Tensor, smoothing: float
) -> Tensor:
    """Compute the output layer and the weighted sum of the cross-entropies of its rows at once.

    Args:
        states: the states (..., N, T, W) that the output layer maps to logits.
        weight, bias: the layer's weight (..., V, W) and bias (..., V).
        target: the true symbols (..., N, T, 1).
        share: the factor of each row in the sum, (..., N, T).
        smoothing: the share e of the label smoothing; see `TokenModality.loss`.

    Returns:
        the sum of each run, (...).
    """
    V, W = weight.shape[-2:]
    R = len(weight) if weight.dim() == 3 else 1
    total: Tensor = _CrossEntropyOfStates.apply(  # type: ignore[no-untyped-call]
        states.reshape(R, -1, W), weight.view(R, V, W), bias.view(R, 1, V),
        target.reshape(R, -1, 1), share.reshape(R, -1, 1), smoothing,
    )  # fmt: skip
    return total.view(weight.shape[:-2])


class _CrossEntropyOfStates(Function):
    """The gradient with respect to the logits is softmax - target distribution. The forward pass
    forms it, and its products, in chunks of rows that fit into the cache, so that neither all
    logits nor their gradient are ever in memory. In shapes, n = N * T."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, share: Tensor,
        smoothing: float,
    ) -> Tensor:  # fmt: skip
        (R, n, _), V = states.shape, weight.shape[-2]
        dstates, dweight, dbias = map(torch.empty_like, (states, weight, bias))
        total, at_once = states.new_zeros(R), min(n, max(1, LOGITS_AT_ONCE // (R * V)))
        buffer = states.new_empty(R, at_once, V)
        for first in range(0, n, at_once):
            rows = slice(first, first + at_once)
            x, true, part = states[:, rows], target[:, rows], share[:, rows]
            logits = buffer[:, : x.shape[1]]
            torch.baddbmm(bias, x, weight.mT, out=logits)
            largest, of_true = logits.amax(-1, keepdim=True), logits.gather(-1, true)
            mean = logits.mean(-1, keepdim=True) if smoothing > 0 else None
            p = torch.softmax(logits, dim=-1, out=logits)
            # A probability may underflow, but the largest is at least 1 / V.
            log_sum = largest - p.amax(-1, keepdim=True).log()
            error = log_sum - of_true
            if mean is not None:
                error = torch.lerp(error, log_sum - mean, smoothing)
                p.sub_(smoothing / V)
            total += (error * part).sum(dim=(1, 2))
            p.scatter_add_(-1, true, p.new_full((), smoothing - 1).expand_as(true))
            dstates[:, rows] = (p @ weight).mul_(part)
            torch.baddbmm(dweight, p.mT, x * part, beta=int(first > 0), out=dweight)
            torch.baddbmm(dbias, part.mT, p, beta=int(first > 0), out=dbias)
        ctx.save_for_backward(dstates, dweight, dbias)
        return total

    @staticmethod
    def backward(ctx: Any, dtotal: Tensor) -> tuple[Tensor | None, ...]:
        _check_single_derivative()
        gradients = (each * dtotal.view(-1, 1, 1) for each in ctx.saved_tensors)
        return *gradients, None, None, None
