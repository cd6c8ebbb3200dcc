"""`seqattn explain` on a narrow terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.analysis.explanation import Explanation, explain
from seqattn.cli.explaining import print_explanation
from seqattn.config import Recurrent
from seqattn.models import build_model
from tests.conftest import Ended

Command = Callable[..., Ended]


def test_an_explanation_is_never_shortened(
    seqattn: Command, attention_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    done = seqattn("explain", attention_run)
    assert done.code == 0
    assert "\u2026" not in done.out


def long_explanation(S: int) -> Explanation:
    model = build_model(Recurrent(hidden_dim=16), 2, 5).double()
    source = np.random.default_rng(3).normal(size=(S, 2))
    return explain(model, source, step=1, features=["x", "y"], title="long")


@pytest.mark.parametrize(("S", "top", "shown"), [(104, None, 8), (104, 3, 3), (20, None, 20),
                                                  (21, None, 8), (5, 9, 5)])  # fmt: skip
def test_a_long_source_is_explained_by_its_largest_weights(
    S: int, top: int | None, shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    made = long_explanation(S)
    print_explanation(made, "markdown", None, top)
    text = capsys.readouterr().out
    weights = made.vectors["weights"]
    largest = sorted(np.argsort(-weights, kind="stable")[:shown] + 1)
    table = text.split("## Weights")[1].split("##")[0]
    assert [int(k) for k in re.findall(r"point (\d+)", table)] == largest
    sentence = f"The other {S - shown} have together the weight"
    assert (sentence in text) == (shown < S)
    if shown < S:
        rest = float(text.split(sentence)[1].split(". ")[0])
        assert rest == pytest.approx(np.sort(weights)[: S - shown].sum(), abs=1e-4)
        assert f"--top {S} prints all" in text
    print_explanation(made, "table", None, top)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < (200 if shown <= 8 else 300)
    print_explanation(made, "json", None)
    assert len(json.loads(capsys.readouterr().out)["stages"][0]["rows"]) == S


def test_top_is_for_tables(seqattn: Command, attention_run: Path) -> None:
    done = seqattn("explain", attention_run, "--top", "1")
    assert done.code == 0
    assert "The tables have the 1 of 2 steps" in done.out
    done = seqattn("explain", attention_run, "--top", "1", "--format", "json")
    assert done.code == 2
    assert "--top shortens the tables" in done.err
