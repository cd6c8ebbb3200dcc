"""Nothing that was not observed is trained on or scored.

A file with random missing cells and missing rows is trained on; every loss, error and baseline that
the run writes is worked out a second time here, by loops over the observed cells of the table that
the file was written from.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seqattn
from seqattn import experiments
from seqattn.config import resolve
from seqattn.runs import RunFolder

S, T, SEASON = 5, 4, 3
SHARES = {"validation": 0.2, "test": 0.25}
PARTS = ("train", "validation", "test")
TRANSFORMER = ("model.kind=transformer", "training.teacher_forcing.probability=1")
Array = np.ndarray[Any, Any]
EVERY = np.arange(80)
CALENDARS = {
    "numbers": EVERY,
    "business days": np.busday_offset("2023-12-22", EVERY),
    "month ends": (np.datetime64("2019-11") + EVERY + 1).astype("datetime64[D]") - 1,
    "hours": np.datetime64("2024-02-28T07:30") + EVERY * np.timedelta64(1, "h"),
}
"""What the steps of a series are called."""
Table = dict[str, Array]
"""Series by name, (steps, features) each: NaN where a cell is missing, a row of infinities where the
file has no such row."""


@dataclass(frozen=True)
class Case:
    """How a file is read and trained on.

    Attributes:
        source_features, target_features: names of the columns.
        windows: cut by data.window in three parts by time; else by data.source_length, from three
            files.
        calendar: of the steps; see `CALENDARS`.
        sets: further keys of the config.
    """

    seed: int
    source_features: tuple[str, ...] = ("x", "y")
    target_features: tuple[str, ...] = ("x", "y")
    windows: bool = True
    relative: bool = False
    calendar: str = "numbers"
    sets: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.source_features, *self.target_features]))

    def columns(self, names: tuple[str, ...]) -> list[int]:
        return [self.features.index(name) for name in names]


CASES = {
    "windows": Case(1),
    "other windows": Case(2),
    "levels subtracted": Case(3, relative=True),
    "minmax": Case(4, sets=("data.scaling=minmax",)),
    "a feature only of targets, one only of sources": Case(
        5, source_features=("x", "z"), target_features=("x", "y")
    ),
    "by length": Case(6, windows=False),
    "by length, levels subtracted": Case(7, windows=False, relative=True),
    "one batch, fed the truth": Case(
        8, sets=("training.batch_size=100000", "training.teacher_forcing.probability=1")
    ),
    "business days": Case(11, calendar="business days"),
    "month ends": Case(12, calendar="month ends", relative=True),
    "month ends, by length": Case(13, calendar="month ends", windows=False),
    "hours": Case(14, calendar="hours"),
    "transformer": Case(9, sets=TRANSFORMER),
    "by autograd": Case(10, sets=("model.context=input", "model.attention.heads=2")),
}


# --- a table, and the file that is written of it --------------------------------------------------


def a_table(case: Case, names: list[str], steps: int) -> Table:
    """Random walks with a season; a quarter of the cells and an eighth of the rows are missing."""
    numbers = np.random.default_rng([case.seed, *"".join(names).encode()])
    found = {}
    for name in names:
        F = len(case.features)
        values = numbers.normal(size=(steps, F)).cumsum(axis=0) * [1, 7, 50][:F]
        values += 3 * np.sin(2 * np.pi * np.arange(steps) / SEASON)[:, None]
        values[numbers.random(values.shape) < 0.25] = np.nan
        values[numbers.random(steps) < 0.125] = np.inf
        first = numbers.normal(size=(2, F))  # two rows side by side show the spacing
        values[:2] = first
        values[-1] = numbers.normal(size=F)
        found[name] = values
    return found


def write(table: Table, features: tuple[str, ...], file: Path, steps: Array) -> None:
    lines = ["series,step," + ",".join(features)]
    for name, values in table.items():
        for step, row in zip(steps, values, strict=False):
            if not np.isinf(row).any():
                cells = ("" if math.isnan(v) else repr(float(v)) for v in row)
                lines.append(f"{name},{step},{','.join(cells)}")
    file.write_text("\n".join(lines) + "\n")


# --- what a reader by hand makes of it ------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """One source and its target, NaN where a cell is missing.

    Attributes:
        times: of the source's steps, as numbers.
    """

    source: Array
    target: Array
    times: Array


Series = tuple[Array, Array]
"""Values, NaN where a cell or a row is missing; and the times of all rows as numbers."""


def parts_by_time(table: Table, times: Array) -> dict[str, list[Series]]:
    """Each series in three by its steps; missing rows are rows of NaN."""
    found: dict[str, list[Series]] = {part: [] for part in PARTS}
    for values in table.values():
        L = len(values)
        tested, validated = round(L * SHARES["test"]), round(L * SHARES["validation"])
        bounds = [0, L - validated - tested, L - tested, L]
        for part, first, last in zip(PARTS, bounds, bounds[1:], strict=False):
            rows = slice(first, last)
            shown = np.where(np.isinf(values[rows]), np.nan, values[rows])
            found[part].append((shown, times[rows]))
    return found


def examples(case: Case, series: list[Series]) -> list[Example]:
    found = []
    for values, times in series:
        starts = range(len(values) - S - T + 1) if case.windows else [0]
        for start in starts:
            source = values[start : start + S, case.columns(case.source_features)]
            end = start + S + T if case.windows else len(values)
            if np.isnan(source).all(axis=0).any():
                continue  # nothing of a feature is known
            target = values[start + S : end, case.columns(case.target_features)]
            found.append(Example(source, target, times[start : start + S]))
    return found


def filled(column: Array, times: Array) -> Array:
    """A column of a source, its missing cells on the line between the observed ones beside them."""
    seen = [i for i in range(len(column)) if not math.isnan(column[i])]
    interpolated = column.copy()
    for i in range(len(column)):
        before, after = [j for j in seen if j < i], [j for j in seen if j > i]
        if i in seen:
            continue
        if before and after:
            a, b = before[-1], after[0]
            share = (times[i] - times[a]) / (times[b] - times[a])
            interpolated[i] = column[a] + (column[b] - column[a]) * share
        else:
            interpolated[i] = column[before[-1] if before else after[0]]
    return interpolated


def source_of(example: Example) -> Array:
    return np.stack([filled(column, example.times) for column in example.source.T], axis=1)


def level(case: Case, example: Example, name: str) -> float:
    """What is subtracted of a feature first."""
    if not case.relative or name not in case.source_features:
        return 0.0
    return float(source_of(example)[-1, case.source_features.index(name)])


def scaler(case: Case, train: list[Example], name: str) -> tuple[float, float]:
    """Shift and scale of a feature, of all that was observed of it in the training part."""
    values: list[float] = []
    for one in train:
        for names, points in (
            (case.source_features, one.source),
            (case.target_features, one.target),
        ):
            if name in names:
                column = points[:, names.index(name)]
                values += [float(v) - level(case, one, name) for v in column if not math.isnan(v)]
    if "data.scaling=minmax" in case.sets:
        return (max(values) + min(values)) / 2, (max(values) - min(values)) / 2
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))


def cells(some: list[Example]) -> Iterator[tuple[int, int, int]]:
    """The observed target cells: (example, step, feature)."""
    for n, one in enumerate(some):
        for t, f in np.ndindex(*one.target.shape):
            if not math.isnan(one.target[t, f]):
                yield n, t, f


def errors_of(forecast: list[Array], some: list[Example], scales: list[float]) -> float:
    squares = [((forecast[n][t, f] - some[n].target[t, f]) / scales[f]) ** 2
               for n, t, f in cells(some)]  # fmt: skip
    return sum(squares) / len(squares)


def baselines(case: Case, train: list[Example], some: list[Example]) -> dict[str, list[Array]]:
    """Every baseline's forecast of every target."""
    found: dict[str, list[Array]] = {}
    means: dict[tuple[int, int], list[float]] = {}
    for n, t, f in cells(train):
        means.setdefault((t, f), []).append(train[n].target[t, f])
        means.setdefault((-1, f), []).append(train[n].target[t, f])

    def mean(t: int, f: int) -> float:
        values = means.get((t, f), means[-1, f])
        return sum(values) / len(values)

    found["mean of the training targets"] = [
        np.array(
            [[mean(t, f) for f in range(len(case.target_features))] for t in range(len(one.target))]
        )
        for one in some
    ]
    linear = least_squares(case, train, some, mean)
    if linear is not None:
        found["linear least squares (fitted)"] = linear
    if not set(case.target_features) <= set(case.source_features):
        return found
    for name, forecast in (
        ("last source point", last_value), ("drift", drift),
        (f"seasonal naive (season {SEASON}, given)", seasonal),
    ):  # fmt: skip
        found[name] = [
            np.array([[forecast(one.source[:, case.source_features.index(name)], t)
                       for name in case.target_features]
                      for t in range(len(one.target))])
            for one in some
        ]  # fmt: skip
    return found


def last_value(column: Array, t: int) -> float:
    return float([v for v in column if not math.isnan(v)][-1])


def drift(column: Array, t: int) -> float:
    seen = [i for i in range(len(column)) if not math.isnan(column[i])]
    first, last = seen[0], seen[-1]
    slope = 0.0 if first == last else (column[last] - column[first]) / (last - first)
    return float(column[last] + slope * (len(column) + t - last))


def seasonal(column: Array, t: int) -> float:
    at = len(column) + t
    while at >= len(column) or (at >= 0 and math.isnan(column[at])):
        at -= SEASON
    return float(column[at]) if at >= 0 else last_value(column, t)


def least_squares(
    case: Case, train: list[Example], some: list[Example], mean: Any
) -> list[Array] | None:
    """A target cell at a time, from the training examples in which it was observed."""
    if len({one.target.shape for one in [*train, *some]}) > 1:
        return None

    def design(one: Example) -> Array:
        levels = [level(case, one, name) for name in case.source_features]
        return np.array([*(source_of(one) - levels).ravel(), 1.0])

    rows, asked = (np.array([design(one) for one in each]) for each in (train, some))
    found = [np.empty_like(one.target) for one in some]
    for f, name in enumerate(case.target_features):
        for t in range(len(train[0].target)):
            seen = [n for n, one in enumerate(train) if not math.isnan(one.target[t, f])]
            assert len(seen) > 2 * rows.shape[1]
            residuals = [train[n].target[t, f] - level(case, train[n], name) for n in seen]
            weights = np.linalg.lstsq(rows[seen], np.array(residuals), rcond=None)[0]
            for n, one in enumerate(some):
                found[n][t, f] = asked[n] @ weights + level(case, one, name)
    return found


def mase_scale(series: list[Series], column: int, lag: int) -> float:
    """Mean absolute difference over a lag, of the observed pairs of the training series."""
    differences = [
        abs(values[i + lag, column] - values[i, column])
        for values, _ in series for i in range(len(values) - lag)
        if not math.isnan(values[i, column]) and not math.isnan(values[i + lag, column])
    ]  # fmt: skip
    return sum(differences) / len(differences)


def teacher_forced(
    case: Case, run: seqattn.experiments.api.Run, train: list[Example], some: list[Example]
) -> list[Array]:
    """Forecasts with every step fed the truth, and where it is missing the last that was known."""
    source_scalers, target_scalers = (
        [scaler(case, train, name) for name in names]
        for names in (case.source_features, case.target_features)
    )
    found = []
    for one in some:
        source = source_of(one)
        below = [level(case, one, name) for name in case.source_features]
        scaled = (source - below - [a for a, _ in source_scalers]) / [b for _, b in source_scalers]
        fed, targets = one.target.copy(), [level(case, one, name) for name in case.target_features]
        for f, name in enumerate(case.target_features):
            shift, scale = target_scalers[f]
            last = (
                scaled[-1, case.source_features.index(name)]
                if name in case.source_features
                else 0.0
            )
            for t in range(len(fed)):
                if not math.isnan(fed[t, f]):
                    last = (fed[t, f] - targets[f] - shift) / scale
                fed[t, f] = last
        with torch.inference_mode():
            values = run.trained.model(
                torch.tensor(scaled[None], dtype=torch.float32),
                torch.tensor(fed[None], dtype=torch.float32), source_lengths=None,
                teacher_forcing=torch.ones(len(fed), dtype=torch.bool), with_attention=False,
            ).values[0]  # fmt: skip
        scales, shifts = [b for _, b in target_scalers], [a for a, _ in target_scalers]
        found.append(values.double().numpy() * scales + shifts + targets)
    return found


# --- a run, and all that it writes ----------------------------------------------------------------


def trained(case: Case, home: Path) -> tuple[RunFolder, dict[str, list[Series]]]:
    """A run that hardly learns, so that its first weights are its last; and the series of each part."""
    sets = ["name=run", "data.kind=file", "data.missing=interpolate",
            f"data.relative={str(case.relative).lower()}", "data.series=series", "data.time=step",
            "training.epochs=1", "training.batch_size=7",
            "training.optimizer=sgd", "training.learning_rate=1e-12",
            "training.teacher_forcing.probability=0"]  # fmt: skip
    if case.source_features == case.target_features:
        sets += [f"data.season={SEASON}"]
    else:  # what is not given has no season before to repeat
        sets += [f"data.source_features=[{','.join(case.source_features)}]",
                 f"data.target_features=[{','.join(case.target_features)}]"]  # fmt: skip
    steps = CALENDARS[case.calendar]
    times = steps.astype(np.int64).astype(float)
    if case.windows:
        table = a_table(case, list("abcd"), len(steps))
        write(table, case.features, home / "f.csv", steps)
        series = parts_by_time(table, times)
        sets += [f"data.path={home / 'f.csv'}", f"data.window.source={S}",
                 f"data.window.target={T}", "data.split.by=time",
                 *(f"data.split.{key}={share}" for key, share in SHARES.items())]  # fmt: skip
    else:
        series = {}
        for part, size in zip(PARTS, (60, 15, 15), strict=True):
            table = a_table(case, [f"{part}-{k}" for k in range(size)], S + T)
            write(table, case.features, home / f"{part}.csv", steps)
            series[part] = [(np.where(np.isinf(one), np.nan, one), times)
                            for one in table.values()]  # fmt: skip
        sets += [f"data.path={home / 'train.csv'}", f"data.source_length={S}",
                 *(f"data.{part}_path={home / part}.csv" for part in PARTS[1:])]  # fmt: skip
    folder, _ = experiments.train_one(resolve(None, [*sets, *case.sets]).config, home, plots=False)
    return folder, series


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_run_knows_observed_cells_alone(case: Case, tmp_path: Path) -> None:
    folder, series = trained(case, tmp_path)
    train, validation, test = (examples(case, series[part]) for part in PARTS)
    missing = [one for one in train if np.isnan(one.source).any() and np.isnan(one.target).any()]
    assert len(missing) > len(train) / 3
    summary, run = folder.read_summary(), seqattn.load(folder.path)
    scales = [scaler(case, train, name)[1] for name in case.target_features]

    saved = folder.read_predictions()
    expected = np.array([source_of(one) for one in test])
    assert saved["source"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.array_equal(saved["target"], np.array([one.target for one in test]), equal_nan=True)
    free = {
        part: list(run.predict(np.array([*map(source_of, some)]), T))
        for part, some in zip(PARTS, (train, validation, test), strict=True)
    }

    # While training: the weights are those at its end.
    (record,) = folder.read_metrics()
    forced = [teacher_forced(case, run, train, some) for some in (train, validation, test)]
    is_forced = record.teacher_forcing == 1
    close = {"rel": 2e-4}
    while_training = forced[0] if is_forced else free["train"]
    assert record.train_loss == pytest.approx(errors_of(while_training, train, scales), **close)
    assert record.validation_loss == pytest.approx(
        errors_of(free["validation"], validation, scales), **close
    )
    assert record.validation_loss_teacher_forced == pytest.approx(
        errors_of(forced[1], validation, scales), **close
    )

    # Of the test part.
    assert summary["test_loss"] == pytest.approx(errors_of(free["test"], test, scales), **close)
    assert summary["test_loss_teacher_forced"] == pytest.approx(
        errors_of(forced[2], test, scales), **close
    )
    for t, loss in enumerate(summary["loss_by_step"]):
        of_step = [
            replace(one, target=np.where(np.arange(T)[:, None] == t, one.target, np.nan))
            for one in test
        ]
        assert loss == pytest.approx(errors_of(free["test"], of_step, scales), **close)

    expected_forecasts = baselines(case, train, test)
    reported = {**summary["baselines"], **summary["fitted"]}
    assert reported == pytest.approx(
        {name: errors_of(each, test, scales) for name, each in expected_forecasts.items()}, rel=1e-6
    )
    assert summary["validation_baselines"] == pytest.approx(
        {name: errors_of(each, validation, scales)
         for name, each in baselines(case, train, validation).items() if "fitted" not in name},
        rel=1e-6,
    )  # fmt: skip
    assert set(summary["metrics"]["errors"]) == {"this model", *expected_forecasts}
    for name, forecast in {"this model": free["test"], **expected_forecasts}.items():
        errors = summary["metrics"]["errors"][name]
        for f, feature in enumerate(case.target_features):
            deviations = [
                forecast[n][t, f] - test[n].target[t, f] for n, t, g in cells(test) if g == f
            ]
            mae = sum(map(abs, deviations)) / len(deviations)
            rmse = math.sqrt(sum(error**2 for error in deviations) / len(deviations))
            lag = (
                SEASON
                if case.source_features == case.target_features
                else summary["metrics"]["season"] or 1
            )
            scale = mase_scale(series["train"], case.features.index(feature), lag)
            expected = [mae, rmse, rmse, mae / scale]
            found = [errors["mae"][f], errors["rmse"][f], summary["rmse"][name][f],
                     errors["mase"][f]]  # fmt: skip
            assert found == pytest.approx(expected, rel=2e-4 if name == "this model" else 1e-6)


def written(folder: RunFolder) -> dict[str, Any]:
    """All that a run says, without the time it took and the scale of MASE."""
    with (folder.path / "metrics.csv").open() as file:
        epochs = [{key: value for key, value in row.items() if key != "seconds"}
                  for row in csv.DictReader(file)]  # fmt: skip
    summary = json.loads((folder.path / "summary.json").read_text())
    del summary["seconds"], summary["digest"], summary["metrics"]["mase_scale"]
    for errors in summary["metrics"]["errors"].values():
        del errors["mase"], errors["mase_mean"]
    saved = folder.read_predictions()
    return {
        "metrics": epochs, "summary": summary,
        "weights": b"".join(
            weight.numpy().tobytes()
            for weight in seqattn.load(folder.path).trained.model.state_dict().values()
        ),
        **{name: array.tobytes() for name, array in saved.items()},
    }  # fmt: skip


@pytest.mark.parametrize(
    "sets",
    [(), ("data.scaling=robust", "data.relative=true"), ("data.normalize=instance",),
     TRANSFORMER],
    ids=["standard", "robust, levels subtracted", "instance", "transformer"],
)  # fmt: skip
def test_what_a_missing_target_cell_is_filled_with_changes_nothing(
    sets: tuple[str, ...], tmp_path: Path
) -> None:
    """Between two windows lies a row that is in none of them. Its values are what the missing cells
    at the ends of the targets would be interpolated towards."""
    numbers = np.random.default_rng(11)
    steps, stride = 60 * (S + T + 1), S + T + 1
    values = numbers.normal(size=(2, steps, 2)).cumsum(axis=1)
    at = np.arange(steps) % stride
    values[:, at == S + T - 1] = np.nan  # the last target step
    values[:, (at == S + 1) & (numbers.random(steps) < 0.5)] = np.nan
    found = []
    for k in range(3):
        other = values.copy()
        if k:
            other[:, at == S + T] = numbers.normal(size=(2, 60, 2)) * 10.0 ** (3 * k)
        file = tmp_path / "f.csv"
        write(dict(zip("ab", other, strict=True)), ("x", "y"), file, np.arange(steps))
        config = resolve(None, [
            "name=run", "data.kind=file", f"data.path={file}", "data.missing=interpolate",
            f"data.season={SEASON}", f"data.window={{source: {S}, target: {T}, stride: {stride}}}",
            "data.split={by: time, validation: 0.2, test: 0.2}", "training.epochs=2",
            "training.learning_rate=0.05", *sets,
        ]).config  # fmt: skip
        found.append(written(experiments.train_one(config, tmp_path / str(k), plots=False)[0]))
    for name in found[0]:
        assert found[0][name] == found[1][name] == found[2][name], name
