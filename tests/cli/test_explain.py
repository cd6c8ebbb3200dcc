"""`seqattn explain` on a narrow terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ended

Command = Callable[..., Ended]


def test_an_explanation_is_never_shortened(
    seqattn: Command, attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    done = seqattn("explain", attention_run)
    assert done.code == 0
    assert "\u2026" not in done.out
