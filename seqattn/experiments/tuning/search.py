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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.config.searching import Search
from seqattn.errors import UsageError, install_command
from seqattn.experiments import Callbacks, choose_device
from seqattn.experiments.tuning import manifest
from seqattn.runs.storage import exclusive_lock, folder_lock

if TYPE_CHECKING:
    import optuna

    from seqattn.experiments.tuning.results import TuneResult

LOCK_TIMEOUT_SECONDS = 60.0
"""Maximum time in seconds to wait for another process that writes the result files."""


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
        search: config and ranges.
        output_dir: parent of the search folder.
        count: number of ended trials after which no trial starts.
        storage: URL of a shared Optuna database; None for a file in the search folder.
        device, threads: see `train_many`.
        callbacks: progress callbacks for the epochs of all trials, and the stop signal.
        message: function that is called with a line for the user, such as the result of a trial.

    Raises:
        UsageError: if Optuna or a database driver is not installed, if the folder or the study
            contains another search, or if no trial ended with a loss.
        DataError: if the data files cannot be read or used.
        FolderLockedError: if another process searches in the folder.
        StorageError: if the database cannot be used, or if a write failed.
        Interrupted: on SIGINT or SIGTERM.
    """
    try:
        import optuna
    except ImportError:
        raise UsageError(f"seqattn tune needs Optuna: {install_command('tune')}") from None
    from seqattn.experiments.tuning import results, trial_loop

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    choose_device(device)
    path, identity = output_dir / search.name, manifest.search_identity(search)
    manifest.check_folder(path, identity)
    path.mkdir(parents=True, exist_ok=True)
    with (
        exclusive_lock(path) if storage is None else contextlib.nullcontext(),
        trial_loop.database_errors(),
    ):
        study = _open_study(search, path, identity, storage)
        loop = trial_loop.TrialLoop(
            study, search, path, device, threads, callbacks or Callbacks(), message
        )
        try:
            loop.run_trials(count)
        except BaseException:
            with contextlib.suppress(Exception), _shared_lock(path, storage):
                results.write_trials(study, search, path)
            raise
        with _shared_lock(path, storage):
            return results.write_search_results(study, search, path)


def _open_study(
    search: Search, path: Path, identity: Mapping[str, Any], storage: str | None
) -> optuna.Study:
    """Open the study, and write the manifest of the folder. Unless the database is shared, requeue
    the trials of killed processes.

    Raises:
        UsageError, StorageError: see `tune`.
    """
    from seqattn.experiments.tuning import trials

    with _shared_lock(path, storage):
        url = storage or f"sqlite:///{path / manifest.DATABASE}"
        study = trials.open_study(url, search, identity)
        manifest.write_manifest(path, identity, study.user_attrs[trials.SEARCH_ATTR])
    if storage is None:  # with a shared database, other processes may run these trials
        trials.requeue_killed(study, search)
    return study


def _shared_lock(path: Path, storage: str | None) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that locks the folder for a short write. If the database is not
    shared, the context manager does nothing, because `tune` has already locked the folder."""
    return contextlib.nullcontext() if storage is None else folder_lock(path, LOCK_TIMEOUT_SECONDS)
