"""The doctor on weights whose rows sum to less than 1, or to 0, as those of a plugin may."""

from __future__ import annotations

import numpy as np
import pytest

from seqattn.analysis import doctor
from seqattn.analysis.doctor import CHECK_NAMES, Evidence, Finding
from seqattn.analysis.doctor.collect import normalizer_name
from seqattn.analysis.evaluation.texts import TextOutput
from seqattn.config import AdditiveAttention, Monotonic
from tests.analysis.test_doctor import KNOWN, N, S, T, at, found, healthy, one_hot, seen_with

UNIFORM, STUCK, SHIFTED, SATURATED, DEAD, IDENTICAL = CHECK_NAMES[2:8]


def partial(weights: np.ndarray, **other: object) -> Evidence:
    return seen_with(weights, meaning="partial", **other)


def finding(name: str, seen: Evidence) -> Finding:
    (one,) = [each for each in doctor.examine(seen) if each.name == name]
    return one


def scaled(weights: np.ndarray, *masses: float) -> np.ndarray:
    """The weights with another mass for each of the two heads."""
    return weights * np.reshape(masses, (1, 1, 2, 1, 1))


@pytest.mark.parametrize(
    ("masses", "shared", "state"),
    [
        ((0.3, 0.9), "50.0%", "fine"),  # the context of one head is three times as long
        ((0.01, 0.02), "66.7%", "fine"),
        ((0.9, 0.89), "99.4%", "found"),
        ((0.01, 0.01), "100.0%", "found"),
    ],
)
def test_heads_of_other_masses_are_not_identical(
    masses: tuple[float, float], shared: str, state: str
) -> None:
    same = healthy()[:, :, [0, 0]]
    one = finding(IDENTICAL, partial(scaled(same, *masses)))
    assert one.state == state
    assert one.number.startswith(f"the two most similar heads share {shared} of their weight")


def test_heads_of_a_small_mass_at_other_points_share_nothing() -> None:
    separate = np.stack([np.eye(S)[np.full((N, 1, T), k)] for k in (1, 3)], axis=2) * 0.01
    assert "share 0.0% of their weight" in finding(IDENTICAL, partial(separate)).number


def test_one_hot_rows_are_saturated_whatever_their_mass() -> None:
    one = finding(SATURATED, partial(scaled(one_hot(np.arange(T)), 0.9, 0.3)))
    assert one.state == "found"
    assert one.number.endswith("above 0.999 (each row divided by its sum)")
    assert SATURATED not in found(partial(scaled(healthy(), 0.9, 0.3)))
    assert "divided" not in finding(SATURATED, seen_with(healthy())).number


def test_monotonic_weights_are_sharp_by_design() -> None:
    name = normalizer_name(AdditiveAttention(location=Monotonic()))
    one = finding(SATURATED, partial(one_hot(np.arange(T)), normalizer=name))
    assert (one.state, one.number) == ("unknown", "monotonic weights are sharp by design")


def test_a_row_of_zeros_links_nothing() -> None:
    weights = np.array([[0.0, 0.3], [0.0, 0.0], [0.2, 0.1]], np.float32)
    assert TextOutput(1, "a b c", 0.0, ["x", "y"], ["a", "b", "c"], weights).pharaoh == "1-0 0-2"


def test_weights_that_are_all_0_cannot_be_judged() -> None:
    findings = doctor.examine(
        partial(np.zeros((N, 1, 2, T, S)), true_steps=at(np.ones((N, T), int)))
    )
    results = {each.name: (each.state, each.number) for each in findings}
    for name in (UNIFORM, STUCK, SATURATED, DEAD, IDENTICAL):
        assert results[name] == ("unknown", "all weights are 0")
    assert results[SHIFTED][0] == "fine"


def test_rows_of_zeros_are_left_out() -> None:
    weights = healthy()
    weights[:, :, :, 2:] = 0.0
    assert len(partial(weights).rows(0, 0)) == 2 * N
    assert not found(partial(weights))
    # Most steps are zeros: they neither look at the first point nor at the same point.
    weights[1:] = 0.0
    assert not found(partial(weights, true_steps=at(np.ones((N, T), int))))
    assert finding(STUCK, partial(weights)).number.startswith("0 of 2 heads")


def test_a_head_without_weights_is_not_judged() -> None:
    weights = scaled(one_hot(np.full(T, 2)) * 0.9 + 0.02, 1.0, 0.0)
    assert finding(STUCK, partial(weights)).number == "100% of the steps at source point 3 (head 1)"
    assert finding(IDENTICAL, partial(weights)).number.endswith("share 0.0% of their weight")
    uniform = scaled(np.full((N, 1, 2, T, S), 1 / S), 1.0, 0.0)
    assert finding(UNIFORM, partial(uniform)).state == "found"
    dead = finding(DEAD, partial(uniform))
    assert (dead.state, dead.number) == (
        "fine", "1 of 2 heads have almost equal weights, see nearly uniform",
    )  # fmt: skip


def test_heads_may_be_silent_at_other_steps() -> None:
    weights = healthy()[:, :, [0, 0]]
    weights[:, :, 0, :2] = weights[:, :, 1, 3:] = 0.0
    one = finding(IDENTICAL, partial(weights))
    assert (one.state, "share 25.0% of" in one.number) == ("fine", True)


def test_zeros_are_not_at_the_true_step() -> None:
    first = partial(scaled(one_hot(np.arange(T)), 1.0, 0.0), true_steps=at(KNOWN))
    assert SATURATED not in found(first)
    nowhere = one_hot(np.arange(1, T + 1))
    nowhere[:, :, :, 1:] = 0.0
    seen = partial(nowhere, true_steps=at(np.zeros((N, T), int)))
    assert finding(SATURATED, seen).state == "found"
