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


@pytest.mark.parametrize(("S", "top", "shown"), [(104, None, 5), (104, 3, 3), (20, None, 20),
                                                  (21, None, 5), (5, 9, 5)])  # fmt: skip
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
    assert len(lines) < (100 if shown < S else 300)
    print_explanation(made, "json", None)
    assert len(json.loads(capsys.readouterr().out)["stages"][0]["rows"]) == S


def wide_explanation() -> Explanation:
    """One step of a model as wide as that of `seqattn train dates`."""
    model = build_model(Recurrent(hidden_dim=64), 2, 5).double()
    source = np.random.default_rng(3).normal(size=(7, 2))
    return explain(model, source, step=1, features=["x", "y"], title="wide")


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_wide_vectors_are_shortened_unless_all_numbers_are_asked_for(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = wide_explanation()
    print_explanation(made, form)
    short = capsys.readouterr().out
    assert len(short.splitlines()) < 200
    keys = next(stage for stage in made.stages if stage.name == "Keys").rows[2][1]
    row = next(line for line in short.partition("Keys")[2].splitlines() if "point 3" in line)
    expected = [*(f"{x:.4f}" for x in keys[:6]), "..."]
    assert re.findall(r"-?\d+\.\d{4}|\.\.\.", row) == expected
    with_bias = r"\d\.\d{4}.*\.\.\. .*\d\.\d{4}"
    assert re.search(with_bias, short.partition("Output layer")[2])
    assert "--numbers 128 prints all" in short.replace("\n", " ")
    print_explanation(made, form, numbers=128)
    whole = capsys.readouterr().out
    assert "..." not in whole and "--numbers" not in whole
    shown = set(re.findall(r"-?\d+\.\d{4}", whole))
    assert {f"{x:.4f}" for stage in made.stages for _, row in stage.rows for x in row} <= shown
    print_explanation(made, form, numbers=2)
    assert " 3 " not in capsys.readouterr().out.partition("Keys")[2].partition("point")[0]


@pytest.mark.parametrize("option", ["--top", "--numbers"])
def test_top_and_numbers_are_for_tables(option: str, seqattn: Command, attention_run: Path) -> None:
    done = seqattn("explain", attention_run, option, "1")
    assert done.code == 0
    sentence = {"--top": "The tables have the 1 of 2 steps", "--numbers": "the first 1 number"}
    assert sentence[option] in done.out
    done = seqattn("explain", attention_run, option, "1", "--format", "json")
    assert done.code == 2
    assert f"{option} shortens the tables" in done.err
