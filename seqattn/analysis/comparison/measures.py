"""The measures in which the variants of a comparison are tested.

Each measure is an error: a lower value is better, and a right output has the value 0. Tests, tables
and pictures therefore need no direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never, get_args

from seqattn.config import ComparedMeasure

RATES: tuple[ComparedMeasure, ...] = get_args(ComparedMeasure)[1:]
"""The measures that are shares. Only data whose steps are symbols have them."""


def read_measure(summary: Mapping[str, Any], measure: ComparedMeasure) -> float | None:
    """Return a measure of the test part; None if the run does not have it.

    Args:
        summary: the content of `summary.json`.
        measure: `loss` is the test loss. `sequence_error_rate` is the share of outputs with a wrong
            symbol, which is 1 minus exact match, and `symbol_error_rate` the sum of edit distances
            divided by the number of true symbols, both in free running. `alignment_error_rate` is
            the AER at the shift at which it is lowest.
    """
    match measure:
        case "loss":
            return float(summary["test_loss"])
        case "sequence_error_rate":
            exact = summary.get("measures", {}).get("exact_match")
            return None if exact is None else 1 - float(exact)
        case "symbol_error_rate":
            rate = summary.get("measures", {}).get("symbol_error_rate")
            return None if rate is None else float(rate)
        case "alignment_error_rate":
            alignment = summary.get("alignment")
            return None if alignment is None else float(min(alignment["aer"].values()))
        case _:
            assert_never(measure)


def name_measure(measure: str) -> str:
    """Return the name of a measure in a sentence, such as `sequence error rate`."""
    return measure.replace("_", " ")
