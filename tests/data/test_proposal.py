"""`seqattn data check` proposes a window from the season, and what it prints trains."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.data.inspect import propose_window
from seqattn.data.spacing import Frequency
from tests.conftest import Ended

Command = Callable[..., Ended]


def wave(season: int, length: int, seed: int = 1) -> np.ndarray:  # type: ignore[type-arg]
    noise = 0.3 * np.random.default_rng(seed).normal(size=length)
    return np.asarray(np.sin(2 * np.pi * np.arange(length) / season) + noise)[:, None]


@pytest.mark.parametrize(
    ("length", "source", "target"),
    [
        (12 * 27, 36, 12),  # 15% are 49
        (12 * 24, 36, 6),  # 43
        (12 * 21, 24, 12),  # 38
        (12 * 17, 24, 6),  # 31
    ],
)
def test_a_window_is_two_or_three_seasons_and_half_a_season_or_one(
    length: int, source: int, target: int
) -> None:
    found = propose_window([wave(12, length)], Frequency("month", 1))
    assert found is not None
    assert (found.season, found.source, found.target) == (12, source, target)
    assert found.why == "a season of 12 steps (12 months) was found in the training part"
    assert source + target <= round(0.15 * length)


def test_a_season_that_does_not_fit_is_not_proposed() -> None:
    assert propose_window([wave(12, 12 * 16)], None) is None  # 15% are 29, and 30 are needed
    assert propose_window([wave(12, 400), wave(12, 100)], None) is None  # of the shortest 15
    assert propose_window([], None) is None
    assert propose_window([np.random.default_rng(1).normal(size=(400, 1))], None) is None


def test_the_day_fits_where_the_week_does_not() -> None:
    steps = np.arange(24 * 7 * 8)
    series = wave(24, len(steps)) + 0.5 * np.sin(2 * np.pi * steps / 168)[:, None]
    found = propose_window([series], Frequency("time", 3_600_000_000))
    assert found is not None
    assert (found.season, found.source, found.target) == (24, 72, 24)
    assert "24 steps (1 day)" in found.why


def test_the_rest_of_the_series_proposes_nothing() -> None:
    """Only the training part does."""
    series = wave(12, 400)
    other = np.concatenate([series[:280], wave(5, 120)])
    assert propose_window([series], None) == propose_window([other], None)
    noise = np.random.default_rng(1).normal(size=(280, 1))
    assert propose_window([np.concatenate([noise, wave(12, 120)])], None) is None


@pytest.mark.parametrize("gaps", ["none", "cells", "rows"])
def test_what_is_printed_trains_with_the_season_found(
    seqattn: Command, tmp_path: Path, gaps: str
) -> None:
    values = 50 + 10 * wave(7, 300)[:, 0]
    days = np.arange("2020-01-01", "2020-10-27", dtype="datetime64[D]")
    lacking = np.random.default_rng(3).random(300) < 0.05
    rows = ["date,sales"]
    for day, value, lacks in zip(days, values, lacking, strict=True):
        if not (lacks and gaps == "rows"):
            rows.append(f"{day},{'' if lacks and gaps == 'cells' else repr(float(value))}")
    (tmp_path / "my.csv").write_text("\n".join(rows) + "\n")
    done = seqattn("data", "check", "my.csv")
    assert done.code == 0, done.err
    section = done.out.partition("config:\n")[2]
    assert "# a season of 7 steps (1 week) was found in the training part" in section
    assert "window: {source: 21, target: 7}" in section
    (tmp_path / "c.yaml").write_text(
        f"name: c\n{section}\nmodel: {{hidden_dim: 4}}\ntraining: {{epochs: 1}}\n"
    )
    done = seqattn("train", "c.yaml", "--plots", "none")
    assert done.code == 0, done.err
    summary = json.loads((tmp_path / "outputs/c/summary.json").read_text())
    metrics = summary["metrics"]
    assert (metrics["season"], metrics["season_origin"]) == (7, "found")
    assert "seasonal naive (season 7, found)" in summary["baselines"]
    assert all(math.isfinite(each["mase_mean"]) for each in metrics["errors"].values())


def test_without_a_season_the_section_is_as_before(seqattn: Command, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).normal(size=400)
    text = "step,x\n" + "\n".join(f"{t},{x}" for t, x in enumerate(numbers)) + "\n"
    (tmp_path / "my.csv").write_text(text)
    done = seqattn("data", "check", "my.csv")
    assert (
        "window: {source: 30, target: 10}  # points of source and target: your choice" in done.out
    )
    assert "season" not in done.out
