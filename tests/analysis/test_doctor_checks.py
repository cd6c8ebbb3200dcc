"""What all checks of the doctor have in common, so that one more can be written."""

from __future__ import annotations

import dataclasses

import pytest

from seqattn.analysis.doctor import (
    CHECK_NAMES,
    CHECKS,
    WEIGHT_CHECK_NAMES,
    Evidence,
    Finding,
    examine,
)
from seqattn.analysis.doctor.check import UndecidableError, Verdict, define_check
from tests.analysis.test_doctor import healthy, seen_with


@define_check("loss above a limit")
def high_loss(evidence: Evidence) -> Verdict:
    if evidence.loss < 0:
        raise UndecidableError("a loss below 0")
    if evidence.loss < 5:
        return "fine", f"loss {evidence.loss}"
    return "found", f"loss {evidence.loss}", "It is high.", "training.epochs: (more)"


@pytest.mark.parametrize(
    ("loss", "finding"),
    [
        (1.0, Finding("loss above a limit", "fine", "loss 1.0")),
        (-1.0, Finding("loss above a limit", "unknown", "a loss below 0")),
        (7.0, Finding("loss above a limit", "found", "loss 7.0", "It is high.",
                      "training.epochs: (more)")),
    ],
)  # fmt: skip
def test_a_check_names_its_finding(loss: float, finding: Finding) -> None:
    assert high_loss(seen_with(healthy(), loss=loss)) == finding


def test_every_check_has_a_name_of_its_own_and_a_change_for_what_it_finds() -> None:
    assert len(set(CHECK_NAMES)) == len(CHECKS)
    findings = examine(
        seen_with(healthy(), loss=9.0, loss_teacher_forced=0.1, seeds=(1.0, 1.0, 9.0))
    )
    assert tuple(finding.name for finding in findings) == CHECK_NAMES
    found = [finding for finding in findings if finding.state == "found"]
    assert len(found) >= 3
    assert all(finding.meaning and finding.change for finding in found)
    assert not any(finding.change for finding in findings if finding.state != "found")


def test_checks_of_weights_are_left_out_without_attention() -> None:
    seen = dataclasses.replace(seen_with(healthy()), weights=None)
    names = [finding.name for finding in examine(seen)]
    assert names == [name for name in CHECK_NAMES if name not in WEIGHT_CHECK_NAMES]
