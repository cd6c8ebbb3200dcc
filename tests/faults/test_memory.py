"""That growth of memory is seen in a process that has held more before."""

from __future__ import annotations

import numpy as np

from tests.faults import Tally, memory


def hold(mib: int) -> None:
    """Take that much memory, all of its pages, and give it back."""
    np.ones(mib * 2**17).sum()


def test_a_peak_of_before_hides_no_growth() -> None:
    hold(300)
    tally = Tally()
    with memory.bounded_memory(tally, 100):
        hold(50)
    assert (tally.tried, tally.failures) == (1, [])
    with memory.bounded_memory(tally, 100):
        hold(150)
    assert tally.tried == 2
    assert tally.failures[0].startswith("memory: memory grew by 15")
