"""How long and how branched a piece of the package may be, without exceptions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from radon.complexity import cc_visit
from radon.visitors import Class

from tests.conftest import ROOT

FUNCTION_LINES, CLASS_LINES = 60, 250
COMPLEXITY, PARAMETERS = 15, 8
FILES = sorted(
    path for path in (ROOT / "seqattn").rglob("*.py") if "node_modules" not in path.parts
)


def file_limit(path: Path) -> int:
    """Lines that a file may have."""
    return 300 if "data" in path.relative_to(ROOT / "seqattn").parts[:1] else 400


def over_limits(source: str, lines: int = 400) -> Iterator[str]:
    """What of a source is too long, too branched, or has too many parameters."""
    if (count := len(source.splitlines())) > lines:
        yield f"has {count} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            if len(parameters) > PARAMETERS:
                yield f"{node.name}, line {node.lineno}: {len(parameters)} parameters"
            if (size := lines_of(node)) > FUNCTION_LINES:
                yield f"{node.name}, line {node.lineno}: {size} lines"
        elif isinstance(node, ast.ClassDef) and (size := lines_of(node)) > CLASS_LINES:
            yield f"class {node.name}, line {node.lineno}: {size} lines"
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
    assert list(over_limits(path.read_text(), file_limit(path))) == []


def test_each_limit_is_noticed() -> None:
    branches = "\n".join(f"    if x == {k}: return {k}" for k in range(COMPLEXITY))
    body = "\n".join("    x = 1" for _ in range(FUNCTION_LINES))
    methods = "\n".join(f"    x{k} = 1" for k in range(CLASS_LINES))
    names = ", ".join(f"a{k}" for k in range(PARAMETERS))
    nested = "\n".join(f"        if x == {k}: return {k}" for k in range(COMPLEXITY))
    for source, found in {
        f"def f(x):\n{branches}": f"f, line 1: cyclomatic complexity {COMPLEXITY + 1}",
        f"def f(x):\n    def g():\n{nested}": "g, line 2: cyclomatic complexity",
        f"def f(x):\n{body}": f"f, line 1: {FUNCTION_LINES + 1} lines",
        f"class C:\n{methods}": f"class C, line 1: {CLASS_LINES + 1} lines",
        f"def f({names}, *, b): ...": f"f, line 1: {PARAMETERS + 1} parameters",
        "x = 1\n" * 401: "has 401 lines",
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
