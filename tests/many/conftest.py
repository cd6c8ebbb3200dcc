"""What the tests of several processes stand on."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _config(tmp_path: Path) -> None:
    """The config that `several.words` names."""
    (tmp_path / "c.yaml").write_text("seed: 3\n")
