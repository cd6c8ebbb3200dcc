"""How branched a function and how long a file of the package may be, without exceptions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from radon.complexity import cc_visit
from radon.visitors import Class

from tests.conftest import ROOT

FILE_LINES, COMPLEXITY = 800, 15
FILES = sorted(
    path for path in (ROOT / "seqattn").rglob("*.py") if "node_modules" not in path.parts
)


def over_limits(source: str) -> Iterator[str]:
    """What of a source is too long or too branched."""
    if (count := len(source.splitlines())) > FILE_LINES:
        yield f"has {count} lines"
    for block in functions(cc_visit(source)):
        if block.complexity > COMPLEXITY:
            yield f"{block.name}, line {block.lineno}: cyclomatic complexity {block.complexity}"


def lines_of(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def functions(blocks: list[object]) -> Iterator[object]:
    """Functions and methods, nested ones too; radon adds a nested one's branches to its parent."""
    for block in blocks:
        if isinstance(block, Class):
            yield from functions(block.methods)
        else:
            yield block
            yield from functions(block.closures)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_within_the_limits(path: Path) -> None:
    assert list(over_limits(path.read_text())) == []


def test_each_limit_is_noticed() -> None:
    branches = "\n".join(f"    if x == {k}: return {k}" for k in range(COMPLEXITY))
    nested = "\n".join(f"        if x == {k}: return {k}" for k in range(COMPLEXITY))
    for source, found in {
        f"def f(x):\n{branches}": f"f, line 1: cyclomatic complexity {COMPLEXITY + 1}",
        f"def f(x):\n    def g():\n{nested}": "g, line 2: cyclomatic complexity",
        "x = 1\n" * (FILE_LINES + 1): f"has {FILE_LINES + 1} lines",
    }.items():
        assert any(line.startswith(found) for line in over_limits(source)), found
    within = "\n".join(f"    if x == {k}: return {k}" for k in range(COMPLEXITY - 1))
    assert list(over_limits(f"def f(x):\n{within}")) == []


def test_the_loop_can_be_read_at_a_glance() -> None:
    tree = ast.parse((ROOT / "seqattn" / "training" / "loop.py").read_text())
    sizes = {
        node.name: lines_of(node) - lines_of(node.body[0])  # without the docstring
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
    }
    assert sizes["fit"] < 40
    assert sizes["train_step"] < 25
    assert sizes["fit"] + sizes["train_step"] + sizes["train_epoch"] < 75
