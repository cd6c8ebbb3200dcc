"""The arithmetic of one attention step, as tables that a reader can check with a pocket calculator.

A stage is computed from the *printed* (rounded) numbers of previous stages, so a reader who types
these numbers into a calculator gets the printed result. The exceptions are inputs, parameters and
the stages in `Record.computed_by_model`. The methods `Score.explain`, `Normalizer.explain` and
`Location.explain` add the stages.

In shapes, S is the source length, H the width of the state, K the width of queries and keys, and A
the number of heads. "[A,]" denotes an axis that exists only with several heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqattn.models.layers import Linear

DECIMALS = 4
SIGNIFICANT_DIGITS = 6
"""A model computes in float32, whose numbers agree to about this many digits."""
MAX_PRINTED_SIDE = 8
"""The largest number of rows, and the largest number of columns, of a weight matrix that is
printed."""
IN_CHECKPOINT = "the matrix is too large to print; it is in the checkpoint file of the run"
"""The end of a formula with a weight matrix that is not printed."""

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Names = Sequence[str] | None


@dataclass(frozen=True)
class Stage:
    """A table with the numbers of one quantity.

    Attributes:
        name: the name of the quantity.
        formula: the formula of the quantity, or a text about the origin of the numbers; may be
            empty for inputs and parameters.
        columns: the names of the columns.
        rows: for each row, the name of the row and one number per column.
    """

    name: str
    formula: str
    columns: list[str]
    rows: list[tuple[str, list[float]]]


@dataclass(kw_only=True)
class Record:
    """The stages of an attention step. A method that adds a stage returns printed numbers of this
    stage.

    Attributes:
        stages: the stages in the order of the computation.
        computed_by_model: the names of the stages whose numbers come from the model, because they
            cannot be computed from printed numbers.
        source_names: the names of the S source steps; empty for "point 1", "point 2" and so on.
        score_stage: the stage that computes the scores from query and keys; None if there is none.
    """

    stages: list[Stage] = field(default_factory=list)
    computed_by_model: list[str] = field(default_factory=list)
    source_names: Sequence[str] = ()
    score_stage: Stage | None = None

    def add(
        self, name: str, formula: str, numbers: Any, rows: Names = None, columns: Names = None
    ) -> Array:
        """Add a stage and return its printed numbers.

        Args:
            name, formula: see `Stage`.
            numbers: the numbers, (rows, columns).
            rows: the names of the rows; None for the names of the source steps.
            columns: the names of the columns; None to number the columns from 1.
        """
        printed = as_printed(numbers)
        if rows is None:
            rows = self.source_names or point_names(len(printed))
        columns = column_numbers(printed.shape[1]) if columns is None else list(columns)
        table = [(row, line.tolist()) for row, line in zip(rows, printed, strict=True)]
        self.stages.append(Stage(name, formula, columns, table))
        return printed

    def add_from_model(
        self, name: str, formula: str, numbers: Any, rows: Names = None, columns: Names = None
    ) -> Array:
        """Add a stage with numbers from the model, which cannot be computed from printed
        numbers."""
        self.computed_by_model.append(name)
        return self.add(name, formula, numbers, rows, columns)

    def add_row(
        self, name: str, formula: str, row: str, numbers: Any, columns: Names = None
    ) -> Array:
        """Add a stage with one row of numbers, (columns,)."""
        return self.add(name, formula, numbers[None], [row], columns).reshape(-1)

    def add_columns(
        self, name: str, formula: str, columns: Mapping[str, Any], rows: Names = None
    ) -> Array:
        """Add a stage in which the last column contains the result.

        Args:
            columns: the columns by name. Each column is an array (rows,), or one number for all
                rows.

        Returns:
            the printed last column, (rows,).
        """
        table = np.column_stack(np.broadcast_arrays(*columns.values()))
        printed: Array = self.add(name, formula, table, rows, list(columns))[:, -1]
        return printed

    def add_scores(self, formula: str, columns: Mapping[str, Any]) -> Array:
        """Add the stage that computes the scores, and return the printed scores (S,)."""
        scores = self.add_columns("Scores", formula, columns)
        self.score_stage = self.stages[-1]
        return scores

    def add_map(self, name: str, formula: str, linear: Linear, inputs: Array, of_model: Array,
                outputs: slice, rows: Names = None) -> Array:  # fmt: skip
        """Add a stage with the output of a linear layer for printed vectors. If the weight matrix
        is small enough to print, add a stage with the weights and the bias before this stage.

        Args:
            formula: the formula of the stage, such as "q = W_q h + b_q".
            inputs: the printed input vectors (rows, H).
            of_model: the model's result (rows, outputs), which is added instead of the arithmetic
                if the weight matrix is too large to print.
            outputs: the slice of the outputs that is printed, which contains the outputs of one
                head.
        """
        weight, columns = as_printed(linear.weight)[outputs], column_numbers(linear.weight.shape[1])
        if max(weight.shape) > MAX_PRINTED_SIDE:
            formula = f"{formula}; {IN_CHECKPOINT}"
            return self.add_from_model(name, formula, of_model, rows)
        table, bias = weight, np.zeros(1)
        if linear.bias is not None:
            bias = as_printed(linear.bias)[outputs]
            table, columns = np.column_stack([weight, bias]), [*columns, "bias"]
        self.add(f"{name}: the map", "", table, column_numbers(len(weight)), columns)
        return self.add(name, formula, inputs @ weight.T + bias, rows)


@dataclass(frozen=True)
class AttentionStep:
    """The unrounded tensors of one query, and the record with the arithmetic of one attention head.

    Attributes:
        record: the record to which stages are added.
        states: the encoder states (1, S, H).
        query: the decoder state (1, H).
        keys: the keys (1, [A,] S, K) that `Score.keys` computed.
        scores: the scores (1, [A,] 1, S).
        weights: the weights (1, [A,] 1, S).
        previous: the past weights, (1, [A,] S), if the weights of this step depend on them; see
            `AttentionOutput.prev_weights`. Otherwise None.
        heads: the number of heads, A.
        head: the head to explain, counted from 0.
    """

    record: Record
    states: Tensor
    query: Tensor
    keys: Tensor
    scores: Tensor
    weights: Tensor
    previous: Tensor | None
    heads: int
    head: int

    def of_head(self, x: Tensor) -> Tensor:
        """Return the part of x (1, [A,] ...) that belongs to the explained head, (...)."""
        return x[0, self.head] if self.heads > 1 else x[0]

    def head_slice(self, width: int) -> slice:
        """Return the slice of the explained head in an axis of length `width` that is divided among
        the heads."""
        width //= self.heads
        return slice(self.head * width, (self.head + 1) * width)

    def add_state_as_query(self) -> Array:
        """Add the decoder state as the query (K,)."""
        state = as_printed(self.query[0])
        return self.record.add_row("Query", "q = h", "q", state[self.head_slice(len(state))])

    def add_states_as_keys(self) -> Array:
        """Add the encoder states as the keys (S, K)."""
        states = as_printed(self.states[0])
        columns = self.head_slice(states.shape[1])
        return self.record.add("Keys", "k = s, the encoder's states", states[:, columns])

    def map_query(self, formula: str, linear: Linear, row: str = "q") -> Array:
        """Add a projection of the decoder state as the query (K,)."""
        outputs = self.head_slice(len(linear.weight))
        of_model = as_printed(linear(self.query))[:, outputs]
        return self.record.add_map("Query", formula, linear, as_printed(self.query), of_model,
                                   outputs, [row]).reshape(-1)  # fmt: skip

    def map_states(self, name: str, formula: str, linear: Linear, of_model: Tensor) -> Array:
        """Add a projection of the encoder states, (S, K). `Record.add_map` describes `of_model`."""
        outputs = self.head_slice(len(linear.weight))
        return self.record.add_map(name, formula, linear, as_printed(self.states[0]),
                                   as_printed(of_model), outputs)  # fmt: skip

    def add_unexplained(self, name: str, by: object, numbers: Tensor, column: str) -> Array:
        """Add a stage with numbers (1, [A,] 1, S) from a module that does not explain its
        arithmetic. Return the printed numbers (S,)."""
        formula = f"by {type(by).__name__}, which does not explain its arithmetic"
        table = self.of_head(numbers).mT
        return self.record.add_from_model(name, formula, table, columns=[column]).reshape(-1)


def as_printed(numbers: Any) -> Array:
    """Convert numbers to float64, and round the result to `DECIMALS` decimals, or to
    `SIGNIFICANT_DIGITS` if these are fewer digits."""
    array = numbers.detach().double().cpu().numpy() if isinstance(numbers, Tensor) else numbers
    result = np.round(np.asarray(array, dtype=np.float64), DECIMALS)
    whole_digits = np.floor(np.log10(np.maximum(np.abs(result), 1.0))) + 1
    unit = 10.0 ** np.maximum(whole_digits + DECIMALS - SIGNIFICANT_DIGITS, 0)
    result = np.where(
        unit > 1, np.round(np.round(result / unit, DECIMALS) * unit, DECIMALS), result
    )
    return np.asarray(result + 0.0, dtype=np.float64)  # replaces -0 with 0


def format_printed(x: float) -> str:
    """Return the text of a number that `as_printed` rounded."""
    whole_digits = len(str(int(abs(x))))
    return f"{x:.{min(DECIMALS, max(0, SIGNIFICANT_DIGITS - whole_digits))}f}"


def point_names(count: int) -> list[str]:
    """Return the row names of source points, counted from 1."""
    return [f"point {s}" for s in range(1, count + 1)]


def column_numbers(count: int) -> list[str]:
    """Return the default names of columns, which are numbers from 1."""
    return [str(i) for i in range(1, count + 1)]
