"""Measures other than the loss, equality within a margin, and the number of seeds for a difference."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from seqattn.analysis.comparison.measures import read_measure
from seqattn.analysis.comparison.signed_rank import equality_p, seeds_for_power, signed_rank
from seqattn.analysis.comparison.statistics import paired_tests
from seqattn.config.comparing import Questions, plan_comparison
from seqattn.errors import ConfigError
from seqattn.experiments.compare import run_comparison
from tests.comparisons import read_table, write_config

SYMBOLS = """
name: symbols
seed: 3
data: {kind: copy, symbols: 11, length: 3, n_train: 29, n_validation: 7, n_test: 13}
model: {kind: recurrent, hidden_dim: 5}
training: {epochs: 1, batch_size: 17}
compare:
  seeds: 6
  margin: 0.5
  power: 0.25
  variants:
    plain: {model.attention: null}
    dot: {model.attention: {score: dot}}
    general: {model.attention: {score: general}}
"""


def test_measures_are_errors() -> None:
    summary = {
        "test_loss": 0.7, "measures": {"exact_match": 0.75, "symbol_error_rate": 0.125},
        "alignment": {"aer": {"-1": 0.5, "0": 0.25, "+1": 0.375}},
    }  # fmt: skip
    names = ("loss", "sequence_error_rate", "symbol_error_rate", "alignment_error_rate")
    assert [read_measure(summary, name) for name in names] == [0.7, 0.25, 0.125, 0.25]
    points = {"test_loss": 0.7, "measures": {}}
    assert [read_measure(points, name) for name in names] == [0.7, None, None, None]


def test_equality_within_a_margin() -> None:
    """With n differences inside of the margin, each one-sided p-value is 2^-n. One difference of
    five beyond the margin has the smallest rank, 1, in the test against this bound, so that two of
    the 32 signs give a sum of ranks of 14 or more. A diverged seed has the rank 5, and ten signs
    give 10 or more."""
    assert equality_p(np.array([0.3, -0.1, 0.2, 0.05, -0.4]), 0.5) == 2.0**-5
    assert equality_p(np.zeros(7), 0.5) == 2.0**-7
    assert equality_p(np.array([0.51, -0.1, 0.2, 0.05, -0.4]), 0.5) == 2 * 2.0**-5
    assert equality_p(np.array([math.inf, 0.1, 0.2, 0.05, 0.4]), 0.5) == 10 * 2.0**-5


def test_equality_of_rates_keeps_its_ties() -> None:
    differences = np.array([0.1, -0.5, 0.1, -0.1, 0, 0.3])
    assert equality_p(differences, 0.2) == equality_p(10 * differences, 2)


def test_runs_that_diverged_are_not_equal() -> None:
    lost = dict.fromkeys(range(6), math.inf)
    questions = Questions(margin=0.1, power=0.1)
    (found,) = paired_tests([{"a": lost, "b": lost}], questions=questions)
    assert found.p_equal == 1.0
    assert not found.is_equal
    assert "These seeds do not tell how many seeds" in found.describe()
    some = {**lost, 1: 0.5, 3: 0.25}
    (found,) = paired_tests([{"a": some, "b": some}], questions=questions)
    assert found.p_equal == 0.25  # of the two seeds in which not both diverged


def test_equality_is_not_a_missing_difference() -> None:
    """Two noisy variants do not differ significantly, and are not shown to be equal either."""
    a = dict(enumerate([0.1, 0.9, 0.4, 0.6, 0.2, 0.7]))
    b = dict(enumerate([0.8, 0.2, 0.5, 0.3, 0.9, 0.1]))
    (wide,) = paired_tests([{"a": a, "b": b}], questions=Questions(margin=0.05))
    assert not wide.is_decided
    assert not wide.is_equal
    assert "The seeds do not show that they are equal in loss within 0.05" in wide.describe()
    near = {seed: value + 0.01 for seed, value in a.items()}
    (close,) = paired_tests([{"a": a, "near": near}], questions=Questions(margin=0.05))
    assert close.is_decided  # a difference can be certain and too small to matter
    assert close.is_equal
    assert close.describe().startswith("a is better than near")
    assert (
        "They are equal in loss within 0.05 (two one-sided tests, p = 0.016)." in close.describe()
    )


def test_tests_of_equality_are_corrected() -> None:
    arms = {name: dict.fromkeys(range(6), value) for name, value in [("a", 1.0), ("b", 1.01),
                                                                     ("c", 1.02)]}  # fmt: skip
    found = paired_tests([arms], questions=Questions(margin=0.05))
    assert [pair.p_equal for pair in found] == [3 * 2.0**-6] * 3


def test_seeds_for_a_difference() -> None:
    """z = 1.95996 + 0.84162. Equal differences give p' = 1. The differences -1 and 1 of two pairs,
    with both signs, give the sums -2, 2 and two times 0; shifted by 2 times 0.5, three of four are
    above 0. A small difference needs many seeds: 7.85 / 3 * pi / D^2 of a normal distribution."""
    z = 1.959964 + 0.841621
    assert seeds_for_power(np.full(7, 0.3), 0.5, 0.05, 0.8) == math.ceil(z**2 / (3 / 4)) == 11
    expected = math.ceil(z**2 / (3 * (3 / 4 - 1 / 2) ** 2))
    assert seeds_for_power(np.array([-1.0, 1.0]), 0.5, 0.05, 0.8) == expected == 42
    assert seeds_for_power(np.array([-1.0, math.inf]), 0.5, 0.05, 0.8) is None
    normal = np.random.default_rng(1).normal(size=400)
    many = seeds_for_power(normal, 0.01, 0.05, 0.8)
    assert many is not None
    assert 0.7 < many / (math.pi * z**2 / 3 / 0.01**2) < 1.4


def test_planned_seeds_have_the_power() -> None:
    """Noether's formula is cautious where a few seeds are enough."""
    random = np.random.default_rng(5)
    n = seeds_for_power(random.normal(size=500), 0.5, 0.05, 0.8)
    assert n is not None
    shown = [signed_rank(random.normal(0.5, 1, n), 0.05).p <= 0.05 for _ in range(500)]
    assert 0.76 < np.mean(shown) < 0.92


def test_comparison_of_symbols(tmp_path: Path) -> None:
    config = write_config(tmp_path, SYMBOLS)
    asked = ["alignment_error_rate", "sequence_error_rate"]
    result = run_comparison(
        plan_comparison(config, questions={"measures": asked}), tmp_path, threads=1
    )
    text = (result.path / "comparison.md").read_text()
    rows = read_table(result.path / "pairs.csv")
    pairs = [(row["measure"], row["first"], row["second"]) for row in rows]
    assert pairs == [  # the plain model has no alignment
        ("alignment_error_rate", "dot", "general"), ("sequence_error_rate", "plain", "dot"),
        ("sequence_error_rate", "plain", "general"), ("sequence_error_rate", "dot", "general"),
    ]  # fmt: skip
    assert "equal in alignment error rate within 0.5" in text
    assert "| sequence error rate [95%] |" in text
    assert "seeds or more would show a difference of 0.25 with a probability of 80%." in text
    assert (result.path / "comparison.png").is_file()
    variant = result.variants[1]
    (dot,) = (row for row in read_table(result.path / "variants.csv") if row["variant"] == "dot")
    rates = [1 - summary["measures"]["exact_match"] for summary in variant.summaries.values()]
    assert float(dot["sequence_error_rate"]) == np.median(rates)

    before = {file: file.stat().st_mtime_ns for file in result.path.glob("*/seed-*/best*")}
    again = run_comparison(plan_comparison(config), tmp_path, threads=1)  # another question
    assert {pair.measure for pair in again.pairs} == {"loss"}
    assert {file: file.stat().st_mtime_ns for file in result.path.glob("*/seed-*/best*")} == before


def test_sweep_of_symbols(tmp_path: Path) -> None:
    """The baselines of symbols have no mean of the targets."""
    config = write_config(tmp_path, SYMBOLS.replace("seeds: 6", "seeds: 2"))
    for measures in (["loss"], ["sequence_error_rate"]):
        plan = plan_comparison(config, along="data.length=3,5", questions={"measures": measures})
        result = run_comparison(plan, tmp_path, threads=1)
        assert (result.path / "along.png").is_file()


@pytest.mark.parametrize(("asked", "words"), [
    ({"measures": ["accuracy"]}, "compare.measures: expected one of loss,"),
    ({"measures": ["loss", "loss"]}, "has a measure twice"),
    ({"measures": []}, "compare.measures"),
    ({"margin": 0.0}, "compare.margin"),
    ({"power": -1.0}, "compare.power"),
])  # fmt: skip
def test_mistakes_in_questions(asked: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_comparison(write_config(tmp_path, SYMBOLS), questions=asked)
    assert words in str(caught.value)
