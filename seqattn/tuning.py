"""Searching for the values that learn best, with Optuna.

outputs/NAME/
  tune.json         what is searched
  study.db          every trial, in SQLite, unless another storage is given
  trial-K/          an ordinary run folder for each
  trials.csv        a row a trial
  importance.png    how much of the difference each key explains
  best.yaml         the best trial's config, which trains again

Trials are judged by their best validation loss; the test part is left alone. A trial that does
worse at some epoch than the median of the others did is stopped there.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqattn.config import to_yaml
from seqattn.config.searching import Range, Search
from seqattn.errors import CheckpointError, NotFiniteError, Stopped, StorageError, UsageError
from seqattn.experiment import Watchers, run
from seqattn.figures import as_bytes, importance_figure
from seqattn.run_files import read_search
from seqattn.runs import EpochRecord, RunFolder
from seqattn.storage import write_json, write_whole

if TYPE_CHECKING:
    import optuna

MARK = "tune.json"
INSTALL = 'seqattn tune needs Optuna: pip install "seqattn[tune]"'
STARTUP = 5
"""Trials that are left to end, for the others to be held against."""
AGAIN = "again"
"""What a queued trial is of: the number of one that was interrupted."""


@dataclass(frozen=True)
class Tuned:
    """What came of a search.

    Attributes:
        path: its folder.
        trials: finished, pruned, failed and interrupted ones, the best first: number, state, loss,
            values and epochs.
        importance: key -> share of the difference between good and other trials; empty where fewer
            than four trials finished.
        best: values of the best trial.
    """

    path: Path
    trials: list[dict[str, Any]]
    importance: dict[str, float]
    best: dict[str, Any]


def tune(
    wanted: Search,
    output_dir: Path,
    trials: int,
    *,
    storage: str | None = None,
    device: str = "cpu",
    threads: int | None = None,
    watchers: Watchers | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Tuned:
    """Search until there are `trials` trials in the study, those of before and of other machines
    counted. A trial that is interrupted is tried again, under another number, and counts once.

    Args:
        storage: a database URL of Optuna's, for several machines; None: a file in the folder.
        say: told of each trial that ended.

    Raises:
        UsageError: Optuna or a database's driver is missing, or the folder is another search's.
        StorageError: the database cannot be reached.
        Stopped: told to.
    """
    try:
        import optuna
    except ImportError:
        raise UsageError(INSTALL) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = output_dir / wanted.name
    _refuse_another(path, wanted)
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / MARK, wanted.as_plain())
    try:
        study = _study(storage or f"sqlite:///{path / 'study.db'}", wanted)
        if storage is None:  # else another machine may be at it
            _again(study)
        told = watchers or Watchers()
        done = _count(study)
        told.begin(done * wanted.epochs, max(trials, done) * wanted.epochs)

        def objective(trial: optuna.Trial) -> float:
            return _trial(trial, wanted, path, device, threads, told, say)

        if done < trials:
            study.optimize(
                objective, catch=(NotFiniteError,),
                callbacks=[lambda study, _: study.stop() if _count(study) >= trials else None],
            )  # fmt: skip
    except (optuna.exceptions.StorageInternalError, _database_error()) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise StorageError(f"the study's database cannot be used: {first}") from None
    return _conclude(study, wanted, path)


def _study(storage: str, wanted: Search) -> optuna.Study:
    import optuna

    warmup = max(2, wanted.epochs // 5)
    try:
        return optuna.create_study(
            storage=storage, study_name=wanted.name, load_if_exists=True, direction="minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=warmup),
        )  # fmt: skip
    except ImportError:
        kind = storage.partition(":")[0]
        raise UsageError(
            f"--storage {kind}: needs a driver that is not installed; SQLAlchemy's page on {kind}"
            " names those there are."
        ) from None


def _sampler(wanted: Search, number: int) -> optuna.samplers.TPESampler:
    """A trial's own: its numbers are a function of seed and trial, so neither a second start nor
    another machine tries what was tried."""
    import optuna

    (seed,) = np.random.SeedSequence([wanted.seed, number]).generate_state(1)
    return optuna.samplers.TPESampler(seed=int(seed))


def _trial(
    trial: optuna.Trial, wanted: Search, path: Path, device: str, threads: int | None,
    told: Watchers, say: Callable[[str], None],
) -> float:  # fmt: skip
    import optuna

    trial.study.sampler = _sampler(wanted, trial.number)
    values = {each.path: _suggested(trial, each) for each in wanted.ranges}
    name = f"trial-{trial.number}"
    config = wanted.config(values).model_copy(update={"name": name})

    def epoch(record: EpochRecord) -> None:
        told.epoch(record)
        trial.report(record.validation_loss, record.epoch)
        if trial.should_prune():
            say(f"{name}: pruned after epoch {record.epoch}, at {record.validation_loss:.4g}")
            raise optuna.TrialPruned

    try:
        _, summary = run(
            config, path, device=device, threads=threads, overwrite=RunFolder(path / name).is_run,
            watchers=replace(told, begin=lambda done, epochs: None, epoch=epoch,
                             say=lambda line: None, facts=lambda facts: None), plots=False,
        )  # fmt: skip
    except Stopped as stopped:
        _enqueue(trial.study, trial)
        raise Stopped(
            stopped.exit_code - 128, f"in {path / name}; the same command goes on, and tries its"
            " values again.",
        ) from None  # fmt: skip
    trial.set_user_attr("epochs", summary["epochs"])
    loss = float(summary["validation_loss"])
    said = ", ".join(f"{key}={_short(value)}" for key, value in values.items())
    say(f"{name}: {loss:.4g} with {said}")
    return loss


def _suggested(trial: optuna.Trial, each: Range) -> Any:
    if each.kind == "choice":
        place = trial.suggest_categorical(each.path, range(len(each.values)))
        return each.values[place]
    if each.whole:
        return trial.suggest_int(each.path, int(each.low), int(each.high), log=each.kind == "log")
    return trial.suggest_float(each.path, each.low, each.high, log=each.kind == "log")


def _value(each: Range, said: Any) -> Any:
    return each.values[said] if each.kind == "choice" else said


def _ended() -> tuple[Any, ...]:
    from optuna.trial import TrialState

    return (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def _count(study: optuna.Study) -> int:
    """Trials that have ended by themselves."""
    again = _tried_again(study)
    ended = study.get_trials(deepcopy=False, states=_ended())
    return sum(trial.number not in again for trial in ended)


def _tried_again(study: optuna.Study) -> set[int]:
    """Numbers of the trials that were interrupted and have been queued again."""
    found = (trial.user_attrs.get(AGAIN) for trial in study.get_trials(deepcopy=False))
    return {number for number in found if number is not None}


def _enqueue(study: optuna.Study, trial: optuna.Trial | optuna.trial.FrozenTrial) -> None:
    study.enqueue_trial(trial.params, user_attrs={AGAIN: trial.number})


def _again(study: optuna.Study) -> None:
    """Try again what a killed process was at."""
    from optuna.trial import TrialState

    queued = _tried_again(study)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if trial.number not in queued:
            _enqueue(study, trial)
        study.tell(trial.number, state=TrialState.FAIL)


def _conclude(study: optuna.Study, wanted: Search, path: Path) -> Tuned:
    from optuna.trial import TrialState

    rows, again = list[dict[str, Any]](), _tried_again(study)
    for trial in study.get_trials(deepcopy=False, states=_ended()):
        values = {each.path: _value(each, trial.params[each.path])
                  for each in wanted.ranges if each.path in trial.params}  # fmt: skip
        whole = trial.state == TrialState.COMPLETE
        loss = trial.value if whole else min(trial.intermediate_values.values(), default=None)
        state = "interrupted" if trial.number in again else trial.state.name.lower()
        rows.append({"trial": trial.number, "state": state, "loss": loss,
                     "epochs": len(trial.intermediate_values), "values": values})  # fmt: skip
    rows.sort(key=lambda row: (row["state"] != "complete",
                               float("inf") if row["loss"] is None else row["loss"]))  # fmt: skip
    if not rows or rows[0]["state"] != "complete":
        raise UsageError(f"{path}: no trial has ended with a finite loss. Try other ranges.")
    write_whole(path / "trials.csv", _csv(rows, wanted))
    best = dict[str, Any](rows[0]["values"])
    config = wanted.config(best).model_copy(update={"name": f"{wanted.name}-best"})
    write_whole(path / "best.yaml", to_yaml(config).encode())
    importance = _importance(study)
    if importance:
        figure = importance_figure(importance, f"{wanted.name}: what made the difference")
        write_whole(path / "importance.png", as_bytes(figure))
    return Tuned(path, rows, importance, best)


def _importance(study: optuna.Study) -> dict[str, float]:
    import optuna

    whole = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    if len(whole) < 4:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Optuna, about what is experimental
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
        try:
            return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))
        except (ValueError, RuntimeError):  # all trials alike
            return {}


def _csv(rows: list[dict[str, Any]], wanted: Search) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [each.path for each in wanted.ranges]
    writer.writerow(["trial", "state", "validation_loss", "epochs", *keys])
    for row in rows:
        values = [row["values"].get(key) for key in keys]
        writer.writerow([row["trial"], row["state"], row["loss"], row["epochs"], *values])
    return text.getvalue().encode()


def _refuse_another(path: Path, wanted: Search) -> None:
    """A folder that holds anything but this search is not touched."""
    if not path.exists() or not any(path.iterdir()):
        return
    try:
        before = read_search(path / MARK)
    except CheckpointError:
        raise UsageError(
            f"{path}: is there already, and is not the folder of a search (no readable {MARK}), so"
            " nothing in it is touched. Choose another --name."
        ) from None
    if before != json.loads(json.dumps(wanted.as_plain())):
        raise UsageError(
            f"{path}: holds a search in other ranges. Nothing in it is touched. Choose another"
            " --name."
        )


def _database_error() -> type[Exception]:
    try:
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        return RuntimeError
    return SQLAlchemyError


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
