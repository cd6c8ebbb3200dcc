"""The test part scored and written some sequences at a time: the same bytes and sums as whole."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqattn.analysis import evaluation
from seqattn.analysis.evaluation import (
    ReferenceLosses,
    evaluate,
    forecasts,
    free_run,
    npz,
    predictions_file,
)
from seqattn.analysis.evaluation.forecasts import pair_with_targets
from seqattn.analysis.evaluation.predictions_file import ForecastSpool
from seqattn.config import resolve
from seqattn.data import Sequences, Splits, load_data, windows
from seqattn.data.metrics import Errors
from seqattn.data.writing import forecast_arrays
from seqattn.errors import CheckpointError
from seqattn.models import FeatureSpec, build_model
from seqattn.runs.storage import arrays as npz_arrays
from seqattn.runs.storage import read_arrays, write_arrays

SEEDED = np.random.default_rng(11)
MADE = ["data.n_train=40", "data.n_validation=3", "data.n_test=29"]


def own(folder: Path, *sets: str) -> list[str]:
    rows = ["id,step,a,b"]
    for k in range(4):
        for t in range(90):
            a, b = SEEDED.normal(size=2)
            cells = [f"{a:.4f}", f"{b:.4f}"]
            if SEEDED.uniform() < 0.1:
                cells[int(SEEDED.integers(2))] = ""
            rows.append(f"s{k},{t + 1},{','.join(cells)}")
    file = folder / "own.csv"
    file.write_text("\n".join(rows) + "\n")
    return ["data.kind=file", f"data.path={file}", "data.missing=interpolate",
            "data.split.by=time", *sets]  # fmt: skip


WINDOWS = ["data.window.source=5", "data.window.target=3"]
CASES = {
    "made": lambda _: MADE,
    "lengths": lambda _: [*MADE, "data.variable_length=true"],
    "windows": lambda folder: own(folder, *WINDOWS),
    "instance": lambda folder: own(folder, *WINDOWS, "data.normalize=instance"),
    "features": lambda folder: own(
        folder, *WINDOWS, "data.source_features=[a,b]", "data.target_features=[b]"
    ),
}


@pytest.fixture(params=CASES, ids=str)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Splits:
    return load_data(resolve(None, ["name=n", *CASES[request.param](tmp_path)]).config.data)


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part in chunks of 3 windows, and 7 sequences in a call of the model."""
    monkeypatch.setattr(windows, "CHUNK_NUMBERS", 50)
    monkeypatch.setattr(forecasts, "MAX_CHUNK_SEQUENCES", 7)


@pytest.mark.parametrize("in_memory", [2**22, 100], ids=["memory", "disk"])
@pytest.mark.parametrize("packed_from", [2**20, 100], ids=["stored", "compressed"])
def test_a_spooled_predictions_file_has_the_bytes_of_one_written_at_once(
    data: Splits, in_memory: int, packed_from: int, few_at_once: None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for module in (npz_arrays, npz):
        monkeypatch.setattr(module, "MIN_COMPRESSED_BYTES", packed_from)
    monkeypatch.setattr(predictions_file, "MAX_MEMORY_BYTES", in_memory)
    monkeypatch.setattr(predictions_file, "MAX_CHUNK_NUMBERS", 40)
    monkeypatch.setattr(npz, "STRINGS_PER_CHUNK", 5)
    part = data.test
    forecast = SEEDED.normal(size=(len(part), part.target_steps, len(part.target_features)))
    (tmp_path / "d").mkdir()
    with ForecastSpool(tmp_path / "d", part) as spool:
        for first in range(0, len(part), 7):
            spool.add(forecast[first : first + 7])
        spool.write(tmp_path / "d" / "some.npz")
    whole = dict(forecast_arrays(part, forecast, with_target=True))
    if (times := part.times(slice(0, len(part)))) is not None:
        whole |= {"source_times": times[0], "target_times": times[1]}
    write_arrays(tmp_path / "whole.npz", whole)
    assert (tmp_path / "d/some.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["some.npz"]


def squares(
    values: np.ndarray, part: Sequences, scale: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for places, some in part.chunks():
        errors = values[places] - some.target
        yield np.square(errors if scale is None else errors / scale), some.target_cells


def over_cells(values: np.ndarray, part: Sequences, scale: np.ndarray | None) -> float:
    """The loss as it was worked out from the forecasts of all sequences."""
    total, count = 0.0, 0
    for squared, cells in squares(values, part, scale):
        seen = squared[cells]
        total, count = total + float(seen.sum()), count + seen.size
    return total / count


def over_axis(
    values: np.ndarray, part: Sequences, scale: np.ndarray | None, axis: int
) -> list[float | None]:
    """The mean squared error of each step or feature, likewise."""
    size = values.shape[axis]
    total, count = [0.0] * size, [0] * size
    for squared, cells in squares(values, part, scale):
        for k in range(size):
            seen = np.take(squared, k, axis)[np.take(cells, k, axis)]
            total[k], count[k] = total[k] + float(seen.sum()), count[k] + seen.size
    return [a / n if n else None for a, n in zip(total, count, strict=True)]


def absolute_errors(values: np.ndarray, part: Sequences) -> list[float]:
    F = len(part.target_features)
    total, count = [0.0] * F, [0] * F
    for places, some in part.chunks():
        for f in range(F):
            seen = some.target_cells[..., f]
            errors = values[places][..., f][seen] - some.target[..., f][seen]
            total[f], count[f] = total[f] + float(np.abs(errors).sum()), count[f] + errors.size
    return [a / n for a, n in zip(total, count, strict=True)]


@pytest.mark.usefixtures("few_at_once")
def test_errors_are_to_the_last_bit_those_of_all_forecasts(data: Splits) -> None:
    part = data.test
    config = resolve(None, ["model.hidden_dim=3"]).config
    carried = tuple(part.features.index(name) for name in part.target_features)
    model = build_model(
        config.model, FeatureSpec(len(part.features), len(part.target_features), carried), 1
    )
    against = ReferenceLosses.from_splits(part, data)
    kept = list[np.ndarray]()
    found = evaluate(model, part, against, on_chunk=lambda chunk: kept.append(chunk.values))
    values = free_run(model, part, part.target_steps).values
    assert np.array_equal(np.concatenate(kept), values)
    assert len(kept) > 2
    scale = part.target_space.scale
    assert found.loss == over_cells(values, part, scale)
    assert found.loss_by_step == over_axis(values, part, scale, 1)
    use_rmse = [None if one is None else math.sqrt(one) for one in over_axis(values, part, None, 2)]
    assert found.measures["rmse"] == use_rmse
    if against.in_sample is not None:
        assert found.errors == Errors.of(values, part, against.in_sample)
        assert found.errors is not None
        assert found.errors.mae == absolute_errors(values, part)
        assert found.errors.rmse == use_rmse
    forced = list(forecasts.teacher_forced_chunks(model, part))
    whole = np.concatenate([one for _, one in forced])
    assert found.loss_teacher_forced == over_cells(whole, part, scale)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_forecasts_come_with_the_chunks_of_their_part(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "CHUNK_NUMBERS", 50)
    part = load_data(resolve(None, ["name=n", *own(tmp_path, *WINDOWS)]).config.data).test
    values = SEEDED.normal(size=(len(part), 3, 2))
    pieces = ((slice(k, k + size), values[k : k + size]) for k in range(0, len(part), size))
    found = list(pair_with_targets(part, pieces))
    assert [one[0] for one in found] == [places for places, _ in part.chunks()]
    assert all(len(one[1]) == len(one[2]) for one in found)
    assert np.array_equal(np.concatenate([one[2] for one in found]), values)


def test_a_run_keeps_no_forecasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the whole part's nor a copy: `free_run` makes an array of all."""
    from seqattn.experiments import train_one

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("an array of all forecasts")

    monkeypatch.setattr(evaluation.forecasts, "free_run", refused)
    sets = ["name=n", *MADE, "training.epochs=1", "model.hidden_dim=2"]
    folder, _ = train_one(resolve(None, sets).config, tmp_path, plots=False)
    assert read_arrays(folder.predictions)["forecast"].shape[0] == 29


def test_few_rows_of_an_array_are_kept_and_all_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cells = tmp_path / "a.npz", SEEDED.normal(size=(50, 5, 3))
    write_arrays(path, {"source": cells, "ids": np.array([str(k) for k in range(50)])})
    assert len(read_arrays(path, 7)["source"]) == 50  # small
    monkeypatch.setattr(npz_arrays, "MAX_WHOLE_BYTES", 100)
    found = read_arrays(path, 7)["source"]
    assert np.array_equal(found, cells[:7])
    assert found.base is None or found.base.nbytes < cells.nbytes / 2
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("source.npy").header_offset + 5000  # far behind the first rows
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_arrays(path, 7)
