"""Forced attention weights in the forecasts of a set of sequences.

Each forced row replaces the weights of one decoder step. The letters in shapes are N (sequences),
L (attention layers), A (heads), T (decoder steps) and S (source steps).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqattn.analysis.evaluation.forced_file import ForcedRow, parse_rows, read_rows
from seqattn.data import Sequences
from seqattn.errors import UsageError, counted
from seqattn.models import Seq2SeqModel, WeightSemantics
from seqattn.models.attention import AttentionOverride, ForcedWeights, Override

FORCED = "forced:"
ROUNDING = 1e-4
"""The sum of a row counts as 1 if it differs from 1 by at most this value."""
MAX_SHOWN_IDS = 5


@dataclass(frozen=True)
class ForcedRows:
    """Rows of attention weights that replace the model's own weights in forecasts.

    Attributes:
        rows: the rows, in the order of the file or of the argument.
    """

    rows: tuple[ForcedRow, ...]

    def for_ids(self, ids: Iterable[str]) -> ForcedRows:
        """Return the rows that apply to sequences with the given ids.

        The result also contains the rows that apply to all sequences.
        """
        known = {None, *ids}
        return replace(self, rows=tuple(row for row in self.rows if row.id in known))

    def check_model(self, steps: int, shape: tuple[int, int]) -> None:
        """Check that the step, layer and head of each row exist, and that no two rows overlap.

        Args:
            steps: the number of forecast steps.
            shape: the number of layers and the number of heads; see
                `Seq2SeqModel.attention_shape`.

        Raises:
            UsageError: if a step, layer or head does not exist, or if two rows replace the same
                weights.
        """
        taken = dict[tuple[int, int, int], dict[str | None, ForcedRow]]()
        for row in self.rows:
            if not 1 <= row.step <= steps:
                raise UsageError(
                    f"{row.place}.step: is {row.step}, but the forecast has"
                    f" {counted(steps, 'step')}; give {_choices(1, steps)}."
                )
            layers, heads = _indices(row, "layer", shape[0]), _indices(row, "head", shape[1])
            for layer in layers:
                for head in heads:
                    _claim(taken.setdefault((row.step, layer, head), {}), row, layer, head)

    def check_ids(self, ids: Collection[str]) -> None:
        """Check that a sequence exists for the id of each row.

        Args:
            ids: the ids of all sequences.

        Raises:
            UsageError: if no sequence has the id of a row.
        """
        known = set(ids)
        for row in self.rows:
            if row.id is not None and row.id not in known:
                raise UsageError(
                    f"{row.place}.id: no sequence has the id {row.id!r}; {_listed(ids)}."
                )

    def check_lengths(self, ids: Sequence[str], lengths: NDArray[np.int64]) -> None:
        """Check that each row has one weight for each step of the sources to which it applies.

        Args:
            ids: the ids of N sequences.
            lengths: (N,), the source lengths of the sequences.

        Raises:
            UsageError: if a row has more or fewer weights than a source to which it applies has
                steps.
        """
        places = _places_of(ids)
        for row in self.rows:
            chosen = np.arange(len(ids))
            if row.id is not None:
                chosen = np.array(places.get(row.id, []), dtype=np.int64)
            wrong = chosen[lengths[chosen] != len(row.weights)]
            if wrong.size:
                n = int(wrong[0])
                more = "" if row.id else ', or add "id" to give the row to one sequence only'
                raise UsageError(
                    f"{row.place}.weights: has {counted(len(row.weights), 'number')}, but the"
                    f" source of sequence {ids[n]!r} has {counted(int(lengths[n]), 'point')}. Give"
                    f" {counted(int(lengths[n]), 'number')}{more}."
                )

    def tensor(
        self, ids: Sequence[str], steps: int, shape: tuple[int, int], S: int
    ) -> ForcedWeights:
        """Build the forced weights of N sequences, padded to S source steps.

        Args:
            ids: the ids of the N sequences.
            steps: the number of forecast steps, T.
            shape: the number of layers and the number of heads.
            S: the length of the padded sources.
        """
        force = np.full((len(ids), *shape, steps, S), np.nan)
        places = _places_of(ids)
        for row in self.rows:
            chosen = slice(None) if row.id is None else places.get(row.id, [])
            padded = np.zeros(S)
            padded[: len(row.weights)] = row.weights
            layer = slice(None) if row.layer is None else slice(row.layer, row.layer + 1)
            head = slice(None) if row.head is None else slice(row.head, row.head + 1)
            force[chosen, layer, head, row.step - 1] = padded
        return ForcedWeights(torch.from_numpy(force))

    def meaning(self, of_model: WeightSemantics) -> WeightSemantics:
        """Return the meaning of the attention weights after the forced rows replace some of them.

        Args:
            of_model: the meaning of the model's own weights; see `AttentionMap.meaning`.
        """
        sums = [math.fsum(row.weights) for row in self.rows]
        if any(sum_ > 1 + ROUNDING for sum_ in sums) or any(
            weight < 0 for row in self.rows for weight in row.weights
        ):
            return "strength"
        return "partial" if any(sum_ < 1 - ROUNDING for sum_ in sums) else of_model


ForecastOverride = Override | ForcedRows
"""A replacement of the attention weights in the forecasts of a set of sequences."""


def parse_override(text: str) -> ForecastOverride:
    """Parse the value of `--attention-override`.

    If the value names a file of forced rows, this function also reads the file.

    Raises:
        UsageError: if the mode is unknown, or if the file cannot be used.
    """
    name = text.removeprefix(FORCED)
    return ForcedRows(read_rows(Path(name))) if name not in (text, "") else Override.parse(text)


def as_override(value: Any) -> ForecastOverride:
    """Convert the argument `attention_override` of the Python API to a `ForecastOverride`.

    Args:
        value: a string as on the command line (a mode or "forced:FILE.json"), an `Override`, a
            `ForcedRows`, a list of rows as in the file, or a mapping with the key "rows".

    Raises:
        UsageError: if the value is of another kind, or if it is invalid.
    """
    if isinstance(value, str):
        return parse_override(value)
    if isinstance(value, Override | ForcedRows):
        return value
    content = {"rows": value} if isinstance(value, list | tuple) else value
    return ForcedRows(parse_rows(content, "attention_override"))


def fit_override(
    override: ForecastOverride, model: Seq2SeqModel, part: Sequences, steps: int
) -> Callable[[slice, int], AttentionOverride]:
    """Check an override against a model and sequences.

    Args:
        override: the override.
        model: the model.
        part: the sequences.
        steps: the number of forecast steps.

    Returns:
        A function that returns the override of a chunk of sequences. The arguments of the function
        are the slice of the chunk, and the length of the padded sources in the chunk.

    Raises:
        UsageError: if the override does not fit the model or a sequence.
    """
    shape = model.attention_shape()
    if isinstance(override, Override):
        override.check(int(part.source_lengths.min()), shape)
        return lambda places, S: override
    override.check_model(steps, shape)
    override.check_ids(part.ids)
    override.check_lengths(part.ids, part.source_lengths)
    return lambda places, S: override.tensor(part.ids[places], steps, shape, S)


def meaning_with(override: ForecastOverride, of_model: WeightSemantics) -> WeightSemantics:
    """Return the meaning of the weights in a forecast with an override.

    Args:
        override: the override.
        of_model: the meaning of the model's own weights; see `AttentionMap.meaning`.
    """
    if isinstance(override, ForcedRows):
        return override.meaning(of_model)
    return "partial" if override.mode == "zeros" else of_model


def _indices(row: ForcedRow, key: str, count: int) -> range:
    """Return the indices of the layers or heads to which a row applies.

    Args:
        row: the row.
        key: "layer" or "head".
        count: the number of layers or heads of the model.

    Raises:
        UsageError: if the model does not have the layer or head of the row.
    """
    k = getattr(row, key)
    if k is None:
        return range(count)
    if not 0 <= k < count:
        raise UsageError(
            f"{row.place}.{key}: is {k}, but the model has {counted(count, key)};"
            f" give {_choices(0, count - 1)}."
        )
    return range(k, k + 1)


def _claim(taken: dict[str | None, ForcedRow], row: ForcedRow, layer: int, head: int) -> None:
    """Register a row for one step, layer and head.

    Args:
        taken: the rows that were registered earlier for this step, layer and head, by sequence id.
            The key None means all sequences. The function adds the new row.
        row: the row to add.
        layer, head: the indices of the layer and the head, for the message.

    Raises:
        UsageError: if an earlier row applies to the same sequence.
    """
    earlier = taken.get(row.id) or taken.get(None)
    if earlier is None and row.id is None and taken:
        earlier = next(iter(taken.values()))
    if earlier is not None:
        where = earlier.place.rpartition(": ")[2]
        raise UsageError(
            f"{row.place}: step {row.step}, layer {layer}, head {head} has weights from {where}"
            " already. Remove one of the two rows."
        )
    taken[row.id] = row


def _places_of(ids: Sequence[str]) -> dict[str, list[int]]:
    """Return, for each id, the indices of the sequences that have this id."""
    places = dict[str, list[int]]()
    for n, name in enumerate(ids):
        places.setdefault(name, []).append(n)
    return places


def _choices(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first} {'or' if last == first + 1 else 'to'} {last}"


def _listed(ids: Collection[str]) -> str:
    names = [repr(name) for name in list(ids)[:MAX_SHOWN_IDS]]
    more = len(ids) - len(names)
    names += [f"{more:,} more"] if more > 0 else []
    if len(names) == 1:
        return f"there is only {names[0]}"
    return f"there are {', '.join(names[:-1])} and {names[-1]}"
