"""The keys that runs side by side may differ in, and the plan of an epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from seqattn.config import Training
from seqattn.data import load_data
from seqattn.models import build_model
from seqattn.training import RunProgress, TrainingRun, to_tensors
from seqattn.training.learner import PER_RUN, EpochPlan, build_group
from tests.conftest import ROOT
from tests.grouped import small_config

FILES = [ROOT / "seqattn" / "training" / f"{name}.py" for name in ("learner", "loop")]
OF_GROUP = {"self.config", "learner.config"}


def reads(path: Path) -> Iterator[tuple[str, str]]:
    """(whose config, key) of each key of a `Training` that a file reads."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in Training.model_fields:
            owner = ast.unparse(node.value)
            if owner.endswith(".config"):
                yield owner, node.attr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_key_is_read_of_the_group_or_of_each_run(path: Path) -> None:
    for owner, key in reads(path):
        # Of teacher forcing all runs share the coin, which decides the shape of the coins.
        if owner in OF_GROUP:
            assert key not in PER_RUN - {"teacher_forcing"}, f"{owner}.{key} is the first run's"
        else:
            assert key in PER_RUN, f"{owner}.{key} may be another in each run"


def test_keys_of_both_kinds_are_found() -> None:
    found = [each for path in FILES for each in reads(path)]
    assert {key for owner, key in found if owner in OF_GROUP} >= {
        "monitor",
        "compile",
        "precision",
    }
    assert {key for owner, key in found if owner not in OF_GROUP} >= {"epochs", "clip_norm"}


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
