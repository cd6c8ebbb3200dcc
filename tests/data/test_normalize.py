"""`data.normalize`: statistics of each source, what they may depend on, and that everything which
leaves a run is in the units of the data."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqattn import experiments
from seqattn.analysis.comparison import describe_result
from seqattn.analysis.evaluation import ReferenceLosses, evaluate, free_run
from seqattn.analysis.evaluation.load_run import load_splits, open_run
from seqattn.config import Config, OwnFile, from_plain, resolve
from seqattn.config.comparing import plan_comparison
from seqattn.config.searching import plan_search
from seqattn.data import DataSpec, Scaling, Sequences, Splits, Vectors, load_data
from seqattn.data.baselines import (
    build_baselines,
    forecast_mse,
)
from seqattn.data.fitting import fit_spaces
from seqattn.data.least_squares import least_squares
from seqattn.data.sequences import Floats
from seqattn.data.spaces import InstanceStatistics
from seqattn.errors import ConfigError
from seqattn.experiments.compare import run_comparison
from seqattn.report.content import run_content
from seqattn.runs import RunFolder
from seqattn.training import LoadedModel, to_tensors
from seqattn.training.objective import AutogradLoss, validate
from tests.conftest import ROOT, Ended, fitted_parts, in_spaces_of, whole

Command = Callable[..., Ended]
INSTANCE = OwnFile.model_validate({"path": "-", "normalize": "instance"})
SEASON = 5


def series(n: int, length: int, seed: int = 3) -> Floats:
    """(n, length, 1) noisy waves of unlike levels and sizes."""
    numbers = np.random.default_rng(seed)
    waves = np.sin(2 * np.pi * (np.arange(length) + numbers.integers(0, SEASON, (n, 1))) / SEASON)
    waves += 0.2 * numbers.normal(size=(n, length))
    return (waves * numbers.uniform(0.5, 2, (n, 1)) + numbers.normal(0, 3, (n, 1)))[:, :, None]


def a_run(file: Path, *sets: str) -> Config:
    return resolve(None, [
        "name=run", "data.kind=file", f"data.path={file}", "data.source_length=10",
        "data.normalize=instance", "training.epochs=3", "training.batch_size=8",
        "model.hidden_dim=5", *sets,
    ]).config  # fmt: skip


def trained_on(points: Floats, home: Path, *sets: str) -> tuple[RunFolder, LoadedModel]:
    home.mkdir(exist_ok=True)
    np.save(home / "points.npy", points)
    folder, _ = experiments.train_one(a_run(home / "points.npy", *sets), home, plots=False)
    return open_run(folder.path)


def example_sequences() -> Sequences:
    """a: x is 1, 3, (filled), 5 and y always 2. b: two points, then padding. z is a target alone."""
    part = Sequences(
        np.array([[[1, 2], [3, 2], [99, 2], [5, 2]], [[10, 0], [14, -1], [0, 0], [0, 0]]], float),
        np.array([4, 2]),
        np.array([[[6.0, 7.0, 4.0], [8.0, np.nan, 5.0]], [[8.0, 12.0, 1.0], [0.0, 0.0, 0.0]]]),
        np.array([2, 1]), ("x", "y"), ("a", "b"), target_features=("z", "x", "y"),
        source_observed=np.array([[[1, 1], [1, 1], [0, 1], [1, 1]],
                                  [[1, 1], [1, 1], [0, 0], [0, 0]]], dtype=bool),
        target_observed=np.array([[[1, 1, 1], [1, 0, 1]], [[1, 1, 1], [0, 0, 0]]], dtype=bool),
    )  # fmt: skip
    part.source[1, 2:] = np.nan  # padding, whatever it holds
    return part


ROOT_OF_VARIANCE = math.sqrt(8 / 3)  # of 1, 3, 5


@pytest.mark.parametrize(("scaling", "z", "size_of_y"), [
    ("none", (0.0, 1.0), 1.0),
    ("standard", (np.mean([6, 8, 8]), np.std([6, 8, 8])), np.std([2, 2, 2, 2, 0, -1, 4, 5, 1])),
])  # fmt: skip
def test_each_source_has_mean_0_and_standard_deviation_1(
    scaling: str, z: tuple[float, float], size_of_y: float
) -> None:
    part = example_sequences()
    found = InstanceStatistics.of(part.source, part.source_cells)
    assert found.mean == pytest.approx(np.array([[3, 2], [12, -0.5]]))
    assert found.std == pytest.approx(np.array([[ROOT_OF_VARIANCE, 1], [2, 0.5]]))
    assert found.constant.tolist() == [[False, True], [False, False]]
    spaces, notes = fit_spaces(INSTANCE.model_copy(update={"scaling": scaling}), part)
    part = part.with_spaces(*spaces)
    source, target = part.encode()
    r = ROOT_OF_VARIANCE
    assert source[0] == pytest.approx(np.array([[-2 / r, 0], [0, 0], [96 / r, 0], [2 / r, 0]]))
    assert source[1] == pytest.approx(np.array([[-1, 1], [1, -1], [0, 0], [0, 0]]))
    shift, scale = z
    # y of a is shifted, and scaled as in the whole training part; what was not observed is fed as
    # the last value that was.
    assert target[0] == pytest.approx(np.array([
        [(6 - shift) / scale, 4 / r, 2 / size_of_y], [(8 - shift) / scale, 4 / r, 3 / size_of_y],
    ]))  # fmt: skip
    assert target[1] == pytest.approx(np.array([[(8 - shift) / scale, 0, 3], [0, 0, 0]]))
    assert notes == [
        "y is constant in 1 of 2 training sources: shifted there, not scaled by its own standard"
        " deviation (data.normalize)",
        "z is a target feature but not a source feature, so it has no mean in a source; it keeps"
        " the scaling of the training part (data.scaling)",
    ]
    back = part.decode(np.asarray(target))
    seen = part.target_cells
    assert back[seen] == pytest.approx(part.target[seen])
    assert part.target_unit()[:, 0] == pytest.approx(np.array([[scale, r, size_of_y],
                                                               [scale, 2, 0.5]]))  # fmt: skip


def test_values_of_any_size_have_a_mean_and_a_standard_deviation() -> None:
    numbers = np.random.default_rng(1).normal(size=(7, 11, 2))
    full = np.full(7, 11)
    for level, size in ((0, 1e-200), (0, 1e200), (1e9, 1e-3), (-1e6, 1.0), (0.3, 0.0)):
        points = level + size * numbers
        part = Sequences(points, full, points[:, :0], full * 0, ("x", "y"), tuple("abcdefg"))
        found = InstanceStatistics.of(part.source, part.source_cells)
        near = (points - level) / (size or 1)
        assert found.constant.all() == (size == 0)
        assert (found.mean - level) / (size or 1) == pytest.approx(near.mean(axis=1), abs=1e-3)
        assert found.std / (size or 1) == pytest.approx(near.std(axis=1) if size else 1, rel=1e-9)


def test_rounding_is_no_spread() -> None:
    points = np.where(np.arange(10) % 2, 0.1 + 0.2, 0.3)[None, :, None]
    part = Sequences(points, np.array([10]), points[:, :0], np.array([0]), ("x",), ("a",))
    assert InstanceStatistics.of(part.source, part.source_cells).constant.all()


# --- leaks ----------------------------------------------------------------------------------------


def test_targets_padding_and_filled_cells_change_no_source(tmp_path: Path) -> None:
    part, other = fitted_parts({"normalize": "instance"}, example_sequences(), example_sequences())
    before, _ = part.encode()
    other.target[:], other.source[1, 2:], other.source[0, 2, 0] = 1e6, -7e5, 4.0
    for own, same in zip(part.sequence_scalers(), other.sequence_scalers(), strict=True):
        assert own.shift.tobytes() == same.shift.tobytes()
        assert own.scale.tobytes() == same.scale.tobytes()
    after, _ = other.encode()
    assert after[part.source_cells].tobytes() == before[part.source_cells].tobytes()


def test_the_length_of_the_longest_source_changes_no_bit() -> None:
    """A sequence is what it is alone, in whatever batch or file it comes."""
    points = np.random.default_rng(5).normal(size=(50, 13, 1)) + 100
    full, names = np.full(50, 13), tuple(map(str, range(50)))
    short = Sequences(points, full, points[:, :0], 0 * full, ("x",), names)
    space = Vectors(("x",), Scaling(np.zeros(1), np.ones(1), instance=True))
    short = short.with_spaces(space, space)
    for longer in (14, 20, 137):
        wide = replace(short, source=np.pad(points, ((0, 0), (0, longer - 13), (0, 0))))
        assert (wide.encode()[0][:, :13] == short.encode()[0]).all()


def test_what_follows_a_window_does_not_change_it(tmp_path: Path) -> None:
    rows = series(1, 200)[0, :, 0]
    window = {"window": {"source": 10, "target": 5}, "split": {"by": "time"}, "time": None,
              "series": None, "normalize": "instance"}  # fmt: skip

    def test_part(values: Floats) -> Floats:
        (tmp_path / "s.csv").write_text("x\n" + "".join(f"{value}\n" for value in values))
        found = load_data(OwnFile.model_validate({"path": str(tmp_path / "s.csv"), **window}))
        return np.asarray(found.test.encode()[0])

    changed = rows.copy()
    changed[195:] *= 1e3
    one, other = test_part(rows), test_part(changed)
    assert len(one) == 16
    assert one.tobytes() == other.tobytes()  # the last five rows are targets alone


# --- level and size -------------------------------------------------------------------------------


def test_a_model_forgets_level_and_size_of_each_sequence(tmp_path: Path) -> None:
    """Trained on x, and on a level and 7 x or so: the same forecasts, in the units of each."""
    points = series(40, 15)
    numbers = np.random.default_rng(8)
    level, size = 1000 + numbers.normal(0, 100, (40, 1, 1)), numbers.uniform(5, 9, (40, 1, 1))
    found = []
    for name, values in (("plain", points), ("moved", level + size * points)):
        folder, _ = trained_on(values, tmp_path / name)
        found.append(folder.read_predictions())
    names = [int(name) for name in found[0]["ids"]]
    expected = level[names] + size[names] * found[0]["forecast"]
    errors = (found[1]["forecast"] - expected) / size[names]
    assert np.abs(errors).max() < 1e-4
    assert np.abs(found[0]["forecast"] - found[0]["forecast"].mean()).max() > 0.5


def test_the_linear_baseline_gets_what_the_model_gets() -> None:
    points = series(60, 13)
    full = np.full(60, 1)
    part = Sequences(points[:, :10], 10 * full, points[:, 10:], 3 * full, ("x",),
                     tuple(map(str, range(60))))  # fmt: skip
    part = fitted_parts({"normalize": "instance"}, part)
    mean, std = (
        points[:, :10].mean(axis=1, keepdims=True),
        points[:, :10].std(axis=1, keepdims=True),
    )
    design = np.column_stack([((points[:, :10] - mean) / std)[..., 0], np.ones(60)])
    weights, *_ = np.linalg.lstsq(design, ((points[:, 10:] - mean) / std)[..., 0], rcond=None)
    expected = (design @ weights)[..., None] * std + mean
    fitted = whole(least_squares(part, part))
    assert fitted == pytest.approx(expected, abs=1e-9)
    name = "linear least squares (fitted)"
    against = ReferenceLosses.from_part(part, part, None)
    assert against.fitted[name] == pytest.approx(
        np.square((expected - points[:, 10:]) / part.target_space.scale).mean()
    )
    in_training_units = ReferenceLosses.from_part(part, part, None, in_training_units=True)
    assert in_training_units.fitted[name] == pytest.approx(
        np.square((expected - points[:, 10:]) / std).mean()
    )


# --- a whole run ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, LoadedModel]:
    return trained_on(series(60, 15), tmp_path_factory.mktemp("instance"))


def test_losses_are_worked_out_from_values(run: tuple[RunFolder, LoadedModel]) -> None:
    """In the unit of the training part, as with normalize: global; those of the training are in
    units of each sequence."""
    folder, trained = run
    data, summary = load_splits(trained), folder.read_summary()
    predictions = folder.read_predictions()
    spread = np.concatenate([data.train.source.ravel(), data.train.target.ravel()]).std()
    assert data.test.target_space.scale == pytest.approx([spread])
    errors = predictions["forecast"] - data.test.target
    assert summary["test_loss"] == pytest.approx(np.square(errors / spread).mean(), rel=1e-5)
    assert summary["rmse"]["this model"] == pytest.approx(
        [np.sqrt(np.square(errors).mean())], rel=1e-5
    )
    train, test = fitted_parts({}, data.train, data.test)
    for name, loss in ReferenceLosses.from_part(test, train, None).baselines.items():
        assert summary["baselines"][name] == pytest.approx(loss)
    # Told the truth: each sequence's loss in its own units, brought back.
    units = data.test.target_unit()[:, 0, 0]
    forced = [
        validate(AutogradLoss(trained.model), to_tensors(one))[1][0]
        for one in (data.test.select(slice(k, k + 1)) for k in range(len(data.test)))
    ]
    assert summary["test_loss_teacher_forced"] == pytest.approx(
        np.mean(np.array(forced) * np.square(units / spread)), rel=1e-5
    )
    # Of the validation part, beside the losses of the training.
    own = data.validation.source.std(axis=1, keepdims=True)
    free = free_run(trained.model, data.validation, 5).values
    assert summary["validation_loss"] == pytest.approx(
        np.square((free - data.validation.target) / own).mean(), rel=1e-5
    )
    last = build_baselines(data.train, data.validation, None).forecast(
        "last source point", data.validation
    )[:]
    assert summary["validation_baselines"]["last source point"] == pytest.approx(
        np.square((last - data.validation.target) / own).mean()
    )


def test_report_and_doctor_speak_of_the_same_losses(run: tuple[RunFolder, LoadedModel]) -> None:
    folder, _ = run
    content, summary = run_content(folder), folder.read_summary()
    assert np.mean(content["examples"]["losses"]) == pytest.approx(summary["test_loss"], rel=1e-5)
    (loss,) = [row for row in content["doctor"] if row["name"] == "worse than a baseline"]
    assert f"{summary['test_loss']:.4g}" in loss["number"]
    assert not content["notices"]


def test_a_checkpoint_says_whether_sources_are_normalized(
    run: tuple[RunFolder, LoadedModel],
) -> None:
    _, trained = run
    source, _ = trained.spec.vectors
    plain = source.scaling.as_plain()
    assert Scaling.from_plain(plain, 1).instance
    with pytest.raises(ValueError, match="true or false"):
        Scaling.from_plain({**plain, "instance": 1}, 1)
    config = from_plain({"data": {"kind": "file", "path": "x"}}, "old")
    assert isinstance(config.data, OwnFile)
    assert config.data.normalize == "global"


def test_explain_says_what_its_numbers_are_of(
    run: tuple[RunFolder, LoadedModel], seqattn: Command
) -> None:
    folder, trained = run
    test = load_splits(trained).test
    mean, std = test.source[2].mean(), test.source[2].std()
    taken = json.loads(seqattn("explain", folder.path, "--example", "2", "--format", "json").out)
    (name,) = trained.spec.source_features
    assert taken["source_units"] == {name: pytest.approx({"shift": mean, "scale": std})}
    assert taken["model_says_in_units"][name] == pytest.approx(taken["model_says"][0] * std + mean)
    output = " ".join(seqattn("explain", folder.path, "--example", "2").out.split())
    assert "normalized by mean and standard deviation of this source" in output
    assert f"({name} - {mean:g}) / {std:g}" in output


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_predict_forecasts_in_the_units_of_each_sequence(
    way: str, run: tuple[RunFolder, LoadedModel], seqattn: Command, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Small sequences keep as many digits as large ones."""
    folder, trained = run
    (name,) = trained.spec.source_features
    base = series(3, 10, seed=9)[:, :, 0]
    size, level = np.array([1e-7, 1.0, 1e6]), np.array([1e-6, 0.0, 1e8])
    points = level[:, None] + size[:, None] * base
    rows = [f"s{k},{t + 1},{float(x)!r}\n" for k in range(3) for t, x in enumerate(points[k])]
    text = f"sequence,step,{name}\n" + "".join(rows)
    (tmp_path / "mine.csv").write_text(text)
    given = tmp_path / "mine.csv" if way == "file" else "-"
    if way == "stdin":
        import io

        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    done = seqattn("predict", folder.path, "--input", given, "--output", "next.csv")
    assert done.code == 0, done.err
    lines = (tmp_path / "next.csv").read_text().splitlines()[1:]
    found = np.array([float(line.split(",")[2]) for line in lines]).reshape(3, 5)
    full = np.full(3, 10)
    part = Sequences(base[:, :, None], full, base[:, :0, None], full * 0, (name,), ("a", "b", "c"))
    part = in_spaces_of(part, trained.spec)
    plain = free_run(trained.model, part, 5).values[:, :, 0]
    errors = (found - level[:, None]) / size[:, None] - plain
    assert np.abs(errors).max() < 1e-5


def test_filled_cells_do_not_count_when_a_file_is_forecast(
    seqattn: Command, tmp_path: Path
) -> None:
    points = series(40, 15)[:, :, 0]
    empty = np.random.default_rng(2).random(points.shape) < 0.2
    empty[:, [0, 14]] = False
    rows = [f"s{k},{t + 1},{'' if empty[k, t] else repr(float(points[k, t]))}\n"
            for k in range(40) for t in range(15)]  # fmt: skip
    (tmp_path / "gaps.csv").write_text("sequence,step,x\n" + "".join(rows))
    folder, _ = experiments.train_one(
        a_run(tmp_path / "gaps.csv", "data.missing=interpolate"), tmp_path, plots=False
    )
    saved = folder.read_predictions()
    test = load_splits(open_run(folder.path)[1]).test
    assert test.source_observed is not None
    wanted = [int(name[1:]) for name in saved["ids"]]
    lines = [rows[15 * k + t] for k in wanted for t in range(10)]
    (tmp_path / "sources.csv").write_text("sequence,step,x\n" + "".join(lines))
    done = seqattn("predict", folder.path, "--input", "sources.csv", "--output", "next.csv")
    assert done.code == 0, done.err
    forecast_lines = (tmp_path / "next.csv").read_text().splitlines()[1:]
    found = np.array([float(line.split(",")[2]) for line in forecast_lines]).reshape(-1, 5)
    assert found == pytest.approx(saved["forecast"][:, :, 0], abs=1e-5)
    seen = test.source_cells[:, :, 0]
    mean = [row[cells].mean() for row, cells in zip(test.source[:, :, 0], seen, strict=True)]
    assert InstanceStatistics.of(test.source, test.source_cells).mean[:, 0] == pytest.approx(mean)
    assert np.abs(np.array(mean) - test.source[:, :, 0].mean(axis=1)).max() > 0.01


# --- caches --------------------------------------------------------------------------------------


def table_of(points: Floats, first: int) -> pa.Table:
    """Sequences of 12 to 15 points; some of constant sources."""
    columns: dict[str, Any] = {"sequence": [f"s{first + k}" for k in range(len(points))]}
    for t in range(points.shape[1]):
        column = points[:, t, 0].copy()
        column[t >= 12 + np.arange(len(points)) % 4] = np.nan
        columns[f"x_{t + 1}"] = column
    return pa.table(columns)


def test_a_cache_is_scaled_as_memory_is(tmp_path: Path) -> None:
    points = series(100, 15)
    points[::9, :10] = 4.25
    for name, first, last in (("train", 0, 60), ("validation", 60, 80), ("test", 80, 100)):
        (tmp_path / name).mkdir()
        pq.write_table(
            table_of(points[first:last], first), tmp_path / name / "p.parquet", row_group_size=17
        )
    shared = {"target_length": 3, "normalize": "instance"}
    folders = {f"{part}_path": str(tmp_path / part) for part in ("validation", "test")}
    files = {key: f"{path}/p.parquet" for key, path in folders.items()}
    cached = load_data(OwnFile.model_validate(
        {"path": str(tmp_path / "train"), **folders, **shared, "cache": "always"}))  # fmt: skip
    filed = load_data(
        OwnFile.model_validate({"path": str(tmp_path / "train" / "p.parquet"), **files, **shared})
    )
    assert (
        DataSpec.of_splits(cached).scaling_as_plain()
        == DataSpec.of_splits(filed).scaling_as_plain()
    )
    (note,) = [note for note in filed.notes if "constant" in note]
    # Of those that begin with ten equal points, four of lengths 9 and 10.
    assert note.startswith("x is constant in 4 of 60 training sources")
    assert note in cached.notes
    for one, other in zip(
        cached.train.encode(np.float32), filed.train.encode(np.float32), strict=True
    ):
        assert one.tobytes() == other.tobytes()


# --- the config -----------------------------------------------------------------------------------


def test_none_is_scaling_none() -> None:
    config = OwnFile.model_validate({"path": "x", "normalize": "none"})
    assert config.scaling == "none"
    assert OwnFile.model_validate(config.model_dump()) == config
    part = example_sequences()
    part.source[..., 1], part.target[..., 2] = 2, 2  # constant everywhere
    spaces, _ = fit_spaces(config, part)
    assert all(space.is_identity for space in spaces)


@pytest.mark.parametrize(("sets", "key", "words"), [
    (["normalize=none", "scaling=standard"], "scaling",
     "is standard, but data.normalize is none, which scales nothing"),
    (["normalize=instance", "relative=true"], "relative",
     "is true, but data.normalize: instance takes the level from each sequence already"),
    (["normalize=window"], "normalize", "none, global, instance"),
])  # fmt: skip
def test_keys_that_contradict_each_other_are_refused(sets: list[str], key: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(None, ["data.kind=file", "data.path=x", *(f"data.{each}" for each in sets)])
    (mistake,) = caught.value.mistakes
    assert key in mistake
    assert words in mistake.replace('"', "")


def test_trials_are_not_judged_in_other_units() -> None:
    with pytest.raises(ConfigError, match="1 mistake"):
        plan_search(ROOT / "configs" / "own_data.yaml", (), ["data.normalize=global,instance"])


# --- comparisons ----------------------------------------------------------------------------------


def test_variants_with_and_without_are_compared_in_one_unit(tmp_path: Path) -> None:
    np.save(tmp_path / "points.npy", series(40, 15))
    path = tmp_path / "c.yaml"
    path.write_text(
        f"name: three\ndata: {{kind: file, path: {tmp_path / 'points.npy'}, source_length: 10}}\n"
        "model: {hidden_dim: 3}\ntraining: {epochs: 2}\n"
    )
    comparison = plan_comparison(path, vary=["data.normalize=none,global,instance"], seeds=2)
    outcome = run_comparison(comparison, tmp_path)
    assert [(pair.first, pair.second) for pair in outcome.pairs] == [("global", "instance")]
    assert not outcome.same_units
    text = " ".join(describe_result(outcome))
    assert "The test losses are in different units" in text
    assert "different test sequences" not in text
    assert "(curves.png) are in different units" in text
    comparison = plan_comparison(
        path, ["name=two"], vary=["data.normalize=global,instance"], seeds=2
    )
    outcome = run_comparison(comparison, tmp_path)
    assert outcome.same_data
    assert outcome.same_units
    assert outcome.same_data_in_pairs
    text = " ".join(describe_result(outcome))
    assert "The test losses are in different units" not in text
    assert "(curves.png) are in different units" in text
    one, other = (arm.any_summary["baselines"] for arm in outcome.variants)
    assert one == pytest.approx(other)


def test_a_changing_level_is_forecast_better(tmp_path: Path) -> None:
    """What it is for: series of levels and sizes that no training series had."""
    rmse = {}
    points = series(240, 15)
    order = np.argsort(points[:, :10, 0].mean(axis=1))
    for way in ("global", "instance"):
        home = tmp_path / way
        home.mkdir()
        parts = {"path": order[40:200], "validation_path": order[:40], "test_path": order[200:]}
        paths = []
        for key, places in parts.items():
            np.save(home / f"{key}.npy", points[places])
            paths.append(f"data.{key}={home / f'{key}.npy'}")
        _, summary = experiments.train_one(
            a_run(home, *paths, f"data.normalize={way}", "training.epochs=30"), home, plots=False
        )
        (rmse[way],) = summary["rmse"]["this model"]
    assert rmse["instance"] < rmse["global"] / 2


def evaluated(trained: LoadedModel, data: Splits) -> float:
    against = ReferenceLosses.from_part(data.test, data.train, None)
    return evaluate(trained.model, data.test, against).loss


def test_a_loss_is_what_the_same_forecast_costs(run: tuple[RunFolder, LoadedModel]) -> None:
    """Sequences of ten times the size count a hundred times, as in the units of the data."""
    _, trained = run
    data = load_splits(trained)
    test = data.test.select(slice(None))
    large = replace(test, source=10 * test.source, target=10 * test.target)
    assert evaluated(trained, replace(data, test=large)) == pytest.approx(
        100 * evaluated(trained, data), rel=1e-4
    )
    assert forecast_mse(large.target, large) == 0
