"""Choices that are reinforced are not judged by cells that were not observed: through the loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from seqattn.models import SampledActions
from seqattn.training import to_tensors
from seqattn.training.objective import AutogradLoss
from tests.data.test_missing_targets import F, N, T, part_of

BASELINE = 0.3


@pytest.mark.parametrize("ragged", [False, True])
def test_the_loss_reinforces_by_observed_cells_alone(ragged: bool) -> None:
    part = part_of(5, ragged=ragged)
    batch = to_tensors(part, dtype=torch.float64)
    numbers = torch.Generator().manual_seed(1)
    values = torch.randn(N, T, F, generator=numbers, dtype=torch.float64)
    log_probs = torch.randn(N, T, generator=numbers, dtype=torch.float64, requires_grad=True)
    choices = SampledActions(log_probs, torch.tensor(BASELINE, dtype=torch.float64))

    def model(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(values=values, actions=choices)

    loss = AutogradLoss(model).loss(batch, torch.ones(T, dtype=torch.bool))  # type: ignore[arg-type]
    loss.backward()
    keep = torch.from_numpy(part.target_cells.copy())
    target = torch.from_numpy(part.target.copy()).where(keep, values)
    squared = (values - target).square()
    assert float(loss.detach()) == pytest.approx(float(squared.sum() / keep.sum()))
    assert log_probs.grad is not None
    errors = torch.where(keep, squared - BASELINE, torch.zeros_like(squared))
    for n, t in np.ndindex(N, T):
        expected = errors[n, t:].sum() / keep.sum()
        assert float(log_probs.grad[n, t]) == pytest.approx(float(expected), abs=1e-12)
