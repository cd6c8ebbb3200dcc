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
UNITS_AT_ONCE = 2**19  # largest N * T * S * K of a chunk of all runs
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
    scores: Tensor = _AdditiveScores.apply(  # type: ignore[no-untyped-call]
        *(x if x.dim() == 4 else x.unsqueeze(0) for x in (queries, keys)), v.view(-1, v.shape[-1])
    )
    return scores.view(*queries.shape[:-1], keys.shape[-2])


class _AdditiveScores(Function):
    """The hidden units s of all pairs can be the largest tensor of a training step, so both passes
    form them in chunks that fit into the cache. The backward pass forms them again, unless there is
    one chunk only: fresh memory for all of them takes more time. In shapes, R is the number of
    runs."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        (R, N, T, K), S = queries.shape, keys.shape[-2]
        scores, parts = queries.new_empty(R, N, T, S), _chunks(R, N, T * S * K)
        for runs, rows in parts:
            s = _hidden_units(queries[runs, rows], keys[runs, rows])
            # torch.bmm computes several narrow products slowly.
            for run, units in zip(range(R)[runs], s.flatten(1, 3), strict=True):
                torch.mv(units, 2 * v[run], out=scores[run, rows].view(-1))
        ctx.save_for_backward(queries, keys, v, s if len(parts) == 1 else None)
        return scores.sub_(v.sum(-1).view(R, 1, 1, 1))

    @staticmethod
    def backward(ctx: Any, dscores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _check_single_derivative()
        queries, keys, v, saved = ctx.saved_tensors
        (R, N, T, K), S = queries.shape, keys.shape[-2]
        dqueries, dkeys = torch.empty_like(queries), torch.empty_like(keys)
        four_v = (4 * v).view(R, 1, 1, K)
        dv = -dscores.reshape(R, -1).sum(-1, keepdim=True).repeat(1, K)
        for runs, rows in _chunks(R, N, T * S * K):
            upstream = dscores[runs, rows]
            s = _hidden_units(queries[runs, rows], keys[runs, rows]) if saved is None else saved
            products = upstream.flatten(1).unsqueeze(1) @ s.flatten(1, 3)
            dv[runs].add_(products.squeeze(1), alpha=2)
            weighted = torch.addcmul(s, s, s, value=-1, out=s if saved is None else None)
            weighted.mul_(upstream.unsqueeze(-1))
            for gradient, axis in ((dqueries, -2), (dkeys, -3)):
                of_part = gradient[runs, rows]
                if weighted.shape[axis] == 1:  # a sum over one element takes as long as a long sum
                    torch.mul(weighted.squeeze(axis), four_v[runs], out=of_part)
                else:
                    torch.sum(weighted, axis, out=of_part).mul_(four_v[runs])
        return dqueries, dkeys, dv


def _chunks(R: int, N: int, units: int) -> list[tuple[slice, slice]]:
    """Return the runs and the sequences of each chunk, for `units` hidden units of a sequence."""
    runs, rows = max(1, UNITS_AT_ONCE // (N * units)), max(1, UNITS_AT_ONCE // units)
    return [
        (slice(run, run + runs), slice(row, min(row + rows, N)))
        for run in range(0, R, runs)
        for row in range(0, N, rows)
    ]


def _hidden_units(queries: Tensor, keys: Tensor) -> Tensor:
    """Compute sigmoid(2 (q + k)), (..., T, S, K)."""
    return torch.add(queries.unsqueeze(-2), keys.unsqueeze(-3)).mul_(2).sigmoid_()


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
