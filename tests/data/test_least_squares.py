"""The solver of one ridge regression, against a solution by singular values."""

from __future__ import annotations

import numpy as np
import pytest

from seqattn.data.least_squares import _penalty_weights, _solve

WIDTH, COLUMNS, ROWS = 7, 3, 40


def table(inputs: np.ndarray) -> np.ndarray:
    """Inputs, a column of ones and outputs."""
    outputs = np.random.default_rng(1).normal(size=(ROWS, COLUMNS))
    return np.hstack([inputs, np.ones((ROWS, 1)), outputs])


@pytest.mark.parametrize("penalty", [1e-6, 1e-3, 1.0, 10.0])
@pytest.mark.parametrize("has_copies", [False, True])
def test_a_full_rank_system_is_solved_as_by_singular_values(
    penalty: float, has_copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = np.random.default_rng(0).normal(size=(ROWS, WIDTH - 1))
    if has_copies:
        inputs[:, 1] = inputs[:, 0]
    rows, unit = table(inputs), np.linspace(0.5, 2, WIDTH - 1)
    below = np.zeros((WIDTH - 1, WIDTH + COLUMNS))
    np.fill_diagonal(below, np.sqrt(penalty) * _penalty_weights(rows[:, :WIDTH], ROWS, unit))
    extended = np.vstack([rows, below])
    expected = np.linalg.lstsq(extended[:, :WIDTH], extended[:, WIDTH:], rcond=None)[0]

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the system has full rank")

    monkeypatch.setattr(np.linalg, "lstsq", never)
    np.testing.assert_allclose(_solve(rows, WIDTH, penalty, unit), expected, atol=1e-9)


def test_a_system_without_full_rank_has_the_smallest_solution() -> None:
    """If all inputs are 0, the penalty is 0 as well, and the smallest solution is the mean."""
    rows = table(np.zeros((ROWS, WIDTH - 1)))
    found = _solve(rows, WIDTH, 1.0, np.ones(WIDTH - 1))
    np.testing.assert_allclose(found[:-1], 0, atol=1e-12)
    np.testing.assert_allclose(found[-1], rows[:, WIDTH:].mean(axis=0), atol=1e-12)
