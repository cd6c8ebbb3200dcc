"""What a search must notice between its parts: plugins that change between two calls, epochs that
few trials reached, and losses that do not differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from optuna.trial import TrialState

from seqattn.config.knobs.plugins import Plugin
from seqattn.config.searching import Search, plan_search
from seqattn.errors import UsageError
from seqattn.experiments.tuning import manifest, results, trials

pytestmark = pytest.mark.usefixtures("unsynced_databases")
SMALL = ["data.n_train=8", "data.n_validation=4", "data.n_test=4"]
RATE, WIDTH = "training.learning_rate=log(1e-3,1e-1)", "model.hidden_dim=uniform(2,6)"


def wanted(folder: Path, *texts: str, sets: tuple[str, ...] = ()) -> Search:
    (folder / "c.yaml").write_text("name: found\n")
    return plan_search(folder / "c.yaml", [*SMALL, *sets], texts)


# --- plugins ----------------------------------------------------------------------------------


def with_plugin(search: Search, path: str, digit: str) -> Search:
    plugin = Plugin(path=path, sha256=digit * 64)
    return replace(search, base=search.base.model_copy(update={"plugins": [plugin]}))


def test_a_search_does_not_continue_with_a_changed_plugin(tmp_path: Path) -> None:
    asked, folder = wanted(tmp_path, RATE), tmp_path / "found"
    before = manifest.search_identity(with_plugin(asked, "/a/my.py", "1"))
    folder.mkdir()
    manifest.write_manifest(folder, before, {"study": "1", **before})
    changed = manifest.search_identity(with_plugin(asked, "/a/my.py", "2"))
    with pytest.raises(UsageError) as caught:
        manifest.check_folder(folder, changed)
    assert f"SHA-256 of plugin my.py: {'1' * 64} -> {'2' * 64}" in str(caught.value)
    with pytest.raises(UsageError, match=f"plugin my.py: {'1' * 64} -> none"):
        manifest.check_folder(folder, manifest.search_identity(asked))
    (folder / "tune.json").write_text(json.dumps({"study": "1", **before, "plugins": 5}))
    with pytest.raises(UsageError, match="the stored digests of the plugins cannot be read"):
        manifest.check_folder(folder, before)
    (folder / "tune.json").write_text(json.dumps({"study": "1", **before}))
    for path in ("/b/my.py", "/a/renamed.py"):  # the same content at another place
        same = manifest.search_identity(with_plugin(asked, path, "1"))
        assert manifest.check_folder(folder, same) is not None


def test_a_search_of_an_earlier_version_continues_whatever_its_plugins(tmp_path: Path) -> None:
    asked, folder = wanted(tmp_path, RATE), tmp_path / "found"
    now = manifest.search_identity(with_plugin(asked, "/a/my.py", "1"))
    stored = {key: value for key, value in now.items() if key != "plugins"}
    folder.mkdir()
    (folder / "tune.json").write_text(json.dumps({"study": "1", **stored}))
    assert manifest.check_folder(folder, now) is not None


# --- the importance of keys -------------------------------------------------------------------


def finished(search: Search, folder: Path, loss: Callable[[float], float]) -> results.TuneResult:
    """Write the results of trials whose loss depends on the learning rate only."""
    folder.mkdir()
    study = trials.open_study(f"sqlite:///{folder / 'study.db'}", search, {})
    for _ in range(results.MIN_TRIALS):
        trial = trials.start_trial(study, search, lambda number: True, lambda line: None)
        assert trial is not None
        rate = trial.params["training.learning_rate"]
        trials.end(study, trial, TrialState.COMPLETE, loss(rate))
    return results.write_search_results(study, search, folder)


def test_keys_without_effect_have_no_importance(tmp_path: Path) -> None:
    asked = wanted(tmp_path, RATE, WIDTH)
    found = finished(asked, tmp_path / "equal", lambda rate: 0.5)
    assert found.importance == {}
    assert found.no_importance.startswith("The trials differ too little")
    assert not (tmp_path / "equal/importance.png").exists()
    found = finished(asked, tmp_path / "different", lambda rate: rate)
    assert sum(found.importance.values()) == pytest.approx(1)
    assert list(found.importance) == ["training.learning_rate", "model.hidden_dim"]
