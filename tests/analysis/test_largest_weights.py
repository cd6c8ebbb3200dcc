"""Where the largest weight lies over all test sequences, beside the examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.analysis.attention_metrics import AttentionMetricsAccumulator, largest_weight_shares
from seqattn.config import Copy, Recall, Reverse, Sort
from seqattn.data.sequences import valid_mask
from seqattn.data.tasks import Task, generate
from seqattn.runs.storage import read_arrays
from tests.conftest import Ended


def test_shares_of_the_largest_weight_by_hand() -> None:
    third = np.float32(1 / 3)
    weights = np.array(
        [[0.2, 0.8, 0.0], [0.4, 0.4, 0.2], [third, third, third], [0.3, 0.3, np.nan],
         [third, np.nextafter(third, np.float32(1)), third], [0, 0, 0], [0, 0, np.nan]], np.float32
    )  # fmt: skip
    np.testing.assert_array_equal(
        largest_weight_shares(weights),
        [[0, 1, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [1 / 2, 1 / 2, 0], [0, 1, 0],
         [0, 0, 0], [0, 0, 0]],
    )  # fmt: skip


@pytest.mark.parametrize(
    "task", [Copy(min_length=3), Reverse(), Sort(), Recall(pairs=5, min_pairs=2)]
)
def test_equal_weights_have_the_accuracy_of_chance_in_every_task(task: Task) -> None:
    part = generate(task, 13, seed=5)
    S = part.source_lengths[:, None]
    inside = np.arange(part.source_steps) < S
    row = np.where(inside, np.float32(1) / S, 0).astype(np.float32)
    weights = np.broadcast_to(
        row[:, None, None, None], (len(part), 1, 2, part.target_steps, part.source_steps)
    )
    total = AttentionMetricsAccumulator(is_distribution=True)
    keep = valid_mask(part.target_lengths, part.target_steps)
    total.add(weights, part.source_lengths, keep, part.alignment)
    expected = np.broadcast_to(1 / S, keep.shape)[keep].mean()
    accuracy = total.result().accuracy
    assert accuracy is not None
    np.testing.assert_allclose(accuracy, [[expected, expected]], rtol=1e-12)


def test_weight_on_padding_never_ties() -> None:
    total = AttentionMetricsAccumulator(is_distribution=True)
    keep, alignment = np.ones((1, 1), bool), np.array([[0]])
    total.add(np.full((1, 1, 1, 1, 4), 0.25, np.float32), np.array([2]), keep, alignment)
    assert total.result().accuracy == np.array([[1 / 2]])


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
