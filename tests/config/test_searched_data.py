"""Trials are judged by one validation part, so a search cannot change it."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqattn.config.searching import plan_search
from seqattn.errors import ConfigError
from tests.conftest import ROOT

SQUARES = ROOT / "configs" / "squares.yaml"


@pytest.mark.parametrize(
    "text",
    ["data.noise=0.05,0.2", "data.validation_seed=1,2", "data.n_validation=16,32",
     "data.source_length=1,2", "data.variable_length=true,false", "data.kind=copy,reverse",
     "data={kind: copy},{kind: reverse}"],
)  # fmt: skip
def test_a_key_that_changes_what_trials_are_judged_by_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_search(SQUARES, (), [text])
    (mistake,) = caught.value.mistakes
    assert "so the easiest data would win" in mistake
    assert f"seqattn compare {SQUARES} --vary {text.partition('=')[0]}=A,B" in mistake


def test_keys_of_files_are_refused_too() -> None:
    config = ROOT / "configs" / "own_data.yaml"
    for text in ("data.scaling=none,standard", "data.relative=true,false", "data.split.seed=1,2"):
        with pytest.raises(ConfigError, match="1 mistake"):
            plan_search(Path(config), (), [text])


def test_keys_of_the_training_part_are_searched() -> None:
    found = plan_search(SQUARES, (), ["data.n_train=64,128", "data.train_seed=1,2"])
    assert [each.path for each in found.ranges] == ["data.n_train", "data.train_seed"]
