"""The size of a report page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seqattn import experiments
from seqattn.config import resolve
from seqattn.report import render_page
from seqattn.report.content import run_content
from seqattn.report.content.examples import pack_points
from tests.packed_points import unpack_points

TINY = [
    "training.epochs=1",
    "data.n_train=16",
    "data.n_validation=8",
    "data.n_test=8",
    "model.hidden_dim=4",
]

MAX_BYTES = 12 * 2**20
PRONOUNCE = 1_435_691
"""Number of parameters of `seqattn train pronounce`, the largest model of the shipped configs."""


def _parameters(kind: type[np.floating]) -> np.ndarray:
    return np.random.default_rng(7).normal(0, 0.06, (1, PRONOUNCE)).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_packed_numbers_keep_their_bits(kind: type[np.floating]) -> None:
    points = _parameters(kind)[:, : 2 * 3 * 5 * 7].reshape(2, 3, 5, 7).copy()
    points[1, 2, 3, 5] = np.nan
    points[0, 1] = -0.0
    packed = pack_points(points.transpose(1, 0, 2, 3))
    found = unpack_points(packed)
    assert found.dtype == kind
    assert found.tobytes() == points.transpose(1, 0, 2, 3).tobytes()


def test_the_page_of_the_largest_shipped_model_is_below_12_mb(tmp_path: Path) -> None:
    config = resolve(None, [*TINY, "name=small"]).config
    run, _ = experiments.train_one(config, tmp_path, plots=False)
    small = len(render_page(run_content(run, live=True)))
    assert small + len(json.dumps(pack_points(_parameters(np.float32)))) < MAX_BYTES
