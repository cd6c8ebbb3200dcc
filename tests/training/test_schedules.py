"""Schedules held against torch's own, over every epoch to the last."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, StepLR

from seqattn.config import Training
from seqattn.training import LearningRate


def rates_of(epochs: int, schedule: dict[str, Any]) -> list[float]:
    training = Training.model_validate(
        {"epochs": epochs, "learning_rate": 0.8, "learning_rate_schedule": schedule}
    )
    rate, found = LearningRate(training), []
    for _ in range(epochs):
        found.append(rate.value)
        rate.update(1.0)
    return found


def torchs_rates(epochs: int, kind: type[LRScheduler], **options: Any) -> list[float]:
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8)
    schedule = kind(optimizer, **options)
    found = []
    for _ in range(epochs):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize("minimum", [0.0, 0.3])
@pytest.mark.parametrize("epochs", [1, 2, 3, 11])
def test_a_cosine_is_torchs_and_its_last_epoch_learns(epochs: int, minimum: float) -> None:
    found = rates_of(epochs, {"kind": "cosine", "minimum": minimum})
    expected = torchs_rates(epochs, CosineAnnealingLR, T_max=epochs, eta_min=minimum)
    assert found == pytest.approx(expected, abs=1e-12)
    assert found[0] == 0.8
    assert found[-1] > minimum


def test_a_cosine_over_fewer_epochs_stays_at_its_minimum() -> None:
    """torch's would go up again."""
    found = rates_of(7, {"kind": "cosine", "minimum": 0.1, "over_epochs": 4})
    assert found[:4] == pytest.approx(torchs_rates(4, CosineAnnealingLR, T_max=4, eta_min=0.1))
    assert found[4:] == pytest.approx([0.1] * 3)


def test_steps_are_torchs() -> None:
    found = rates_of(7, {"kind": "step", "every": 3, "factor": 0.5})
    assert found == pytest.approx(torchs_rates(7, StepLR, step_size=3, gamma=0.5))
