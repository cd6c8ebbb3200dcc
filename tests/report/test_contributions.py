"""The part of a page that shows contributions of source steps beside the attention weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqattn.analysis.attributed_run import embed_sequence
from seqattn.analysis.attribution import (
    FEW_NODES,
    INTEGRATED,
    Attribution,
    EmbeddedSource,
    attribute,
    shares_of_rows,
)
from seqattn.analysis.evaluation.load_run import load_splits, open_run
from seqattn.models.decoding import force
from seqattn.report import render_page
from seqattn.report.content import contributions, run_content
from seqattn.runs import RunFolder
from tests.conftest import train_small

SECTION = 'id="contributions"'


def contents_of(run: Path) -> dict[str, Any] | None:
    _, trained = open_run(run)
    return contributions.contributions_content(trained, load_splits(trained).test)


def test_a_page_has_the_shares_of_the_first_test_sequences(tmp_path: Path) -> None:
    run = train_small(tmp_path, "reverse", "data.kind=reverse", "data.symbols=6", "data.length=4")
    content = run_content(RunFolder(run))
    found = content["contributions"]
    _, trained = open_run(run)
    test = load_splits(trained).test
    assert [each["example"] for each in found["sequences"]] == [0, 1, 2, 3, 4]
    for k, each in enumerate(found["sequences"]):
        one = attribute(embed_sequence(trained, test, k), FEW_NODES)
        expected = shares_of_rows(one)
        assert each["maps"].keys() == expected.keys()
        for method, shares in expected.items():
            np.testing.assert_allclose(each["maps"][method], shares, rtol=0, atol=5.1e-5)
        assert each["error"] == pytest.approx(max(one.error, 1e-15), rel=0.5)
        names = trained.spec.tokens[0].symbols_of(test.source[k])
        assert each["source"] == names
        assert each["name"] == f"{test.ids[k]}: {' '.join(names)}"
        assert len(each["output"]) == len(each["maps"][INTEGRATED])
    assert found["is_signed"]
    page = render_page(content)
    assert SECTION in page
    assert "raises or, below 0, lowers" in page


def test_contributions_to_points_have_no_signs(attention_run: Path) -> None:
    found = contents_of(attention_run)
    assert found is not None
    assert not found["is_signed"]
    sequence = found["sequences"][0]
    assert sequence["source"] == sequence["output"] == []
    assert np.sum(sequence["maps"][INTEGRATED], axis=-1) == pytest.approx(np.ones(2), abs=1e-3)


def test_a_model_without_a_gradient_has_no_section(
    attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqattn.analysis.attribution.force", torch.no_grad()(force))
    content = run_content(RunFolder(attention_run))
    assert content["contributions"] is None
    assert content["doctor"]
    assert SECTION not in render_page(content)


def test_a_derivative_that_is_not_finite_is_left_out(
    attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attribute_once(source: EmbeddedSource, nodes: int) -> Attribution:
        monkeypatch.undo()
        found = attribute(source, nodes)
        return dataclasses.replace(found, gradient=found.gradient * np.nan)

    monkeypatch.setattr(contributions, "attribute", attribute_once)
    found = contents_of(attention_run)
    assert found is not None
    assert [each["example"] for each in found["sequences"]] == [1, 2, 3, 4]


def test_a_slow_model_has_one_sequence_and_a_long_one_none(
    attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contributions, "MAX_SECONDS", 0.0)
    found = contents_of(attention_run)
    assert found is not None
    assert len(found["sequences"]) == 1
    monkeypatch.setattr(contributions, "MAX_CELLS", 3)
    assert contents_of(attention_run) is None
