"""Which values a search tries, which search a folder or a database belongs to, and what becomes of
trials that are refused, diverge, or cannot be written."""

from __future__ import annotations

import csv
import errno
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest

from seqattn.config import Config, resolve
from seqattn.config.searching import Range, Search, plan_search
from seqattn.errors import (
    ConfigError,
    FolderLockedError,
    NonFiniteError,
    StorageError,
    UsageError,
)
from seqattn.experiments import Callbacks, train_one, tuning
from seqattn.experiments.tuning import trials
from seqattn.runs import EpochRecord, RunFolder
from tests.conftest import Ended

pytestmark = pytest.mark.usefixtures("unsynced_databases")
SMALL = ["data.n_train=24", "data.n_validation=8", "data.n_test=8", "training.epochs=4"]
RATE = "training.learning_rate=log(1e-3,1e-1)"
CELLS = "model.cell=gru,lstm"
WIDTHS = "model.hidden_dim=uniform(3,5)"


def wanted(folder: Path, *texts: str, sets: Sequence[str] = (), name: str = "found") -> Search:
    (folder / "c.yaml").write_text(f"name: {name}\n")
    return plan_search(folder / "c.yaml", [*SMALL, *sets], texts)


class Trainer:
    """Stands in for `experiments.train_one`: notes each config and answers at once.

    Attributes:
        configs: of the trials, in turn.
        loss: of a config.
    """

    def __init__(self, loss: Callable[[Config], float] = lambda config: 1.0) -> None:
        self.configs = list[Config]()
        self.loss = loss

    def __call__(
        self, config: Config, output_dir: Path, *, callbacks: Callbacks, **_: Any
    ) -> tuple[RunFolder, dict[str, Any]]:
        self.configs.append(config)
        loss = self.loss(config)
        callbacks.epoch(output_dir, EpochRecord(1, loss, loss, loss, 0.1, 0.5, 0.0))
        folder = RunFolder(output_dir / config.name)
        folder.path.mkdir()
        return folder, {"epochs": 1, "validation_loss": loss}


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    found = Trainer()
    monkeypatch.setattr(trials, "train_one", found)
    monkeypatch.setattr(trials, "importance_figure", lambda *_: None)
    monkeypatch.setattr(trials, "as_bytes", lambda _: b"")
    return found


def rows_of(path: Path) -> list[dict[str, str]]:
    with (path / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# --- no combination twice ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "size"),
    [
        ([CELLS], 2),
        (["model.hidden_dim=log(2,4)", "model.bidirectional=true,false"], 6),
        (["model.attention=null,{score: dot},{score: dot, heads: 2}"], 3),
    ],
)
def test_a_finite_space_is_tried_once_over_and_then_the_search_stops(
    texts: list[str], size: int, trainer: Trainer, tmp_path: Path
) -> None:
    asked, messages = wanted(tmp_path, *texts), list[str]()
    found = tuning.tune(asked, tmp_path, size + 5, message=messages.append)
    tried = [json.dumps(row["values"], sort_keys=True) for row in found.trials]
    assert len(tried) == len(set(tried)) == len(trainer.configs) == size
    assert f"all {size} combinations have been tried" in messages[-1]
    again = tuning.tune(asked, tmp_path, size + 5, message=messages.append)
    assert len(trainer.configs) == size, "nothing is trained any more"
    assert again.trials == found.trials


def test_values_are_a_function_of_seed_number_and_what_was_tried(
    trainer: Trainer, tmp_path: Path
) -> None:
    """Also after a stop, and whatever the order of the ranges."""
    at_once = tuning.tune(wanted(tmp_path, CELLS, WIDTHS, RATE), tmp_path / "a", 12)
    for count in (2, 12):
        parted = tuning.tune(wanted(tmp_path, RATE, WIDTHS, CELLS), tmp_path / "b", count)
    by_number = [{row["trial"]: row["values"] for row in one.trials} for one in (at_once, parted)]
    assert by_number[0] == by_number[1]


def test_pruned_failed_and_refused_combinations_are_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loss(config: Config) -> float:
        if config.model.hidden_dim == 3:  # type: ignore[union-attr]
            raise NonFiniteError("The loss is nan in epoch 2.")
        if config.model.hidden_dim == 4:  # type: ignore[union-attr]
            raise optuna.TrialPruned
        if config.model.hidden_dim == 6:  # type: ignore[union-attr]
            raise UsageError("Widths of 6 are refused.\n  for a reason")
        return 1.0

    trainer = Trainer(loss)
    monkeypatch.setattr(trials, "train_one", trainer)
    asked = wanted(tmp_path, "model.hidden_dim=uniform(3,6)")
    found = tuning.tune(asked, tmp_path, 9)
    assert len(trainer.configs) == 4
    states = {row["values"]["model.hidden_dim"]: row["state"] for row in found.trials}
    assert states == {3: "fail", 4: "pruned", 5: "complete", 6: "refused"}
    reasons = {row["model.hidden_dim"]: row["reason"] for row in rows_of(found.path)}
    assert reasons["3"] == "The loss is nan in epoch 2."
    assert reasons["6"] == "Widths of 6 are refused. for a reason"
    assert reasons["5"] == reasons["4"] == ""


def test_a_key_inside_another_that_is_searched_is_refused(tmp_path: Path) -> None:
    """With both, `null` would get the inner key and be no `null` any more."""
    for texts in (
        ("model.attention=null,{score: dot}", "model.attention.heads=1,2"),
        ("model.attention.heads=1,2", "model.attention=null,{score: dot}"),
    ):
        with pytest.raises(
            ConfigError, match=r"model.attention.heads: is a part of model.attention"
        ):
            wanted(tmp_path, *texts)


# --- whose folder and whose study ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "texts", "message"),
    [
        (["training.epochs=5"], [RATE], "training.epochs: 4 -> 5"),
        (["seed=3"], [RATE], "seed: 23 -> 3"),
        (["model.attention=null"], [RATE], "model.attention.score: scaled_dot -> none"),
        ([], ["training.learning_rate=log(0.001,1)"],
         "--search training.learning_rate: log(0.001,0.1) -> log(0.001,1)"),
        ([], [RATE, CELLS], "--search model.cell: none -> gru,lstm"),
    ],
)  # fmt: skip
def test_another_search_is_refused_and_says_what_changed(
    sets: list[str], texts: list[str], message: str, trainer: Trainer, tmp_path: Path
) -> None:
    """In the same folder, and under the same name in a database."""
    storage = f"sqlite:///{tmp_path / 'shared.db'}"
    tuning.tune(wanted(tmp_path, RATE), tmp_path / "a", 1, storage=storage)
    other = wanted(tmp_path, *texts, sets=sets)
    for folder in ("a", "b"):
        with pytest.raises(UsageError) as refused:
            tuning.tune(other, tmp_path / folder, 2, storage=storage)
        assert message in str(refused.value)
        assert "Choose another --name" in str(refused.value)
    assert len(trainer.configs) == 1


def test_other_content_of_a_data_file_is_refused(trainer: Trainer, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    rows = [f"{k},{step},{k + step}" for k in range(12) for step in range(6)]
    file.write_text("\n".join(["sequence,step,x", *rows]))
    (tmp_path / "own.yaml").write_text(
        f"name: found\ndata: {{kind: file, path: {file}, source_length: 3}}\n"
    )

    def asked() -> Search:
        return plan_search(tmp_path / "own.yaml", ["training.epochs=2"], [RATE])

    tuning.tune(asked(), tmp_path, 1)
    file.write_text("\n".join(["sequence,step,x", *rows]).replace("0,0,0", "0,0,9"))
    with pytest.raises(UsageError, match="another search: SHA-256 of the data"):
        tuning.tune(asked(), tmp_path, 2)
    assert len(trainer.configs) == 1


@pytest.mark.parametrize(
    "values",
    [
        (1, True),
        (0, False, None),
        (1, 1.0, "1"),
        ("true", True),
        ({"a": 1}, '{"a": 1}'),
        ([1], 2.5),
    ],
)
def test_labels_of_values_are_storable_and_lead_back_to_them(values: tuple[Any, ...]) -> None:
    found = Range("key", "choice", values=values)
    assert len({json.dumps(label) for label in found.labels}) == len(values)
    for value, label in zip(values, found.labels, strict=True):
        assert label is None or isinstance(label, bool | int | float | str)
        back = found.value_of(json.loads(json.dumps(label)))
        assert (type(back), back) == (type(value), value)


def test_the_best_config_trains_to_the_best_loss(tmp_path: Path) -> None:
    found = tuning.tune(wanted(tmp_path, RATE, CELLS), tmp_path, 3, threads=1)
    config = resolve(found.path / "best.yaml").config
    _, summary = train_one(config, tmp_path / "alone", plots=False)
    assert summary["validation_loss"] == found.trials[0]["loss"]
    trained = resolve(found.path / f"trial-{found.trials[0]['trial']}" / "config.yaml").config
    assert trained.model_copy(update={"name": "found-best"}) == config


# --- what becomes of a trial --------------------------------------------------------------------


def test_a_combination_that_the_config_refuses_is_recorded_and_the_search_goes_on(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text(
        "name: found\nmodel: {kind: transformer, model_dim: 12}\n"
        "training: {teacher_forcing: {probability: 1}}\n"
    )
    sets = [word for text in SMALL for word in ("--set", text)]
    done = seqattn("tune", "c.yaml", *sets, "--search", "model.model_dim=8,12", "--search",
                   "model.heads=1,3", "--trials", "4", "--threads", "1")  # fmt: skip
    assert done.code == 0, done.err
    rows = rows_of(tmp_path / "outputs" / "found")
    (refused,) = [row for row in rows if row["state"] == "refused"]
    assert (refused["model.model_dim"], refused["model.heads"]) == ("8", "3")
    assert "heads" in refused["reason"]
    assert refused["validation_loss"] == ""
    assert "\n" not in refused["reason"]
    assert [row["state"] for row in rows].count("complete") == 3
    assert "1 refused" in done.out


def test_diverged_trials_are_recorded_with_their_sentence_and_the_table_is_there(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text("name: found\n")
    sets = [
        word
        for text in [*SMALL, "training.optimizer=sgd", "training.epochs=9"]
        for word in ("--set", text)
    ]
    done = seqattn("tune", "c.yaml", *sets, "--search", "training.learning_rate=90,100",
                   "--trials", "2", "--threads", "1")  # fmt: skip
    assert done.code == 2
    assert "no trial ended with a loss: 2 failed" in done.err
    assert "Traceback" not in done.err
    rows = rows_of(tmp_path / "outputs" / "found")
    assert [row["state"] for row in rows] == ["fail", "fail"]
    assert all("finite" in row["reason"] or "is nan" in row["reason"] or "is inf" in row["reason"]
               for row in rows)  # fmt: skip
    assert not (tmp_path / "outputs" / "found" / "best.yaml").exists()


@pytest.mark.parametrize(
    "error",
    [
        StorageError("found/trial-1: No space left on device."),
        OSError(errno.ENOSPC, "No space left on device", "found/trial-1"),
        FolderLockedError("found/trial-1: process 7 is writing there."),
    ],
)
def test_a_trial_that_the_disk_failed_is_tried_again(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer()
    monkeypatch.setattr(trials, "train_one", trainer)
    asked = wanted(tmp_path, RATE)
    tuning.tune(asked, tmp_path, 1)

    def fails(config: Config) -> float:
        raise error

    trainer.loss = fails
    with pytest.raises(type(error)):
        tuning.tune(asked, tmp_path, 2)
    assert [row["state"] for row in rows_of(tmp_path / "found")] == ["complete", "interrupted"]
    trainer.loss = lambda config: 0.5
    found = tuning.tune(asked, tmp_path, 2)
    values = {row["trial"]: row["values"] for row in found.trials}
    assert values[2] == values[1]
    assert [row["state"] for row in found.trials] == ["complete", "complete", "interrupted"]


# --- one search a folder --------------------------------------------------------------------------


def test_processes_that_share_a_database_leave_each_other_s_trials_alone(
    trainer: Trainer, tmp_path: Path
) -> None:
    asked, storage = wanted(tmp_path, CELLS), f"sqlite:///{tmp_path / 'shared.db'}"
    tuning.tune(asked, tmp_path / "a", 1, storage=storage)
    study = optuna.load_study(study_name="found", storage=storage)
    left = ({"gru", "lstm"} - {trial.params["model.cell"] for trial in study.trials}).pop()
    study.enqueue_trial({"model.cell": left})
    running = study.ask(trials.search_space(asked))  # by another process
    assert running.params == {"model.cell": left}
    messages = list[str]()
    tuning.tune(asked, tmp_path / "b", 2, storage=storage, message=messages.append)
    assert study.trials[1].state == optuna.trial.TrialState.RUNNING
    assert len(trainer.configs) == 1, "what another process tries is not tried a second time"
    assert "all 2 combinations have been tried" in messages[-1]
