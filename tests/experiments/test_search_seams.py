"""What a search must notice between its parts: plugins that change between two calls, epochs that
few trials reached, and losses that do not differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from seqattn.config import Plugin, Training
from seqattn.config.searching import Search
from seqattn.errors import UsageError
from seqattn.experiments.tuning import search as search_module
from seqattn.experiments.tuning import trials
from tests.experiments.test_search_words import RATE, WIDTH, wanted

pytestmark = pytest.mark.usefixtures("unsynced_databases")


# --- plugins ----------------------------------------------------------------------------------


def with_plugin(search: Search, path: str, digit: str) -> Search:
    plugin = Plugin(path=path, sha256=digit * 64)
    return replace(search, base=search.base.model_copy(update={"plugins": [plugin]}))


def test_a_search_does_not_continue_with_a_changed_plugin(tmp_path: Path) -> None:
    asked, folder = wanted(tmp_path, RATE), tmp_path / "found"
    before = search_module.search_identity(with_plugin(asked, "/a/my.py", "1"))
    folder.mkdir()
    stored = {"study": "1", **before}
    search_module.write_manifest(folder, before, stored)
    changed = search_module.search_identity(with_plugin(asked, "/a/my.py", "2"))
    with pytest.raises(UsageError) as caught:
        search_module.write_manifest(folder, changed, stored)
    assert f"SHA-256 of the plugins: ['{'1' * 64}'] -> ['{'2' * 64}']" in str(caught.value)
    with pytest.raises(UsageError, match="SHA-256 of the plugins: .* -> none"):
        search_module.write_manifest(folder, search_module.search_identity(asked), stored)
    with pytest.raises(UsageError, match="the study of the folder is not in this --storage"):
        search_module.write_manifest(folder, before, {**stored, "study": "2"})
    for path in ("/b/my.py", "/a/renamed.py"):  # the same content at another place
        same = search_module.search_identity(with_plugin(asked, path, "1"))
        search_module.write_manifest(folder, same, stored)


# --- the importance of keys -------------------------------------------------------------------


def finished(search: Search, folder: Path, loss: Callable[[float], float]) -> trials.TuneResult:
    """Write the results of trials whose loss depends on the learning rate only."""
    folder.mkdir()
    study = trials.open_study(f"sqlite:///{folder / 'study.db'}", search, {})
    for _ in range(trials.MIN_TRIALS):
        trial = trials.start_trial(study, search, lambda line: None)
        assert trial is not None
        rate = trial.params["training.learning_rate"]
        trials.end(study, trial, TrialState.COMPLETE, loss(rate))
    return trials.write_search_results(study, search, folder)


def test_keys_without_effect_have_no_importance(tmp_path: Path) -> None:
    asked = wanted(tmp_path, RATE, WIDTH)
    found = finished(asked, tmp_path / "equal", lambda rate: 0.5)
    assert found.importance == {}
    assert found.no_importance.startswith("The trials differ too little")
    assert not (tmp_path / "equal/importance.png").exists()
    found = finished(asked, tmp_path / "different", lambda rate: rate)
    assert sum(found.importance.values()) == pytest.approx(1)
    assert list(found.importance) == ["training.learning_rate", "model.hidden_dim"]


# --- trials that stop early -------------------------------------------------------------------


def pruned_after(earlier: list[tuple[int, float]], epochs: int, loss: float) -> int | None:
    """Return the epoch after which a trial is pruned.

    Args:
        earlier: the numbers of epochs and the losses of the complete trials.
        epochs: number of epochs of the trial.
        loss: its loss in each epoch.
    """
    pruner = trials.build_pruner(Training(epochs=epochs), varies_epochs=False)
    study = optuna.create_study(pruner=pruner)
    for count, value in earlier:
        trial = study.ask()
        for epoch in range(1, count + 1):
            trial.report(value, epoch)
        study.tell(trial, value)
    trial = study.ask()
    for epoch in range(1, epochs + 1):
        trial.report(loss, epoch)
        if trial.should_prune():
            return epoch
    return None


def test_the_median_is_of_at_least_five_trials_that_reached_the_epoch() -> None:
    assert pruned_after([(10, 0.9)] * 4 + [(40, 0.1)], 40, 0.5) is None
    assert pruned_after([(10, 0.9)] * 4 + [(40, 0.1)] * 4, 40, 0.5) is None
    assert pruned_after([(10, 0.9)] * 5 + [(40, 0.1)] * 5, 40, 0.5) == 11
    assert pruned_after([(40, 0.1)] * 5, 40, 0.5) == 8


@pytest.mark.parametrize(("epochs", "first"), [(3, 2), (9, 2), (10, 2), (14, 3), (19, 4), (20, 4)])
def test_a_fifth_of_the_epochs_is_rounded_up(epochs: int, first: int) -> None:
    assert pruned_after([(epochs, 0.1)] * 5, epochs, 1.0) == first


@pytest.mark.parametrize(
    ("text", "varies"),
    [
        ("training.epochs=3,6", True),
        ("training.epochs=uniform(3,6)", True),
        ("training={epochs: 3},{epochs: 6}", True),
        ("training.learning_rate_schedule={kind: none},{kind: cosine}", False),
        (RATE, False),
    ],
)
def test_trials_have_one_number_of_epochs_unless_it_is_searched(
    text: str, varies: bool, tmp_path: Path
) -> None:
    assert wanted(tmp_path, text).varies_epochs is varies
