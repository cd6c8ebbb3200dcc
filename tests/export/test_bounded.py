"""The check of graphs holds the weights of a few sequences at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqattn.export import check as checking
from seqattn.export import kinds
from seqattn.export.onnx import trace_graphs
from tests.export.test_export import trained_as

S, T = 7, 5


def test_few_weights_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = trained_as({"attention": {"score": "dot"}})
    graphs = trace_graphs(trained, T)
    whole = checking.check_graphs(graphs, trained, T, None, None)
    original, sizes = kinds.free_run, list[int]()

    def watched(*given: Any, **more: Any) -> Any:
        found = original(*given, **more)
        sizes.append(found.maps["cross"].size)
        return found

    monkeypatch.setattr(kinds, "free_run", watched)
    monkeypatch.setattr(checking, "MAX_BATCH_WEIGHTS", 16 * S * T)
    parts = checking.check_graphs(graphs, trained, T, None, None)
    assert max(sizes) == 16 * S * T
    assert [row.sources for row in parts] == [row.sources for row in whole]
    for one, other in zip(whole, parts, strict=True):
        assert one.differences.keys() == other.differences.keys()
        assert other.is_within_tolerance
    monkeypatch.setattr(checking, "MAX_BATCH_WEIGHTS", 2 * S * T)  # long sequences: fewer of them
    few = checking.check_graphs(graphs, trained, T, None, None)
    assert few[-1].sources == f"8 random, up to {S} points"
    part = checking._random_sources(trained, 11, S)
    whole_forecast = checking.forecasts(graphs.free_running, part, 11)
    by_three = checking.forecasts(graphs.free_running, part, 3)
    assert np.abs(whole_forecast - by_three).max() < 1e-3  # of units of 300
