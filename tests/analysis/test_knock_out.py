"""The errors of a model without each attention head."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from scipy.stats import wilcoxon

from seqattn.analysis.evaluation import ReferenceLosses, evaluate, free_run
from seqattn.analysis.knock_out import knock_out_heads
from seqattn.config import Model, resolve
from seqattn.data import DataSpec, Splits, load_data
from seqattn.errors import UsageError
from seqattn.models import FeatureSpec, Seq2SeqModel, build_model

TRANSFORMER = {"kind": "transformer", "model_dim": 12, "heads": 3, "layers": 2}
SIZES = ("data.n_train=20", "data.n_validation=5", "data.n_test=17")


def data_of(*overrides: str) -> Splits:
    return load_data(resolve(None, [*overrides, *SIZES]).config.data)


def model_on(data: Splits, section: dict[str, Any]) -> Seq2SeqModel:
    config: Model = TypeAdapter(Model).validate_python(section)
    return build_model(config, FeatureSpec.of(DataSpec.of(data.train)), 3)


def test_vectors_without_a_head_whose_values_are_zero() -> None:
    data = data_of("data.variable_length=true")
    model, part = model_on(data, TRANSFORMER), data.test
    found = knock_out_heads(model, part)
    places = [(head.kind, head.layer, head.head) for head in found.heads]
    assert places == [(kind, layer, head) for kind in ("encoder_self", "decoder_self", "cross")
                      for layer in range(2) for head in range(3)]  # fmt: skip
    loss = evaluate(model, part, ReferenceLosses.from_splits(part, data)).loss
    assert found.measures == {"rmse": pytest.approx(np.sqrt(loss), rel=1e-6)}
    keep = part.target_cells

    def errors(model: Seq2SeqModel) -> tuple[float, Any]:
        squares = np.square(free_run(model, part, part.target_steps).values - part.target)
        squares = np.where(keep, squares, 0)
        by_sequence = np.sqrt(squares.sum(axis=(1, 2)) / keep.sum(axis=(1, 2)))
        return float(np.sqrt(squares.sum() / keep.sum())), by_sequence

    _, before = errors(model)
    p = []
    for head in found.heads:
        without = copy.deepcopy(model)
        stack = without.encoder if head.kind == "encoder_self" else without.decoder
        layer: Any = stack[head.layer]  # type: ignore[index]
        values = (layer.cross if head.kind == "cross" else layer.attend).value
        rows = slice(4 * head.head, 4 * head.head + 4)
        with torch.no_grad():
            values.weight[rows], values.bias[rows] = 0, 0
        rmse, after = errors(without)
        assert head.measures["rmse"] == pytest.approx(rmse, rel=1e-5)
        assert head.differences["rmse"] == pytest.approx(rmse - found.measures["rmse"], abs=1e-6)
        assert (head.worse, head.better, head.equal) == ((after > before).sum(),
                                                         (after < before).sum(), 0)  # fmt: skip
        p.append(wilcoxon(after - before, method="exact").pvalue)
    order = np.argsort(p)
    holm = np.minimum(1, np.maximum.accumulate(np.array(p)[order] * np.arange(len(p), 0, -1)))
    np.testing.assert_allclose([found.heads[k].p_holm for k in order], holm, rtol=1e-6)
    assert found.differences()["cross"].shape == (2, 3)
    assert found.differences()["cross"][1, 2] == found.heads[-1].differences["rmse"]


def test_a_head_that_adds_nothing_changes_nothing() -> None:
    """Weights of 0 and torch's fused attention round differently."""
    data = data_of("data.variable_length=true")
    model: Any = model_on(data, TRANSFORMER)
    with torch.no_grad():
        for attention in (model.encoder[1].attend, model.decoder[1].attend, model.decoder[1].cross):
            attention.out.weight[:, 4:8] = 0
    found = knock_out_heads(model, data.test)
    idle = [head for head in found.heads if (head.layer, head.head) == (1, 1)]
    assert [(head.worse, head.better, head.equal) for head in idle] == 3 * [(0, 0, 17)]


def test_symbols_of_a_recurrent_model_with_two_heads() -> None:
    data = data_of("data.kind=dates")
    section = {"hidden_dim": 8, "attention": {"score": "dot", "heads": 2}}
    model, part = model_on(data, section), data.test
    found = knock_out_heads(model, part)
    assert [(head.kind, head.layer, head.head) for head in found.heads] == [
        ("cross", 0, 0), ("cross", 0, 1)
    ]  # fmt: skip
    measures = evaluate(model, part, ReferenceLosses.from_splits(part, data)).measures
    assert found.measures == {
        "symbol_error_rate": pytest.approx(measures["symbol_error_rate"]),
        "sequence_error_rate": pytest.approx(1 - measures["exact_match"]),
    }
    assert found.sequences == 17
    for head in found.heads:
        assert head.worse + head.better + head.equal == 17


def test_models_without_weights_to_knock_out() -> None:
    data = data_of()
    for section, message in (
        ({"attention": None, "hidden_dim": 5}, "no attention"),
        ({"kind": "fast_weights", "hidden_dim": 5}, "signed read strengths"),
    ):
        with pytest.raises(UsageError, match=message):
            knock_out_heads(model_on(data, section), data.test)
