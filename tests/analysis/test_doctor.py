"""Every finding where it is, and none where all is well. Twenty seeds of each: docs/doctor.md."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from seqattn.analysis import doctor
from seqattn.analysis.doctor import CHECK_NAMES, CHECKS, WEIGHT_CHECK_NAMES, Evidence
from seqattn.config import resolve
from seqattn.data.baselines import render_verdict
from seqattn.runs import EpochRecord
from tests.conftest import ROOT, Ended


def _cases() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cases", ROOT / "scripts" / "doctor_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["cases"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = _cases()
FEWER = {"mechanisms/sparsemax.yaml": 30, "variable_length.yaml": 20}
"""Epochs that are enough for a healthy run, where those of the config take long."""
SLOW = ("general, learning rate", "16 points", "shifted by one step", "multi_head")


@pytest.mark.parametrize(
    "case", [case for case in cases.CASES if not any(word in case.name for word in SLOW)],
    ids=lambda case: f"{case.name}: {case.finding or 'nothing'}",
)  # fmt: skip
def test_a_case(case: Any, tmp_path: Path) -> None:
    """Three seeds of a sick and of a healthy run, whose spread is examined, too; one of the others."""
    cases.write_first(tmp_path)
    seeds = 3 if case.finding == CHECK_NAMES[10] or case.name == "squares.yaml" else 1
    if (epochs := FEWER.get(case.config)) is not None:
        case = dataclasses.replace(case, sets=(*case.sets, f"training.epochs={epochs}"))
    for findings in cases.examine_seeds(case, seeds, tmp_path):
        found = cases.found_names(findings)
        if case.finding:
            assert case.finding in found
        else:
            assert not found
        for finding in findings:
            assert finding.number
            assert (finding.state == "found") == bool(finding.meaning and finding.change)


def test_every_finding_has_a_case() -> None:
    assert {case.finding for case in cases.CASES} == {"", *CHECK_NAMES}


# --- on weights that are written down -------------------------------------------------------------

N, T, S = 6, 4, 5


def seen_with(weights: np.ndarray, **other: object) -> Evidence:
    """Weights (N, L, A, T, S) of a model about which nothing else is to be said."""
    evidence = Evidence(
        weights=weights.astype(np.float32), meaning="distribution", source_lengths=np.full(N, S),
        true_steps=None, padding_mass=0.0, normalizer="softmax", loss=0.1, loss_teacher_forced=0.1,
        override_errors={"uniform": 1.0, "shuffled": 1.0}, baseline=("a rule", 1.0), seeds=(0.1, 0.11, 0.1),
    )  # fmt: skip
    return dataclasses.replace(evidence, **other)  # type: ignore[arg-type]


def healthy() -> np.ndarray:
    """Two heads that each look at another step, mostly; (N, 1, 2, T, S)."""
    weights = np.full((N, 1, 2, T, S), 0.05)
    for t in range(T):
        weights[:, :, 0, t, t] = weights[:, :, 1, t, t + 1] = 0.8
    return weights


def found(seen: Evidence) -> set[str]:
    return {finding.name for finding in doctor.examine(seen) if finding.state == "found"}


def at(places: np.ndarray) -> np.ndarray:
    """One true source step for each target step, (N, T, S), from the places (N, T)."""
    return np.asarray(places[..., None] == np.arange(S))


def one_hot(places: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.eye(S)[places], (N, 1, 2, T, S)).copy()


def trained_for(training: list[float], validation: list[float]) -> tuple[EpochRecord, ...]:
    return tuple(
        EpochRecord(k + 1, one, other, other, 0.01, 0.5, 0.1)
        for k, (one, other) in enumerate(zip(training, validation, strict=True))
    )


def _dead() -> np.ndarray:
    weights = healthy()
    weights[:, :, 1] = 1 / S
    return weights


KNOWN = np.broadcast_to(np.arange(T), (N, T))


def test_weights_of_a_task_of_symbols_that_is_not_learned_say_nothing() -> None:
    for rate, state in ((0.9, "unknown"), (0.1, "found")):
        same = {"uniform": rate, "shuffled": rate}
        seen = seen_with(healthy(), symbol_errors=(rate, rate), override_errors=same)
        findings = {finding.name: finding.state for finding in doctor.examine(seen)}
        assert findings["attention does not matter"] == state


@pytest.mark.parametrize(
    ("name", "sick"),
    [
        (CHECK_NAMES[0], lambda: seen_with(healthy(), padding_mass=2e-6)),
        (
            CHECK_NAMES[1],
            lambda: seen_with(
                healthy(), loss=1.0, loss_teacher_forced=1.0, override_errors={"uniform": 9.0}
            ),
        ),
        (CHECK_NAMES[2], lambda: seen_with(np.full((N, 1, 2, T, S), 1 / S))),
        (CHECK_NAMES[3], lambda: seen_with(one_hot(np.full(T, 2)) * 0.9 + 0.02)),
        (CHECK_NAMES[4], lambda: seen_with(healthy()[:, :, 1:], true_steps=at(KNOWN))),
        (CHECK_NAMES[5], lambda: seen_with(one_hot(np.arange(T)))),
        (CHECK_NAMES[6], lambda: seen_with(_dead())),
        (CHECK_NAMES[7], lambda: seen_with(healthy()[:, :, [0, 0]])),
        (
            CHECK_NAMES[8],
            lambda: seen_with(healthy(), override_errors={"uniform": 0.5, "shuffled": 0.1005}),
        ),
        (CHECK_NAMES[9], lambda: seen_with(healthy(), loss=0.16)),
        (CHECK_NAMES[10], lambda: seen_with(healthy(), seeds=(0.1, 0.1, 0.1, 0.21))),
        (
            CHECK_NAMES[11],
            lambda: seen_with(
                healthy(),
                history=trained_for(
                    [1 / k for k in range(1, 41)], [max(0.2, 1 / k) for k in range(1, 41)]
                ),
            ),
        ),
        (
            CHECK_NAMES[11],
            lambda: seen_with(
                healthy(),
                history=trained_for([0.5 - 0.005 * k for k in range(40)], [0.5] * 10 + [0.7] * 30),
            ),
        ),
    ],
)
def test_what_is_planted_is_found(name: str, sick: Callable[[], Evidence]) -> None:
    assert name in found(sick())
    assert not found(seen_with(healthy()))


def test_every_check_has_a_name_of_its_own_and_a_change_for_what_it_finds() -> None:
    assert len(set(CHECK_NAMES)) == len(CHECKS)
    findings = doctor.examine(
        seen_with(healthy(), loss=9.0, loss_teacher_forced=0.1, seeds=(1.0, 1.0, 9.0))
    )
    assert tuple(finding.name for finding in findings) == CHECK_NAMES
    ill = [finding for finding in findings if finding.state == "found"]
    assert len(ill) >= 3
    assert all(finding.meaning and finding.change for finding in ill)
    assert not any(finding.change for finding in findings if finding.state != "found")


def test_what_is_meant_is_no_illness() -> None:
    sharp = one_hot(np.arange(T))
    assert CHECK_NAMES[5] not in found(seen_with(sharp, normalizer="hard"))
    assert CHECK_NAMES[5] not in found(seen_with(sharp, true_steps=at(KNOWN))), (
        "it looks where it should"
    )
    assert not found(seen_with(healthy(), true_steps=at(KNOWN))), (
        "one head does, the other needs not"
    )
    signed = seen_with(healthy() - 0.5, meaning="strength", override_errors={})
    states = {finding.name: finding.state for finding in doctor.examine(signed)}
    assert [states[name] for name in CHECK_NAMES[2:8]] == ["unknown"] * 6
    nothing = seen_with(healthy(), true_steps=None)
    nothing = dataclasses.replace(nothing, weights=None, override_errors={})
    assert not found(nothing)


def test_partial_weights_are_judged_after_division_by_their_sums() -> None:
    """As in a local window, whose rows sum to less than 1."""
    equal = seen_with(np.full((N, 1, 1, T, S), 0.1), meaning="partial")
    assert CHECK_NAMES[2] in found(equal)
    (finding,) = [each for each in doctor.examine(equal) if each.name == CHECK_NAMES[2]]
    assert finding.number == "entropy 100% of the maximum (each row divided by its sum)"
    assert not found(seen_with(healthy() * 0.01, meaning="partial"))
    rows = np.array([[0.37, 0.37], [0.0, 0.0]], np.float32)
    assert doctor.entropy_share(rows[:1]) == pytest.approx(1)
    assert doctor.entropy_share(rows) == pytest.approx(0.5)


def test_without_attention_there_are_no_findings_of_weights() -> None:
    seen = seen_with(healthy(), loss=2.0, loss_teacher_forced=2.0)
    seen = dataclasses.replace(seen, weights=None, override_errors={}, normalizer="")
    findings = doctor.examine(seen)
    assert {finding.name for finding in findings} == set(CHECK_NAMES) - set(WEIGHT_CHECK_NAMES)
    text = json.dumps(doctor.findings_as_plain(findings))
    for word in ("weights show", "attention", "heatmap", "looks"):
        assert word not in text


def test_advice_does_not_ask_for_more_epochs_of_a_run_that_overfits() -> None:
    history = trained_for([1 / k for k in range(1, 41)], [max(0.2, 1 / k) for k in range(1, 41)])
    seen = seen_with(healthy(), loss=2.0, loss_teacher_forced=2.0, history=history)
    changes = {finding.name: finding.change for finding in doctor.examine(seen)}
    assert "epochs: (more)" not in changes[CHECK_NAMES[1]]
    assert "more training sequences" in changes[CHECK_NAMES[1]]
    still_falling = seen_with(healthy(), loss=2.0, loss_teacher_forced=2.0, history=history[:5] * 2)
    assert CHECK_NAMES[11] not in found(still_falling)


def test_noise_around_a_plateau_is_no_overfitting() -> None:
    numbers = np.random.default_rng(0)
    for _ in range(50):
        training = 0.1 * numbers.uniform(0.9, 1.1, 100)
        validation = 0.1 * numbers.uniform(0.8, 1.2, 100)
        seen = seen_with(healthy(), history=trained_for(training.tolist(), validation.tolist()))
        assert CHECK_NAMES[11] not in found(seen)


def test_a_fitted_baseline_counts_too() -> None:
    better = seen_with(healthy(), fitted=("linear least squares (fitted)", 0.02))
    (finding,) = (each for each in doctor.examine(better) if each.state == "found")
    assert finding.name == CHECK_NAMES[1]
    assert "0.02 of 'linear least squares (fitted)'" in finding.number
    assert finding.meaning.startswith("A linear map forecasts better")
    assert not found(seen_with(healthy(), fitted=("linear least squares (fitted)", 0.11)))
    exactly_linear = seen_with(
        healthy(), loss=0.003, loss_teacher_forced=0.003, fitted=("linear", 1e-30)
    )
    assert not found(exactly_linear)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (0.01, "beats the best parameter-free baseline (rule, 0.03) and linear (0.02)"),
        (0.025, "beats the best parameter-free baseline (rule, 0.03), but not linear (0.02)"),
        (0.05, "does not beat the best parameter-free baseline (rule, 0.03) or linear (0.02)"),
    ],
)
def test_the_verdict_names_the_fitted_baseline(loss: float, words: str) -> None:
    assert render_verdict(loss, {"rule": 0.03, "mean": 1.0}, {"linear": 0.02}) == words
    other = render_verdict(0.04, {"rule": 0.03}, {"linear": 0.05})
    assert other.endswith("(rule, 0.03), but beats linear (0.05)")
    assert render_verdict(loss, {"rule": 0.03}, {}).endswith("baseline (rule, 0.03)")


@pytest.mark.parametrize(
    ("kind", "schedule", "probability", "change"),
    [
        ("recurrent", "constant", 1.0, ["training.teacher_forcing.probability: 0.5",
                                        "training.teacher_forcing: {schedule: linear, end: 0}"]),
        ("recurrent", "constant", 0.5, ["training.teacher_forcing: {schedule: linear, end: 0}"]),
        ("fast_weights", "exponential", 0.9,
         ["training.teacher_forcing: {schedule: linear, end: 0}"]),
        ("transformer", "constant", 1.0, ["model.kind: recurrent", "training.epochs: (more)"]),
    ],
)  # fmt: skip
def test_a_remedy_for_exposure_is_one_that_this_run_can_take(
    kind: str, schedule: str, probability: float, change: list[str]
) -> None:
    seen = seen_with(healthy(), loss=0.16, kind=kind, teacher_forcing=(schedule, probability))
    (exposed,) = (finding for finding in doctor.examine(seen) if finding.name == CHECK_NAMES[9])
    assert all(words in exposed.change for words in change)
    for words in change:
        if "(" not in words:
            resolve(None, [f"model.kind={kind}", words.replace(": ", "=", 1)])
    if probability == 0.5 or kind == "transformer":
        assert not exposed.change.startswith("training.teacher_forcing.probability")


def test_a_model_that_trains_on_its_own_forecasts_has_no_exposure_bias() -> None:
    for schedule, probability, state in (("constant", 0.0, "fine"), ("linear", 0.0, "fine"),
                                         ("linear", 0.1, "found")):  # fmt: skip
        seen = seen_with(healthy(), loss=0.16, teacher_forcing=(schedule, probability))
        (finding,) = (each for each in doctor.examine(seen) if each.name == CHECK_NAMES[9])
        assert finding.state == state
        assert finding.number.startswith("free running 0.16, 1.60 times the teacher-forced 0.1")
        assert ("trained on its own forecasts" in finding.number) == (state == "fine")


def test_stuck_at_the_end_of_sources_of_several_lengths() -> None:
    lengths = np.array([2, 3, 4, 5, 5, 3])
    weights = np.full((N, 1, 1, T, S), np.nan)
    for k, length in enumerate(lengths):
        weights[k, ..., :length] = 0.02
        weights[k, ..., length - 1] = 1 - 0.02 * (length - 1)
    seen = seen_with(weights, source_lengths=lengths)
    assert CHECK_NAMES[3] in found(seen)


def test_equal_largest_weights_share_a_step() -> None:
    weights = np.full((N, 1, 1, T, S), 0.05)
    weights[..., 1:3] = 0.425
    seen = seen_with(weights, true_steps=at(np.full((N, T), 2)))
    findings = {finding.name: finding for finding in doctor.examine(seen)}
    for name, number in (
        (CHECK_NAMES[3], "50% of the steps have their largest weight at one place"),
        (CHECK_NAMES[4], "50% of the steps have their largest weight next to the true source step,"
                         " 50% at it"),
    ):  # fmt: skip
        assert (findings[name].state, findings[name].number) == ("fine", number)


def test_the_command_says_it(seqattn: Callable[..., Ended]) -> None:
    small = ["configs", "--set", "training.epochs=2", "--set", "data.n_train=64", "-q",
             "--plots", "none"]  # fmt: skip
    words = ["train", ROOT / "configs" / "squares.yaml", *small[1:]]
    assert seqattn(*words, "--set", "model.attention.score=uniform").code == 0
    done = seqattn("doctor", "outputs/squares")
    assert done.code == 0
    assert "found   nearly uniform" in done.out
    assert "try: model.attention.score: general" in done.out
    plain = json.loads(seqattn("doctor", "outputs/squares", "--json").out)
    assert [row["name"] for row in plain] == list(CHECK_NAMES)
    assert seqattn(*words, "--seeds", "3", "--name", "three").code == 0
    done = seqattn("doctor", "outputs/three")
    assert "3 of 3 seeds are finished" in done.out
    assert set(json.loads(seqattn("doctor", "outputs/three", "--json").out)) == {"23", "24", "25"}
    done = seqattn("doctor", "outputs")
    assert done.code == 4
