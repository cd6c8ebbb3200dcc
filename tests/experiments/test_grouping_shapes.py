"""Runs whose batches have other shapes are not put into one group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqattn import experiments
from seqattn.runs import RunFolder
from tests.grouped import small_config

DATA = {"n_train": 12, "n_validation": 6, "n_test": 9}


@pytest.mark.parametrize(
    "other",
    [{"n_train": 13}, {"n_validation": 7}, {"variable_length": True}, {"source_length": 3}],
    ids=lambda other: next(iter(other)),
)
def test_runs_with_other_shapes_go_apart(other: dict[str, Any], tmp_path: Path) -> None:
    configs = [small_config(data=data) for data in (DATA, DATA | other, DATA | {"n_test": 4})]
    found = experiments.groups_to_train(
        [(config, RunFolder(tmp_path / str(k))) for k, config in enumerate(configs)]
    )
    names = [[folder.path.name for _, folder in group] for group in found]
    assert names == [["0", "2"], ["1"]]
