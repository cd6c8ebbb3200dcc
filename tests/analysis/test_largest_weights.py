"""Where the largest weight lies over all test sequences, beside the examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from seqattn.analysis.attention_metrics import largest_weight_shares
from seqattn.runs.storage import read_arrays
from tests.conftest import Ended


def test_shares_of_the_largest_weight_by_hand() -> None:
    weights = np.array([[[0.2, 0.8, 0.0], [0.5, 0.5, 0.0]], [[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]])
    np.testing.assert_array_equal(largest_weight_shares(weights), [[0, 0.5, 0.5], [0.5, 0.5, 0]])


def test_the_terminal_shows_them_below_the_examples(
    seqattn: Callable[..., Ended], attention_run: Path, ragged_run: Path
) -> None:
    done = seqattn("plot-attention", attention_run, "--terminal", "--examples", "2")
    assert done.code == 0
    _, _, table = done.out.partition("all 12 sequences: share in which a source step has")
    weights = read_arrays(attention_run / "attention.npz")["weights"][:, 0, 0]
    shares = (weights.argmax(-1)[..., None] == np.arange(2)).mean(axis=0)
    for step, row in zip((3, 4), shares, strict=True):
        (line,) = (line for line in table.splitlines() if line.startswith(f"  point {step}"))
        assert line.split()[2:] == [f"{share:.0%}" for share in row]
    everything = seqattn("plot-attention", attention_run, "--terminal", "--examples", "12")
    assert "all 12 sequences" not in everything.out
    ragged = seqattn("plot-attention", ragged_run, "--terminal", "--examples", "2")
    assert ragged.code == 0
    assert "all 12 sequences" not in ragged.out  # no table fits several lengths
