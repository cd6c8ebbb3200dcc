"""The class `Explanation`, which contains the arithmetic of an attention step and vectors for a
figure."""

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
    """The arithmetic of one attention step, as a list of stages.

    Attributes:
        title: the name of the sequence, and the number of the step.
        prediction: (F,), the point that was computed from the printed numbers; empty if the printed
            layers do not determine the point.
        model_prediction: (F,), the point that the model computed.
        vectors: the vectors for a figure, by name: query (K,), keys (S, K), values (S, V), context
            (V,), weights (S,).
        cosines: whether the score is a dot product or a cosine of query and key.
    """

    title: str
    prediction: list[float] = field(default_factory=list)
    model_prediction: list[float] = field(default_factory=list)
    vectors: dict[str, Array] = field(default_factory=dict)
    cosines: bool = False

    def add_context(self, weights: Array, values: Array) -> Array:
        """Add the weighted values and the context, and return the context.

        Args:
            weights: (S,), the attention weights.
            values: (S, V), the values.

        Returns:
            The context, (V,), which is the sum of the weighted values.
        """
        parts = self.add("Weighted values", "weight times value", weights[:, None] * values)
        return self.add_row("Context", "the sum of the weighted values", "c", parts.sum(axis=0))

    def add_head_contexts(self, of_model: Any, head: int, context: Array) -> Array:
        """Add the contexts of all heads, and return their concatenation, (A * V,).

        Args:
            of_model: (A, V), the contexts that the model computed.
            head: the index of the explained head.
            context: (V,), the context of the explained head, computed from the printed numbers.
        """
        contexts = as_printed(of_model)
        contexts[head] = context
        rows = [f"head {i}" for i in range(len(contexts))]
        formula = f"this is head {head}, the others likewise"
        return self.add_from_model("Contexts of all heads", formula, contexts, rows).reshape(-1)

    def add_output(
        self, model: RecurrentModel | FastWeightsModel, vector: Array, name: str,
        features: Sequence[str],
    ) -> None:  # fmt: skip
        """Add the output layer, and the point that the layer computes from a printed vector.

        Args:
            model: the model.
            vector: the printed input of the output layer.
            name: the name of the vector in the formula.
            features: the names of the target features.
        """
        weight, bias = as_printed(model.output.weight), as_printed(model.output.bias)
        columns = [*column_numbers(weight.shape[1]), "bias"]
        self.add("Output layer W, b", "", np.column_stack([weight, bias]), features, columns)
        stage = "Predicted point" if model.skip is None else "Network's share"
        point = self.add_row(stage, f"y = W {name} + b", "y", weight @ vector + bias, features)
        self.prediction = point.tolist()


def check_index(option: str, value: int, count: int) -> None:
    """Check that a model has the layer or head with the given index.

    Args:
        option: the command-line option that sets the index, for the message.
        value: the index, counted from 0.
        count: the number of layers or heads of the model.

    Raises:
        UsageError: if the index is out of range.
    """
    if not 0 <= value < count:
        raise UsageError(f"{option} {value}: this model has {count}, counted from 0.")
