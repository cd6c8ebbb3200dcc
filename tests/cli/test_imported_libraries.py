"""Commands do not wait for libraries that they do not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from seqattn.cli import main
run, *commands = sys.argv[1:]
for command in commands:
    sys.argv = ["seqattn", *(run if word == "RUN" else word for word in command.split())]
    try:
        main()
    except SystemExit as left:
        print("LOADED", left.code, *sys.modules)
"""
HEAVY = {"matplotlib", "duckdb", "pyarrow", "onnx"}


# One process for all commands that import torch. DuckDB writes CSV, so predict writes JSON lines.
WITH_TORCH = {
    "explain RUN --example 0": HEAVY,
    "evaluate RUN": HEAVY,
    "predict RUN --example 0 --format jsonl": HEAVY,
}
WITHOUT_TORCH = {
    "inspect RUN --json": {*HEAVY, "torch", "rich.table"},
    "inspect RUN": {*HEAVY, "torch"},
}


@pytest.mark.parametrize("commands", [WITH_TORCH, WITHOUT_TORCH])
def test_a_command_imports_only_what_it_uses(
    commands: dict[str, set[str]], attention_run: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, attention_run, *commands],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [line.split() for line in done.stdout.splitlines() if line.startswith("LOADED ")]
    assert done.stderr == ""
    for (command, unloaded), (_, code, *modules) in zip(commands.items(), found, strict=True):
        assert code == "0", command
        assert "seqattn.runs" in modules
        assert not unloaded & set(modules), command
