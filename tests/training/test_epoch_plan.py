"""The plan of an epoch depends only on configs, seeds, validation losses and the epoch."""

from __future__ import annotations

import pytest
import torch

from seqattn.data import load_data
from seqattn.models import build_model
from seqattn.training import RunProgress, TrainingRun, to_tensors
from seqattn.training.learner import EpochPlan, build_group
from tests.grouped import small_config


def runs_of(coin: str, count: int) -> list[TrainingRun]:
    forcing = {"schedule": "linear", "start": 0.9, "end": 0.2, "coin": coin}
    runs = []
    for seed in range(3, 3 + count):
        config = small_config(training={"teacher_forcing": forcing, "epochs": 7})
        data = load_data(config.data)
        model = build_model(config.model, 2, seed)
        parts = to_tensors(data.train), to_tensors(data.validation)
        runs.append(TrainingRun(model, *parts, config.training, seed))
    return runs


def assert_equal(one: EpochPlan, other: EpochPlan) -> None:
    assert len(one) == len(other) == 3  # 12 sequences in batches of 5
    assert (one.probabilities, one.learning_rates) == (other.probabilities, other.learning_rates)
    for step in range(len(one)):
        assert torch.equal(one.fetch(step).source, other.fetch(step).source)
        assert torch.equal(one.fetch(step).target, other.fetch(step).target)
        assert torch.equal(one.teacher_forcing[step], other.teacher_forcing[step])


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("coin", ["step", "sequence", "element"])
def test_plans_of_several_epochs_exist_side_by_side(coin: str, count: int) -> None:
    state, learner = build_group([RunProgress(run) for run in runs_of(coin, count)])
    plans = {}
    for epoch in (4, 0, 5, 4):  # in any order, and one epoch twice
        state.epoch = epoch
        plan = learner.plan_epoch(state)
        if epoch in plans:
            assert_equal(plan, plans[epoch])
        plans[epoch] = plan
    state, learner = build_group([RunProgress(run) for run in runs_of(coin, count)])
    for epoch, plan in plans.items():  # as in a process that resumes in this epoch
        state.epoch = epoch
        assert_equal(learner.plan_epoch(state), plan)
    assert not torch.equal(plans[0].fetch(0).source, plans[4].fetch(0).source)
    assert plans[0].probabilities[0] == pytest.approx(0.9)
    assert plans[4].probabilities[0] == pytest.approx(0.9 - 0.7 * 4 / 6)
