"""The types of the doctor's checks and findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seqattn.analysis.doctor.collect import Evidence

State = Literal["found", "fine", "unknown"]
Verdict = tuple[State, str] | tuple[State, str, str, str]
"""The fields of a `Finding` after the field `name`."""


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        name: the name of the problem.
        state: "found" if the run has the problem, "fine" if the run does not have the problem, or
            "unknown" if the check cannot decide.
        number: the measured values as text, or the reason if the state is "unknown".
        meaning: the consequence of the problem; "" unless the problem was found.
        change: suggested changes of the config or the command line; "" unless the problem was
            found.
    """

    name: str
    state: State
    number: str
    meaning: str = ""
    change: str = ""

    def as_plain(self) -> dict[str, str]:
        return dict(vars(self))


class UndecidableError(Exception):
    """The error of a check that cannot decide whether the run has the problem. The message of the
    error states the reason.
    """


@dataclass(frozen=True)
class Check:
    """A check for one problem. Calling a check with `Evidence` returns a `Finding`.

    Attributes:
        name: the name of the problem.
        needs_weights: whether the check reads attention weights.
        judge: the function that performs the check. This function may raise `UndecidableError`.
    """

    name: str
    needs_weights: bool
    judge: Callable[[Evidence], Verdict]

    def __call__(self, evidence: Evidence) -> Finding:
        try:
            return Finding(self.name, *self.judge(evidence))
        except UndecidableError as reason:
            return Finding(self.name, "unknown", str(reason))


def define_check(name: str, *, needs_weights: bool = False) -> Callable[..., Check]:
    """Return a decorator that turns a function into a `Check`.

    The decorated function becomes the attribute `judge` of the check.
    """
    return lambda judge: Check(name, needs_weights, judge)


def summarize(findings: Sequence[Finding]) -> str:
    """Return a sentence that lists the problems that the checks found."""
    found = [finding.name for finding in findings if finding.state == "found"]
    decided = sum(finding.state != "unknown" for finding in findings)
    if not found:
        return f"No problem found in {decided} checks."
    return f"{len(found)} of {decided} checks found a problem: {', '.join(found)}."


def findings_as_plain(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [finding.as_plain() for finding in findings]
