"""Print the size of the package: files, lines, lines of code and functions of each room.

    python scripts/size.py

Lines of code do not include blank lines, comments and docstrings. A body has no docstring.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "seqattn"
NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
            tokenize.ENDMARKER}  # fmt: skip


def measure_file(source: str) -> list[int]:
    """Return the number of lines, lines of code, functions, lines of bodies, and `raise`."""
    tree = ast.parse(source)
    docstrings = set[int]()
    functions = bodies = raises = 0
    for node in ast.walk(tree):
        raises += isinstance(node, ast.Raise)
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        first = body[0] if body else None
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        for below in body:  # also the texts below attributes
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                docstrings |= set(range(below.lineno, (below.end_lineno or 0) + 1))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions += 1
            begin = first.end_lineno if first and is_text else body[0].lineno - 1
            bodies += (node.end_lineno or 0) - (begin or 0)
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            code |= set(range(token.start[0], token.end[0] + 1))
    return [source.count("\n"), len(code - docstrings), functions, bodies, raises]


def main() -> None:
    rooms = dict[str, list[int]]()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if "node_modules" in parts:
            continue
        room = rooms.setdefault(parts[0] if len(parts) > 1 else "(top)", [0] * 6)
        for k, number in enumerate([1, *measure_file(path.read_text(encoding="utf-8"))]):
            room[k] += number
    rooms["all"] = [sum(numbers) for numbers in zip(*rooms.values(), strict=True)]
    heads = ("room", "files", "lines", "code", "functions", "per 1,000", "mean body", "raises")
    print("".join(f"{head:>11}" for head in heads))
    for name, (files, lines, code, functions, bodies, raises) in rooms.items():
        cells = (name, files, lines, code, functions, f"{1000 * functions / lines:.1f}",
                 f"{bodies / max(functions, 1):.1f}", raises)  # fmt: skip
        print("".join(f"{cell:>11}" for cell in cells))


if __name__ == "__main__":
    main()
