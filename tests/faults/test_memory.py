"""That growth of memory is seen in a process that has held more before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults import Tally, configs, files, memory


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


def test_where_no_peak_can_be_set_back_the_case_is_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "PROCESS", tmp_path / "none")
    tally = Tally()
    with memory.bounded_memory(tally, 0):
        hold(1)
    assert (tally.passed, sum(tally.skipped.values())) == (0, 1)


@pytest.mark.parametrize("fault", [configs.yaml, files.payloads])
def test_a_reader_that_takes_memory_is_noticed(
    fault: Callable[[], Tally], monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqattn import config

    for module, few in ((configs, {"YAML": configs.YAML[:2]}),
                        (files, {"WORDS": (), "lying_headers": lambda: ()})):  # fmt: skip
        for name, value in few.items():
            monkeypatch.setattr(module, name, value)
    hold(400)
    real_resolve, real_reader, taken = config.resolve, files.reader_of, list[int]()

    def take() -> None:
        if not taken:  # once is enough, and takes little time
            taken.append(310)
            hold(310)

    def resolve(*args: Any, **options: Any) -> Any:
        take()
        return real_resolve(*args, **options)

    def reader_of(name: str) -> Callable[[Path], Any]:
        take()
        return real_reader(name)

    monkeypatch.setattr(config, "resolve", resolve)
    monkeypatch.setattr(files, "reader_of", reader_of)
    (failure,) = fault().failures
    assert failure.startswith("memory: memory grew by")
