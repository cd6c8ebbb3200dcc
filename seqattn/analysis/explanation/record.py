"""What an explanation is made of: stages, and the numbers of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seqattn.errors import UsageError
from seqattn.models import FastWeightsModel, RecurrentModel
from seqattn.models.attention.arithmetic import Array, Record, as_printed, column_numbers


@dataclass
class Explanation(Record):
    """All stages of one step.

    Attributes:
        title: which sequence and step, of which model.
        said: the point that follows from the printed numbers, (F,); empty where more layers
            follow than are shown.
        model_says: the model's own, (F,).
        vectors: for a picture: query (K,), keys (S, K), values (S, V), context (V,), weights (S,).
        cosines: whether the angle between query and key is what counts.
    """

    title: str
    said: list[float] = field(default_factory=list)
    model_says: list[float] = field(default_factory=list)
    vectors: dict[str, Array] = field(default_factory=dict)
    cosines: bool = False

    def add_context(self, weights: Array, values: Array) -> Array:
        """Add the sum of printed values (S, V), weighted by printed weights (S,); it is (V,)."""
        parts = self.add("Weighted values", "weight times value", weights[:, None] * values)
        return self.add_row("Context", "the sum of the weighted values", "c", parts.sum(axis=0))

    def add_contexts_of_heads(self, of_model: Any, head: int, context: Array) -> Array:
        """Add the contexts of all heads, those of the model (A, V) and of `head` as printed (V,);
        one after the other, (A V,)."""
        contexts = as_printed(of_model)
        contexts[head] = context
        rows = [f"head {i}" for i in range(len(contexts))]
        formula = f"this is head {head}, the others likewise"
        return self.add_from_model("Contexts of all heads", formula, contexts, rows).reshape(-1)

    def add_output(
        self, model: RecurrentModel | FastWeightsModel, vector: Array, name: str,
        features: Sequence[str],
    ) -> None:  # fmt: skip
        """Add the point that the output layer makes of a printed vector of that name."""
        weight, bias = as_printed(model.output.weight), as_printed(model.output.bias)
        columns = [*column_numbers(weight.shape[1]), "bias"]
        self.add("Output layer W, b", "", np.column_stack([weight, bias]), features, columns)
        stage = "Point that is said" if model.skip is None else "Network's share"
        point = self.add_row(stage, f"y = W {name} + b", "y", weight @ vector + bias, features)
        self.said = point.tolist()


def check_index(option: str, value: int, count: int) -> None:
    """Hold a layer or head against how many there are.

    Raises:
        UsageError: there is none of that number.
    """
    if not 0 <= value < count:
        raise UsageError(f"{option} {value}: this model has {count}, counted from 0.")
