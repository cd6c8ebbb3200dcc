"""The checks of the doctor as yes-or-no questions, and the answers for a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

QUESTIONS = {
    "mass on padding": ("Do weights lie on padding after the end of a source?", "no"),
    "worse than a baseline": ("Does the model forecast better than the simple baselines?", "yes"),
    "nearly uniform": ("Do the weights differ from equal weights?", "yes"),
    "stuck on one source step": ("Do all forecast points look at the same source point?", "no"),
    "alignment off by one": ("Is the largest weight usually next to the true point?", "no"),
    "saturated softmax": ("Are the weights stuck at extreme values?", "no"),
    "dead heads": ("Do some heads, but not all, have almost equal weights?", "no"),
    "identical heads": ("Do two heads have the same weights?", "no"),
    "attention does not matter": ("Does the model need its own attention weights?", "yes"),
    "exposure bias": ("Do errors grow because the model continues its own forecasts?", "no"),
    "seeds fall apart": ("Do all seeds reach similar errors?", "yes"),
    "overfitting": ("Does the model learn the training sequences by heart?", "no"),
}  # fmt: skip
"""The question of each check, and its answer if the run does not have the problem."""
OF_SYMBOLS = {
    "Does the model forecast better": "Does the model write better outputs",
    "all forecast points look at the same source point": "all output symbols read the same"
    " source symbol",
    "next to the true point": "next to the linked symbol",
    "continues its own forecasts": "continues its own outputs",
}  # fmt: skip
"""Words of the questions about points, and those about symbols."""
OPPOSITE = {"yes": "no", "no": "yes"}


def ask(finding: Mapping[str, Any], has_symbols: bool = False) -> dict[str, Any]:
    """Return a finding with its question and the answer to this question. For a plugin check, the
    question is whether the run has the problem that the check finds.

    Args:
        finding: a `Finding` as a mapping.
        has_symbols: whether the steps of the run are symbols.
    """
    name = finding["name"]
    question, fine = QUESTIONS.get(name, (f"Does the run have this problem: {name}?", "no"))
    for points, symbols in OF_SYMBOLS.items() if has_symbols else ():
        question = question.replace(points, symbols)
    answer = {
        "fine": f"{fine}: fine",
        "found": f"{OPPOSITE[fine]}: a problem",
        "unknown": "cannot be decided",
    }[finding["state"]]
    return {**finding, "question": question, "answer": answer}
