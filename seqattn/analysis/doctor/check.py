"""What every check of the doctor has in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seqattn.analysis.doctor.collect import Evidence

State = Literal["found", "fine", "unknown"]
Verdict = tuple[State, str] | tuple[State, str, str, str]
"""A `Finding` without its name."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        name: of it.
        state: "found"; "fine" where it was looked for and is not there; "unknown" where this run
            cannot tell.
        number: what was measured, in words.
        meaning: what follows from it.
        change: a line of the config to try, or of the command line; empty where all is fine.
    """

    name: str
    state: State
    number: str
    meaning: str = ""
    change: str = ""

    def as_plain(self) -> dict[str, str]:
        return dict(vars(self))


class UndecidableError(Exception):
    """A run cannot show whether it has a problem; the text is the reason."""


@dataclass(frozen=True)
class Check:
    """A problem to look for.

    Attributes:
        name: of the problem.
        needs_weights: whether it is about attention weights.
        judge: may raise `UndecidableError`.
    """

    name: str
    needs_weights: bool
    judge: Callable[[Evidence], Verdict]

    def __call__(self, evidence: Evidence) -> Finding:
        try:
            return Finding(self.name, *self.judge(evidence))
        except UndecidableError as reason:
            return Finding(self.name, "unknown", str(reason))


def check(name: str, *, needs_weights: bool = False) -> Callable[..., Check]:
    """A decorator that makes a `Check` of its `judge`."""
    return lambda judge: Check(name, needs_weights, judge)


def told(findings: Sequence[Finding]) -> str:
    """All findings in a sentence."""
    found = [finding.name for finding in findings if finding.state == "found"]
    decided = sum(finding.state != "unknown" for finding in findings)
    if not found:
        return f"Nothing found in {decided} things looked for."
    return f"Found {len(found)} of {decided} things looked for: {', '.join(found)}."


def as_plain(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [finding.as_plain() for finding in findings]
