"""Numbers in messages agree with their nouns."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from seqattn.wording import counted
from tests.conftest import ROOT

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
