"""What must not depend on the units of the data: the linear baseline, and when a feature is scaled."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seqattn.analysis.evaluation import ReferenceLosses
from seqattn.config import OwnFile
from seqattn.data import Sequences, spaces
from seqattn.data.baselines import (
    build_baselines,
)
from seqattn.data.fitting import FeatureScale, Method, fit_features, fit_spaces
from seqattn.data.least_squares import least_squares
from seqattn.data.metrics import InSample
from seqattn.data.naive import check_season
from seqattn.errors import DataError
from tests.conftest import fitted_parts, whole

N, S, T, F = 211, 5, 3, 2


def part_of(seed: int, *, level: float = 0.0) -> Sequences:
    """Walks whose target goes on from the source, and a source column that never changes."""
    numbers = np.random.default_rng(seed)
    walk = numbers.normal(size=(N, S + T, F)).cumsum(axis=1) + level
    walk[:, 0, 1] = level
    full = np.full(N, 1)
    return Sequences(
        walk[:, :S], S * full, walk[:, S:], T * full, ("x", "y"), tuple(map(str, range(N)))
    )


def changed(part: Sequences, a: float, b: float) -> Sequences:
    return replace(part, source=a * part.source + b, target=a * part.target + b)


@pytest.mark.parametrize("at_once", [2**22, 40 * S * F])
@pytest.mark.parametrize("a", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("b", [0.0, 1e6, 1e9])
def test_the_linear_baseline_does_not_depend_on_units(
    a: float, b: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the same values brought back near 1 first: what float64 rounds off a x + b is the
    same for both."""
    monkeypatch.setattr(spaces, "MAX_BLOCK_VALUES", at_once)
    train, test = (changed(part_of(seed), a, b) for seed in (1, 2))
    plain_train, plain_test = (changed(changed(part, 1, -b), 1 / a, 0) for part in (train, test))
    design = np.column_stack([plain_train.source.reshape(N, -1), np.ones(N)])
    weights, *_ = np.linalg.lstsq(design, plain_train.target.reshape(N, -1), rcond=None)
    design = np.column_stack([plain_test.source.reshape(N, -1), np.ones(N)])
    expected = (design @ weights).reshape(N, T, F) - plain_test.target
    fitted = whole(least_squares(train, test))
    assert fitted is not None
    errors = (fitted - test.target) / a
    rounding = 4 * np.finfo(float).eps * (b / a)  # of the forecast itself
    assert np.abs(errors - expected).max() < 1e-7 + rounding


def test_the_linear_baseline_is_relative_where_the_model_is() -> None:
    """Sequences of a level that no training sequence had."""
    train, test = part_of(1), part_of(2, level=50.0)
    at_zero = [changed(part, 1, 0) for part in (train, test)]
    for k, part in enumerate(at_zero):
        last = part.source[:, -1:]
        at_zero[k] = replace(part, source=part.source - last, target=part.target - last)
    expected = whole(least_squares(*at_zero))
    assert expected is not None
    own, other = fitted_parts({"relative": True}, train, test)
    found = whole(least_squares(own, other))
    assert found == pytest.approx(expected + test.source[:, -1:], abs=1e-9)
    moved = whole(least_squares(own, changed(other, 1, 1e3)))
    assert moved == pytest.approx(found + 1e3, abs=1e-9)
    name = "linear least squares (fitted)"
    relative = ReferenceLosses.from_part(other, own, None).fitted[name]
    plain = ReferenceLosses.from_part(test, train, None).fitted
    assert relative < plain[name] * 10  # under one name, whatever it is fitted to


def fitted(method: Method, *values: np.ndarray[Any, Any]) -> FeatureScale:
    """The scale of a feature whose values come in pieces."""
    return fit_features(method, ("x",), lambda: (("x", piece) for piece in values))["x"]


@pytest.mark.parametrize("method", ["standard", "minmax", "robust"])
@pytest.mark.parametrize("spread", [1e-3, 1e-5, 1e-6])
def test_a_feature_is_scaled_by_its_spread_however_small(method: Method, spread: float) -> None:
    """1e9 and a spread of 1e-15 to 1e-12 of it: down to what float64 can tell apart."""
    values = 1e9 + spread * np.random.default_rng(1).normal(size=4001)
    near = values - 1e9  # exact
    found, plain = (fitted(method, values), fitted(method, near))
    assert not found.constant
    assert found.scale == pytest.approx(plain.scale, rel=1e-6)
    assert found.shift - 1e9 == pytest.approx(plain.shift, abs=1.2e-7)
    merged = fitted(method, *np.array_split(values, 7))
    assert merged.scale == pytest.approx(plain.scale, rel=1e-6)


@pytest.mark.parametrize("method", ["standard", "minmax", "robust"])
def test_the_unit_of_a_feature_may_be_small_but_not_too_small(method: Method) -> None:
    """Squares of less than 1e-162 are 0 in float64, and the standard deviation was 0 too."""
    values = np.random.default_rng(1).normal(size=4001)
    assert fitted(method, 1e-99 * values).scale == pytest.approx(
        1e-99 * fitted(method, values).scale
    )
    for unit in (1e-101, 1e-162, 1e-300, 1e-315):
        with pytest.raises(DataError, match=r"x: the values .* from -.* to .* Multiply the column"):
            fitted(method, unit * values)


@pytest.mark.parametrize(
    ("keys", "smallest"),
    [({}, 1e-15), ({"relative": True}, 1e-15), ({"normalize": "instance"}, 1e-100)],
)
def test_small_values_without_scaling_are_refused(keys: dict[str, Any], smallest: float) -> None:
    """In float32, they would be 0 or have squares of 0. Zeros are kept."""
    config = OwnFile.model_validate({"path": "-", "scaling": "none", **keys})
    part = part_of(1)
    part.source[..., 1], part.target[..., 1] = 0, 0
    for factor in (0.001, 100):
        scaled = replace(part, source=factor * smallest * part.source,
                         target=factor * smallest * part.target)  # fmt: skip
        with nullcontext() if factor > 1 else pytest.raises(DataError, match="x: the largest abs"):
            fit_spaces(config, scaled)


@pytest.mark.parametrize("method", ["standard", "minmax", "robust"])
def test_rounding_is_no_spread_and_a_note_reports_it(method: Method) -> None:
    values = np.where(np.arange(100) % 2, 0.1 + 0.2, 0.3)
    found = fitted(method, values)
    assert (found.scale, found.constant) == (1, True)
    if method == "robust":  # of quartiles, too
        wide = fitted(method, np.append(values, [5.0, -5.0]))
        assert wide.quartiles_are_equal
        assert wide.scale > 0.1
    part = part_of(1)
    part.source[..., 0], part.target[..., 0] = 0.3, 0.1 + 0.2
    _, notes = fit_spaces(OwnFile.model_validate({"path": "-", "scaling": method}), part)
    assert notes == ["x is always 0.3 in the training part: not scaled"]


def test_the_season_before_a_short_source_is_refused_in_every_part() -> None:
    """A training part may be long enough where another is not."""
    train, test = part_of(1), part_of(2)
    given = InSample(S, "given", (1.0, 1.0), (None, None))
    build_baselines(train, test, None, given)
    lengths = test.source_lengths.copy()
    lengths[3] = S - 1
    message = "data.season is 5, but a source may have only 4 points"
    with pytest.raises(DataError, match=message):
        build_baselines(train, replace(test, source_lengths=lengths), None, given)
    with pytest.raises(DataError, match=message):
        check_season(replace(test, source_lengths=lengths), S)
