"""Which cells the loss counts, and which choices it reinforces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from seqattn.data import load_data
from seqattn.models import ModelOutput, SampledActions, build_model
from seqattn.models.modality import FeatureSpec
from seqattn.training import Batch, TrainingRun, batches, to_tensors
from seqattn.training.objective import AutogradLoss
from tests.data.test_missing_targets import F, N, T, part_of
from tests.grouped import small_config
from tests.training_session import trained

EPOCHS = 3


@pytest.mark.parametrize("is_ragged", [False, True])
@pytest.mark.parametrize("runs", [1, 2])
def test_each_batch_is_gathered_once(
    runs: int, is_ragged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered = list[int]()
    gather = Batch.gather

    def counted(batch: Batch, places: torch.Tensor) -> Batch:
        gathered.append(places.shape[-1])
        return gather(batch, places)

    monkeypatch.setattr(batches, "MAX_SHUFFLED_COPY", 0)
    monkeypatch.setattr(Batch, "gather", counted)
    config = small_config(training={"epochs": EPOCHS}, data={"variable_length": is_ragged})
    data = load_data(config.data)
    parts = to_tensors(data.train), to_tensors(data.validation)
    assert (parts[0].target_keep is not None) == is_ragged

    def run_of(seed: int) -> TrainingRun:
        return TrainingRun(build_model(config.model, 2, seed), *parts, config.training, seed)

    ended: list[Any] = trained([run_of(seed) for seed in range(runs)])
    assert sum(gathered) == EPOCHS * len(data.train)
    assert [len(run.history) for run in ended] == [EPOCHS] * runs


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
        return ModelOutput(values, actions=choices)

    model.target_modality = FeatureSpec.same(2).modalities()[1]  # type: ignore[attr-defined]
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
