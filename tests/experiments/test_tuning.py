"""Searching for values: ranges, trials, a stop in the middle, and what is written."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

from seqattn.config import resolve
from seqattn.config.searching import Search, plan_search
from seqattn.errors import ConfigError, install_command
from seqattn.experiments import tuning
from seqattn.experiments.tuning import trials
from seqattn.runs import RunFolder
from tests.conftest import Ended

pytestmark = pytest.mark.usefixtures("unsynced_databases")
SMALL = ["data.n_train=24", "data.n_validation=8", "data.n_test=8", "training.epochs=4"]
RATE, WIDTH = "training.learning_rate=log(1e-3,1e-1)", "model.hidden_dim=uniform(2,6)"


def wanted(folder: Path, *texts: str) -> Search:
    (folder / "c.yaml").write_text("name: found\n")
    return plan_search(
        folder / "c.yaml", SMALL, texts or (RATE, WIDTH, "model.attention.score=dot,general")
    )


def test_ranges_know_what_their_key_is(tmp_path: Path) -> None:
    rate, width, score = wanted(tmp_path).ranges
    assert (rate.kind, rate.low, rate.high, rate.whole) == ("log", 1e-3, 1e-1, False)
    assert (width.kind, width.low, width.high, width.whole) == ("uniform", 2, 6, True)
    assert score.values == ("dot", "general")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.learning_rate", "expected PATH=RANGE"),
        ("training.learning_rate=0.1", "a search needs two values or more"),
        ("training.learning_rate=normal(0,1)", r"normal\(...\) is not a range"),
        ("training.learning_rate=log(1,0.1)", "expected A below B"),
        ("training.learning_rate=log(0.1,1e6)", "training.learning_rate"),
        ("training.learnin_rate=log(0.1,1)", "Did you mean training.learning_rate"),
        ("model.attention.score=log(1,2)", "score"),
    ],
)
def test_wrong_ranges_are_refused_with_the_reason(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        wanted(tmp_path, text)


def test_the_values_of_a_search_may_be_a_list_in_brackets(tmp_path: Path) -> None:
    (brackets,), (commas,) = (
        wanted(tmp_path, f"model.hidden_dim={values}").ranges for values in ("[2, 8]", "2,8")
    )
    assert brackets == commas
    assert brackets.values == (2, 8)


@pytest.mark.parametrize("override", ["model.attention.score=dot", "compare.seeds=4"])
def test_an_override_that_a_search_replaces_is_refused(override: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: found\n")
    with pytest.raises(ConfigError, match=f"--set {override}: has no effect"):
        plan_search(tmp_path / "c.yaml", [override], ["model.attention=null,{score: additive}"])


def test_a_search_leaves_runs_a_table_and_the_best(tmp_path: Path) -> None:
    found = tuning.tune(wanted(tmp_path), tmp_path, 8, threads=1)
    assert len(found.trials) == 8
    whole = [row for row in found.trials if row["state"] == "complete"]
    assert [row["loss"] for row in whole] == sorted(row["loss"] for row in whole)
    best = RunFolder(found.path / f"trial-{whole[0]['trial']}")
    assert best.read_summary()["validation_loss"] == whole[0]["loss"]
    config = resolve(found.path / "best.yaml").config
    assert config.training.learning_rate == found.best["training.learning_rate"]
    assert config.model.attention.score == found.best["model.attention.score"]  # type: ignore[union-attr]
    assert config.name == "found-best"
    assert found.importance == {}  # 8 trials are too few
    assert not (found.path / "importance.png").exists()
    rows = list(csv.DictReader((found.path / "trials.csv").read_text().splitlines()))
    assert len(rows) == 8
    assert float(rows[0]["validation_loss"]) == whole[0]["loss"]


def test_it_goes_on_where_it_was_stopped_and_tries_again_what_was_lost(tmp_path: Path) -> None:
    asked = wanted(tmp_path)
    tuning.tune(asked, tmp_path, 2, threads=1)
    storage = f"sqlite:///{tmp_path / 'found' / 'study.db'}"
    study = optuna.load_study(study_name="found", storage=storage)
    study.ask(trials.search_space(asked))  # as a killed process
    found = tuning.tune(asked, tmp_path, 5, threads=1)
    assert len(found.trials) == 6, "what was lost does not count"
    by_number = {row["trial"]: row for row in found.trials}
    assert by_number[2]["state"] == "interrupted"
    assert by_number[3]["values"] == by_number[2]["values"], "what was lost is tried again"
    again = tuning.tune(asked, tmp_path, 5, threads=1)
    assert again.trials == found.trials, "nothing is trained any more"


def test_a_database_without_a_driver_is_refused(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text("name: found\n")
    done = seqattn("tune", "c.yaml", "--search", RATE, "--storage", "oracle://me:secret@there/x")
    assert done.code == 2
    assert "--storage oracle: needs a driver that is not installed" in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize("words", [("tune", "--search", RATE), ("compare",)])
def test_several_processes_are_refused_by_name(
    words: tuple[str, ...], seqattn: Callable[..., Ended], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "c.yaml").write_text("name: found\n")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    done = seqattn(words[0], "c.yaml", *words[1:])
    assert done.code == 2
    assert f"{words[0]}: trains many runs in one process" in done.err
    assert not (tmp_path / "outputs").exists()


def test_trials_that_do_worse_are_pruned_and_sick_ones_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.yaml").write_text("name: found\n")
    sets = [*SMALL, "training.epochs=8"]
    asked = plan_search(tmp_path / "c.yaml", sets, ["training.learning_rate=1e-2,1e-9"])
    monkeypatch.setattr(trials, "STARTUP_TRIALS", 1)
    found = tuning.tune(asked, tmp_path, 14, threads=1)
    pruned = [row for row in found.trials if row["state"] == "pruned"]
    assert pruned
    assert {row["values"]["training.learning_rate"] for row in pruned} == {1e-9}
    assert all(row["epochs"] < 8 for row in pruned)
    asked = plan_search(tmp_path / "c.yaml", [*sets, "name=sick", "training.optimizer=sgd"],
                   ["training.learning_rate=0.01,100"])  # fmt: skip
    found = tuning.tune(asked, tmp_path, 6, threads=1)
    rows = [row for row in found.trials if row["values"]["training.learning_rate"] == 100]
    assert rows
    assert "complete" not in {row["state"] for row in rows}


def test_folders_of_others_are_not_touched(seqattn: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: found\n")
    words = ["tune", "c.yaml", "--trials", "2", *(x for text in SMALL for x in ("--set", text))]
    done = seqattn(*words, "--search", RATE)
    assert done.code == 0, done.err
    assert "seqattn train outputs/found/best.yaml --seeds 8" in done.out
    done = seqattn(*words, "--search", "training.learning_rate=log(1e-3,1)")
    assert done.code == 2
    assert (
        "contains another search: --search training.learning_rate: log(0.001,0.1) -> log(0.001,1)"
        in (done.err)
    )
    (tmp_path / "outputs" / "mine").mkdir()
    (tmp_path / "outputs" / "mine" / "letter.txt").touch()
    done = seqattn(*words, "--search", RATE, "--name", "mine")
    assert done.code == 2
    assert "is not the folder of a search" in done.err
    done = seqattn(*words, "--search", RATE, "--name", "far", "--storage", "sqlite:///c.yaml/x.db")
    assert done.code == 5
    assert "the study's database cannot be used" in done.err


def test_a_missing_optuna_is_named(
    seqattn: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.yaml").write_text("name: found\n")
    monkeypatch.setitem(sys.modules, "optuna", None)
    done = seqattn("tune", "c.yaml", "--search", RATE)
    assert done.code == 2
    assert install_command("tune") in done.err
    assert not (tmp_path / "outputs").exists()
