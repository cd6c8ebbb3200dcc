"""`explain` prints the maps of query, keys and values, or names what does not follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqattn.analysis.explanation import MAX_PRINTED_SIDE, Explanation, explain
from seqattn.cli.explaining import print_explanation
from tests.analysis.test_explanation import KINDS, explanation_of, model_of, same
from tests.conftest import S

F = 2


def stage(made: Explanation, name: str) -> np.ndarray[Any, Any]:
    (found,) = (stage for stage in made.stages if stage.name == name)
    return np.array([numbers for _, numbers in found.rows])


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        (
            "scaled",
            {"Query": "Decoder state h, after reading that input", "Keys": "Encoder states"},
        ),
        (
            "two heads",
            {"Query": "Decoder state h, after reading that input", "Keys": "Encoder states"},
        ),
        (
            "linear",
            {"Query": "Decoder state h, after reading that input", "Keys": "Encoder states"},
        ),
        (
            "cosine",
            {"Query": "Decoder state h, after reading that input", "Keys": "Encoder states"},
        ),
        (
            "additive",
            {"Query": "Decoder state h, after reading that input", "Keys": "Encoder states"},
        ),
        ("general", {"Keys": "Encoder states", "Values": "Encoder states"}),
    ],
)
def test_query_keys_and_values_follow_from_the_printed_maps(
    name: str, stages: dict[str, str]
) -> None:
    made = explanation_of(KINDS[name], head=1 if "heads" in name else 0)
    for result, inputs in stages.items():
        weight = stage(made, f"{result}: the map")
        x = stage(made, inputs)
        if weight.shape[1] > x.shape[1]:  # the last column is the bias
            weight, bias = weight[:, :-1], weight[:, -1]
        else:
            bias = np.zeros(len(weight))
        same(x @ weight.T + bias, stage(made, result))
        assert result not in made.computed_by_model
    if name == "two heads":
        assert stage(made, "Query").shape == (1, 3)  # half of the width of 6


@pytest.mark.parametrize("name", KINDS)
def test_the_conclusion_names_every_stage_without_a_printed_origin(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stage either has a formula of printed numbers, holds inputs or parameters, or is named."""
    made = explanation_of(KINDS[name])
    print_explanation(made, "markdown")
    ending = capsys.readouterr().out.splitlines()[-1]
    if made.prediction:  # a transformer's further layers are not shown at all
        _, _, listed = ending.removesuffix(".").partition("not printed: ")
        assert listed.split("; ") == made.computed_by_model
    inputs = ("Source points", "Decoder input", "Output layer W, b", "Vector v", "Vector w",
              "Layer norm's input, gain and bias")  # fmt: skip
    for each in made.stages:
        named = each.name in made.computed_by_model
        if not each.formula and not named:
            assert each.name.endswith(": the map") or each.name in (
                *inputs, "Mean and deviation of z"), each.name  # fmt: skip
        if "checkpoint" in each.formula:
            assert named, each.name


def test_a_wide_map_is_not_printed_and_its_result_is_named() -> None:
    model = model_of({"attention": {"score": "scaled_dot", "key_dim": MAX_PRINTED_SIDE + 1}})
    source = np.random.default_rng(2).normal(size=(S, F))
    made = explain(model, source, step=1, features=["x", "y"], title="one")
    names = [each.name for each in made.stages]
    assert "Query: the map" not in names
    assert {"Query", "Keys"} <= set(made.computed_by_model)
