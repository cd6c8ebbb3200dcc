"""What attention computed in one step, written as arithmetic that a pocket calculator can follow.

Every stage is worked out from the *printed* numbers of the stages above it, rounded to the same
decimals: whoever types them in gets what is printed below. Scores, normalizers and locations write
their own stages (`Score.explain`, `Normalizer.explain`, `Location.explain`).

Letters: S source length, H width of the state, K width in which queries meet keys, A heads ("[A,]":
an axis that is there for several heads only).
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
WIDEST_MAP = 8
"""Rows and columns of the largest map that is printed: beyond it, nobody types the product in."""

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Names = Sequence[str] | None


@dataclass(frozen=True)
class Stage:
    """A table: what is worked out, by what formula, row by row.

    Attributes:
        name: what it is.
        formula: how it follows from the stages above; empty where it is given.
        columns: names.
        rows: a name and its numbers, one for each column.
    """

    name: str
    formula: str
    columns: list[str]
    rows: list[tuple[str, list[float]]]


@dataclass(kw_only=True)
class Record:
    """Stages, each of which follows from those above it. What adds one returns its numbers as they
    are printed.

    Attributes:
        stages: from the source to the output.
        computed_by_model: names of the stages that do not follow from printed numbers alone,
            because the parameters behind them are not printed.
    """

    stages: list[Stage] = field(default_factory=list)
    computed_by_model: list[str] = field(default_factory=list)

    def add(
        self, name: str, formula: str, numbers: Any, rows: Names = None, columns: Names = None
    ) -> Array:
        """Add a stage.

        Args:
            numbers: (rows, columns).
            rows: their names; None: they are the source points.
            columns: their names; None: their numbers, from 1.
        """
        printed = rounded(numbers)
        rows = point_names(len(printed)) if rows is None else rows
        columns = numbered(printed.shape[1]) if columns is None else list(columns)
        table = [(row, line.tolist()) for row, line in zip(rows, printed, strict=True)]
        self.stages.append(Stage(name, formula, columns, table))
        return printed

    def add_from_model(
        self, name: str, formula: str, numbers: Any, rows: Names = None, columns: Names = None
    ) -> Array:
        """Add a stage whose numbers the model computed from parameters that are not printed."""
        self.computed_by_model.append(name)
        return self.add(name, formula, numbers, rows, columns)

    def add_row(
        self, name: str, formula: str, row: str, numbers: Any, columns: Names = None
    ) -> Array:
        """Add a stage of one row, (columns,)."""
        return self.add(name, formula, numbers[None], [row], columns).reshape(-1)

    def add_columns(
        self, name: str, formula: str, columns: Mapping[str, Any], rows: Names = None
    ) -> Array:
        """Add a stage whose last column, (rows,), follows from the others.

        Args:
            columns: name -> (rows,), or one number for all rows.
        """
        table = np.column_stack(np.broadcast_arrays(*columns.values()))
        printed: Array = self.add(name, formula, table, rows, list(columns))[:, -1]
        return printed

    def add_map(self, name: str, formula: str, linear: Linear, inputs: Array, of_model: Array,
                outputs: slice, rows: Names = None) -> Array:  # fmt: skip
        """Add an affine map of printed vectors, and before it the map, if it is small enough.

        Args:
            formula: "q = W_q h + b_q": the map's names stand in it.
            inputs: (rows, H) as printed.
            of_model: (rows, outputs) the model's own result, shown where the map is not.
            outputs: which outputs of the map are shown: those of one head.
        """
        weight, columns = rounded(linear.weight)[outputs], numbered(linear.weight.shape[1])
        if max(weight.shape) > WIDEST_MAP:
            formula = f"{formula}; the map is in the checkpoint"
            return self.add_from_model(name, formula, of_model, rows)
        table, bias = weight, np.zeros(1)
        if linear.bias is not None:
            bias = rounded(linear.bias)[outputs]
            table, columns = np.column_stack([weight, bias]), [*columns, "bias"]
        self.add(f"{name}: the map", "", table, numbered(len(weight)), columns)
        return self.add(name, formula, inputs @ weight.T + bias, rows)


@dataclass(frozen=True)
class AttentionStep:
    """What an attention computed for one query, unrounded, and where one of its heads is explained.

    Attributes:
        record: gets the stages.
        states: (1, S, H) of the encoder.
        query: (1, H), the state of the decoder.
        keys: (1, [A,] S, K), as `Score.keys` made them.
        scores: (1, [A,] 1, S).
        weights: (1, [A,] 1, S).
        previous: (1, [A,] S), the weights of the step before, where places decide, too; else None.
        heads, head: A, and which of them is explained, counted from 0.
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
        """(1, [A,] ...) -> (...) of the head."""
        return x[0, self.head] if self.heads > 1 else x[0]

    def part(self, width: int) -> slice:
        """The head's part of a width that the heads share."""
        width //= self.heads
        return slice(self.head * width, (self.head + 1) * width)

    def state_as_query(self) -> Array:
        """Add the decoder's state as the query (K,)."""
        state = rounded(self.query[0])
        return self.record.add_row("Query", "q = h", "q", state[self.part(len(state))])

    def states_as_keys(self) -> Array:
        """Add the encoder's states as the keys (S, K)."""
        states = rounded(self.states[0])
        part = self.part(states.shape[1])
        return self.record.add("Keys", "k = s, the encoder's states", states[:, part])

    def map_query(self, formula: str, linear: Linear, row: str = "q") -> Array:
        """Add a map of the decoder's state as the query (K,)."""
        outputs = self.part(len(linear.weight))
        own = rounded(linear(self.query))[:, outputs]
        return self.record.add_map("Query", formula, linear, rounded(self.query), own, outputs,
                                   [row]).reshape(-1)  # fmt: skip

    def map_states(self, name: str, formula: str, linear: Linear, of_model: Tensor) -> Array:
        """Add a map of the encoder's states; `of_model` (S, K) is shown where it is too large."""
        outputs = self.part(len(linear.weight))
        return self.record.add_map(name, formula, linear, rounded(self.states[0]),
                                   rounded(of_model), outputs)  # fmt: skip

    def unexplained(self, name: str, by: object, numbers: Tensor, column: str) -> Array:
        """Add (1, [A,] 1, S) that the model computed by what does not explain itself; (S,)."""
        formula = f"by {type(by).__name__}, which does not explain its arithmetic"
        table = self.of_head(numbers).mT
        return self.record.add_from_model(name, formula, table, columns=[column]).reshape(-1)


def rounded(numbers: Any) -> Array:
    """As printed."""
    array = numbers.detach().double().cpu().numpy() if isinstance(numbers, Tensor) else numbers
    result = np.round(np.asarray(array, dtype=np.float64), DECIMALS)
    return np.asarray(result + 0.0, dtype=np.float64)  # no -0


def point_names(count: int) -> list[str]:
    """Names of source points, from 1."""
    return [f"point {s}" for s in range(1, count + 1)]


def numbered(count: int) -> list[str]:
    """Names of columns that have no other: their numbers, from 1."""
    return [str(i) for i in range(1, count + 1)]
