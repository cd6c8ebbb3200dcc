"""Runs of a comparison held against the same runs alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from seqattn import experiments
from seqattn.config import Config, config_differences
from seqattn.runs import RunFolder
from seqattn.runs.storage import read_arrays

ROUNDING = {"float32": 1e-4, "bfloat16": 2e-3}
"""By how much a loss may differ, relatively: sums in another order, over a few epochs."""
FEATURES = ("a", "b", "c")


def series(order: Sequence[str], seed: int = 5, sequences: int = 20) -> dict[str, list[Any]]:
    """Columns of a long table: sequences of eight points with three features that follow different
    rules. The numbers of a feature do not depend on the order of the columns."""
    numbers = np.random.RandomState(seed)
    steps = np.arange(8)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("sequence", "series", "step", "time", "kind", *order)
    }
    for k in range(sequences):
        phase, slope, level = numbers.normal(size=3)
        values = {"a": np.sin(steps + phase), "b": slope * steps, "c": level - steps**2 / 10}
        columns["sequence"] += [f"s{k}"] * len(steps)
        columns["series"] += [f"t{k}"] * len(steps)
        columns["step"] += steps.tolist()
        columns["time"] += (steps * 2).tolist()
        columns["kind"] += [f"g{k % 5}"] * len(steps)
        for name in order:
            columns[name] += values[name].round(6).tolist()
    return columns


def write_series(path: Path, order: Sequence[str] = FEATURES, seed: int = 5) -> None:
    """`series` as a CSV file."""
    columns = series(order, seed)
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *rows]) + "\n", encoding="utf-8")


def write_parquet(folder: Path, order: Sequence[str] = FEATURES, seed: int = 5) -> None:
    """`series` as a folder of one Parquet file."""
    folder.mkdir()
    pq.write_table(pa.table(series(order, seed, sequences=40)), folder / "part.parquet")


def write_pairs(path: Path, *, swapped: bool = False, seed: int = 5) -> None:
    """Pairs of 2 to 4 words as a table, with a group and with links between the words, which the
    target has in reversed order."""
    numbers, words = np.random.RandomState(seed), ("low", "lower", "Lowest", "new", "newer", "wide")
    rows = [("source", "target", "kind", "links")]
    for k in range(24):
        source = [words[i] for i in numbers.randint(len(words), size=2 + k % 3)]
        texts = [" ".join(source), " ".join(source[::-1])][:: -1 if swapped else 1]
        links = " ".join(f"{i}-{len(source) - 1 - i}" for i in range(len(source)))
        rows.append((*texts, f"g{k % 6}", links))
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def series_config(path: Path, **data: Any) -> dict[str, Any]:
    return {"kind": "file", "path": str(path), "source_length": 5, **data}


def small_config(**sections: Any) -> Config:
    """A config that trains in a few hundredths of a second."""
    content: dict[str, Any] = {
        "data": {"n_train": 12, "n_validation": 6, "n_test": 5},
        **sections,
    }  # fmt: skip
    content["model"] = {"hidden_dim": 4, **content.get("model", {})}
    if content["model"].get("kind") == "transformer":
        del content["model"]["hidden_dim"]
    content["training"] = {"epochs": 3, "batch_size": 5, **content.get("training", {})}
    return Config.model_validate(content)


@dataclass(frozen=True)
class Results:
    """What came of a run, and how it was trained.

    Attributes:
        losses: of the test part, then of each epoch.
        way: who computed gradients, schedules, best epoch, epochs of the attention film.
    """

    losses: list[float]
    way: tuple[object, ...]

    @classmethod
    def of(cls, job: experiments.Job) -> Results:
        if job.summary is None:
            return cls([], (str(job.error),))
        history, film = job.folder.read_metrics(), job.folder.film
        losses = [job.summary["test_loss"], job.summary["test_loss_teacher_forced"]]
        for record in history:
            losses += [record.train_loss, record.validation_loss]
        log = job.folder.log.read_text(encoding="utf-8").splitlines()
        gradients = [line.partition("gradients: ")[2] for line in log if "gradients: " in line]
        filmed = read_arrays(film)["epochs"].tolist() if film.exists() else []
        schedules = [(record.learning_rate, record.teacher_forcing) for record in history]
        return cls(losses, (gradients, schedules, job.summary["best_epoch"], filmed))

    def agree(self, other: Results, rounding: float) -> bool:
        same_length = len(self.losses) == len(other.losses)
        return (self.way == other.way and same_length
                and np.allclose(self.losses, other.losses, rtol=rounding, atol=1e-9))  # fmt: skip


def check_grouped_equals_alone(
    configs: Mapping[str, Config], place: Path, seeds: int = 2
) -> list[str]:
    """Train all configs with several seeds in one call, as a comparison does, and each run again
    alone.

    Args:
        configs: by the name of the variant; the first is what the others were varied from.

    Returns:
        a line for each run that got other losses than alone.
    """
    wanted = [
        (config.model_copy(update={"seed": config.seed + k}), name)
        for name, config in configs.items()
        for k in range(seeds)
    ]
    grouped = experiments.train_many(
        [(config, RunFolder(place / "grouped" / name / str(config.seed)))
         for config, name in wanted],
        threads=1,
    )  # fmt: skip
    wrong = []
    for (config, name), job in zip(wanted, grouped, strict=True):
        folder = RunFolder(place / "alone" / name / str(config.seed))
        (alone,) = experiments.train_many([(config, folder)], threads=1)
        found, expected = Results.of(job), Results.of(alone)
        if not found.agree(expected, ROUNDING[config.training.precision]):
            changed = config_differences(next(iter(configs.values())), config)
            wrong.append(f"{name} ({changed}): {found} grouped, {expected} alone")
    return wrong
