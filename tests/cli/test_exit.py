"""The end of the process prints nothing beyond the message of the command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from seqattn import __main__
from tests.conftest import fresh_process


def test_a_data_error_is_the_only_line_on_stderr(tmp_path: Path) -> None:
    """DuckDB's bindings print all objects that exist when the interpreter ends."""
    (tmp_path / "empty.csv").write_text("a,b\n")
    done = fresh_process(["data", "check", "empty.csv"], tmp_path)
    assert done.returncode == 3
    assert done.stderr == "seqattn: empty.csv: has a header but no rows.\n"


@pytest.mark.parametrize("library", ["duckdb", "onnx"])
def test_the_last_scan_is_skipped_only_without_libraries_that_need_it(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = list[bool]()
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(True))
    for name in __main__.NEED_LAST_SCAN:
        monkeypatch.delitem(sys.modules, name, raising=False)
    __main__._skip_last_scan()
    assert frozen
    monkeypatch.setitem(sys.modules, library, sys)
    __main__._skip_last_scan()
    assert len(frozen) == 1
