"""Nothing that is learned or proposed depends on what comes later: runs whose validation and test parts hold
other values, and other gaps, learn the same, bit for bit."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqattn
from seqattn import experiments
from seqattn.config import resolve
from seqattn.runs import RunFolder
from tests.conftest import Ended

SEASON, STEPS = 6, 90
Array = np.ndarray[Any, Any]
Command = Callable[..., Ended]
Later = Callable[[str, int], bool]
"""(series, step) -> whether the row is of the validation or the test part."""

SPLITS = {
    "time": (3, ["data.window={source: 6, target: 3}", "data.split={by: time, validation: 0.2, test: 0.2}"]),
    "time, whole series": (20, ["data.source_length=60", "data.split.by=time"]),
    "sequence": (20, ["data.window={source: 6, target: 3, stride: 9}", "data.split.by=sequence"]),
    "group": (20, ["data.target_length=20", "data.split.by=group", "data.group=kind"]),
}  # fmt: skip
KEYS = {
    "standard": ["data.scaling=standard"],
    "minmax": ["data.scaling=minmax"],
    "robust": ["data.scaling=robust"],
    "instance": ["data.normalize=instance"],
    "relative": ["data.relative=true"],
    "a linear skip": ["model.skip=linear", "model.skip_map=learned", "model.cell=lstm"],
}


def a_table(series: int) -> Array:
    """(series, steps, 2) noisy waves; NaN where a cell is missing, infinite where a row is."""
    numbers = np.random.default_rng(series)
    wave = 4 * np.sin(2 * np.pi * np.arange(STEPS) / SEASON)[:, None]
    values = (
        wave + numbers.normal(size=(series, STEPS, 2)) + 5 * numbers.normal(size=(series, 1, 2))
    )
    return with_gaps(values, numbers)


def with_gaps(values: Array, numbers: np.random.Generator) -> Array:
    """A tenth of the cells and a twentieth of the rows missing, but none at the ends."""
    found = values.copy()
    found[numbers.random(found.shape) < 0.1] = np.nan
    found[numbers.random(found.shape[:2]) < 0.05] = np.inf
    found[:, ::20], found[:, 1::20], found[:, -1] = values[:, ::20], values[:, 1::20], values[:, -1]
    return found


def other_values(values: Array, later: Later) -> Array:
    """The same with noise of another level, size and season where a row is later, and gaps at other
    places; as many rows as before, so that shares of them are the same."""
    numbers = np.random.default_rng(1)
    noise = 300 * numbers.normal(size=values.shape) + 1e4 * np.sin(np.arange(STEPS) / 3)[:, None]
    noise[numbers.random(values.shape) < 0.2] = np.nan
    noise[:, ::20] = 77.0
    found = values.copy()
    for k in range(len(values)):
        for step in range(STEPS):
            if later(f"s{k}", step) and not np.isinf(values[k, step]).any():
                found[k, step] = noise[k, step]
    for k in range(len(values)):  # each missing row changes places with the row behind it
        for step in range(STEPS - 3, 1, -1):
            here, behind = (np.isinf(found[k, at]).any() for at in (step, step + 1))
            if later(f"s{k}", step - 1) and here and not behind:
                found[k, [step, step + 1]] = found[k, [step + 1, step]]
    return found


def write(values: Array, file: Path) -> None:
    rows = [
        f"s{k},g{k % 10},{np.datetime64('2023-01-02') + 100 * k + step},"
        + ",".join("" if np.isnan(v) else repr(float(v)) for v in values[k, step])
        for k in range(len(values)) for step in range(STEPS) if not np.isinf(values[k, step]).any()
    ]  # fmt: skip
    file.write_text("\n".join(["series,kind,day,x,y", *rows]) + "\n")


def a_run(values: Array, home: Path, sets: list[str]) -> RunFolder:
    home.mkdir()
    write(values, home / "f.csv")
    config = resolve(None, [
        "name=run", "data.kind=file", f"data.path={home / 'f.csv'}", "data.missing=interpolate",
        "data.series=series", "data.time=day", "data.features=[x,y]", "training.epochs=2",
        "training.learning_rate=0.02", "model.hidden_dim=3", *sets,
    ]).config  # fmt: skip
    return experiments.train_one(config, home, plots=False)[0]


def split_of(folder: RunFolder) -> list[dict[str, str]]:
    with (folder.path / "split.csv").open() as file:
        return list(csv.DictReader(file))


def last_training_step(values: Array, folder: RunFolder) -> dict[str, int]:
    """Of each series that trains. Split in time, all series do, each to where the shares of its steps
    end; else the run says which do."""
    parts: dict[str, list[str]] = {}
    for row in split_of(folder):
        parts.setdefault(row["sequence"], []).append(row["part"])
    if not all(len(found) == 3 for found in parts.values()):
        assert all(len(found) == 1 for found in parts.values())
        return {name: STEPS for name, found in parts.items() if found == ["train"]}
    return {f"s{k}": STEPS - 2 * round(0.2 * STEPS) - 1 for k in range(len(values))}


def learned(folder: RunFolder) -> dict[str, Any]:
    """What a run took from its training part."""
    run = seqattn.load(folder.path / "checkpoints" / "last.safetensors")
    metrics = folder.read_summary()["metrics"]
    spec = run.trained.spec
    return {
        "weights": {name: weight.numpy().tobytes()
                    for name, weight in run.trained.model.state_dict().items()},
        "train_loss": [record.train_loss for record in run.history],
        "scaling": spec.scaling_as_plain(), "frequency": spec.frequency,
        "season": (metrics["season"], metrics["season_origin"]),
        "mase_scale": metrics["mase_scale"],
        "split": [row for row in split_of(folder) if row["part"] == "train"],
        "parts": [(row["sequence"], row["part"]) for row in split_of(folder)],
    }  # fmt: skip


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS.keys())
def test_later_rows_change_nothing_that_is_learned(
    split: tuple[int, list[str]], keys: list[str], tmp_path: Path
) -> None:
    series, sets = split
    values = a_table(series)
    folder = a_run(values, tmp_path / "first", [*sets, *keys])
    ends = last_training_step(values, folder)
    assert ends

    def later(name: str, step: int) -> bool:
        return step > ends.get(name, -1)

    first = learned(folder)
    assert first["season"] == (SEASON, "found")
    again = a_run(other_values(values, later), tmp_path / "again", [*sets, *keys])
    for name, expected in learned(again).items():
        assert expected == first[name], name
    for one, other in zip(folder.read_metrics(), again.read_metrics(), strict=True):
        assert one.validation_loss != other.validation_loss


@pytest.mark.parametrize(
    ("split", "skip_map"), [*((split, "frozen") for split in SPLITS), ("group", "finetuned")]
)
def test_rows_of_the_test_part_change_nothing_of_a_fitted_skip(
    split: str, skip_map: str, tmp_path: Path
) -> None:
    """The validation part chooses a penalty, as it chooses an epoch; the test part has no say. The map
    is fitted the same way whether training changes it or not."""
    series, sets = SPLITS[split]
    sets = [*sets, "model.skip=linear", f"model.skip_map={skip_map}"]
    values = a_table(series)
    folder = a_run(values, tmp_path / "first", sets)
    parts = {row["sequence"]: row["part"] for row in split_of(folder)}
    whole = len(split_of(folder)) == len(parts)

    def later(name: str, step: int) -> bool:
        if whole:
            return parts.get(name) == "test"
        return step > STEPS - round(0.2 * STEPS) - 1

    again = a_run(other_values(values, later), tmp_path / "again", sets)
    first, other = learned(folder), learned(again)
    assert other["weights"] == first["weights"]
    assert other["train_loss"] == first["train_loss"]
    assert folder.read_summary()["test_loss"] != again.read_summary()["test_loss"]


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS.keys())
def test_values_behind_a_source_change_no_forecast_of_it(keys: list[str], tmp_path: Path) -> None:
    """Of all windows of the test part whose source ends before, bit for bit, and where the model
    looked."""
    values = a_table(3)
    values[:, STEPS - 9, 0] = np.nan  # of one source the last
    _, sets = SPLITS["time"]
    folder = a_run(values, tmp_path / "first", [*sets, *keys])
    other = values.copy()
    numbers = np.random.default_rng(5)
    changed = np.arange(STEPS) >= STEPS - 8
    seen = ~np.isnan(values) & ~np.isinf(values) & changed[:, None]
    other[seen] = 1e3 * numbers.normal(size=int(seen.sum()))
    again = a_run(other, tmp_path / "again", [*sets, *keys])
    saved, found = (each.read_predictions() for each in (folder, again))
    attention = [each.read_attention()["weights"] for each in (folder, again)]
    assert saved["ids"].tolist() == found["ids"].tolist()
    before = np.array([
        np.datetime64(name.partition("@")[2]) - np.datetime64("2023-01-02")
        - 100 * int(name.partition("@")[0][1:]) <= np.timedelta64(STEPS - 8, "D")
        for name in saved["ids"].tolist()
    ])  # fmt: skip
    assert before.sum() > 12
    assert (~before).sum() > 10
    assert saved["forecast"][before].tobytes() == found["forecast"][before].tobytes()
    assert attention[0][before].tobytes() == attention[1][before].tobytes()
    assert not np.isclose(saved["forecast"][~before], found["forecast"][~before]).all()
    assert not np.array_equal(saved["target"][before], found["target"][before], equal_nan=True)


def test_later_rows_propose_no_window(seqattn: Command) -> None:
    """Also where most rows of the validation and test parts are missing."""
    numbers = np.random.default_rng(1)
    days = np.concatenate([np.arange(280), np.arange(280, 400, 4)])
    values = 0.3 * numbers.normal(size=len(days)) + np.sin(2 * np.pi * days / 12)
    found = []
    for later in (values, 8 * np.sin(2 * np.pi * days / 40), 8 * numbers.normal(size=len(days))):
        rows = np.where(days < 280, values, later)
        lines = [f"{np.datetime64('2020-01-01') + day},{x}"
                 for day, x in zip(days.tolist(), rows, strict=True)]  # fmt: skip
        Path("f.csv").write_text("\n".join(["day,x", *lines]) + "\n")
        done = seqattn("data", "check", "f.csv")
        assert done.code == 0, done.err
        found.append(done.out.partition("config:\n")[2])
    assert "# a season of 12 steps (12 days) was found in the training part" in found[0]
    assert found[0] == found[1] == found[2]
