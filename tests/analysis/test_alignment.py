"""Attention against known links: values by hand, rules, and the shifts."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from seqattn import experiments
from seqattn.analysis.alignment import IBM_MODEL_1, AlignmentSums, alignments_of_rules
from seqattn.config import resolve
from seqattn.config.shipped_configs import shipped_configs
from seqattn.data.sequences import Sequences
from seqattn.data.tokens import Links, Tokens
from tests.conftest import Ended

# Two sequences with 3 target steps and the end, and 3 or 2 source steps. Sure links of the first:
# 0-0 and 1-2; possible: 2-1. Sure link of the second: 0-1. Its step 1 has no link.
LINKS = Links.of(
    [[(0, 0, True), (1, 2, True), (2, 1, False)], [(0, 1, True)]],
    [("noun", "verb", "noun", "end"), ("verb", "noun", "end")],
)
WEIGHTS = np.array(
    [
        [[0.5, 0.5, 0.0], [0.2, 0.1, 0.7], [0.1, 0.3, 0.6], [1.0, 0.0, 0.0]],
        [[0.4, 0.6, 0.0], [0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]],
    ]
)[:, None, None]  # (N, L, A, T, S)


def test_measures_by_hand() -> None:
    sums = AlignmentSums()
    sums.add(WEIGHTS, LINKS)
    found = sums.result()
    assert found is not None
    assert (found.steps, found.sure, found.possible) == (4, 3, 1)
    # At shift 0: a tie of two at 0-0, 1-2 is right, 2-1 is wrong, and 0-1 of the second is right.
    assert found.hit[1, 0, 0] == pytest.approx((0.5 + 1 + 0 + 1) / 4)
    assert found.weight[1, 0, 0] == pytest.approx((0.5 + 0.7 + 0.3 + 0.6) / 4)
    assert found.aer[1, 0, 0] == pytest.approx(float(1 - Fraction(5, 2) * 2 / (4 + 3)))
    assert found.by_kind["verb"][0] == 2
    assert found.by_kind["verb"][1][1, 0, 0] == pytest.approx((1 + 1) / 2)
    assert found.by_kind["noun"][2][1, 0, 0] == pytest.approx((0.5 + 0.3) / 2)
    assert "end" not in found.by_kind
    # At shift -1, step 1 holds the weights of the first symbol, and so on.
    assert found.hit[0, 0, 0] == pytest.approx((0 + 1 + 0 + 0) / 4)
    assert found.weight[0, 0, 0] == pytest.approx((0.2 + 0.6 + 0.0 + 0.1) / 4)
    # At shift 1, the two first symbols have no step before them.
    assert found.hit[2, 0, 0] == pytest.approx((0 + 0) / 2)
    assert found.weight[2, 0, 0] == pytest.approx((0.0 + 0.1) / 2)
    assert found.aer[2, 0, 0] == 1
    # At shift -1, all four symbols have a next step, and 1-2 is right.
    assert found.aer[0, 0, 0] == pytest.approx(1 - 2 / (4 + 3))
    assert found.best == (1, 0, 0)
    plain = found.as_plain()
    assert plain["best_shift"] == 0 and plain["hit"]["0"] == found.hit[1, 0, 0]


def test_chunks_add_up() -> None:
    whole, parts = AlignmentSums(), AlignmentSums()
    whole.add(WEIGHTS, LINKS)
    for k in range(2):
        parts.add(WEIGHTS[k : k + 1], LINKS.select(slice(k, k + 1)))
    one, two = whole.result(), parts.result()
    assert one is not None and two is not None
    for name in ("aer", "hit", "weight"):
        assert np.allclose(getattr(one, name), getattr(two, name))


def test_the_shift_of_a_model_that_attends_one_step_late_is_found() -> None:
    late = np.zeros((1, 1, 2, 4, 3))
    for t, source in ((0, 0), (1, 2), (2, 1)):
        late[0, 0, 1, t + 1, source] = 1  # the second head looks at what it reads
    late[0, 0, 0] = 1 / 3
    sums = AlignmentSums()
    sums.add(late, LINKS.select(slice(0, 1)))
    found = sums.result()
    assert found is not None and found.best == (0, 0, 1)
    assert found.aer[0, 0, 1] == 0 and found.hit[0, 0, 1] == 1


def test_no_links_have_no_measures() -> None:
    sums = AlignmentSums()
    assert sums.result() is None
    sums.add(WEIGHTS[:1], Links.of([[]]))
    assert sums.result() is None


def pairs(reverse: bool) -> Sequences:
    """Sentences of four different words, which a dictionary translates in the same or in reverse
    order."""
    words = [f"w{k}" for k in range(10)]
    source = Tokens.of_symbols(words)
    target = Tokens.of_symbols(word.upper() for word in words)
    numbers = np.random.RandomState(0)
    sources = [[words[k] for k in numbers.permutation(10)[:4]] for _ in range(50)]
    targets = [[word.upper() for word in (one[::-1] if reverse else one)] for one in sources]
    links = Links.of([[(t, 3 - t if reverse else t, True) for t in range(4)] for _ in sources])
    a, b = source.pad(sources, ends=False), target.pad(targets, ends=True)
    return Sequences(
        *a, *b, source.names, tuple(map(str, range(50))), target_features=target.names,
        links=links, source_space=source, target_space=target,
    )  # fmt: skip


def test_rules() -> None:
    straight, reverse = (alignments_of_rules(one, one) for one in map(pairs, (False, True)))
    for found in (straight, reverse):
        assert found["uniform"].hit[1, 0, 0] == pytest.approx(0.25)
        assert found["uniform"].aer[1, 0, 0] == pytest.approx(0.75)
        assert found[IBM_MODEL_1].aer[1, 0, 0] == 0
    assert straight["diagonal"].hit[1, 0, 0] == 1
    assert reverse["diagonal"].hit[1, 0, 0] == 0


def test_doctor_counts_the_same_steps_as_right(
    seqattn: Callable[..., Ended], tmp_path: Path
) -> None:
    """Some steps of `dates` have several links, or only a possible one."""
    sets = ["data.n_train=40", "data.n_validation=10", "data.n_test=60", "training.epochs=1",
            "model.hidden_dim=6"]  # fmt: skip
    config = resolve(shipped_configs()["dates"], [*sets, "name=dates"]).config
    run, _ = experiments.train_one(config, tmp_path, plots=False)
    alignment = run.read_summary()["alignment"]
    done = seqattn("doctor", run.path)
    assert f"{alignment['hit']['0']:.0%} at it" in done.out
