from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqattn.analysis.evaluation import ReferenceLosses
from seqattn.config import Squares
from seqattn.data import Sequences, baselines, load_data, squares
from seqattn.data.least_squares import LEAST_SQUARES
from seqattn.data.scoring import ErrorSums
from seqattn.errors import DataError

Golden = dict[str, dict[str, Any]]


@pytest.mark.parametrize(("case", "seed"), [("data-13", 13), ("data-19", 19)])
def test_squares_are_drawn_as_ever(golden: Golden, case: str, seed: int) -> None:
    points, _, _, directions = squares.draw_walks(128, seed)
    expected = golden[case]
    atol = expected["tolerance"]["atol"]
    np.testing.assert_allclose(points[0], expected["expected"][0], atol=atol, rtol=0)
    assert directions[:10].tolist() == expected["directions10"]
    assert sum(float(walk.sum()) for walk in points) == pytest.approx(expected["sum_all"], abs=1e-9)


def expected_points(n: int, seed: int, variable: bool) -> list[np.ndarray]:
    """The draws, spelt out one after another."""
    corners = [(-1, -1), (-1, 1), (1, 1), (1, -1)]
    stream = np.random.RandomState(seed)
    bases = stream.randint(4, size=n)
    lengths = stream.randint(3, size=n) + 2 if variable else [4] * n
    directions = stream.randint(2, size=n)
    walks = []
    for base, direction, length in zip(bases, directions, lengths, strict=True):
        round_trip = [corners[(base + k) % 4] for k in range(4)]
        if direction == 0:
            round_trip = round_trip[::-1]
        walks.append(np.array(round_trip[:length]) + stream.randn(length, 2) * 0.1)
    return walks


@given(n=st.integers(1, 30), seed=st.integers(0, 2**32 - 1), variable=st.booleans())
def test_squares_follow_the_draw_order_bit_for_bit(n: int, seed: int, variable: bool) -> None:
    points, _, lengths, _ = squares.draw_walks(n, seed, variable_length=variable)
    for ours, L, theirs in zip(points, lengths, expected_points(n, seed, variable), strict=True):
        assert np.array_equal(ours[:L], theirs)
        assert (ours[L:] == 0).all()


def test_the_global_stream_is_neither_used_nor_moved() -> None:
    np.random.seed(1)
    before = squares.draw_walks(9, 5)[0]
    untouched = np.random.random_sample()
    np.random.seed(1)
    assert np.random.random_sample() == untouched
    assert np.array_equal(before, squares.draw_walks(9, 5)[0])


@given(seed=st.integers(0, 1000), given_corners=st.integers(1, 3), variable=st.booleans())
def test_every_walk_keeps_a_corner_of_source_and_of_target(
    seed: int, given_corners: int, variable: bool
) -> None:
    part = squares.generate_squares(
        17, seed, noise=0.1, source_length=given_corners, variable_length=variable
    )
    assert part.source_lengths.min() >= 1
    assert part.target_lengths.min() >= 1
    assert part.source_lengths.max() <= given_corners
    whole, _, lengths, _ = squares.draw_walks(17, seed, variable_length=variable)
    for k, L in enumerate(lengths):
        walk = whole[k, :L]
        s, t = part.source_lengths[k], part.target_lengths[k]
        assert s == min(given_corners, len(walk) - 1)
        assert np.array_equal(np.vstack([part.source[k, :s], part.target[k, :t]]), walk)
    assert (part.source[~part.source_keep] == 0).all()
    assert (part.target[~part.target_keep] == 0).all()


@pytest.mark.parametrize("variable", [False, True])
def test_parts_never_share_a_point(variable: bool) -> None:
    splits = load_data(Squares(n_train=512, n_test=512, n_validation=512, variable_length=variable))
    seen = [
        {tuple(point) for point in part.source[part.source_keep]}
        | {tuple(point) for point in part.target[part.target_keep]}
        for part in (splits.train, splits.validation, splits.test)
    ]
    assert all(len(points) > 1000 for points in seen)
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])


def test_the_baselines_are_the_golden_ones(golden: Golden) -> None:
    expected, atol = golden["baselines"]["expected"], golden["baselines"]["tolerance"]["atol"]
    splits = load_data(Squares(n_train=128))
    found = ReferenceLosses.from_part(splits.test, splits.train, splits.rule)
    found = {
        "noise_floor_perfect_corners": found.noise_floor,
        "minus_source_no_parameters": found.baselines["minus the source corner"],
        "linear_least_squares": found.fitted[LEAST_SQUARES],
        "training_mean": found.baselines[baselines.TRAINING_MEAN],
    }
    assert found == pytest.approx(expected, abs=atol)


def test_last_point_baseline_repeats_the_last_real_point() -> None:
    part = squares.generate_squares(20, 3, noise=0.1, source_length=2, variable_length=True)
    forecast = baselines.build_baselines(part, part, None).forecast(baselines.LAST_POINT, part)[:]
    for k in range(20):
        assert np.array_equal(forecast[k, 1], part.source[k, part.source_lengths[k] - 1])


def test_the_rule_by_hand() -> None:
    # Two corners known: (a, b) goes on with (-a, -b). One known: the next is unknown (0), then -a.
    source = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [0.0, 0.0]]])
    forecast = squares.opposite_corner(source, np.array([2, 1]), 3)
    assert forecast[0].tolist() == [[-1, -2], [-3, -4], [1, 2]]
    assert forecast[1].tolist() == [[0, 0], [-5, -6], [0, 0]]


def test_the_floor_does_not_pretend_to_know_what_one_corner_cannot_tell() -> None:
    part = squares.generate_squares(4000, 7, noise=0.1, source_length=1, variable_length=False)
    # Steps 1 and 3 may lie to either side: error 1 for not knowing, and the noise of 0.01.
    assert part.ideal is not None
    by_step = ErrorSums.of(part.ideal, part, by_step=True).by_step
    assert by_step == pytest.approx([1.01, 0.01, 1.01], abs=0.02)
    two = squares.generate_squares(4000, 7, noise=0.1, source_length=2, variable_length=False)
    assert two.ideal is not None
    assert baselines.forecast_mse(two.ideal, two) == pytest.approx(0.01, abs=0.0005)


def test_padding_is_no_part_of_an_error() -> None:
    part = squares.generate_squares(30, 3, noise=0.1, source_length=2, variable_length=True)
    forecast = part.target.copy()
    forecast[~part.target_keep] = 1e6
    assert baselines.forecast_mse(forecast, part) == 0
    assert ErrorSums.of(forecast, part, by_step=True).by_step == [0.0, 0.0]


def one(source: list[list[float]], length: int) -> Sequences:
    points = np.array([source])
    return Sequences(points, np.array([length]), points, np.array([1]), ("x", "y"), ("a",))


def test_a_source_with_nothing_to_attend_to_is_refused() -> None:
    with pytest.raises(DataError, match="sequence 'a': its source has 0 points"):
        one([[1.0, 2.0]], 0)


def test_a_value_that_is_not_finite_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="sequence 'a': point 2 of its source is not finite in 'y'"):
        one([[1.0, 2.0], [1.0, np.nan]], 2)


def test_a_point_at_zero_is_a_point() -> None:
    # "All features differ from 0" is no test for padding: (0, 1) and (0, 0) are real points.
    part = one([[0.0, 1.0], [0.0, 0.0]], 2)
    assert part.source_keep.tolist() == [[True, True]]


def test_the_source_mask_of_the_notebook(golden: Golden) -> None:
    case = golden["source-mask"]
    source = np.array(case["inputs"]["source_seq"])
    part = Sequences(source, np.array([1]), source, np.array([1]), ("x", "y"), ("a",))
    assert part.source_keep.astype(int)[None].tolist() == case["expected"]
