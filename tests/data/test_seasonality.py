"""A season is found where there is one, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from seqattn.data.seasonality import find_season
from seqattn.data.sequences import Floats

Make = Callable[[np.random.Generator], Floats]
SEEDS = range(20)


def found(series: Floats, longest: int | None = None) -> int | None:
    season = find_season([series.reshape(len(series), -1)], longest)
    return None if season is None else season.steps


def seasonal(season: int, length: int, numbers: np.random.Generator) -> Floats:
    """A wave, a trend, and noise of half the wave's size."""
    steps = np.arange(length)
    wave = np.sqrt(2) * np.sin(2 * np.pi * steps / season)
    return np.asarray(wave + 0.01 * steps + 0.5 * numbers.normal(size=length))


@pytest.mark.parametrize("season", [7, 12, 52])
@pytest.mark.parametrize("longest", [None, "two seasons"])
def test_a_known_season_is_found(season: int, longest: str | None) -> None:
    for seed in SEEDS:
        series = seasonal(season, 20 * season, np.random.default_rng(seed))
        assert found(series, longest and 2 * season) == season


@pytest.mark.parametrize("season", [7, 12, 52])
def test_a_pattern_with_sharp_edges_is_found(season: int) -> None:
    """Five high steps of seven, as weekdays are."""
    high = np.arange(20 * season) % season < 5 * season / 7
    for seed in SEEDS:
        noise = 0.3 * np.random.default_rng(seed).normal(size=len(high))
        assert found(high + noise) == season


def test_of_a_day_and_a_week_the_longest_that_fits_is_found() -> None:
    """Half hours: 48 a day, 336 a week. The week repeats better; a source of less than a week still
    has the day."""
    steps = np.arange(336 * 10)
    for seed in SEEDS:
        noise = 0.3 * np.random.default_rng(seed).normal(size=len(steps))
        series = np.sin(2 * np.pi * steps / 48) + 0.5 * np.sin(2 * np.pi * steps / 336) + noise
        assert found(series) == 336
        assert found(series, 300) == 48
        assert found(series, 100) == 48
        assert found(series, 47) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda g: g.normal(size=60),
        lambda g: g.normal(size=700),
        lambda g: g.normal(size=700).cumsum(),
        lambda g: g.normal(size=700) + 0.05 * np.arange(700),
        lambda g: 0.3 * g.normal(size=700) + np.exp(np.arange(700) / 150),
        lambda g: g.normal(size=700) + (np.arange(700) > 350) * 5,
        lambda g: np.convolve(g.normal(size=900), 0.9 ** np.arange(200), "valid"),
    ],
    ids=["short noise", "noise", "random walk", "trend", "growth", "a jump", "memory"],
)
@pytest.mark.parametrize("longest", [None, 30])
def test_what_has_no_season_shows_none(make: Make, longest: int | None) -> None:
    seasons = [found(make(np.random.default_rng(seed)), longest) for seed in SEEDS]
    assert sum(season is None for season in seasons) >= 19, seasons


@pytest.mark.parametrize("slope", [0.0, 0.1, -1e6])
def test_a_line_and_a_constant_show_none(slope: float) -> None:
    assert found(3.3 + slope * np.arange(500.0)) is None


def test_gaps_do_not_hide_or_make_a_season() -> None:
    """Cells that are missing at random, and every weekend."""
    of_noise = []
    for seed in SEEDS:
        numbers = np.random.default_rng(seed)
        series = seasonal(12, 240, numbers)
        series[numbers.random(240) < 0.3] = np.nan
        assert found(series) == 12
        noise = numbers.normal(size=350)
        noise[np.arange(350) % 7 >= 5] = np.nan
        of_noise.append(found(noise))
    assert of_noise.count(None) >= 19, of_noise


def test_what_was_not_observed_is_not_read() -> None:
    series = seasonal(7, 140, np.random.default_rng(1))
    series[[3, 50, 139]] = np.nan
    season = find_season([series[:, None]])
    assert season is not None
    with_none = np.column_stack([series, np.full(140, np.nan)])
    assert find_season([with_none]) == season
    assert find_season([np.full((140, 1), np.nan)]) is None


@pytest.mark.parametrize("length", range(9))
def test_short_series_show_none(length: int) -> None:
    assert find_season([np.sin(np.arange(length))[:, None]]) is None
    assert find_season([]) is None


def test_many_series_are_one_search() -> None:
    """Together they show what each shows only now and then; and copies of one series are no more
    evidence than the one."""
    numbers = np.random.default_rng(2)
    wave = np.sin(2 * np.pi * np.arange(30) / 5)
    series = [(wave + 0.5 * numbers.normal(size=30))[:, None] for _ in range(50)]
    alone = [find_season([one]) for one in series]
    assert sum(season is None for season in alone) > 5
    several = find_season(series)
    assert several is not None
    assert several.steps == 5
    for seed in SEEDS:
        one = np.random.default_rng(seed).normal(size=(60, 1))
        copies = [find_season([one * k for k in range(1, n)]) for n in (2, 20)]
        assert copies[0] == copies[1]


def test_units_do_not_matter() -> None:
    series = seasonal(12, 240, np.random.default_rng(3))[:, None]
    season = find_season([series])
    assert season is not None
    for scaled in (1e6 * series, 1e-6 * series + 5.0):
        again = find_season([scaled])
        assert again is not None
        assert again.steps == season.steps
        assert again.autocorrelation == pytest.approx(season.autocorrelation, abs=1e-6)
