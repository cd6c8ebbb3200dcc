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

from seqattn.layers import Linear

DECIMALS = 4
WIDEST_MAP = 8
"""Rows and columns of the largest map that is printed: beyond it, nobody types the product in."""

Array = NDArray[np.float64]


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
class Arithmetic:
    """Stages, each of which follows from those above it.

    Attributes:
        stages: from the source to the output.
        computed_by_model: names of the stages that do not follow from printed numbers alone,
            because the parameters behind them are not printed.
    """

    stages: list[Stage] = field(default_factory=list)
    computed_by_model: list[str] = field(default_factory=list)

    def add(self, name: str, formula: str, rows: Sequence[str], numbers: Any,
            columns: Sequence[str] | None = None) -> Array:  # fmt: skip
        """Add a stage.

        Args:
            numbers: (rows, columns), or (columns,) of one row.
            columns: their names; None: their numbers, from 1.

        Returns:
            the numbers as they are printed, (rows, columns).
        """
        printed = np.atleast_2d(rounded(numbers))
        columns = numbered(printed.shape[1]) if columns is None else list(columns)
        table = [(row, line.tolist()) for row, line in zip(rows, printed, strict=True)]
        self.stages.append(Stage(name, formula, columns, table))
        return printed

    def add_row(self, name: str, formula: str, row: str, numbers: Any,
                columns: Sequence[str] | None = None) -> Array:  # fmt: skip
        """Add a stage of one row; its numbers as they are printed, (columns,)."""
        printed: Array = self.add(name, formula, [row], numbers, columns)[0]
        return printed

    def add_columns(
        self, name: str, formula: str, rows: Sequence[str], columns: Mapping[str, Any]
    ) -> Array:
        """Add a stage whose last column follows from the others.

        Args:
            columns: name -> (rows,), or one number for all rows.

        Returns:
            the last column as it is printed, (rows,).
        """
        table = np.column_stack([np.broadcast_to(each, len(rows)) for each in columns.values()])
        printed: Array = self.add(name, formula, rows, table, list(columns))[:, -1]
        return printed

    def add_from_model(self, name: str, formula: str, rows: Sequence[str], numbers: Any,
                       columns: Sequence[str] | None = None) -> Array:  # fmt: skip
        """Add a stage whose numbers the model computed from parameters that are not printed."""
        self.computed_by_model.append(name)
        return self.add(name, formula, rows, numbers, columns)

    def add_map(self, name: str, formula: str, linear: Linear, inputs: Array, rows: Sequence[str],
                of_model: Array, outputs: slice) -> Array:  # fmt: skip
        """Add an affine map of printed vectors, and before it the map, if it is small enough.

        Args:
            formula: "q = W_q h + b_q": the map's names stand in it.
            linear: the map, of inputs of width H.
            inputs: (rows, H) as printed.
            of_model: (rows, outputs) the model's own result, shown where the map is not.
            outputs: which outputs of the map are shown: those of one head.

        Returns:
            (rows, outputs) as printed.
        """
        weight, bias = rounded(linear.weight)[outputs], None
        if linear.bias is not None:
            bias = rounded(linear.bias)[outputs]
        if max(weight.shape) > WIDEST_MAP:
            formula = f"{formula}; the map is in the checkpoint"
            return self.add_from_model(name, formula, rows, of_model)
        columns = numbered(weight.shape[1])
        table = weight
        if bias is not None:
            table, columns = np.column_stack([weight, bias]), [*columns, "bias"]
        self.add(f"{name}: the map", "", numbered(len(weight)), table, columns)
        return self.add(name, formula, rows, inputs @ weight.T + (0 if bias is None else bias))


@dataclass(frozen=True)
class AttentionStep:
    """What an attention computed for one query, unrounded, and the head that is explained.

    Attributes:
        states: (1, S, H) of the encoder.
        query: (1, H), the state of the decoder.
        keys: (1, [A,] S, K), as `Score.keys` made them.
        scores: (1, [A,] 1, S).
        weights: (1, [A,] 1, S).
        previous: (1, [A,] S), the weights of the step before, where places decide, too; None: this
            is the first step.
        heads: A.
        head: which of them is explained, counted from 0.
    """

    states: Tensor
    query: Tensor
    keys: Tensor
    scores: Tensor
    weights: Tensor
    previous: Tensor | None
    heads: int
    head: int

    @property
    def points(self) -> list[str]:
        """Names of the S source points."""
        return point_names(self.states.shape[1])

    @property
    def printed_states(self) -> Array:
        """(S, H)."""
        return rounded(self.states[0])

    @property
    def printed_query(self) -> Array:
        """(1, H)."""
        return rounded(self.query)

    def of_head(self, x: Tensor) -> Tensor:
        """(1, [A,] ...) -> (...) of the head."""
        return x[0, self.head] if self.heads > 1 else x[0]

    def share(self, x: Array) -> Array:
        """(rows, W) -> (rows, W / A): the head's part of vectors that the heads share."""
        return x[:, self._part(x.shape[1])]

    def outputs(self, linear: Linear) -> slice:
        """Which outputs of a map belong to the head."""
        return self._part(len(linear.weight))

    def _part(self, width: int) -> slice:
        width //= self.heads
        return slice(self.head * width, (self.head + 1) * width)


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
