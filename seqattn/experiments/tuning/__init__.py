"""Searching for the values that learn best, with Optuna.

outputs/NAME/
  tune.json         what is searched, in which config: it makes the folder this search's
  study.db          every trial, in SQLite, unless another storage is given
  trial-K/          an ordinary run folder for each
  trials.csv        a row a trial
  importance.png    how much of the difference each key explains, from enough trials
  best.yaml         the best trial's config, which trains again

Trials are judged by their best validation loss; the test part is left alone. A trial that does
worse at some epoch than the median of the others did is stopped there, from a fifth of its epochs
on; see `trials.pruner_of`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.config import OwnFile, leaves, upgrade_stored
from seqattn.config.searching import Range, Search
from seqattn.data import load
from seqattn.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    FolderLockedError,
    Interrupted,
    NonFiniteError,
    StorageError,
    UsageError,
)
from seqattn.experiments import Callbacks, choose_device, train_one
from seqattn.runs import SEARCH, EpochRecord, RunFolder, read_search
from seqattn.runs.storage import LOCK_NAME, TMP_SUFFIX, exclusive_lock, folder_lock, write_json
from seqattn.training.compatibility import MUTABLE_ON_RESUME

if TYPE_CHECKING:
    import optuna

    from seqattn.experiments.tuning.results import TuneResult

MARK = SEARCH
DATABASE = "study.db"
INSTALL = 'seqattn tune needs Optuna: pip install "seqattn[tune]"'
PATIENCE = 60.0
"""Seconds to wait for another process of the same search that writes its tables."""


def tune(
    wanted: Search,
    output_dir: Path,
    count: int,
    *,
    storage: str | None = None,
    device: str = "cpu",
    threads: int | None = None,
    callbacks: Callbacks | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> TuneResult:
    """Search until there are `count` trials in the study, those of before and of other machines
    counted, or every combination of values is tried. A trial that is interrupted is tried again,
    under another number, and counts once.

    Args:
        storage: a database URL of Optuna's, for several processes or machines; None: a file in the
            folder, for one process at a time.
        say: told of each trial that ended.

    Raises:
        UsageError: Optuna or a database's driver is missing, or the folder or the study is another
            search's.
        DataError: files that cannot be used.
        FolderLockedError: another process searches in the folder.
        StorageError: the database cannot be reached, or the disk refused; the trial that it struck
            is tried again.
        Interrupted: SIGINT or SIGTERM.
    """
    try:
        import optuna
    except ImportError:
        raise UsageError(INSTALL) from None
    from seqattn.experiments.tuning import results, trials

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    choose_device(device)
    path, about = output_dir / wanted.name, _about(wanted)
    _refuse_another(path, about)
    path.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(path) if storage is None else contextlib.nullcontext(), _database_errors():
        with contextlib.nullcontext() if storage is None else folder_lock(path, PATIENCE):
            study = trials.open_study(storage or f"sqlite:///{path / DATABASE}", wanted, about)
            _write_mark(path, about, study.user_attrs[trials.SEARCH])
        if storage is None:  # else another process may be at them
            trials.queue_killed(study, wanted)
        try:
            _Searching(study, wanted, path, device, threads, callbacks or Callbacks(), say).on(
                count
            )
        except BaseException:
            with contextlib.suppress(Exception), _tables(path, storage):
                results.write_trials(study, wanted, path)
            raise
        with _tables(path, storage):
            return results.conclude(study, wanted, path)


def _tables(path: Path, storage: str | None) -> contextlib.AbstractContextManager[None]:
    """Processes that share a database and a folder write its tables in turn, each from all that is
    known by then."""
    return contextlib.nullcontext() if storage is None else folder_lock(path, PATIENCE)


@dataclass(frozen=True)
class _Searching:
    """A search and whom it tells; `on` goes on with it."""

    study: optuna.Study
    wanted: Search
    path: Path
    device: str
    threads: int | None
    callbacks: Callbacks
    say: Callable[[str], None]

    def on(self, count: int) -> None:
        """Until `count` trials have ended, or nothing is left to try.

        Raises:
            SeqattnError: as `tune`.
        """
        from seqattn.experiments.tuning import trials

        done, epochs = trials.count(self.study, self.wanted), self.wanted.epochs
        most = max(int(min(count, self.wanted.size)), done)
        self.callbacks.begin(done * epochs, most * epochs)
        while trials.count(self.study, self.wanted) < count:
            if number := self.callbacks.stop():
                raise Interrupted(number, f"{self.path}: the same command goes on.")
            trial = trials.begin(
                self.study, self.wanted,
                lambda k: RunFolder(self.path / f"trial-{k}").is_available, self.say,
            )  # fmt: skip
            if trial is None:
                self.say(f"{self.path}: all {self.wanted.size} combinations are tried.")
                return
            self._try(trial)

    def _try(self, trial: optuna.Trial) -> None:
        """Train a trial, and record what became of it."""
        import optuna

        from seqattn.experiments.tuning import trials

        name, values = f"trial-{trial.number}", trials.values_of(trial, self.wanted)
        said = trials.as_text(values)
        try:
            loss = self._train(trial, name, values)
            trials.complete(self.study, trial, loss)
            self.say(f"{name}: {loss:.4g} with {said}")
        except optuna.TrialPruned:
            trials.prune(self.study, trial)
        except (ConfigError, UsageError, DataError, NonFiniteError) as error:
            refused, reason = not isinstance(error, NonFiniteError), _sentence(error)
            trials.fail(self.study, trial, reason, refused=refused)
            self.say(f"{name}: {'refused' if refused else 'failed'} with {said}: {reason}")
        except optuna.exceptions.UpdateFinishedTrialError:
            self.say(f"{name}: was ended by another process; its run is kept")
        except Interrupted as stopped:
            self._queue_again(trial)
            raise Interrupted(
                stopped.exit_code - 128, f"in {self.path / name}; the same command goes on, and"
                " tries its values again.",
            ) from None  # fmt: skip
        except (StorageError, OSError, FolderLockedError) as error:
            # On a full disk nothing can be queued: then the trial is found as one that was killed.
            with contextlib.suppress(Exception):
                self._queue_again(trial)
            if isinstance(error, StorageError):
                again = "Of a search, the same command goes on, and tries its values again."
                raise StorageError(f"{error} {again}") from None
            raise

    def _queue_again(self, trial: optuna.Trial) -> None:
        from seqattn.experiments.tuning import trials

        trials.queue_again(self.study, self.wanted, self.study.trials[trial.number])

    def _train(self, trial: optuna.Trial, name: str, values: Mapping[str, Any]) -> float:
        """Its best validation loss."""
        import optuna

        from seqattn.experiments.tuning import trials

        config = self.wanted.config(values)
        self.study.pruner = trials.pruner_of(config.training, epochs_vary=self.wanted.varies_epochs)

        def epoch(record: EpochRecord) -> None:
            self.callbacks.epoch(record)
            trial.report(record.validation_loss, record.epoch)
            if trial.should_prune():
                self.say(f"{name}: pruned after epoch {record.epoch}, at"
                         f" {record.validation_loss:.4g}")  # fmt: skip
                raise optuna.TrialPruned

        _, summary = train_one(
            config.model_copy(update={"name": name}), self.path,
            device=self.device, threads=self.threads, plots=False,
            callbacks=replace(self.callbacks, begin=lambda done, epochs: None, epoch=epoch,
                             message=lambda line: None, facts=lambda facts: None),
        )  # fmt: skip
        return float(summary["validation_loss"])


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())


# --- whose folder it is ---------------------------------------------------------------------------


def _about(wanted: Search) -> dict[str, Any]:
    """What makes it this search and no other: config, ranges, and SHA-256 of the data files.

    Raises:
        DataError: they cannot be used.
    """
    about = wanted.as_plain()
    config = {key: value for key, value in about["config"].items()
              if key not in MUTABLE_ON_RESUME or key == "training.epochs"}  # fmt: skip
    data = wanted.base.data  # no file can be searched
    digests = list(load(data).digests) if isinstance(data, OwnFile) else []
    plain: dict[str, Any] = json.loads(json.dumps({**about, "config": config, "data": digests}))
    return plain


def _refuse_another(path: Path, about: Mapping[str, Any]) -> dict[str, Any] | None:
    """A folder that holds anything but this search is not touched.

    Returns:
        what its mark says; None: it is free.

    Raises:
        UsageError: it is another's.
    """
    ours = {LOCK_NAME, DATABASE, f"{DATABASE}-journal"}  # of a process that was killed at once
    if not path.exists() or all(
        file.name in ours or file.name.endswith(TMP_SUFFIX) for file in path.iterdir()
    ):
        return None
    try:
        before = read_search(path / MARK)
    except CheckpointError:
        raise UsageError(
            f"{path}: is there already, and is not the folder of a search (no readable {MARK}), so"
            " nothing in it is touched. Choose another --name."
        ) from None
    _refuse_changed(before, about, str(path))
    return before


def _write_mark(path: Path, about: Mapping[str, Any], of_study: Mapping[str, Any]) -> None:
    """Make the folder this study's.

    Raises:
        UsageError: the study is of another search, or the folder of another study.
    """
    before = _refuse_another(path, about)  # again: now it is ours
    _refuse_changed(of_study, about, f"the study {path.name} in that database")
    if before is None:
        write_json(path / MARK, of_study)
    elif before.get("study") != of_study["study"]:
        raise UsageError(
            f"{path}: the trials there are of another study than the one in the database. Nothing"
            " in it is touched. Name its own --storage, or choose another --name."
        )


def _refuse_changed(before: Mapping[str, Any], now: Mapping[str, Any], place: str) -> None:
    """
    Raises:
        UsageError: what was searched before is not what is searched now; with each key.
    """
    if not before.keys() >= {"config", "ranges", "data"}:
        raise UsageError(
            f"{place}: is a search of an older version, which does not say of which config. Nothing"
            " in it is touched. Choose another --name."
        )
    stored = _stored_now(before["config"], now["config"], place)
    changed = [*_changes(stored, now["config"], ""),
               *_changes(_texts(before["ranges"]), _texts(now["ranges"]), "--search ")]  # fmt: skip
    if before["data"] != now["data"]:
        changed.append("the data files have another content")
    if changed:
        raise UsageError(
            f"{place}: holds another search: {'; '.join(changed)}. Nothing in it is touched. Choose"
            " another --name."
        )


def _stored_now(before: Mapping[str, Any], now: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The config of a search, dotted path -> value, with the keys that have come since."""
    content: dict[str, Any] = {}
    for dotted, value in before.items():
        *sections, key = dotted.split(".")
        section = content
        for name in sections:
            section = section.setdefault(name, {})
        section[key] = value
    found = {".".join(at): value for at, value in leaves(upgrade_stored(content, place))}
    return {key: value for key, value in found.items() if key in before or key in now}


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """`key: old -> new` of each that is not the same."""
    for key in sorted(before.keys() | now.keys()):
        if key not in before or key not in now or before[key] != now[key]:
            old, new = ("none" if found.get(key) is None else found[key] for found in (before, now))
            yield f"{prefix}{key}: {old} -> {new}"


def _texts(ranges: list[Mapping[str, Any]]) -> dict[str, str]:
    try:
        return {each["path"]: Range(**each).as_text() for each in ranges}
    except (TypeError, KeyError, ValueError):
        return {"": "cannot be read"}


@contextlib.contextmanager
def _database_errors() -> Iterator[None]:
    """
    Raises:
        StorageError: instead of what Optuna and SQLAlchemy raise.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise StorageError(f"the study's database cannot be used: {first}") from None
