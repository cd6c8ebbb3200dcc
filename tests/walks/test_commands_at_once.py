"""Every pair of commands that may meet in one folder, begun at once: each ends with exit code 0 or
6, or is refused for a reason that is stated, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import at_once
from tests.faults.nursery import Nursery

GROUPS = [("train",), ("seeds", "other", "report"), ("compare",), ("tune",)]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery(*at_once.ROOMS) as found:
        yield found


def test_every_pair_is_in_a_group() -> None:
    found = [pair for verbs in GROUPS for pair in at_once.beginning_with(*verbs)]
    assert len(found) == len(at_once.PAIRS)


@pytest.mark.parametrize("verbs", GROUPS, ids="-".join)
def test_commands_begun_at_once(verbs: tuple[str, ...], nursery: Nursery) -> None:
    tally = at_once.pairs(at_once.beginning_with(*verbs), nursery=nursery)
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.tried == len(at_once.beginning_with(*verbs))
