"""Where a decoder under teacher forcing needs its previous output as input."""

from __future__ import annotations

import pytest
import torch

from seqattn.models.teacher_forcing import Segment, segments


@pytest.mark.parametrize(
    ("forced", "expected"),
    [
        ([[1, 1, 1, 1]], [(0, 4, "forced")]),
        ([[0, 1, 1, 1]], [(0, 4, "forced")]),  # step 0 has no choice
        ([[0, 0, 0, 0]], [(0, 1, "forced"), (1, 2, "free"), (2, 3, "free"), (3, 4, "free")]),
        ([[1, 0, 1, 1]], [(0, 1, "forced"), (1, 4, "free")]),
        ([[1, 1, 0, 1], [1, 1, 1, 0]], [(0, 2, "forced"), (2, 3, "mixed"), (3, 4, "mixed")]),
        ([[1], [0]], [(0, 1, "forced"), (1, 2, "mixed"), (2, 3, "mixed"), (3, 4, "mixed")]),
    ],
)
def test_steps_are_split_where_an_output_is_the_next_input(
    forced: list[list[int]], expected: list[tuple[int, int, str]]
) -> None:
    found = segments(torch.tensor(forced).bool(), 4)
    assert found == tuple(Segment(*each) for each in expected)  # type: ignore[arg-type]
    assert segments(torch.ones(1, dtype=torch.bool), 4) == ((0, 4, "forced"),)
