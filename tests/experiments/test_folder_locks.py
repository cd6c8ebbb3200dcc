"""Who holds which folder: a command that another one's work would spoil ends with exit code 6."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.runs.storage import exclusive_lock
from tests.conftest import Ended, tree

Command = Callable[..., Ended]
SMALL = ["--set", "data.n_train=16", "--set", "data.n_validation=8", "--set", "data.n_test=8",
         "--set", "training.epochs=1", "--threads", "1", "-q"]  # fmt: skip
VARY = ["--vary", "model.cell=gru,lstm", "--seeds", "2"]


def a_config(folder: Path) -> str:
    (folder / "c.yaml").write_text("name: mine\n")
    return "c.yaml"


def test_a_comparison_holds_its_folder(seqattn: Command, tmp_path: Path) -> None:
    words = ["compare", a_config(tmp_path), *SMALL, *VARY]
    home = tmp_path / "outputs" / "mine"
    home.mkdir(parents=True)
    with exclusive_lock(home):  # by another that has not written anything yet
        done = seqattn(*words)
        assert (done.code, "is writing there" in done.err) == (6, True), done.err
    assert [path.name for path in home.iterdir()] == [".lock"]
    assert seqattn(*words).code == 0
    before = tree(home)
    with exclusive_lock(home):
        assert seqattn(*words).code == 6
        assert seqattn("report", "outputs/mine", "--no-live").code == 6
        assert seqattn("report", "outputs/mine", "--no-live", "--output", "page.html").code == 0
    assert {**tree(home), ".lock": b""} == {**before, ".lock": b""}


def test_a_comparison_that_another_one_overtook_is_refused(
    seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look at the folder and its first file the other began and ended."""
    from seqattn.experiments import compare as comparison

    real = comparison.train_many

    def late(*args: object, **options: object) -> object:
        (tmp_path / "outputs" / "mine").mkdir(parents=True)
        (tmp_path / "outputs" / "mine" / "comparison.json").write_text("{}")
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(comparison, "train_many", late)
    done = seqattn("compare", a_config(tmp_path), *SMALL, *VARY)
    assert done.code == 6
    assert "has just started to write there" in done.err
    assert (tmp_path / "outputs" / "mine" / "comparison.json").read_text() == "{}"


@pytest.mark.parametrize(("mark", "kind"), [("comparison.json", "comparison"),
                                            ("tune.json", "search")])  # fmt: skip
def test_seeds_do_not_go_among_the_runs_of_others(
    mark: str, kind: str, seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    home = tmp_path / "outputs" / "mine"
    home.mkdir(parents=True)
    words = ["train", a_config(tmp_path), *SMALL, "--seeds", "2"]
    monkeypatch.setattr("seqattn.experiments.train_runs.LOCK_TIMEOUT_SECONDS", 0.1)
    with exclusive_lock(home):  # which a comparison or a search does before it writes its mark
        assert seqattn(*words).code == 6
    (home / mark).write_text("{}")
    done = seqattn(*words)
    assert done.code == 2
    assert f"is the folder of a {kind}; several seeds need a separate folder" in done.err
    assert sorted(path.name for path in home.iterdir()) == sorted([".lock", mark])


def test_other_seeds_may_be_trained_beside_those_in_training(
    seqattn: Command, tmp_path: Path
) -> None:
    words = ["train", a_config(tmp_path), *SMALL, "--seeds", "2"]
    assert seqattn(*words).code == 0
    with exclusive_lock(tmp_path / "outputs" / "mine" / "seed-23"):
        assert seqattn(*words, "--seed", "30").code == 0
        assert seqattn(*words, "--resume").code == 6
        assert seqattn("report", "outputs/mine", "--no-live").code == 0, "all seeds are finished"
        (tmp_path / "outputs" / "mine" / "seed-23" / "summary.json").unlink()
        done = seqattn("report", "outputs/mine", "--no-live")
        assert done.code == 6
        assert "write elsewhere with --output FILE" in done.err


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    """A page is written beside the run's own files by a process that does not train it."""
    (tmp_path / "seed-1").mkdir()
    living = [tmp_path / f".report.html.{os.getppid()}.part",
              tmp_path / "seed-1" / f".a.png.{os.getppid()}.part"]  # fmt: skip
    dead = [tmp_path / f".{name}.part" for name in ("config.yaml.99999999", "x.y", "a.0x1")]
    for file in (*living, *dead):
        file.touch()
    with exclusive_lock(tmp_path):
        pass
    assert [file.exists() for file in living] == [True, True]
    assert [file.exists() for file in dead] == [False, False, False]
