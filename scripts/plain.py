"""The notebook's model in optimized plain torch: a reference for the benchmark, without seqattn.

    python scripts/bench.py --only plain

One matrix product computes the source projections of all steps, and another computes the keys. A
GRU step takes at most two linear maps, one sigmoid for both gates, and one tanh. The code uses a
fused optimizer. It uses no module, no DataLoader, no `.item()` and no validation. With several
runs, every weight has a leading axis R of runs. The independent losses of the runs are summed, so
one backward pass computes the gradient of each run.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = dict[str, Tensor]


def train_plain(
    source: Tensor, target: Tensor, *, hidden: int, batch_size: int, epochs: int, runs: int = 1
) -> float:
    """Train with Adam at learning rate 0.01, and return the loss of the last batch.

    A coin flip for each step decides whether the step is teacher-forced.

    Args:
        source, target: (n, S, F) and (n, T, F), the sequences.
        hidden: H, the width of the recurrent state.
        batch_size: the number of sequences in a batch.
        epochs: the number of epochs.
        runs: R, the number of runs. Each run has its own weights, batch order and coin flips.
    """
    n, _, features = source.shape
    lead = () if runs == 1 else (runs,)
    weights = _weights(lead, hidden, features)
    optimizer = torch.optim.Adam(weights.values(), lr=0.01, fused=True)
    loss = source.new_zeros(())
    for _ in range(epochs):
        order = torch.rand(*lead, n).argsort(-1)
        sources, targets = source[order], target[order]  # ([R,] n, S or T, F)
        for first in range(0, n, batch_size):
            batch = slice(first, first + batch_size)
            coins = torch.rand(target.shape[1], *lead, *(1, 1) if lead else ()) < 0.5
            optimizer.zero_grad()
            loss = _loss(weights, sources[..., batch, :, :], targets[..., batch, :, :], coins)
            loss.backward()
            optimizer.step()
    return float(loss.detach())


def _weights(lead: tuple[int, ...], H: int, points: int) -> Weights:
    """Draw weights, ([R,] out, in), and biases, ([R,] out), from U(-1/sqrt(H), 1/sqrt(H))."""
    shapes = {
        "encoder_x": (3 * H, points), "encoder_h": (3 * H, H), "decoder_x": (3 * H, points),
        "decoder_h": (3 * H, H), "query": (H, H), "key": (H, H), "output": (points, 2 * H),
    }  # fmt: skip
    found = {}
    for name, (rows, columns) in shapes.items():
        for part, shape in ((name, (rows, columns)), (f"{name}_bias", (rows,))):
            draw = (2 * torch.rand(*lead, *shape) - 1) / math.sqrt(H)
            found[part] = draw.requires_grad_()
    return found


def _loss(w: Weights, source: Tensor, target: Tensor, coins: Tensor) -> Tensor:
    """Return the mean squared error with teacher forcing, summed over runs."""
    *lead, N, S, _ = source.shape
    T, H = target.shape[-2], w["query"].shape[-1]
    projected = _affine(source.flatten(-3, -2), w, "encoder_x").view(*lead, N, S, 3 * H)
    state, states = source.new_zeros(*lead, N, H), []
    for step in projected.unbind(-2):
        state = _gru(step, _affine(state, w, "encoder_h"), state)
        states.append(state)
    memory = torch.stack(states, dim=-2)
    keys = _affine(memory.flatten(-3, -2), w, "key").view(*lead, N, S, H) / math.sqrt(H)
    point, outputs = source.select(-2, -1), []
    for t in range(T):
        step = _affine(point, w, "decoder_x")
        state = _gru(step, _affine(state, w, "decoder_h"), state)
        scores = keys @ _affine(state, w, "query").unsqueeze(-1)
        context = (scores.softmax(-2) * memory).sum(-2)
        value = _affine(torch.cat([context, state], dim=-1), w, "output")
        outputs.append(value)
        if lead:
            point = torch.where(coins[t], target[..., t, :], value)
        else:
            point = target[..., t, :] if coins[t] else value
    errors = (torch.stack(outputs, dim=-2) - target).square()
    return errors.mean(dim=(-3, -2, -1)).sum()


def _affine(x: Tensor, w: Weights, name: str) -> Tensor:
    weight, bias = w[name], w[f"{name}_bias"]
    if weight.dim() == 2:
        return F.linear(x, weight, bias)
    return torch.baddbmm(bias.unsqueeze(-2), x, weight.mT)


def _gru(of_input: Tensor, of_state: Tensor, state: Tensor) -> Tensor:
    H = state.shape[-1]
    gates_x, new_x = of_input.split((2 * H, H), dim=-1)
    gates_h, new_h = of_state.split((2 * H, H), dim=-1)
    reset, update = (gates_x + gates_h).sigmoid().chunk(2, dim=-1)
    return torch.lerp((new_x + reset * new_h).tanh(), state, update)
