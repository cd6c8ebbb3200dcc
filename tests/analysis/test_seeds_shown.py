"""Which seeds tables, pages and sentences are of, and what is left where nothing can be shown."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.analysis.comparison import describe_result, read_comparison
from seqattn.analysis.comparison.checks import is_resampled
from seqattn.config import resolve
from seqattn.config.comparing import plan_comparison
from seqattn.errors import CheckpointError
from seqattn.experiments import Callbacks
from seqattn.experiments.compare import run_comparison
from seqattn.runs import RunFolder
from tests.analysis.test_diverged_seeds import diverge
from tests.conftest import Ended

Command = Callable[..., Ended]
TEXT = """
name: mine
seed: 3
data: {n_train: 12, n_validation: 8, n_test: 8}
model: {hidden_dim: 2}
training: {epochs: 2, batch_size: 6}
compare: {seeds: 3, variants: {plain: {model.attention: null}, dot: {model.attention: {score: dot}}}}
"""
PICTURES = ("comparison.png", "curves.png", "attention.png")
SAME = "the data are the same"


def config(folder: Path) -> Path:
    path = folder / "mine.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("finished")
    return run_comparison(plan_comparison(config(home)), home, threads=1).path


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "outputs/mine"))


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


# --- one seed -------------------------------------------------------------------------------------


def test_the_description_of_one_seed_omits_the_data_of_seeds(home: Path) -> None:
    """Each seed of this comparison has data of its own; its first one alone does not show it."""
    for seed in (4, 5):
        shutil.rmtree(home / f"dot/seed-{seed}")
    result = read_comparison(home / "dot")
    assert result.data_of_seeds == "one"
    (words,) = describe_result(result)
    assert SAME not in words
    assert words.startswith("This is one seed:")
    assert read_comparison(home).data_of_seeds == "new"  # the comparison's other variant has three


def test_seeds_with_the_same_test_sequences_have_no_data_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: c\n")

    def of(train: int, validation: int, test: int):  # type: ignore[no-untyped-def]
        seeds = [f"data.train_seed={train}", f"data.validation_seed={validation}",
                 f"data.test_seed={test}"]  # fmt: skip
        return resolve(tmp_path / "c.yaml", seeds).config

    assert not is_resampled([of(1, 2, 3), of(4, 5, 3)])
    assert is_resampled([of(1, 2, 3), of(4, 5, 6)])
    assert not is_resampled([of(1, 2, 3)])


# --- fewer seeds than there are ---------------------------------------------------------------------


def test_fewer_seeds_than_the_folder_holds_leave_tables_of_all(
    home: Path, seqattn: Command, tmp_path: Path
) -> None:
    done = seqattn("compare", config(tmp_path), "--seeds", "2")
    assert done.code == 0, done.err
    assert "mine: 3 seeds each" in done.out
    assert "also contains seeds of earlier commands (5). The tables" in done.err
    assert [row["seeds"] for row in rows(home / "variants.csv")] == ["3", "3"]
    assert len(rows(home / "seeds.csv")) == 6
    before = (home / "comparison.md").read_bytes()
    assert [variant.losses for variant in read_comparison(home).variants] == [
        {int(row["seed"]): float(row["test_loss"]) for row in rows(home / "seeds.csv")
         if row["variant"] == name} for name in ("plain", "dot")
    ]  # fmt: skip
    assert seqattn("compare", config(tmp_path)).code == 0
    assert (home / "comparison.md").read_bytes() == before


def test_a_seed_that_is_not_of_the_comparison_is_refused(home: Path, tmp_path: Path) -> None:
    other = home / "dot/seed-5/config.yaml"
    other.write_text(other.read_text().replace("learning_rate: 0.01", "learning_rate: 0.5"))
    with pytest.raises(CheckpointError, match=r"seed-5: is not a run of the variant dot"):
        run_comparison(plan_comparison(config(tmp_path), seeds=2), home.parent, threads=1)


def test_fewer_seeds_of_a_training_say_that_there_are_others(
    seqattn: Command, tmp_path: Path
) -> None:
    (tmp_path / "some.yaml").write_text(TEXT.partition("compare:")[0].replace("mine", "some"))
    assert seqattn("train", "some.yaml", "--seeds", "3").code == 0
    done = seqattn("train", "some.yaml", "--seeds", "2", "--resume")
    assert done.code == 0, done.err
    assert "outputs/some also has seeds that are not in this table (5)" in done.out
    done = seqattn("train", "some.yaml", "--seeds", "3", "--resume")
    assert "also has seeds" not in done.out


def test_seeds_that_are_trained_for_unequal_numbers_of_epochs_are_listed_and_not_combined(
    seqattn: Command, tmp_path: Path
) -> None:
    (tmp_path / "some.yaml").write_text(TEXT.partition("compare:")[0].replace("mine", "some"))
    assert seqattn("train", "some.yaml", "--seeds", "3", "--set", "training.epochs=1").code == 0
    more = ("--resume", "--set", "training.epochs=2")
    done = seqattn("train", "some.yaml", "--seeds", "2", *more)
    assert "unequal numbers of epochs (3, 4: 2 epochs; 5: 1 epoch)" in done.out
    assert "--seeds 3 --resume" in done.out
    assert "seqattn report" not in done.out
    for command in ("table", "report"):
        done = seqattn(command, "outputs/some")
        assert done.code == 4
        assert "unequal numbers of epochs (3, 4: 2 epochs; 5: 1 epoch)" in done.err
    assert seqattn("train", "some.yaml", "--seeds", "3", *more).code == 0
    assert seqattn("table", "outputs/some").code == 0


def test_a_seed_that_stopped_early_is_combined_with_seeds_that_had_more_epochs(
    seqattn: Command, tmp_path: Path
) -> None:
    text = TEXT.partition("compare:")[0].replace("mine", "some")
    (tmp_path / "some.yaml").write_text(text)
    early = ("--set", "training.early_stopping.patience=1", "--set", "training.learning_rate=0.5")
    seeds = ("train", "some.yaml", "--seeds", "4", *early)
    assert seqattn(*seeds, "--set", "training.epochs=4").code == 0
    done = seqattn(*seeds, "--resume", "--set", "training.epochs=6")
    assert done.code == 0, done.err
    epochs = {
        resolve(path).config.training.epochs for path in tmp_path.glob("outputs/*/*/config.yaml")
    }
    assert epochs == {4, 6}, "the test needs a run that stopped early and one that did not"
    assert "of 4 runs stopped early" in done.err
    done = seqattn("table", "outputs/some")
    assert done.code == 0, done.err


def test_early_stopping_does_not_combine_schedules_over_unequal_numbers_of_epochs(
    seqattn: Command, tmp_path: Path
) -> None:
    (tmp_path / "some.yaml").write_text(TEXT.partition("compare:")[0].replace("mine", "some"))
    settings = (
        "--seeds", "2", "--set", "training.early_stopping.patience=1",
        "--set", "training.learning_rate=0.5", "--set", "training.learning_rate_schedule={kind: cosine}",
    )  # fmt: skip
    for seed, epochs in (("3", "30"), ("5", "40")):
        more = ("--seed", seed, "--set", f"training.epochs={epochs}")
        assert seqattn("train", "some.yaml", *settings, *more).code == 0
    done = seqattn("table", "outputs/some")
    assert done.code == 4
    assert "unequal numbers of epochs (3, 4: 30 epochs; 5, 6: 40 epochs)" in done.err


# --- what an earlier state left -----------------------------------------------------------------------


def test_where_all_seeds_diverged_no_picture_of_an_earlier_state_is_left(
    home: Path, seqattn: Command, tmp_path: Path
) -> None:
    (home / "report.html").touch()
    assert all((home / name).is_file() for name in PICTURES)
    for variant in ("plain", "dot"):
        diverge(home, variant, [3, 4, 5])
        for seed in (3, 4, 5):
            folder = RunFolder(home / f"{variant}/seed-{seed}")
            folder.write_summary({**folder.read_summary(), "diverged_at": {"epoch": 2, "step": 1}})
    done = seqattn("compare", config(tmp_path))
    assert done.code == 0, done.err
    assert not [name for name in PICTURES if (home / name).exists()]
    assert not (home / "report.html").exists()
    assert "All runs diverged, so there are no pictures." in done.out
    assert "comparison.png" not in done.out
    assert {row["test_loss"] for row in rows(home / "seeds.csv")} == {"inf"}


def test_a_page_stays_as_long_as_its_numbers_do(home: Path, tmp_path: Path) -> None:
    (home / "report.html").touch()
    run_comparison(plan_comparison(config(tmp_path)), home.parent, threads=1)
    assert (home / "report.html").exists()
    messages = list[str]()
    run_comparison(plan_comparison(config(tmp_path), seeds=4), home.parent, threads=1,
            callbacks=Callbacks(message=messages.append))  # fmt: skip
    assert not (home / "report.html").exists()
    assert not [line for line in messages if "did not ask" in line]
