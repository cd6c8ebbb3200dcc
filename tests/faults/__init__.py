"""Faults that a user's machine, disk and files bring, each as a function that tries it many times.

`test_*.py` tries each a few times; `make torture` tries each as often as docs/reliability.md says, and writes that page.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Tally:
    """What came of one fault.

    Attributes:
        tried: cases; each passed, was skipped or failed.
        skipped: cases in which the fault could not be brought about, with the reason.
        failures: what went wrong, a line each.
        worst_seconds: the longest case.
        worst_mib: the most memory that a process of it had taken.
        remarks: what else is worth knowing.
    """

    tried: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    worst_seconds: float = 0.0
    worst_mib: float = 0.0
    remarks: list[str] = field(default_factory=list)

    @property
    def passed(self) -> int:
        return self.tried - sum(self.skipped.values()) - len(self.failures)

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """One case: an error inside is its failure."""
        self.tried += 1
        began = time.perf_counter()
        try:
            yield
        except AssertionError as error:
            self.failures.append(f"{name}: {error}")
        except Exception as error:
            self.failures.append(f"{name}: {type(error).__name__}: {error}")
        finally:
            self.worst_seconds = max(self.worst_seconds, time.perf_counter() - began)

    def skip(self, reason: str) -> None:
        self.tried += 1
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def took(self, mib: float) -> None:
        self.worst_mib = max(self.worst_mib, mib)

    def add(self, other: Tally) -> None:
        self.tried += other.tried
        for reason, count in other.skipped.items():
            self.skipped[reason] = self.skipped.get(reason, 0) + count
        self.failures += other.failures
        self.worst_seconds = max(self.worst_seconds, other.worst_seconds)
        self.worst_mib = max(self.worst_mib, other.worst_mib)
        self.remarks += [remark for remark in other.remarks if remark not in self.remarks]


def render_exit_codes(codes: Mapping[int, int]) -> str:
    """Return a sentence with the number of commands that ended with each exit code."""
    counts = [f"{count} with exit code {code}" for code, count in sorted(codes.items())]
    text = " and ".join([", ".join(counts[:-1]), *counts[-1:]] if len(counts) > 1 else counts)
    return f"Of {sum(codes.values())} commands, {text}.".replace(" with", " ended with", 1)
