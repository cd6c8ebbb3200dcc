"""The numbers in findings, tables and pages are those of what their text names."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqattn.analysis import doctor
from seqattn.analysis.attention_metrics import AttentionMetricsAccumulator
from seqattn.analysis.comparison.statistics import paired_tests
from seqattn.analysis.comparison.tables import _describe_pairs
from seqattn.analysis.doctor import CHECK_NAMES, Evidence, Finding
from seqattn.analysis.doctor.collect import sibling_losses
from seqattn.report.content.examples import group_losses, pack_weights
from seqattn.runs import RunFolder, seed_of_folder
from seqattn.runs.array_files import shorten_names
from seqattn.runs.storage import write_json
from tests.analysis.test_doctor import N, S, T, healthy, one_hot, seen_with

SHIFTED, DEAD = CHECK_NAMES[4], CHECK_NAMES[6]


def finding(name: str, seen: Evidence) -> Finding:
    (one,) = (each for each in doctor.examine(seen) if each.name == name)
    return one


@pytest.mark.parametrize("length", [2, 3])
def test_neighbours_are_counted_over_all_steps(length: int) -> None:
    """With short sources, some steps have no neighbour on one side."""
    weights = one_hot(np.full(T, length - 1))[..., :length]
    alignment = np.broadcast_to(np.arange(T) % length, (N, T))
    true_steps = alignment[..., None] == np.arange(length)
    one = finding(SHIFTED, seen_with(weights, true_steps=true_steps,
                                     source_lengths=np.full(N, length)))  # fmt: skip
    at_true = float(np.mean(alignment == length - 1))
    after = float(np.mean(alignment == length - 2))
    assert f"{at_true:.0%} at it" in one.number
    assert f"{after:.0%} of the steps" in one.number
    assert one.state == "fine"


def test_sources_of_one_point_say_nothing_about_attention() -> None:
    seen = seen_with(np.ones((N, 1, 2, T, 1)), source_lengths=np.ones(N, int),
                     override_errors={"uniform": 0.1})  # fmt: skip
    one = finding("attention does not matter", seen)
    assert (one.state, one.number) == ("unknown", "no source has two or more points")


def test_all_dead_heads_are_counted() -> None:
    weights = np.repeat(healthy()[:, :, :1], 12, axis=2)
    weights[:, :, 2:] = 1 / S
    one = finding(DEAD, seen_with(weights))
    assert one.number.startswith("10 of 12 heads have almost equal weights (head 3; head 4;")
    assert one.number.endswith("head 8; and 4 more)")


def test_equal_losses_are_no_spread_and_a_loss_above_0_is_not_0() -> None:
    assert doctor.check_seed_spread([0.0, 0.0, 0.0]).state == "fine"
    assert doctor.check_seed_spread([math.inf] * 3).state == "found"
    seen = replace(seen_with(healthy()), loss=5.0, loss_teacher_forced=0.0)
    assert finding("exposure bias", seen).number.startswith("free running 5, inf times")


def test_only_seed_folders_are_seeds(tmp_path: Path) -> None:
    for name in ("seed-1", "seed-2", "seed-2-backup", "seed-a", "seed-01", "my-seed-3"):
        (tmp_path / name).mkdir()
    found = {path.name: seed_of_folder(path) for path in tmp_path.iterdir()}
    assert {name: seed for name, seed in found.items() if seed is not None} == {
        "seed-1": 1, "seed-2": 2,
    }  # fmt: skip
    write_json(tmp_path / "seed-2-backup/summary.json", {"test_loss": 1.0})
    assert sibling_losses(RunFolder(tmp_path / "seed-1")) == []
    assert sibling_losses(RunFolder(tmp_path / "seed-a")) == []


def test_equal_results_are_not_too_few_seeds() -> None:
    losses = {name: dict.fromkeys(range(8), 0.5) for name in "abcd"}
    sentences = _describe_pairs(paired_tests([losses]))
    assert len(sentences) == 6
    assert all("have the same result in all 8 seeds" in sentence for sentence in sentences)


def test_names_that_differ_stay_different() -> None:
    names = [f"rate-{rate}_a-long-name-in-the-middle_dim-{dim}_general_end"
             for rate in (0.001, 0.003) for dim in (4, 8)]  # fmt: skip
    short = shorten_names(names, 20)
    assert len(set(short)) == 4
    assert max(map(len, short)) < len(names[0])
    assert shorten_names(["a", "b" * 40], 20)[0] == "a"
    assert shorten_names(["c" * 40] * 2, 20) == [f"{'c' * 9}…{'c' * 10}"] * 2


@pytest.mark.parametrize(
    ("low", "high", "cells", "bits", "decimals"),
    [(0, 1, 100, 16, 4), (0, 1, 2**20 + 1, 8, 2), (-2.3, 2.7, 2**20 + 1, 16, 4),
     (-900, 900, 100, 16, 1)],
)  # fmt: skip
def test_packed_weights_are_exact_to_the_stated_decimals(
    low: float, high: float, cells: int, bits: int, decimals: int
) -> None:
    packed = pack_weights(np.linspace(low, high, cells))
    assert (packed["bits"], packed["decimals"]) == (bits, decimals)
    step = (packed["high"] - packed["low"]) / (65_534 if bits == 16 else 254)
    assert step / 2 <= 0.5 * 10**-decimals


def test_a_row_without_weight_is_not_at_the_true_step() -> None:
    total = AttentionMetricsAccumulator(is_distribution=False)
    total.add(np.zeros((1, 1, 1, 2, 3)), np.array([3]), np.ones((1, 2), bool), np.array([[0, 1]]))
    accuracy = total.result().accuracy
    assert accuracy is not None
    assert accuracy.item() == 0.0


def test_groups_count_the_sequences_in_their_mean() -> None:
    arrays = {"labels": np.array(["u", "u", "v"]), "source_lengths": np.full(3, 2),
              "target_lengths": np.full(3, 2), "source": np.zeros((3, 2, 1)), "target": np.zeros((3, 2, 1)),
              "forecast": np.zeros((3, 2, 1)), "features": np.array(["x"]), "said": np.array(["x"])}  # fmt: skip
    (by_label,) = [group for group in group_losses(arrays, np.array([1.0, np.nan, 2.0]))
                   if group["name"] == "label"]  # fmt: skip
    assert by_label["rows"] == [["u", 1, 1.0], ["v", 1, 2.0]]
