"""What `explain` works out for every mechanism, held against tests/analysis/explained.txt word by word.

python -m tests.analysis.test_explained_text    # writes the file anew, for a change that is meant
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from seqattn.analysis.explanation import explain
from seqattn.config import Model
from seqattn.models import Lengths, build_model
from tests.analysis.test_explanation import KINDS
from tests.models.test_skip import filled

S, T, STEP = 3, 2, 2
RECORDED = Path(__file__).with_name("explained.txt")
MARK = "=== "

CASES: dict[str, dict[str, Any]] = KINDS | {
    "cosine, bare": {"attention": {"score": "cosine", "project_query_key": False}},
    "scaled, two values": {"attention": {"heads": 2, "project_values": True}},
    "general heads": {"attention": {"score": "general", "heads": 2}},
    "straight through": {"attention": {"normalizer": "hard", "estimator": "straight_through"}},
    "local sparsemax": {
        "attention": {"normalizer": "sparsemax", "location": {"kind": "local", "window": 1}}
    },
    "wide": {"hidden_dim": 9},
    "wide cosine": {"hidden_dim": 9, "attention": {"score": "cosine"}},
    "wide additive": {"hidden_dim": 9, "attention": {"score": "additive"}},
    "lstm": {"cell": "lstm"},
    "skip": {"skip": "linear"},
    "transformer, skip": {"kind": "transformer", "model_dim": 4, "heads": 2, "skip": "linear"},
}


def text_of(name: str) -> str:
    """All stages of one case: a line for each, and one for each of its rows."""
    case = CASES[name]
    small = {} if case.get("kind") == "transformer" else {"hidden_dim": 2}
    config: Model = TypeAdapter(Model).validate_python(small | case)
    model = build_model(config, 2, 5, Lengths(S, T) if config.skip != "none" else None).double()
    if model.skip is not None:  # both network and map start at 0
        filled(model)
    source = np.random.default_rng(6).normal(size=(S, 2))
    made = explain(model, source, step=STEP, features=["x", "y"], title=name)
    lines = [made.title]
    for stage in made.stages:
        lines.append(f"# {stage.name}: {stage.formula} | {', '.join(stage.columns)}")
        lines += [" ".join([row, *(f"{x:.4f}" for x in numbers)]) for row, numbers in stage.rows]
    lines.append(f"output {made.prediction}, the model's {made.model_prediction}")
    lines.append(f"computed by the model: {'; '.join(made.computed_by_model)}")
    return "\n".join(lines) + "\n"


def recorded() -> dict[str, str]:
    pages = RECORDED.read_text().split(MARK)[1:]
    return {name: page for name, _, page in (page.partition("\n") for page in pages)}


def test_every_case_is_recorded() -> None:
    assert set(recorded()) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_recorded_one(name: str) -> None:
    assert text_of(name) == recorded()[name]


if __name__ == "__main__":
    RECORDED.write_text("".join(f"{MARK}{name}\n{text_of(name)}" for name in CASES))
