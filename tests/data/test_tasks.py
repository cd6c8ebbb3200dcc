"""Made sequences whose right alignment is known, and what is said of attention by it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from seqattn import data
from seqattn.analysis.attention_metrics import AttentionMetricsAccumulator
from seqattn.cli.result_tables import attention_lines
from seqattn.config import Copy, Lag, Polygons, Recall, Reverse, Sort
from seqattn.data import Sequences, fixed_shape, load_data, tasks
from seqattn.data.baselines import forecast_mse

RAGGED = [
    Copy(length=7, min_length=2),
    Reverse(length=7, min_length=2),
    Sort(length=7, min_length=2),
    Recall(pairs=5, min_pairs=2),
    Lag(length=11, min_length=5, lag=5, steps=3),
]
EVERY = [*RAGGED, Copy(), Reverse(), Sort(), Recall(), Lag(), Polygons(), Polygons(min_corners=3)]


def named(task: tasks.Task) -> str:
    return f"{task.kind}-{'ragged' if task in RAGGED else 'even'}"


@pytest.mark.parametrize("task", RAGGED, ids=named)
def test_the_true_source_step_holds_the_target(task: tasks.Task) -> None:
    part = tasks.generate(task.model_copy(update={"noise": 0.0}), 200, 5)
    assert part.alignment is not None
    for n in range(200):
        for t in range(int(part.target_lengths[n])):
            source_step = part.alignment[n, t]
            assert 0 <= source_step < part.source_lengths[n]
            assert np.array_equal(part.target[n, t], part.source[n, source_step])
        assert (part.alignment[n, part.target_lengths[n] :] == -1).all()
    assert len(np.unique(part.source_lengths)) > 2


def test_alignments_by_hand() -> None:
    source = np.array([[[0.3, 0.0], [-0.5, 1.0], [0.1, 2.0], [0.0, 0.0]]])
    lengths = np.array([3])
    assert tasks._identity_order(source, lengths).tolist() == [[0, 1, 2, -1]]
    assert tasks._reverse_order(source, lengths).tolist() == [[2, 1, 0, -1]]
    assert tasks._sorted_order(source, lengths).tolist() == [[1, 2, 0, -1]]
    # Points 1, 2, 3 are given; point 4 is told by point 2, point 5 by point 3, point 6 by none.
    assert tasks._lagged_order(lengths, 2, 3).tolist() == [[1, 2, -1]]


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_a_task_is_a_function_of_its_seed(task: tasks.Task) -> None:
    one, same, other = (tasks.generate(task, 40, seed) for seed in (3, 3, 4))
    assert np.array_equal(one.source, same.source)
    assert np.array_equal(one.target, same.target)
    assert not np.array_equal(one.source, other.source)


@pytest.mark.parametrize("task", EVERY, ids=repr)
def test_noise_moves_nothing_else_and_is_the_floor(task: tasks.Task) -> None:
    quiet, loud = (
        tasks.generate(task.model_copy(update={"noise": noise}), 3000, 1) for noise in (0.0, 0.3)
    )
    assert quiet.ideal is not None
    assert loud.ideal is not None
    assert np.array_equal(quiet.source_lengths, loud.source_lengths)
    assert np.array_equal(quiet.ideal, loud.ideal)
    assert forecast_mse(quiet.ideal, quiet) == 0
    if isinstance(task, Recall):  # its noise is on the key that asks, and nothing else
        assert np.array_equal(quiet.target, loud.target)
        last = np.arange(3000), quiet.source_lengths - 1
        assert (loud.source[last] - quiet.source[last]).std() == pytest.approx(0.3, rel=0.05)
    else:
        assert forecast_mse(loud.ideal, loud) == pytest.approx(0.09, rel=0.05)


def test_lengths_are_drawn_from_their_range() -> None:
    part = tasks.generate(Copy(length=6, min_length=3), 4000, 1)
    counts = np.bincount(part.source_lengths, minlength=8)
    assert counts[[0, 1, 2, 7]].sum() == 0
    assert counts[3:7].min() > 850
    assert np.array_equal(part.source_lengths, part.target_lengths)
    assert (part.source[~part.source_keep] == 0).all()


@pytest.mark.parametrize("symbols", [None, 23])
def test_the_lengths_of_the_test_part_leave_the_other_parts_unchanged(symbols: int | None) -> None:
    usual = Reverse(symbols=symbols, length=7, min_length=3, n_train=29, n_test=31)
    longer = usual.model_copy(update={"test_length": 13, "min_test_length": 11})
    before, after = load_data(usual), load_data(longer)
    for part in ("train", "validation"):
        assert np.array_equal(getattr(before, part).source, getattr(after, part).source)
    assert set(after.test.source_lengths) == {11, 12, 13}
    last = after.test.source[0, after.test.source_lengths[0] - 1]
    assert symbols is not None or np.array_equal(after.test.target[0, 0], last)
    ends = symbols is not None
    assert fixed_shape(usual) == (7, 7 + ends)
    assert fixed_shape(longer) == (13, 13 + ends)
    fixed = load_data(usual.model_copy(update={"test_length": 2}))
    assert set(fixed.test.source_lengths) == {2}
    assert fixed_shape(usual.model_copy(update={"test_length": 2})) == (7, 7 + ends)


@pytest.mark.parametrize(("keys", "words"), [
    ({"min_test_length": 4}, "requires test_length"),
    ({"min_test_length": 4, "test_length": 3}, "is 4, more than test_length: 3"),
    ({"symbols": 20, "test_length": 2}, "only 400 different sources"),
])  # fmt: skip
def test_lengths_of_the_test_part_that_contradict_other_keys(
    keys: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        Copy(**keys)
    with pytest.raises(ValidationError, match="a source may have only 3 points"):
        Lag(length=6, lag=4, test_length=3)


def test_polygons_are_regular() -> None:
    part = tasks.generate(Polygons(corners=7, min_corners=4, noise=0.0), 300, 2)
    assert part.ideal is not None
    assert part.alignment is None
    for n in range(300):
        count = 2 + part.target_lengths[n]
        corners = np.vstack([part.source[n], part.target[n, : part.target_lengths[n]]])
        sides = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
        radii = np.linalg.norm(corners, axis=1)
        assert np.allclose(radii, radii[0])
        assert np.allclose(sides, 2 * radii[0] * math.sin(math.pi / count))
        assert f"{count} corners" in part.labels[n]
    assert set(2 + part.target_lengths) == {4, 5, 6, 7}
    turned_on = tasks.rotate_on(part.source, part.source_lengths, part.target.shape[1])
    assert forecast_mse(turned_on, part) == pytest.approx(0, abs=1e-24)


def test_the_nearest_key_knows_the_value_where_nothing_is_noisy() -> None:
    part = tasks.generate(Recall(pairs=6, min_pairs=1, noise=0.0), 300, 2)
    forecast = tasks.nearest_key_value(part.source, part.source_lengths, 1)
    assert np.array_equal(forecast, part.target)
    blind = tasks.generate(Recall(pairs=6, min_pairs=1, noise=1.0), 300, 2)
    forecast = tasks.nearest_key_value(blind.source, blind.source_lengths, 1)
    assert forecast_mse(forecast, blind) > 0.1


def test_the_three_parts_differ_and_some_tasks_have_a_rule() -> None:
    for task in EVERY:
        splits = load_data(task)
        assert len(splits.train) == 256
        assert not np.array_equal(splits.validation.source, splits.test.source)
        assert (splits.rule is None) == isinstance(task, Copy | Reverse | Sort | Lag)
    assert data.Sequences is Sequences


# --- what weights say -----------------------------------------------------------------------------


def test_looks_by_hand() -> None:
    # Two sequences, one layer and head, two target steps, three source points; the second source
    # has two points, and its target one.
    weights = np.array(
        [[[[[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]]], [[[[0.5, 0.5, 0.0], [0.9, 0.0, 0.1]]]]]
    )
    accumulator = AttentionMetricsAccumulator(is_distribution=True)
    keep = np.array([[True, True], [True, False]])
    alignment = np.array([[0, 2], [1, -1]])
    for n in range(2):
        one = slice(n, n + 1)
        accumulator.add(weights[one], np.array([3, 2])[one], keep[one], alignment[one])
    metrics = accumulator.result()
    assert metrics.steps == metrics.aligned == 3
    assert metrics.accuracy is not None
    assert metrics.accuracy.tolist() == [[(1 + 0 + 1 / 2) / 3]]  # the last step has two largest
    assert metrics.mass is not None
    assert metrics.mass == pytest.approx(np.array([[(0.5 + 0.0 + 0.5) / 3]]))
    assert metrics.entropy_bits == pytest.approx(np.array([[(1.5 + 0 + 1) / 3]]))
    assert metrics.entropy_share == pytest.approx(np.array([[(1.5 / math.log2(3) + 0 + 1) / 3]]))
    assert metrics.padding_mass == 0
    assert metrics.best_head == (0, 0)


def test_weight_on_padding_is_noticed() -> None:
    weights = np.full((1, 1, 1, 1, 4), 0.25)
    accumulator = AttentionMetricsAccumulator(is_distribution=True)
    accumulator.add(weights, np.array([3]), np.array([[True]]), None)
    metrics = accumulator.result()
    assert metrics.padding_mass == 0.25
    assert metrics.accuracy is None
    assert metrics.best_head is None
    assert metrics.as_plain()["alignment_accuracy"] is None


def test_the_best_head_is_named() -> None:
    weights = np.zeros((1, 2, 3, 1, 5))
    weights[..., 0] = 1
    weights[0, 1, 2, 0] = [0.1, 0.6, 0.1, 0.1, 0.1]
    accumulator = AttentionMetricsAccumulator(is_distribution=True)
    accumulator.add(weights, np.array([5]), np.array([[True]]), np.array([[1]]))
    plain = accumulator.result().as_plain()
    assert plain["best_head"] == [1, 2]
    first, *_ = attention_lines(plain)
    assert "(layer 2, head 3, the best of " in first  # people count from 1
    assert plain["alignment_accuracy"] == 1
    assert plain["alignment_mass"] == pytest.approx(0.6)
    assert plain["by_head"]["alignment_accuracy"] == [[0, 0, 0], [0, 0, 1]]


def test_weights_that_are_no_distribution_have_no_entropy() -> None:
    accumulator = AttentionMetricsAccumulator(is_distribution=False)
    accumulator.add(
        np.full((1, 1, 1, 1, 2), 0.3), np.array([2]), np.array([[True]]), np.array([[0]])
    )
    metrics = accumulator.result()
    assert metrics.entropy_bits is None
    assert metrics.entropy_share is None
    assert metrics.accuracy is not None


def test_a_source_of_one_point_leaves_no_choice() -> None:
    accumulator = AttentionMetricsAccumulator(is_distribution=True)
    accumulator.add(np.ones((1, 1, 1, 1, 1)), np.array([1]), np.array([[True]]), None)
    assert accumulator.result().entropy_share is None
    assert accumulator.result().entropy_bits == np.zeros((1, 1))
