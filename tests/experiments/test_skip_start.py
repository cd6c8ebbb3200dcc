"""The map that `model.skip: linear` starts at: its values, its first loss, and what keeps it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqattn import experiments
from seqattn.config import Config, resolve
from seqattn.data import Sequences, load_data
from seqattn.data.ridge import PENALTIES, RidgeMap, ridge_map, ridge_work
from seqattn.errors import ConfigError
from seqattn.experiments import train_one
from seqattn.experiments.job import Job
from seqattn.experiments.prepare import build_initial_model, fit_skip_maps
from seqattn.experiments.verify_resume import verify_resume
from seqattn.models import LinearSkip, Seq2SeqModel
from seqattn.runs import RunFolder
from seqattn.training import batch_of
from seqattn.training.checkpoints import load_model
from seqattn.training.objective import AutogradLoss, validate
from tests.conftest import fitted_parts

N, S, T, F, G = 61, 5, 3, 2, 3
Floats = NDArray[np.float64]
UNITS: dict[str, dict[str, Any]] = {
    "standard": {},
    "relative": {"relative": True},
    "instance": {"normalize": "instance"},
    "robust": {"scaling": "robust"},
    "none": {"scaling": "none"},
}


def part_of(seed: int, *, gaps: bool) -> Sequences:
    """Random walks of two features in unlike units, of which x is said, and z is said alone."""
    numbers = np.random.default_rng(seed)
    walk = numbers.normal(size=(N, S + T, F)).cumsum(axis=1) * [1.0, 300.0] + [5.0, -1e4]
    source = walk[:, :S]
    others = numbers.normal(size=(N, T, G - 1)) * [2.0, 1e-3] + [0.0, 7.0]
    target = np.concatenate([walk[:, S:, :1], others + 0.1 * source[:, :1, :1]], axis=2)
    observed = None
    if gaps:
        observed = numbers.random((N, T, G)) < 0.8
        observed[:, 0] = True
        target[~observed] = np.nan
    return Sequences(
        source, np.full(N, S), target, np.full(N, T), ("x", "y"), tuple(map(str, range(N))),
        target_features=("x", "w", "z"), target_observed=observed,
    )  # fmt: skip


def by_normal_equations(rows: Floats, goal: Floats, penalty: float) -> tuple[Floats, float]:
    """Ridge regression of one column in float64, from its centred normal equations."""
    middle, level = rows.mean(axis=0), goal.mean()
    centred = rows - middle
    gram = centred.T @ centred
    share = penalty * np.trace(gram) / len(gram)
    if penalty:
        slopes = np.linalg.solve(gram + share * np.eye(len(gram)), centred.T @ (goal - level))
    else:
        slopes = np.linalg.pinv(centred) @ (goal - level)
    return slopes, float(level - middle @ slopes)


def independent(train: Sequences, check: Sequences) -> RidgeMap:
    """The same as `ridge_map`, from what a network is given."""
    (rows, goal), (shown, truth) = (
        tuple(np.asarray(each, dtype=np.float64).reshape(N, -1) for each in part.encode())
        for part in (train, check)
    )
    seen, scored = (part.target_cells.reshape(N, -1) for part in (train, check))
    found = []
    for penalty in PENALTIES:
        fits = [
            by_normal_equations(rows[seen[:, k]], goal[seen[:, k], k], penalty)
            for k in range(T * G)
        ]
        weight, bias = (np.array(each) for each in zip(*fits, strict=True))
        loss = float(np.square(shown @ weight.T + bias - truth)[scored].mean())
        found.append(RidgeMap(weight.reshape(T, G, S, F), bias.reshape(T, G), penalty, loss))
    return min(found, key=lambda each: each.loss)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("units", UNITS)
def test_the_start_is_an_independent_ridge_regression(units: str, gaps: bool) -> None:
    train, check = fitted_parts(UNITS[units], part_of(1, gaps=gaps), part_of(2, gaps=gaps))
    expected = independent(train, check)
    found = ridge_map(train, check)
    assert found.penalty == expected.penalty > 0
    assert found.loss == pytest.approx(expected.loss, rel=1e-4)
    largest = np.abs(expected.weight).max()
    np.testing.assert_allclose(found.weight, expected.weight, rtol=1e-4, atol=1e-5 * largest)
    np.testing.assert_allclose(found.bias, expected.bias, rtol=1e-4, atol=1e-4)
    assert found.weight.dtype == found.bias.dtype == np.float32


def test_the_validation_part_chooses_a_penalty_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train, *checks = fitted_parts(
        {}, part_of(1, gaps=True), part_of(2, gaps=True), part_of(3, gaps=False)
    )
    checks[1].target[:] = checks[1].target[::-1]  # of other sequences: only the mean is right
    chosen = [ridge_map(train, check) for check in checks]
    assert chosen[0].penalty < chosen[1].penalty == max(PENALTIES)
    for check, found in zip(checks, reversed(chosen), strict=True):
        monkeypatch.setattr("seqattn.data.ridge.PENALTIES", (found.penalty,))
        alone = ridge_map(train, check)  # asked of the other validation part
        assert np.array_equal(alone.weight, found.weight)
        assert np.array_equal(alone.bias, found.bias)


@pytest.mark.parametrize("unit", [1e30, 1e200])
def test_a_constant_column_and_huge_units_do_no_harm(unit: float) -> None:
    train = part_of(1, gaps=False)
    train.source[:, 2, 1] = 1e-3
    train.source[..., 0] *= unit
    found = ridge_map(train, train)
    assert not found.weight[:, :, 2, 1].any()
    assert math.isfinite(found.loss) == (unit < 1e38)  # float32 cannot hold 1e200


def test_cells_that_no_training_sequence_has_start_at_zero() -> None:
    train, check = part_of(1, gaps=True), part_of(2, gaps=True)
    assert train.target_observed is not None
    train.target_observed[:, 2, 1] = False
    found = ridge_map(*fitted_parts({}, train, check))
    assert not found.weight[2, 1].any()
    assert found.bias[2, 1] == 0
    assert found.weight[2, 0].any()


def window_file(path: Path, *, gaps: bool = True) -> list[str]:
    """Settings for windows of a walk with a season, some cells of which are empty."""
    numbers = np.random.default_rng(5)
    steps = np.arange(240)
    values = np.sin(steps / 3) * 4 + numbers.normal(size=240).cumsum() * 0.3
    cells = [f"{v:.4f}" if not gaps or k % 17 else "" for k, v in enumerate(values)]
    rows = [f"s,{k},{cell}" for k, cell in enumerate(cells)]
    path.write_text("\n".join(["series,step,v", *rows]) + "\n", encoding="utf-8")
    return [
        "data.kind=file", f"data.path={path}", "data.series=series", "data.time=step",
        "data.window={source: 12, target: 4}", "data.missing=interpolate", "data.split.by=time",
        "model.skip=linear", "model.hidden_dim=4", "training.epochs=2", "training.batch_size=32",
    ]  # fmt: skip


def started(config: Config) -> tuple[Job, Seq2SeqModel]:
    ((job,),) = fit_skip_maps([[Job(config, RunFolder(Path("nowhere")), load_data(config.data))]])
    return job, build_initial_model(job)


def skip_of(model: Seq2SeqModel) -> LinearSkip:
    assert model.skip is not None
    return model.skip


@pytest.mark.parametrize("kind", ["recurrent", "fast_weights", "transformer"])
@pytest.mark.parametrize("units", ["standard", "relative", "instance"])
def test_the_first_validation_error_is_that_of_the_map(
    kind: str, units: str, tmp_path: Path
) -> None:
    sets = [each for each in window_file(tmp_path / "a.csv") if "hidden_dim" not in each]
    sets += [f"data.{key}={json.dumps(value)}" for key, value in UNITS[units].items()]
    config = resolve(
        None, [*sets, f"model.kind={kind}", "training.teacher_forcing.probability=1"]
    ).config
    job, model = started(config)
    data, skip = job.data, skip_of(model)
    found = ridge_map(data.train, data.validation)
    np.testing.assert_array_equal(skip.weight.detach().numpy(), found.weight)
    checked = batch_of(data.validation, torch.device("cpu"))
    (free,), (forced,), *_ = validate(AutogradLoss(model), checked)
    assert free == pytest.approx(found.loss, rel=1e-5)
    assert forced == pytest.approx(found.loss, rel=1e-5)


def maps_of(folder: Path) -> dict[str, torch.Tensor]:
    weights = load_model(RunFolder(folder).best).model.state_dict()
    return {name: weights[f"skip.{name}"] for name in ("weight", "bias")}


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_a_frozen_map_stays_and_others_move(optimizer: str, tmp_path: Path) -> None:
    sets = [*window_file(tmp_path / "a.csv"), f"training.optimizer={optimizer}",
            "training.weight_decay=0.1"]  # fmt: skip
    start = skip_of(started(resolve(None, sets).config)[1])
    for name in ("frozen", "finetuned", "learned"):
        config = resolve(None, [*sets, f"model.skip_map={name}", f"name={name}"]).config
        folder, _ = train_one(config, tmp_path / "outputs", plots=False)
        found = maps_of(folder.path)
        assert torch.equal(found["weight"], start.weight) == (name == "frozen")
        assert torch.equal(found["bias"], start.bias) == (name == "frozen")
        assert ("starts at the ridge map" in folder.log.read_text()) == (name != "learned")


def test_every_seed_has_the_map_of_the_run_alone(tmp_path: Path) -> None:
    config = resolve(None, [*window_file(tmp_path / "a.csv"), "seed=3"]).config
    jobs = experiments.train_many(experiments.seeds_of(config, tmp_path / "many", 3))
    alone, _ = train_one(config, tmp_path / "alone", plots=False)
    expected = maps_of(alone.path)
    for job in jobs:
        for name, tensor in maps_of(job.folder.path).items():
            assert torch.equal(tensor, expected[name])
    assert jobs[0].summary is not None
    losses = [json.loads((path / "summary.json").read_text())["test_loss"]
              for path in (alone.path, jobs[0].folder.path)]  # fmt: skip
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("name", ["frozen", "finetuned"])
def test_a_stopped_run_goes_on_to_the_same_bytes_without_a_second_fit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve(None, [*window_file(tmp_path / "a.csv"), f"model.skip_map={name}"]).config
    found = verify_resume(config, tmp_path, stops=2, message=lambda line: None)
    assert found.difference is None
    longer = resolve(None, [*window_file(tmp_path / "a.csv"), f"model.skip_map={name}",
                            "training.weight_decay=0.1"]).config  # fmt: skip
    train_one(longer, tmp_path / "outputs", plots=False)
    before = maps_of(tmp_path / "outputs" / longer.name)

    def fitted_again(*_: object) -> RidgeMap:
        raise AssertionError("fitted again")

    monkeypatch.setattr("seqattn.experiments.prepare.ridge_map", fitted_again)
    more = longer.model_copy(update={"training": longer.training.model_copy(update={"epochs": 4})})
    folder, summary = train_one(more, tmp_path / "outputs", plots=False, resume=True)
    assert summary["epochs"] == 4
    if name == "frozen":
        assert torch.equal(maps_of(folder.path)["weight"], before["weight"])


def test_too_many_numbers_start_at_zero_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve(None, window_file(tmp_path / "a.csv", gaps=False)).config
    assert ridge_work(load_data(config.data).train) == 12**3
    monkeypatch.setattr("seqattn.experiments.prepare.MAX_WORK", 12**3 - 1)
    folder, _ = train_one(config, tmp_path / "outputs", plots=False)
    log = folder.log.read_text()
    assert (
        "model.skip: linear starts at zero and is trained, because a source has 12 numbers" in log
    )
    assert maps_of(folder.path)["weight"].any()
    more = config.model_copy(update={"training": config.training.model_copy(update={"epochs": 3})})
    before = maps_of(folder.path)["weight"]
    train_one(more, tmp_path / "outputs", plots=False, resume=True)
    assert not torch.equal(maps_of(folder.path)["weight"], before)  # and it still is trained


def test_a_map_without_a_skip_is_refused() -> None:
    with pytest.raises(ConfigError, match="is learned, but with skip: none there is no map"):
        resolve(None, ["model.skip_map=learned"])
