"""The class `Explanation`, which contains the arithmetic of an attention step and vectors for a
figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqattn.data.tokens import BEGIN, PAD
from seqattn.errors import UsageError
from seqattn.models import FastWeightsModel, RecurrentModel
from seqattn.models.attention.arithmetic import Array, Record, as_printed, column_numbers
from seqattn.models.layers import Linear, TiedLinear
from seqattn.models.modality import Modality

MAX_SYMBOLS = 5
"""The number of symbols whose probabilities are shown."""


@dataclass
class Explanation(Record):
    """The arithmetic of one attention step, as a list of stages.

    Attributes:
        title: the name of the sequence, and the number of the step.
        target_symbols: the vocabulary of the target by number; empty for a target of vectors.
        symbols: the most probable symbols of the step; empty for a target of vectors.
        prediction: (F,), the point that was computed from the printed numbers, or the probability
            of each of `symbols`; empty if the printed layers do not determine it.
        model_prediction: (F,), the point that the model computed, or the probability of each of
            `symbols`.
        vectors: the vectors for a figure, by name: query (K,), keys (S, K), values (S, V), context
            (V,), weights (S,).
        vector_names: the names of the S keys; empty if they have none.
        weight_rows: the names of the rows that belong to the S weights.
        has_strengths: whether the weights are the read strengths of fast weights.
    """

    title: str
    target_symbols: Sequence[str] = ()
    symbols: list[str] = field(default_factory=list)
    prediction: list[float] = field(default_factory=list)
    model_prediction: list[float] = field(default_factory=list)
    vectors: dict[str, Array] = field(default_factory=dict)
    vector_names: Sequence[str] = ()
    weight_rows: Sequence[str] = ()
    has_strengths: bool = False

    @property
    def score_columns(self) -> tuple[str, dict[str, Array]] | None:
        """The formula of the scores, and the numbers (S,) from which it computes them, by name;
        None if the scores have no arithmetic."""
        if (stage := self.score_stage) is None:
            return None
        table = np.array([numbers for _, numbers in stage.rows])
        return stage.formula, dict(zip(stage.columns, table.T, strict=True))

    def add_context(self, weights: Array, values: Array) -> Array:
        """Add the weighted values and the context, and return the context.

        Args:
            weights: (S,), the attention weights.
            values: (S, V), the values.

        Returns:
            The context, (V,), which is the sum of the weighted values.
        """
        parts = self.add("Weighted values", "weight times value", weights[:, None] * values)
        self.weight_rows = [name for name, _ in self.stages[-1].rows]
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
        rows = [f"head {i}" for i in range(1, len(contexts) + 1)]
        formula = f"this is head {head + 1}, the others likewise"
        return self.add_from_model("Contexts of all heads", formula, contexts, rows).reshape(-1)

    def add_decoder_input(self, modality: Modality, step: Tensor, features: Sequence[str]) -> None:
        """Add the decoder input: a point, or the embedding of a symbol.

        Args:
            modality: what a target step is.
            step: (1, F), the decoder input.
            features: the names of the target features.
        """
        if not self.target_symbols:
            self.add_row("Decoder input", "", "point", step[0], features)
            return
        symbol = self.target_symbols[int(step[0, 0])]
        self.add("Decoder input", "its row of the embedding matrix", modality.embed(step), [symbol])

    def add_probabilities(self, logits: Tensor, printed: Array | None = None) -> None:
        """Add the probabilities of the most probable symbols.

        Args:
            logits: (V,), the logits of the model.
            printed: the logits of `symbols`, computed from printed numbers; None to take those of
                the model.
        """
        if printed is None:
            of_model = logits[self._best(logits)][:, None]
            formula = "from the layers that follow"
            printed = self.add_from_model("Logits", formula, of_model, self.symbols, ["logit"])[
                :, 0
            ]
        possible = [k for k in range(len(logits)) if k not in (PAD, BEGIN)]
        log_z = as_printed(logits[possible].logsumexp(-1)[None])
        shown = f"the {len(possible)} symbols that can be written"
        formula = f"log Z = the logarithm of the sum of exp(logit) over {shown}"
        self.add_from_model("Normalization", formula, log_z[None], ["all symbols"], ["log Z"])
        columns = {"logit": printed, "log Z": log_z, "probability": np.exp(printed - log_z)}
        formula = "probability = exp(logit - log Z)"
        self.prediction = self.add_columns("Probabilities", formula, columns, self.symbols).tolist()

    def _best(self, logits: Tensor) -> list[int]:
        """Return the numbers of the most probable symbols, and store their names. The padding and
        the begin of a sequence are never read from an output."""
        order = logits.argsort(descending=True, stable=True).tolist()
        best = [k for k in order if k not in (PAD, BEGIN)][:MAX_SYMBOLS]
        self.symbols = [self.target_symbols[k] for k in best]
        return best

    def add_output(
        self, model: RecurrentModel | FastWeightsModel, vector: Array, name: str,
        features: Sequence[str], output: Tensor,
    ) -> None:  # fmt: skip
        """Add the output layer, and the point or the probabilities that the layer computes from a
        printed vector.

        Args:
            model: the model.
            vector: the printed input of the output layer.
            name: the name of the vector in the formula.
            features: the names of the target features.
            output: (width of an output,), the output of the model.
        """
        if self.target_symbols:
            printed = self.add_symbol_logits(model.output, vector, name, output)
            self.add_probabilities(output, printed)
            return
        weight, bias = as_printed(model.output.weight), as_printed(model.output.bias)
        columns = [*column_numbers(weight.shape[1]), "bias"]
        self.add("Output layer W, b", "", np.column_stack([weight, bias]), features, columns)
        stage = "Predicted point" if model.skip is None else "Network's share"
        point = self.add_row(stage, f"y = W {name} + b", "y", weight @ vector + bias, features)
        self.prediction = point.tolist()

    def add_symbol_logits(
        self, layer: Linear | TiedLinear, vector: Array, name: str, output: Tensor
    ) -> Array:
        """Add the rows of the output layer for the most probable symbols, and return their logits,
        computed from printed numbers.

        Args:
            layer: the output layer.
            vector: the printed input of the layer.
            name: the name of the vector in the formula.
            output: (V,), the output of the model.
        """
        if isinstance(layer, TiedLinear) and layer.inner is not None:
            of_model = layer.inner(torch.as_tensor(vector, dtype=output.dtype))
            formula = f"u = W_u {name} + b_u, W_u and b_u are in the checkpoint file of the run"
            name, row = "u", of_model[None]
            vector = self.add_from_model("Input of the output layer", formula, row, ["u"])[0]
        best = self._best(output)
        assert layer.bias is not None
        weight, bias = as_printed(layer.weight[best]), as_printed(layer.bias[best])
        columns = [*column_numbers(weight.shape[1]), "bias"]
        table = np.column_stack([weight, bias])
        self.add("Output layer W, b: rows of the best symbols", "", table, self.symbols, columns)
        logit = {"logit": weight @ vector + bias}
        return self.add_columns("Logits", f"W {name} + b", logit, self.symbols)


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
        raise UsageError(f"{option} {value + 1}: this model has {count}, counted from 1.")
