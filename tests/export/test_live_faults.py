"""Live graphs that could not be traced, and words about those that cannot be."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from seqattn.errors import UsageError
from seqattn.export import live as live_export
from seqattn.export import onnx as exporting
from seqattn.export.live import trace_live
from tests.export.test_export import trained_as
from tests.export.test_live import assert_same, of_model, random_source, run


@pytest.mark.parametrize("score", ["dot", "general"])
def test_an_lstm_with_heads_and_context_as_input_is_traced(score: str) -> None:
    trained = trained_as({
        "cell": "lstm", "context": "input", "hidden_dim": 22, "layers": 2,
        "attention": {"score": score, "heads": 2, "project_values": True},
    })  # fmt: skip
    part = random_source(trained, 6)
    found = run(trace_live(trained), trained, part, 5)
    assert_same(found, of_model(trained, part, 5), trained, part)


def test_the_message_does_not_recommend_the_version_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("No ONNX function found\nmore")

    monkeypatch.setattr(exporting.torch.onnx, "export", fail)
    with pytest.raises(UsageError) as failed:
        trace_live(trained_as({"attention": None}))
    assert str(failed.value).endswith("cannot export model.kind recurrent: No ONNX function found")
    monkeypatch.setattr(exporting.torch, "__version__", "2.9.1+cpu")
    with pytest.raises(UsageError, match=r"Install torch 2\.13 or a newer version"):
        trace_live(trained_as({"attention": None}))


@pytest.mark.parametrize(
    "error", [onnx.checker.ValidationError("no such op"), RuntimeError("no such op")]
)
def test_a_graph_that_onnx_refuses_is_a_reason(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(live_export.onnx.checker, "check_model", refuse)
    with pytest.raises(
        UsageError, match=r"onnx [\d.]+ cannot build the graph of model.kind recurrent: no such op"
    ):
        trace_live(trained_as({"attention": None}))
