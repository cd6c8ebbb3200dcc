"""Which runs are trained side by side: only those that share all that the loop reads once."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from seqattn import experiments
from seqattn.config import Config, Training, resolve
from seqattn.data import load_data
from seqattn.experiments.grouping import group_jobs
from seqattn.experiments.prepare import prepare_jobs
from seqattn.models import build_model
from seqattn.runs import RunFolder
from seqattn.training import TrainingRun, to_tensors, train_models
from seqattn.training.learner import PER_RUN
from tests.grouped import check_grouped_equals_alone, series_config, small_config, write_series


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"source_features": ["a", "b", "c"], "target_features": ["a"]},
         {"source_features": ["a", "b", "c"], "target_features": ["b"]}),
        ({"source_features": ["a", "b"], "target_features": ["a"]},
         {"source_features": ["b", "a"], "target_features": ["a"]}),
        ({"source_features": ["a", "b"], "target_features": ["a"]},
         {"source_features": ["b", "c"], "target_features": ["a"]}),
    ],
    ids=["target_features", "order of source_features", "source_features"],
)  # fmt: skip
def test_runs_with_other_features_are_trained_as_if_alone(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    file = tmp_path / "series.csv"
    write_series(file)
    configs = {
        name: small_config(data=series_config(file, **features))
        for name, features in (("first", first), ("second", second))
    }
    assert check_grouped_equals_alone(configs, tmp_path, seeds=1) == []


def test_files_with_the_features_in_another_order_are_trained_as_if_alone(tmp_path: Path) -> None:
    """The same feature is said again; where it stands in a source point differs."""
    configs = {}
    for order in (["a", "b", "c"], ["c", "a", "b"]):
        file = tmp_path / f"{''.join(order)}.csv"
        write_series(file, order)
        features = {"source_features": order, "target_features": ["a"]}
        configs[file.stem] = small_config(data=series_config(file, **features))
    assert check_grouped_equals_alone(configs, tmp_path, seeds=1) == []


def test_runs_are_grouped_whatever_they_read_for_themselves(tmp_path: Path) -> None:
    """A key that would split groups for nothing makes a comparison take many times as long."""
    own: dict[str, Any] = {
        "epochs": 4, "learning_rate": 0.1, "clip_norm": 1.0, "early_stopping": {"patience": 3},
        "learning_rate_schedule": {"kind": "cosine"}, "teacher_forcing": {"probability": 0.1},
    }  # fmt: skip
    assert own.keys() == PER_RUN
    assert Training.model_fields.keys() >= PER_RUN
    configs = [small_config(), *(small_config(training={key: own[key]}) for key in own)]
    data = {"n_train": 12, "n_validation": 6, "n_test": 9}
    configs.append(small_config(data={**data, "noise": 0.7, "train_seed": 5}))
    found = experiments.groups_to_train(
        [(config, RunFolder(tmp_path / str(k))) for k, config in enumerate(configs)]
    )
    assert [len(group) for group in found] == [len(configs)]


@pytest.mark.parametrize(
    "other",
    [
        small_config(training={"teacher_forcing": {"coin": "element"}}),
        small_config(training={"batch_size": 4}),
        small_config(data={"n_train": 12, "n_validation": 6, "variable_length": True}),
        small_config(data={"n_train": 13, "n_validation": 6}),
    ],
    ids=["coin", "batch size", "masks", "sequences"],
)
def test_the_loop_refuses_runs_that_cannot_be_trained_side_by_side(other: Config) -> None:
    def run_of(config: Config) -> TrainingRun:
        data = load_data(config.data)
        train, validation = to_tensors(data.train), to_tensors(data.validation)
        return TrainingRun(build_model(config.model, 2, 1), train, validation, config.training, 1)

    with pytest.raises(ValueError, match="batch_key"):
        train_models([run_of(small_config()), run_of(other)])


def test_the_parameters_of_a_group_are_those_of_each_model(tmp_path: Path) -> None:
    configs = [
        (
            resolve(None, [f"seed={k}", f"model.hidden_dim={H}"]).config,
            RunFolder(tmp_path / f"{H}-{k}"),
        )
        for H in (2, 5)
        for k in range(2)
    ]
    groups = group_jobs(prepare_jobs(configs, resume=False))
    assert [len(group) for group in groups] == [2, 2]
    for job in itertools.chain(*groups):
        assert job.counted == sum(p.numel() for p in job.new_model().parameters())
