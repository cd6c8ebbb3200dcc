"""A search with Optuna for the config values that give the lowest validation loss.

A search folder outputs/NAME/ has these files and folders:

  tune.json         the manifest: config, ranges, digests of data and plugins, id of the study
  study.db          all trials, in SQLite, unless another storage is given
  trial-K/          the run folder of trial K
  trials.csv        one row for each trial
  importance.png    the importance of each key, if it can be computed
  best.yaml         the config of the best trial, ready for training

Trials are compared by their best validation loss, never by their test loss. A trial can be pruned
if its lowest validation loss is above the median of the complete trials; see
`trials.build_pruner`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.config import FromFiles
from seqattn.config.searching import Search
from seqattn.data import load_data
from seqattn.errors import CheckpointError, StorageError, UsageError, install_command
from seqattn.experiments import Callbacks, choose_device
from seqattn.runs import SEARCH as MANIFEST_NAME
from seqattn.runs import read_search
from seqattn.runs.storage import LOCK_NAME, TMP_SUFFIX, exclusive_lock, folder_lock, write_json
from seqattn.training.checkpoints import MUTABLE_ON_RESUME

if TYPE_CHECKING:
    from seqattn.experiments.tuning.trials import TuneResult

LOCK_TIMEOUT = 60.0
"""Maximum time in seconds to wait for another process that writes the result files."""
DATABASE = "study.db"


def tune(
    search: Search,
    output_dir: Path,
    count: int,
    *,
    storage: str | None = None,
    device: str = "cpu",
    threads: int | None = None,
    callbacks: Callbacks | None = None,
    message: Callable[[str], None] = lambda line: None,
) -> TuneResult:
    """Run trials until `count` trials have ended, or until all combinations have been tried.

    The number `count` includes the trials of earlier calls and of other machines. An interrupted
    trial is repeated under a new number and counts only once.

    Args:
        count: number of ended trials after which no trial starts.
        storage: URL of a shared Optuna database; None for a file in the search folder.
        device, threads: see `train_many`.
        callbacks: progress callbacks for the epochs of all trials, and the stop signal.
        message: function that is called with a line for the user, such as the result of a trial.

    Raises:
        UsageError: if Optuna is not installed.
        StorageError: if the database cannot be used, or if a write failed.
        Interrupted: on SIGINT or SIGTERM.
    """
    try:
        import optuna
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        raise UsageError(f"seqattn tune needs Optuna: {install_command('tune')}") from None
    from seqattn.experiments.tuning import trials

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    choose_device(device)
    path, identity = output_dir / search.name, search_identity(search)
    check_folder(path)
    path.mkdir(parents=True, exist_ok=True)

    def write_lock() -> contextlib.AbstractContextManager[None]:
        # Without a shared database, this process holds the lock during the whole search.
        return contextlib.nullcontext() if storage is None else folder_lock(path, LOCK_TIMEOUT)

    try:
        with exclusive_lock(path) if storage is None else contextlib.nullcontext():
            with write_lock():
                url = storage or f"sqlite:///{path / DATABASE}"
                study = trials.open_study(url, search, identity)
                write_manifest(path, identity, study.user_attrs[trials.SEARCH_ATTR])
            if storage is None:  # with a shared database, other processes may run these trials
                trials.requeue_killed(study, search)
            loop = trials.TrialLoop(
                study, search, path, device, threads, callbacks or Callbacks(), message
            )
            try:
                loop.run_trials(count)
            except BaseException:
                with contextlib.suppress(Exception), write_lock():
                    trials.write_trials(study, search, path)
                raise
            with write_lock():
                return trials.write_search_results(study, search, path)
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise StorageError(f"the study's database cannot be used: {first_line}") from None


# --- the manifest, which prevents two different searches from sharing a folder or a study ---------


def search_identity(search: Search) -> dict[str, Any]:
    """Return the values that all calls of one search have in common, by name: the values of the
    config, the ranges, the digests of the data, and the digest of each plugin."""
    changeable = {*MUTABLE_ON_RESUME, "plugins"} - {"training.epochs"}
    shared = search.shared_values()
    identity = {key: value for key, value in shared.items() if key not in changeable}
    for param_range in search.ranges:
        identity[f"--search {param_range.path}"] = param_range.as_text()
    section = search.base.data  # the keys of data files cannot be searched
    if isinstance(section, FromFiles):
        identity["SHA-256 of the data"] = list(load_data(section).digests)
    digests = sorted(str(plugin.sha256) for plugin in search.base.plugins)
    if digests:
        identity["SHA-256 of the plugins"] = digests
    found: dict[str, Any] = json.loads(json.dumps(identity))
    return found


def check_folder(path: Path) -> dict[str, Any] | None:
    """Return the manifest of a search folder, or None if the folder is free.

    Raises:
        UsageError: if the folder contains anything other than a search.
    """
    leftovers = {LOCK_NAME, DATABASE, f"{DATABASE}-journal"}  # files of a killed process
    if not path.exists() or all(
        file.name in leftovers or file.name.endswith(TMP_SUFFIX) for file in path.iterdir()
    ):
        return None
    try:
        return read_search(path / MANIFEST_NAME)
    except CheckpointError:
        raise UsageError(
            f"{path}: exists and is not the folder of a search (no readable {MANIFEST_NAME})."
            " Choose another --name."
        ) from None


def write_manifest(path: Path, identity: Mapping[str, Any], study: Mapping[str, Any]) -> None:
    """Check that the folder and the study belong to this search, and write the manifest if the
    folder is free.

    Args:
        identity: see `search_identity`.
        study: the identity that the study stores, with the id of the study under "study".

    Raises:
        UsageError: if the study contains another search, or the folder belongs to another study.
    """
    manifest = check_folder(path)  # the folder was not locked during the first check
    changes = [
        f"{key}: {study.get(key, 'none')} -> {identity.get(key, 'none')}"
        for key in sorted((study.keys() | identity.keys()) - {"study"})
        if study.get(key, ...) != identity.get(key, ...)
    ]
    if manifest is not None and manifest.get("study") != study["study"]:
        changes.insert(0, "the study of the folder is not in this --storage")
    if changes:
        raise UsageError(
            f"{path}: contains another search: {'; '.join(changes)}. Choose another --name."
        )
    if manifest is None:
        write_json(path / MANIFEST_NAME, study)
