"""A forecast is one number, whichever way it is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import seqattn as api
from seqattn.errors import DataError, UsageError
from seqattn.experiments.api.arguments import DataNote
from seqattn.report.content.examples import examples_content
from seqattn.runs import RunFolder
from tests.conftest import Ended
from tests.packed_points import unpack_points

Frame = Any
STEPS = 23
WINDOW = ["data.window={source: 7, target: 3, stride: 2}"]
CUT = ["data.target_length=3"]
FILL = ["data.missing=interpolate"]


def own(*, dates: pd.DatetimeIndex | None = None, gaps: bool = True) -> Frame:
    """13 series of 11 to 23 steps, with empty cells and, if there are dates, a missing row."""
    numbers = np.random.default_rng(5)
    frames = []
    for k in range(13):
        steps = np.arange(1, STEPS + 1) if dates is None else dates[:STEPS]
        values = numbers.normal(size=(STEPS, 3)).cumsum(axis=0) * [1, 100, 0.01] + [0, 3000, 5]
        if gaps:
            values[numbers.random(values.shape) < 0.2] = np.nan
            values[[0, 8, 12, 16], :2] = numbers.normal(size=(4, 2))
            values[STEPS - 4] = np.nan  # the last source step of the sequences that are cut
        frame = pd.DataFrame(values, columns=["a", "b", "c"])
        frame.insert(0, "step", steps)
        frame.insert(0, "sequence", f"s{k}")
        frame["kind"] = "even" if k % 2 else "odd"
        frames.append(frame[-11 - k :])
    return pd.concat(frames).reset_index(drop=True)


BUSINESS_DAYS = pd.bdate_range("2021-03-01", periods=STEPS)
MONTHS = pd.date_range("2021-01-31", periods=STEPS, freq="ME")
ALL = ["data.features=[a, b, c]"]
CASES: dict[str, tuple[Callable[[], Frame] | None, list[str]]] = {
    **{f"{normal}, windows": (own, [*ALL, *WINDOW, *FILL, f"data.normalize={normal}"])
       for normal in ("none", "global", "instance")},
    **{f"{scaling}, lengths": (own, [*ALL, *CUT, *FILL, f"data.scaling={scaling}"])
       for scaling in ("minmax", "robust")},
    "instance, lengths": (own, [*ALL, *CUT, *FILL, "data.normalize=instance"]),
    "relative": (own, [*ALL, *CUT, *FILL, "data.relative=true"]),
    "business days": (
        lambda: own(dates=BUSINESS_DAYS), [*ALL, *CUT, *FILL, "data.normalize=instance"]),
    "months": (lambda: own(dates=MONTHS), [*ALL, *WINDOW, *FILL, "data.normalize=instance"]),
    "columns": (own, ["data.source_features=[c, a]", "data.target_features=[a]", *WINDOW, *FILL,
                      "data.normalize=instance"]),
    "one hot": (own, [*CUT, *FILL, "data.ignore=[a, c]", "data.one_hot=[kind]",
                      "data.normalize=instance"]),
    "no gaps, instance": (lambda: own(gaps=False), [*ALL, *CUT, "data.normalize=instance"]),
    "drop, instance": (
        lambda: own(gaps=False).query("index != 5"),
        [*ALL, *WINDOW, "data.missing=drop_sequence", "data.normalize=instance"]),
    "generated": (None, ["data.variable_length=true", "data.n_train=31", "data.n_validation=5",
                         "data.n_test=7"]),
}  # fmt: skip


@pytest.fixture(params=CASES, ids=str)
def trained(request: pytest.FixtureRequest, tmp_path: Path, no_pictures: None) -> Any:
    """A run, and its data as a frame; None if its data are generated."""
    make, sets = CASES[request.param]
    frame = None
    if make is not None:
        frame = make()
        frame.to_csv(tmp_path / "own.csv", index=False)
        sets = ["data.kind=file", f"data.path={tmp_path / 'own.csv'}", *sets]
    run = api.train(
        None, output_dir=tmp_path, progress=False,
        overrides=["name=run", "training.epochs=2", "model.hidden_dim=5", *sets],
    )  # fmt: skip
    return run, frame


def sources_of(run: api.Run, frame: Frame | None) -> Frame:
    """The rows of the sources of the test sequences, with what the file has in their cells."""
    known, found = run.folder.read_predictions(), []
    for k, length in enumerate(known["source_lengths"]):
        if frame is None:
            rows = pd.DataFrame(known["source"][k, :length], columns=list(known["features"]))
            rows.insert(0, "step", np.arange(1, length + 1))
            rows.insert(0, "sequence", "")
        else:
            rows = frame[frame["sequence"] == str(known["ids"][k]).partition("@")[0]]
            times = pd.Series(known["source_times"][k, :length])
            rows = rows[rows["step"].isin(times)]
        found.append(rows.assign(sequence=f"q{k:03}"))
    return pd.concat(found)


def test_every_way_to_ask_for_a_forecast_gives_the_same_numbers(
    trained: tuple[api.Run, Frame | None], seqattn: Callable[..., Ended], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run, frame = trained
    known = run.folder.read_predictions()
    expected, T = known["forecast"], known["target_lengths"]
    size = run.trained.spec.target.scale

    def check(found: NDArray[np.float64], like: NDArray[np.float64] = expected) -> None:
        """Every valid step is the same number, except for the rounding of float32."""
        assert found.shape == like.shape
        keep = np.isfinite(like)
        np.testing.assert_allclose(
            np.where(keep, found, 0) / size, np.where(keep, like, 0) / size, rtol=0, atol=3e-5
        )

    def predicted(*words: str | Path) -> NDArray[np.float64]:
        ended = seqattn("predict", run.folder.path, *words, "--output", tmp_path / "found.npz")
        assert ended.code == 0, ended.err
        with np.load(tmp_path / "found.npz") as arrays:
            found = arrays["forecast"]
        (tmp_path / "found.npz").unlink()
        return found

    monkeypatch.setattr("seqattn.data.tables.long.CHUNK_ROWS", 40)  # several chunks
    check(predicted())
    check(predicted("--example", "1"), expected[1:2])
    sources = sources_of(run, frame)
    sources.to_csv(tmp_path / "sources.csv", index=False)
    check(predicted("--input", tmp_path / "sources.csv"))
    check(predicted("--input", run.folder.predictions))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNote)
        check(run.predict(sources))
        columns = run.predict_frame(sources)[list(known["said"])].to_numpy()
        check(columns.reshape(expected.shape))
        check(run.predict(known["source"], observed=known.get("source_observed")))
        observed = known.get("source_observed", np.isfinite(known["source"]))
        empty = np.where(observed, known["source"], np.nan)
        # An array has no times, and empty last steps are padding.
        last = np.arange(len(empty)), known["source_lengths"] - 1
        is_even = frame is None or frame["step"].dtype.kind == "i"
        if is_even and observed[last].any(axis=1).all():
            check(run.predict(empty))
            check(run.predict(np.ma.masked_invalid(empty)))
            k = int(T.argmax())
            check(run.predict(empty[k, : known["source_lengths"][k]]), expected[k])

    packed = examples_content(RunFolder(run.folder.path), [], 1.0, {})["examples"]["forecast"]
    check(unpack_points(packed))


def test_a_missing_cell_of_an_array_is_a_clear_error_if_it_cannot_be_filled(
    tmp_path: Path, no_pictures: None
) -> None:
    sets = ["training.epochs=1", "data.ignore=[b, c, kind]", *CUT]
    frame = own(gaps=False)
    refusing = api.train(
        None, data=frame, output_dir=tmp_path, progress=False, overrides=["name=refusing", *sets]
    )
    filling = api.train(
        None, data=frame, output_dir=tmp_path, progress=False,
        overrides=["name=filling", *sets, *FILL],
    )  # fmt: skip
    gap, whole = [[1.0], [np.nan], [3.0]], [[1.0], [2.0], [3.0]]
    inner = [[True], [False], [True]]
    with pytest.raises(DataError, match=r"sequence 0: .*data\.missing: interpolate"):
        refusing.predict(gap)
    with pytest.raises(DataError, match=r"sequence 0: .*data\.missing: interpolate"):
        refusing.predict(whole, observed=inner)
    with pytest.warns(DataNote, match="1 empty cell interpolated"):
        assert (filling.predict(gap) == filling.predict(whole)).all()
    # A number that was filled stays as it is, and one that is padding is left out.
    assert (filling.predict(whole, observed=inner) == filling.predict(whole)).all()
    assert (filling.predict([*whole, [np.nan]]) == filling.predict(whole)).all()
    with pytest.raises(DataError, match="sequence 1 has no 'a' in its source"):
        filling.predict([whole, whole], observed=[inner, [[False]] * 3])
    with pytest.raises(DataError, match="observed: expected booleans of shape"):
        filling.predict(whole, observed=[True, False, True])
    with pytest.raises(DataError, match="sequence 0"):
        filling.predict([[1.0], [np.inf], [3.0]])
    with pytest.raises(UsageError, match="observed"):
        filling.predict(frame, observed=inner)
