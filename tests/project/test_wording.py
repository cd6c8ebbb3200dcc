"""Numbers in messages agree with their nouns."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.errors import counted
from tests.conftest import ROOT, Ended

Command = Callable[..., Ended]

FILES = sorted([*(ROOT / "seqattn/cli").glob("*.py"), *(ROOT / "seqattn/report").glob("*.py")])
NOUNS = "seeds|runs|files|sequences|epochs|trials|features|cells|tensors|numbers|rows|frames|more"
PLURAL = re.compile(rf" (more )?({NOUNS})\b")
PART_OF = re.compile(r"(of|of the|of its|first|all) $")
"""Before the number of a whole, of which some are told of: "1 of 3 seeds"."""


def test_a_number_and_its_noun() -> None:
    assert [counted(n, "seed") for n in (0, 1, 2, 1200)] == [
        "0 seeds", "1 seed", "2 seeds", "1,200 seeds"
    ]  # fmt: skip
    assert counted(2, "series", "series") == "2 series"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_message_puts_a_number_before_a_plural(path: Path) -> None:
    """`{n} seeds` is wrong for one seed; `counted(n, "seed")` is not."""
    for text in ast.walk(ast.parse(path.read_text())):
        if not isinstance(text, ast.JoinedStr):
            continue
        parts = [part.value if isinstance(part, ast.Constant) else None for part in text.values]
        for place in range(1, len(parts)):
            before = parts[place - 2] if place > 1 else ""
            if parts[place - 1] is None and PLURAL.match(str(parts[place] or "")):
                assert PART_OF.search(str(before)), f"{path.name}:{text.lineno}: {parts[place]}"


@pytest.mark.parametrize(
    ("empty", "words"),
    [
        (1, "column 'x' is empty. Fill it"),
        (2, "column 'x' is empty, and so is 1 more cell. Fill them"),
        (3, "column 'x' is empty, and so are 2 more cells. Fill them"),
    ],
)
def test_empty_cells_are_counted(
    empty: int, words: str, attention_run: Path, seqattn: Command, tmp_path: Path
) -> None:
    rows = [f"a,{step},{'' if step <= empty else 1},1\n" for step in range(1, 5)]
    (tmp_path / "x.csv").write_text("sequence,step,x,y\n" + "".join(rows))
    done = seqattn("predict", attention_run, "--input", "x.csv")
    assert done.code == 3
    assert words in done.err
