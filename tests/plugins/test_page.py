"""What docs/plugins.md says is what happens."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqattn.experiments.contract import check_plugin
from tests.conftest import ROOT
from tests.plugins.conftest import KINDS, forget_plugins
from tests.project.test_docs import as_run_here, blocks, typed

pytestmark = pytest.mark.usefixtures("untraced_graphs")

PAGE = ROOT / "docs/plugins.md"


def test_the_files_and_commands_of_the_page(
    seqattn: Callable[..., Any], tmp_path: Path, no_pictures: None
) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for block in blocks(PAGE, "python") + blocks(PAGE, "yaml"):
        name = re.match(r"# (\S+)\n", block)
        assert name is not None, block
        (tmp_path / name[1]).write_text(f"{block}\n")
    commands = [less for words in typed(PAGE) if (less := as_run_here(words)) is not None]
    assert len(commands) >= 17
    for words in commands:
        forget_plugins()
        done = seqattn(*words)
        assert done.code == 0, f"{shlex.join(words)}: {done.err}"
    forget_plugins()
    done = seqattn("evaluate", "outputs/bounded")
    assert done.code == 2


def test_the_page_has_a_file_for_each_kind_and_each_file_passes_every_check(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # tests/export traces graphs
    checks = "seqattn.experiments.contract.training_checks"
    monkeypatch.setattr(f"{checks}.claims_export", lambda module: False)
    kinds = set[str]()
    for block in blocks(PAGE, "python"):
        path = write(block.splitlines()[0].removeprefix("# "), block)
        for report in check_plugin(path, limit=3):
            kinds.add(report.kind)
            states = {row.state for row in report.rows}
            assert states <= {"passed", "not applicable"}, (path.name, report.rows)
    assert kinds == {*(kind.noun for kind in KINDS), "metric", "check"}
