"""Runs side by side that end at different times: stopped or killed, and resumed."""

from __future__ import annotations

import pytest

from tests.faults import groups


@pytest.mark.parametrize("setup", groups.SETUPS)
def test_a_resumed_group_ends_as_one_that_was_never_stopped(setup: str) -> None:
    for tally in (groups.stopped((1, 5, 11, 17), (setup,)), groups.killed((3, 8, 16), (setup,))):
        assert not tally.failures, "\n".join(tally.failures)
