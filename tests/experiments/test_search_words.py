"""What a search says of its keys, and when it ends a trial early."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from seqattn.config.searching import Search, plan_search
from seqattn.experiments import tuning
from seqattn.experiments.tuning import trials

pytestmark = pytest.mark.usefixtures("unsynced_databases")
SMALL = ["data.n_train=8", "data.n_validation=4", "data.n_test=4"]
RATE, WIDTH = "training.learning_rate=log(1e-3,1e-1)", "model.hidden_dim=uniform(2,6)"


def wanted(folder: Path, *texts: str, sets: tuple[str, ...] = (), epochs: int = 100) -> Search:
    (folder / "c.yaml").write_text(f"name: found\ntraining: {{epochs: {epochs}}}\n")
    return plan_search(folder / "c.yaml", [*SMALL, *sets], texts)


def pruners(asked: Search, folder: Path, count: int) -> Mapping[int, optuna.pruners.BasePruner]:
    """Epochs of a trial -> what could have ended it."""
    found = dict[int, optuna.pruners.BasePruner]()
    made, plain = list[optuna.pruners.BasePruner](), trials.build_pruner

    with pytest.MonkeyPatch.context() as patch:

        def watched(training, **named):  # type: ignore[no-untyped-def]
            made.append(plain(training, **named))
            found[training.epochs] = made[-1]
            return made[-1]

        patch.setattr(trials, "build_pruner", watched)
        tuning.tune(asked, folder, count, threads=1)
    return found


@pytest.mark.parametrize("section", ["training.learning_rate_schedule={kind: cosine}",
                                     "training.teacher_forcing={schedule: linear}"])  # fmt: skip
def test_trials_at_another_place_of_their_schedule_are_not_pruned(
    section: str, tmp_path: Path
) -> None:
    varied = pruners(wanted(tmp_path, "training.epochs=1,2", sets=(section,)), tmp_path, 2)
    assert {type(pruner) for pruner in varied.values()} == {optuna.pruners.NopPruner}
    alike = wanted(tmp_path, WIDTH, sets=(section, "training.epochs=1", "name=alike"))
    assert {type(p) for p in pruners(alike, tmp_path, 1).values()} == {optuna.pruners.MedianPruner}


def finished(asked: Search, folder: Path, count: int) -> trials.TuneResult:
    """A study whose trials ended with the losses of their learning rate."""
    folder.mkdir(exist_ok=True)
    study = trials.open_study(f"sqlite:///{folder / 'study.db'}", asked, {})
    for _ in range(count):
        trial = trials.start_trial(study, asked, lambda line: None)
        assert trial is not None
        trials.end(study, trial, TrialState.COMPLETE, trial.params["training.learning_rate"])
    return trials.write_search_results(study, asked, folder)


def test_few_trials_say_nothing_of_what_mattered(tmp_path: Path) -> None:
    asked, few = wanted(tmp_path, RATE, WIDTH), trials.MIN_TRIALS - 1
    found = finished(asked, tmp_path / "few", few)
    assert found.importance == {}
    assert found.no_importance.startswith(f"{few} trials ended with a loss. The importance")
    assert not (tmp_path / "few/importance.png").exists()
    found = finished(asked, tmp_path / "enough", few + 1)
    assert found.no_importance == ""
    assert found.importance["training.learning_rate"] > found.importance["model.hidden_dim"]
    assert (tmp_path / "enough/importance.png").is_file()
