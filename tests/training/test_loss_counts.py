"""The loss counts of a step come with its loss: no batch is gathered again to count its points."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from seqattn.data import load_data
from seqattn.models import build_model
from seqattn.training import Batch, TrainingRun, batches, to_tensors
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
