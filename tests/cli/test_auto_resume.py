"""`train --auto-resume`: one command for the first start and for every restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import seqattn as package
from seqattn import experiments
from seqattn.config import Config, resolve
from seqattn.errors import UsageError
from seqattn.runs import RunFolder
from tests.cli.small import SETS, small_config
from tests.conftest import SMALL, Ended, tree
from tests.experiments.test_resume import stopped
from tests.faults.groups import difference

Command = Callable[..., Ended]


def small(*sets: str) -> Config:
    return resolve(None, [*SMALL, "name=mine", *sets]).config


def test_one_command_starts_continues_and_ends(seqattn: Command, tmp_path: Path) -> None:
    words = ["train", small_config(tmp_path), *SETS, "--plots", "none", "--auto-resume"]
    assert seqattn(*words, "--output-dir", "whole").code == 0
    whole, folder = (RunFolder(tmp_path / name / "mine") for name in ("whole", "outputs"))
    stopped([(small(), folder)], 2)
    done = seqattn(*words)
    assert done.code == 0
    assert "Resuming after epoch 0, step 3" in done.err or "Resuming after epoch 1" in done.err
    assert difference([(small(), whole)], [(small(), folder)]) is None
    before = tree(tmp_path)
    done = seqattn(*words)
    assert done.code == 0
    assert "is already trained to epoch 3" in done.err
    assert tree(tmp_path) == before


def test_what_resume_refuses_is_refused(seqattn: Command, tmp_path: Path) -> None:
    words = ["train", small_config(tmp_path), *SETS, "--plots", "none"]
    stopped([(small(), RunFolder(tmp_path / "outputs" / "mine"))], 2)
    (tmp_path / "outputs" / "thesis").mkdir()
    (tmp_path / "outputs" / "thesis" / "thesis.txt").write_text("years of work")
    before = tree(tmp_path)
    for more in (["--set", "seed=5"], ["--name", "thesis"]):
        one, other = (seqattn(*words, *more, flag) for flag in ("--resume", "--auto-resume"))
        assert (one.code, one.err) == (other.code, other.err)
        assert one.code == 2
    for flag in ("--resume", "--overwrite"):
        done = seqattn(*words, flag, "--auto-resume")
        assert done.code == 2
        assert "--auto-resume excludes --resume and --overwrite" in done.err
    assert tree(tmp_path) == before


def test_a_run_that_diverged_ends_with_7_again(seqattn: Command, tmp_path: Path) -> None:
    sgd = ("training.optimizer=sgd", "training.learning_rate=100", "training.epochs=9")
    sets = [word for each in sgd for word in ("--set", each)]
    words = ["train", small_config(tmp_path), *SETS, *sets, "--plots", "none", "--auto-resume"]
    assert seqattn(*words).code == 7
    before = tree(tmp_path)
    assert seqattn(*words).code == 7
    assert tree(tmp_path) == before


def test_finished_unfinished_and_missing_seeds_are_completed(
    seqattn: Command, tmp_path: Path
) -> None:
    """Seed 22 is finished, 23 and 24 were stopped together, and 25 is missing."""
    whole, parted = tmp_path / "whole" / "mine", tmp_path / "outputs" / "mine"
    for home in (whole, parted):
        experiments.train_many(experiments.seeds_of(small("seed=22"), home, 1), threads=1)
    experiments.train_many(experiments.seeds_of(small("seed=23"), whole, 2), threads=1)
    experiments.train_many(experiments.seeds_of(small("seed=25"), whole, 1), threads=1)
    stopped(experiments.seeds_of(small("seed=23"), parted, 2), 2)
    words = ["train", small_config(tmp_path), *SETS, "--seed", "22", "--seeds", "4", "--threads", "1",
             "--auto-resume"]  # fmt: skip
    assert seqattn(*words).code == 0
    homes = [experiments.seeds_of(small("seed=22"), home, 4) for home in (whole, parted)]
    assert difference(*homes) is None
    before = tree(parted)
    assert seqattn(*words).code == 0
    assert tree(parted) == before


@pytest.mark.usefixtures("no_pictures")
def test_auto_in_python(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "mine")
    with pytest.raises(UsageError, match="resume='yes': expected True, False or \"auto\""):
        package.train(small(), output_dir=tmp_path, resume="yes")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--resume and --overwrite exclude"):
        package.train(small(), output_dir=tmp_path, resume="auto", overwrite=True)
    stopped([(small(), folder)], 2)
    for _ in range(2):
        run = package.train(small(), output_dir=tmp_path, resume="auto")
        assert run.summary["epochs"] == 3
        assert run.summary["interrupted"]
    assert package.train(small("name=new"), output_dir=tmp_path, resume="auto").summary
    for _ in range(2):
        seeds = package.train_seeds(small("name=s"), 2, output_dir=tmp_path, resume="auto")
        assert len(seeds) == 2
