"""Fast weights: the equations by loops, and the memory as states and as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from seqattn.config import FastWeights
from seqattn.models import FastWeightsModel, build_model
from tests.conftest import F, H, N, S, T


def model(**keys: Any) -> FastWeightsModel:
    made = build_model(FastWeights(hidden_dim=H, **keys), F, 1).double()
    assert isinstance(made, FastWeightsModel)
    return made


@pytest.mark.parametrize("inner_steps", [1, 3])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_the_equations_written_out(layer_norm: bool, inner_steps: int) -> None:
    """In NumPy, one sequence, with the H x H matrix; what comes from outside is held."""
    made = model(layer_norm=layer_norm, inner_steps=inner_steps, decay=0.9, rate=0.4)
    weights = {name: p.detach().numpy() for name, p in made.named_parameters()}
    source = torch.randn(1, S, F, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def inner_loop(part: str, x: Any, h: Any, A: Any) -> Any:
        def bent(z: Any) -> Any:
            if layer_norm:
                z = (z - z.mean()) / np.sqrt(z.var() + 1e-5)
                z = z * weights[f"{part}_norm.gain.value"] + weights[f"{part}_norm.bias.value"]
            return np.tanh(z)

        held = (weights[f"{part}_state.weight"] @ h + weights[f"{part}_input.weight"] @ x
                + weights[f"{part}_input.bias"])  # fmt: skip
        state = bent(held)
        for _ in range(inner_steps):
            state = bent(held + A @ state)
        return state

    A, h = np.zeros((H, H)), np.zeros(H)
    for x in source[0].numpy():
        h = inner_loop("encoder", x, h, A)
        A = 0.9 * A + 0.4 * np.outer(h, h)
    x, outputs = source[0, -1].numpy(), []
    for _ in range(T):
        h = inner_loop("decoder", x, h, A)
        A = 0.9 * A + 0.4 * np.outer(h, h)
        x = weights["output.weight"] @ h + weights["output.bias"]
        outputs.append(x)
    found = made.forecast(source, T)
    np.testing.assert_allclose(found.values[0].detach(), outputs, atol=1e-12)
    assert found.attention[0].meaning == "strength"


@pytest.mark.parametrize("lengths", [None, torch.tensor([1, 11, 2, 3, 5, 7, 10])])
def test_states_and_matrix_agree(lengths: Any) -> None:
    """And the matrix is used where it is smaller and nobody asks for weights."""
    made = model(inner_steps=2)
    source = torch.randn(N, S, F, dtype=torch.float64)
    start = {
        use_matrix: made.encode(source, lengths, use_matrix=use_matrix)
        for use_matrix in (False, True)
    }
    (past, state, point), (matrix, *others) = start[False], start[True]
    torch.testing.assert_close([state, point], others)
    h = torch.randn(N, H, dtype=torch.float64)
    read, weights = past.read(h)
    torch.testing.assert_close(read, matrix.read(h)[0])
    assert weights is not None
    assert weights.shape == (N, S)
    if lengths is not None:
        assert (weights[torch.arange(S) >= lengths[:, None]] == 0).all()
    assert made._use_matrix(S, T, with_attention=False)
    assert not made._use_matrix(S, T, with_attention=True)
    assert not made._use_matrix(2, 3, with_attention=False)
