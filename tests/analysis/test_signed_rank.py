"""Wilcoxon's test and its interval: worked examples, ties, infinities, coverage."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from seqattn.analysis.comparison import signed_rank as module
from seqattn.analysis.comparison.signed_rank import pairs_needed, signed_rank, smallest_p
from seqattn.analysis.comparison.statistics import (
    SeedSummary,
    median_interval,
    paired_tests,
    subtract_pairs,
)

INF = math.inf


def test_the_example_of_hollander_and_wolfe() -> None:
    """Nonparametric Statistical Methods, example 3.1: depression scales before and after."""
    before = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
    after = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])
    found = signed_rank(after - before, 0.05)
    assert found.p == 0.0390625
    assert found.estimate == pytest.approx(-0.46)
    assert found.interval == pytest.approx((-0.786, -0.010))


@pytest.mark.parametrize("n", [2, 7, 31, 50])
def test_without_ties_it_is_scipys(n: int) -> None:
    for trial in range(5):
        gaps = np.random.RandomState(trial).randn(n) + 0.3
        assert signed_rank(gaps, 0.05).p == pytest.approx(
            stats.wilcoxon(gaps, method="exact").pvalue
        )


@pytest.mark.parametrize("signs", [(1, 1, 1), (1, 1, -1), (-1, -1, 1, 1)])
def test_infinite_differences_share_the_highest_ranks(signs: tuple[int, ...]) -> None:
    """Against every sign pattern, with the ranks written out."""
    finite = np.array([0.3, -0.1, 0.7, 0.2])
    n, num_infinite = len(finite), len(signs)
    ranks = [
        *(np.argsort(np.argsort(np.abs(finite))) + 1),
        *[n + (num_infinite + 1) / 2] * num_infinite,
    ]
    seen = sum(rank for rank, x in zip(ranks, [*finite, *signs], strict=True) if x > 0)
    sums = [
        sum(rank for rank, up in zip(ranks, ups, strict=True) if up)
        for ups in itertools.product([False, True], repeat=n + num_infinite)
    ]
    wanted = min(1, 2 * min(np.mean([s >= seen for s in sums]), np.mean([s <= seen for s in sums])))
    found = signed_rank(np.array([*finite, *(INF * sign for sign in signs)]), 0.05)
    assert found.p == pytest.approx(wanted)


def test_bounds_may_be_infinite() -> None:
    gaps = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, INF, INF, INF, INF, INF, INF])
    found = signed_rank(gaps, 0.05)
    assert found.p == 2 * 2**-12
    assert found.estimate == INF  # 57 of 78 Walsh averages
    assert found.interval is not None
    assert 0.1 < found.interval[0] < 0.6
    assert found.interval[1] == INF
    everywhere = signed_rank(np.full(8, -INF), 0.05)
    assert everywhere.interval == (-INF, -INF)
    assert math.isnan(signed_rank(np.array([INF, -INF] * 4), 0.05).estimate)


def random_gaps(numbers: np.random.RandomState) -> np.ndarray:
    """Differences with ties, zeros and infinities among them."""
    n = numbers.randint(1, 40)
    gaps = numbers.standard_cauchy(n) + numbers.choice([0.0, 0.5, 2.0])
    if numbers.rand() < 0.5:
        gaps = np.round(gaps, 1)
    gaps[numbers.rand(n) < numbers.choice([0.0, 0.2])] = 0.0
    lost = numbers.rand(n) < numbers.choice([0.0, 0.1, 0.5])
    gaps[lost] = numbers.choice([-INF, INF], size=int(lost.sum()))
    return np.asarray(gaps)


def test_the_test_rejects_exactly_where_the_interval_excludes_zero() -> None:
    rejected = without = 0
    for trial in range(1500):
        gaps, level = random_gaps(np.random.RandomState(trial)), (0.05, 0.05 / 15)[trial % 2]
        found = signed_rank(gaps, level)
        if found.interval is None:
            assert found.p > level
            without += 1
            continue
        low, high = found.interval
        assert low <= high
        assert (found.p <= level) == (low > 0 or high < 0), (trial, found)
        assert math.isnan(found.estimate) or low <= found.estimate <= high
        rejected += found.p <= level
    assert rejected > 200
    assert without > 50


def test_the_interval_holds_the_shifts_that_are_not_rejected() -> None:
    gaps = np.random.RandomState(0).randn(13)
    found = signed_rank(gaps, 0.05)
    assert found.interval is not None
    low, high = found.interval
    for shift, inside in ((low - 1e-9, False), (low + 1e-9, True), (found.estimate, True),
                          (high - 1e-9, True), (high + 1e-9, False)):  # fmt: skip
        assert (signed_rank(gaps - shift, 0.05).p > 0.05) == inside


def test_many_differences_take_no_list_of_all_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    for trial in range(20):
        numbers = np.random.RandomState(trial)
        gaps = random_gaps(numbers)
        listed = signed_rank(gaps, 0.05)
        monkeypatch.setattr(module, "MAX_STORED_DIFFERENCES", 0)
        found = signed_rank(gaps, 0.05)
        assert found.p == listed.p
        assert found.estimate == pytest.approx(listed.estimate, nan_ok=True)
        assert (found.interval or ()) == pytest.approx(listed.interval or (), rel=1e-12)
        monkeypatch.undo()


@pytest.mark.parametrize("huge", [1e60, 1e200, 1.7e308])
def test_many_differences_of_very_different_sizes(
    huge: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps = np.array([1e-3, 2e-3, 3e-3, 1e-323, 1e-200, huge, huge, 4e-3, 5e-3])
    listed = signed_rank(gaps, 0.05)
    monkeypatch.setattr(module, "MAX_STORED_DIFFERENCES", 0)
    found = signed_rank(gaps, 0.05)
    assert found.estimate == pytest.approx(listed.estimate, rel=1e-12)
    assert found.interval == pytest.approx(listed.interval, rel=1e-12)


def test_beyond_the_exact_distribution_little_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = np.random.RandomState(3).randn(200) + 0.12
    exact = signed_rank(gaps, 0.05)
    try:
        monkeypatch.setattr(module, "MAX_EXACT_DIFFERENCES", 10)
        module._upper_tail.cache_clear()
        module._critical_value.cache_clear()
        normal = signed_rank(gaps, 0.05)
    finally:
        module._upper_tail.cache_clear()
        module._critical_value.cache_clear()
    assert normal.p == pytest.approx(exact.p, rel=0.02)
    assert normal.interval == pytest.approx(exact.interval, abs=2e-3)


# --- what is attainable ---------------------------------------------------------------------------


def test_the_smallest_p_is_attained_where_all_agree() -> None:
    for n in range(1, 12):
        assert signed_rank(np.linspace(1, 2, n), 0.05).p == smallest_p(n)
    (found,) = paired_tests([{"a": dict(enumerate([0.0, 1, 2, 3, 4, 5])),
                             "b": dict.fromkeys(range(6), 0.0)}])  # fmt: skip
    assert (found.ties, found.smallest_p, found.p) == (1, 0.0625, 0.0625)
    assert found.smallest_p_untied == 0.03125  # other losses of six seeds would not tie
    assert found.interval is None
    assert found.describe() == (
        "6 seeds cannot tell a and b apart: with the tied seeds of this comparison, p cannot be"
        " below 0.062 (Holm)."
    )


@pytest.mark.parametrize(("pairs", "needed"), [(1, 6), (3, 7), (6, 8), (15, 10)])
def test_how_many_pairs_an_interval_needs(pairs: int, needed: int) -> None:
    assert pairs_needed(0.05 / pairs) == needed
    assert signed_rank(np.linspace(1, 2, needed - 1), 0.05 / pairs).interval is None
    assert signed_rank(np.linspace(1, 2, needed), 0.05 / pairs).interval is not None


def test_a_median_has_no_interval_below_six_seeds() -> None:
    assert [median_interval(np.arange(float(n))) for n in (1, 2, 5)] == [None] * 3
    assert median_interval(np.arange(6.0)[::-1]) == (0, 5)
    # n = 32, k = 10: P(Binomial(32, 1/2) < 10) = 0.0100, and < 11 0.0251.
    assert median_interval(np.arange(32.0)) == (9, 22)
    assert SeedSummary.of({1: 1.0, 2: 3.0}).median_interval is None


def test_a_seed_that_diverged_is_the_worst() -> None:
    spread = SeedSummary.of({1: 2.0, 2: INF, 3: 1.0, 4: 3.0, 5: 5.0, 6: 4.0})
    assert (spread.median, spread.mean, spread.best_seed, spread.worst_seed) == (3.5, None, 3, 2)
    assert spread.median_interval == (1.0, INF)
    assert SeedSummary.of({1: 2.0, 2: INF}).median == INF


# --- coverage -------------------------------------------------------------------------------------

DRAWS: dict[str, tuple[Callable[[np.random.RandomState, int], np.ndarray], float]] = {
    "normal": (lambda numbers, n: numbers.standard_normal(n), 0.0),
    "lognormal": (lambda numbers, n: np.exp(numbers.standard_normal(n)), 1.0),
    "heavy tails": (lambda numbers, n: numbers.standard_cauchy(n), 0.0),
}
TRIALS = 1000


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 16, 32])
@pytest.mark.parametrize("name", DRAWS)
def test_every_interval_that_is_shown_covers_as_often_as_it_says(name: str, n: int) -> None:
    """The median of a variant, and the typical difference of two that do not differ."""
    draw, median = DRAWS[name]
    covered, shown = np.zeros(2), 0
    numbers = np.random.RandomState(n)
    for _ in range(TRIALS):
        first, second = draw(numbers, n), draw(numbers, n)
        of_median = median_interval(first)
        of_pairs = signed_rank(subtract_pairs(first, second), 0.05).interval
        assert (of_median is None) == (of_pairs is None) == (n < 6)
        if of_median is None or of_pairs is None:
            continue
        shown += 1
        covered += of_median[0] <= median <= of_median[1], of_pairs[0] <= 0 <= of_pairs[1]
    error = 3 * math.sqrt(0.95 * 0.05 / TRIALS)
    assert shown == 0 or (covered / shown >= 0.95 - error).all()


def test_the_intervals_of_all_pairs_hold_together() -> None:
    """Five variants, ten pairs: in no more than a twentieth of comparisons does any miss."""
    missed = 0
    for trial in range(300):
        numbers = np.random.RandomState(trial)
        losses = {name: dict(enumerate(numbers.randn(16))) for name in "abcde"}
        bounds = [pair.interval for pair in paired_tests([losses])]
        missed += any(each is None or not each[0] <= 0 <= each[1] for each in bounds)
    assert missed / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
