"""Runs side by side that end at different times, stopped or killed in between, and resumed."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from seqattn.config import Config, resolve
from seqattn.errors import Interrupted
from seqattn.experiments import Callbacks, seeds_of, train_many
from seqattn.experiments.verify_resume import first_difference
from seqattn.runs import RunFolder
from seqattn.runs.storage.atomic import _PendingFile
from tests.faults import Tally
from tests.grouped import write_pairs

Runs = list[tuple[Config, RunFolder]]
SIZES = [
    "name=g", "data.n_train=24", "data.n_validation=20", "data.n_test=9", "model.hidden_dim=5",
    "training.batch_size=8", "training.epochs=6", "training.teacher_forcing.probability=0.5",
]  # fmt: skip
STEPS = 3  # of an epoch
EARLY = ["training.early_stopping.patience=2", "training.early_stopping.min_delta=0.1",
         "training.epochs=12", "training.learning_rate=0.03"]  # fmt: skip
PLATEAU = [
    "training.learning_rate_schedule.kind=plateau", "training.learning_rate_schedule.patience=1",
    "training.learning_rate=0.1", "training.record_attention=2",
]  # fmt: skip


def _seeds(home: Path, *sets: str, count: int = 5) -> Runs:
    return seeds_of(resolve(None, [*SIZES, *sets]).config, home, count)


def _variants(home: Path, shared: Sequence[str], variants: Mapping[str, Sequence[str]]) -> Runs:
    return [
        (resolve(None, [*SIZES, *shared, *own]).config, RunFolder(home / name / "seed-23"))
        for name, own in variants.items()
    ]


def _diverging(home: Path) -> Runs:
    rates = {"a": 0.05, "far": 90, "b": 0.04, "farther": 100, "c": 0.03}
    variants = {k: [f"training.learning_rate={rate}"] for k, rate in rates.items()}
    return _variants(home, ["training.optimizer=sgd", "training.momentum=0.5"], variants)


def _epochs(home: Path) -> Runs:
    lasts = (2, 9, 3, 5, 9)
    own = [f"data.train_seed={k // 2}" for k in range(len(lasts))]
    return _variants(
        home, PLATEAU,
        {f"{k}": [f"training.epochs={n}", data] for k, (n, data) in enumerate(zip(lasts, own, strict=True))},
    )  # fmt: skip


def _subwords(home: Path) -> Runs:
    path = home.parent / "pairs.tsv"
    if not path.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        write_pairs(path)
    side = {"unit": "bpe", "max_size": 24}
    config = {
        "name": "g", "data": {"kind": "text", "path": str(path), "source": side, "target": side},
        "model": {"hidden_dim": 5, "dropout": 0.2, "attention": {"score": "dot"}},
        "training": {
            "batch_type": "tokens", "batch_size": 80, "batch_order": "by_length", "monitor": "bleu",
            "feedback": "sampled", "teacher_forcing": {"probability": 0.5}, "epochs": 8,
            "learning_rate": 0.03, "early_stopping": {"patience": 2},
        },
    }  # fmt: skip
    return seeds_of(resolve(config).config, home, 5)


SETUPS: dict[str, Callable[[Path], Runs]] = {
    "early stopping": lambda home: _seeds(home, *EARLY),
    "plateau": lambda home: _seeds(home, *EARLY, *PLATEAU, "data.variable_length=true"),
    "diverging": _diverging,
    "epochs": _epochs,
    "autograd": lambda home: _seeds(
        home, *EARLY, "model.attention.score=additive", "model.dropout=0.2",
        "training.teacher_forcing.coin=element",
    ),
    "subwords": _subwords,
}  # fmt: skip
"""Runs that share every step until some of them have ended."""


class Killed(BaseException):
    """The process ends here."""


def after(steps: int | None) -> Callable[[], int]:
    """Asks to stop after so many steps."""
    asked = iter(range(steps or 0))
    return lambda: 0 if steps is None or next(asked, None) is not None else 2


def train(runs: Runs, *, stop: int | None = None, resume: bool = False) -> bool:
    """Whether it came to its end."""
    try:
        train_many(runs, threads=1, resume=resume, callbacks=Callbacks(stop=after(stop)))
    except Interrupted:
        return False
    return True


def killed_at(show: int) -> Any:
    """Ends the process, so to speak, at the n-th checkpoint that is renamed into its place."""
    real, seen = _PendingFile.commit, 0

    def dying(written: Any) -> None:
        nonlocal seen
        if written.path.name == "last.safetensors":
            seen += 1
            if seen == show:
                raise Killed
        real(written)

    return mock.patch.object(_PendingFile, "commit", dying)


def difference(whole: Runs, parted: Runs) -> str | None:
    """The first difference of two trainings of the same runs; wall time is none."""
    for (_, one), (_, other) in zip(whole, parted, strict=True):
        _, found = first_difference(one, other)
        if found is None:
            found = next(filter(None, (_other_file(one, other, name) for name in RESULTS)), None)
        if found is not None:
            return f"{'/'.join(other.path.parts[-2:])}: {found}"
    return None


RESULTS = (
    "summary.json", "predictions.npz", "attention.npz", "film.npz", "parameter_history.npz",
)  # fmt: skip
NOT_COMPARED = ("seconds", "interrupted", "skipped_checkpoints", "digest")
"""Keys of summary.json in which a resumed run may differ."""


def _other_file(one: RunFolder, other: RunFolder, name: str) -> str | None:
    files = [folder.path / name for folder in (one, other)]
    if not any(file.exists() for file in files):
        return None
    if not all(file.exists() for file in files):
        return f"{name} is in one only"
    if name != "summary.json":
        return None if files[0].read_bytes() == files[1].read_bytes() else f"{name} is another"
    before, now = (json.loads(file.read_bytes()) for file in files)
    keys = [key for key in before | now if before.get(key) != now.get(key)]
    keys = [key for key in keys if key not in NOT_COMPARED]
    return f"{name}: {keys[0]}: {before.get(keys[0])}, {now.get(keys[0])}" if keys else None


def stopped(steps: Iterable[int], setups: Iterable[str] = tuple(SETUPS)) -> Tally:
    """Told to stop after step k, and every 7 steps after that, then resumed to the end."""
    tally = Tally()
    torch.set_num_threads(1)
    wanted = list(steps)
    for name in setups:
        with tempfile.TemporaryDirectory() as place:
            whole = SETUPS[name](Path(place) / "whole")
            train(whole)
            for k in wanted:
                parted = SETUPS[name](Path(place) / "parted")
                with tally.case(f"{name}, step {k}"):
                    done = train(parted, stop=k)
                    while not done:
                        done = train(parted, stop=7, resume=True)
                    found = difference(whole, parted)
                    assert found is None, found
                shutil.rmtree(Path(place) / "parted", ignore_errors=True)
    return tally


def killed(renames: Iterable[int], setups: Iterable[str] = tuple(SETUPS)) -> Tally:
    """Ended at the n-th checkpoint that is renamed into its place, and again a while after the
    first resume, with common saves as in `SAVES`; then resumed to the end."""
    tally = Tally()
    torch.set_num_threads(1)
    wanted = list(renames)
    for name in setups:
        with tempfile.TemporaryDirectory() as place:
            wholes = [_saving(SETUPS[name](Path(place) / f"whole-{s}"), s) for s in SAVES]
            for whole in wholes:
                train(whole)
            for n in wanted:
                whole = wholes[n % len(SAVES)]
                parted = _saving(SETUPS[name](Path(place) / "parted"), SAVES[n % len(SAVES)])
                with tally.case(f"{name}, rename {n}"):
                    for at in (n, n // 2 + 3):
                        with killed_at(at):
                            try:
                                train(parted, resume=True)
                            except Killed:
                                continue
                            break
                    train(parted, resume=True)
                    found = difference(whole, parted)
                    assert found is None, found
                shutil.rmtree(Path(place) / "parted", ignore_errors=True)
    return tally


SAVES = (0.0, 1000.0, 0.03)
"""Seconds between common saves: each step has one, only those of runs that end, or some have."""


def _saving(runs: Runs, seconds: float) -> Runs:
    update = {"checkpoint_seconds": seconds}
    return [
        (config.model_copy(update={"training": config.training.model_copy(update=update)}), folder)
        for config, folder in runs
    ]
