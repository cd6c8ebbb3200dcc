"""The peak of this process's memory while a fault is brought about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults import Tally

PROCESS = Path("/proc/self")


def read_mib(name: str) -> float:
    """VmRSS or VmHWM (the peak of VmRSS) of this process, in MiB."""
    found = re.search(rf"{name}:\s*(\d+) kB", (PROCESS / "status").read_text())
    assert found is not None
    return int(found[1]) / 1024


@contextmanager
def bounded_memory(tally: Tally, most_mib: float) -> Iterator[None]:
    """A case that fails where the process takes that much more memory, at any moment inside, than
    it held before.

    The peak is set back to what is held now: `ru_maxrss` is the highest since the process began,
    so after anything larger it does not change, and no growth could be seen.
    """
    try:
        (PROCESS / "clear_refs").write_text("5")
        before = read_mib("VmRSS")
    except OSError:
        yield
        tally.skip("the peak of a process's memory cannot be set back here")
        return
    yield
    grown = read_mib("VmHWM") - before
    with tally.case("memory"):
        assert grown < most_mib, f"memory grew by {grown:.0f} MiB"
