"""The folders of the seeds of one config: their common report, and the largest seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqattn import experiments
from seqattn.config import resolve
from seqattn.errors import UsageError
from seqattn.runs import PAGE, RunFolder
from tests.conftest import Ended, tree

SMALL = ["data.n_train=16", "data.n_validation=8", "data.n_test=8", "training.epochs=1",
         "model.hidden_dim=2", "name=seeds"]  # fmt: skip
LARGEST = 2**63 - 1


def train(parent: Path, seeds: int = 2, *words: str, **existing: Any) -> list[experiments.Job]:
    runs = experiments.seeds_of(resolve(None, [*SMALL, *words]).config, parent, seeds)
    launch = experiments.Launch(before_writing=lambda: experiments.create_seed_folders(runs))
    return experiments.train_many(runs, threads=1, launch=launch, **existing)


def test_the_report_of_seeds_is_removed_when_a_seed_is_trained_again(tmp_path: Path) -> None:
    parent = tmp_path / "seeds"
    page = parent / PAGE
    train(parent)
    for words, seeds, existing, remains in (
        ((), 2, {"resume": True}, True),  # nothing is left to train
        ((), 2, {"overwrite": True}, False),
        (("training.epochs=2",), 2, {"resume": True}, False),
        (("training.epochs=2",), 3, {"resume": True}, True),  # the page shows the other seeds
        (("training.epochs=2",), 3, {"overwrite": True}, False),
    ):
        page.write_text("old numbers")
        train(parent, seeds, *words, **existing)
        assert page.exists() is remains, (words, seeds, existing)


def test_the_report_of_seeds_remains_if_the_training_is_refused(tmp_path: Path) -> None:
    parent = tmp_path / "seeds"
    train(parent)
    (parent / PAGE).write_text("numbers")
    with pytest.raises(UsageError, match="--overwrite"):
        train(parent)
    assert (parent / PAGE).exists()


def test_seeds_beyond_the_largest_seed_are_refused(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    config = resolve(None, [*SMALL, f"seed={LARGEST - 1}"]).config
    folders = [folder.path.name for _, folder in experiments.seeds_of(config, tmp_path, 2)]
    assert folders == [f"seed-{LARGEST - 1}", f"seed-{LARGEST}"]
    with pytest.raises(UsageError, match=f"seed {LARGEST - 1} leaves no room for 3 seeds"):
        experiments.seeds_of(config, tmp_path, 3)
    done = seqattn("train", "squares", "--seed", str(LARGEST - 1), "--seeds", "4")
    assert done.code == 2
    assert "leaves no room for 4 seeds" in done.err
    assert not tree(tmp_path)


def test_the_folder_of_a_seed_is_a_run_folder(tmp_path: Path) -> None:
    (job, _) = train(tmp_path / "seeds")
    assert RunFolder(job.folder.path).read_summary() == job.summary
