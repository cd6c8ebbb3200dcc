"""The errors of a model on a part of a data set, for every kind of steps, and losses of simple
models of symbols. Of vectors, `seqattn.data.metrics` defines the measures. Of symbols, they are

    exact match          share of the sequences that are right in every symbol
    symbol error rate    edit distances (Levenshtein 1966) divided by the number of true symbols,
                         both summed over the sequences: the word error rate for words, the
                         character error rate for characters
    token accuracy       share of the true symbols, with the end of the sequence, that have the
                         largest probability when the model is given all true symbols before them
    perplexity           exponential of the mean cross-entropy of the true symbols

In shapes, N is the number of sequences, n the number of sequences in a chunk, T the target length
and V the size of the vocabulary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.scoring import ErrorSums
from seqattn.data.sequences import Sequences
from seqattn.data.spaces import Space
from seqattn.data.tokens import END, Tokens

FREQUENCIES = "unigram model"
BIGRAMS = "bigram model (fitted)"
COPY, FREQUENT_TARGET = "copy of the source", "most frequent target"


class VectorScores:
    """The errors of a model on sequences of vectors, accumulated chunk by chunk.

    Args:
        part: the sequences.

    Attributes:
        sums: the sums of the errors in free running.
        forced: the sums of the errors with teacher forcing.
    """

    def __init__(self, part: Sequences) -> None:
        scale = part.target_space.scale
        self.sums, self.forced = ErrorSums(part, scale, by_step=True), ErrorSums(part, scale)

    def add_free_running(self, indices: slice, chunk: Sequences, values: NDArray[Any]) -> None:
        """Add the forecasts (n, T, F) of n sequences in free running."""
        self.sums.add(indices, chunk, values)

    def add_teacher_forced(self, indices: slice, chunk: Sequences, values: NDArray[Any]) -> None:
        """Add the forecasts (n, T, F) of n sequences with teacher forcing."""
        self.forced.add(indices, chunk, values)

    @property
    def loss(self) -> float:
        """Mean squared error of a target cell in free running."""
        return self.sums.loss

    @property
    def loss_teacher_forced(self) -> float:
        """Mean squared error of a target cell with teacher forcing."""
        return self.forced.loss

    @property
    def loss_by_step(self) -> list[float | None]:
        """Loss of each target step, or None for a step that was not observed."""
        return self.sums.by_step

    @property
    def measures(self) -> dict[str, Any]:
        """MAE and RMSE of each feature in the user's units."""
        return {"mae": self.sums.mae, "rmse": self.sums.rmse}


class TokenScores:
    """The errors of a model on sequences of symbols, accumulated chunk by chunk.

    Args:
        part: the sequences.
    """

    def __init__(self, part: Sequences) -> None:
        assert isinstance(part.target_space, Tokens)
        self.space, steps = part.target_space, part.target_steps
        self.entropy, self.counts = np.zeros(steps), np.zeros(steps, dtype=np.int64)
        self.right = self.exact = self.sequences = self.distance = self.symbols = 0

    def add_free_running(self, indices: slice, chunk: Sequences, values: NDArray[Any]) -> None:
        """Add the outputs (n, T, 1) of n sequences in free running."""
        for output, target in zip(values, chunk.target, strict=True):
            found, true = self.space.symbols_of(output), self.space.symbols_of(target)
            self.exact += found == true
            self.distance += edit_distance(found, true)
            self.symbols += len(true)
        self.sequences += len(chunk)

    def add_teacher_forced(self, indices: slice, chunk: Sequences, values: NDArray[Any]) -> None:
        """Add the most probable symbols and the cross-entropies of n sequences with teacher
        forcing, (n, T, 2)."""
        keep = chunk.target_keep
        self.right += int((values[..., 0] == chunk.target[..., 0])[keep].sum())
        self.entropy += np.where(keep, values[..., 1], 0).sum(axis=0)
        self.counts += keep.sum(axis=0)

    @property
    def loss(self) -> float:
        """Mean cross-entropy of a true symbol."""
        return float(self.entropy.sum() / self.counts.sum())

    @property
    def loss_teacher_forced(self) -> float:
        """The same as `loss`, which is always computed with teacher forcing."""
        return self.loss

    @property
    def loss_by_step(self) -> list[float | None]:
        """Mean cross-entropy of each target step, or None for a step that no target has."""
        return [
            float(total / count) if count else None
            for total, count in zip(self.entropy, self.counts.tolist(), strict=True)
        ]

    @property
    def measures(self) -> dict[str, float]:
        """The measures that the docstring of the module defines, by name."""
        return {
            "exact_match": self.exact / self.sequences,
            "symbol_error_rate": self.distance / max(1, self.symbols),
            "token_accuracy": self.right / int(self.counts.sum()),
            "perplexity": math.exp(min(self.loss, 700.0)),
        }


Scores = VectorScores | TokenScores


@singledispatch
def scores_of(space: Space, part: Sequences) -> Scores:
    """Return an empty accumulator of the errors on a part.

    Args:
        space: the space of the targets.
        part: the sequences.
    """
    return VectorScores(part)


@scores_of.register
def _scores_of_tokens(space: Tokens, part: Sequences) -> Scores:
    return TokenScores(part)


def edit_distance(found: Sequence[str], true: Sequence[str]) -> int:
    """Return the smallest number of insertions, deletions and substitutions of symbols that turn
    one sequence into the other."""
    if found == true:
        return 0
    before = list(range(len(true) + 1))
    for i, symbol in enumerate(found, 1):
        row = [i]
        for j, other in enumerate(true, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (symbol != other)))
        before = row
    return before[-1]


def losses_of_ngrams(
    train: Sequences, part: Sequences
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the mean cross-entropies of the symbols of a part for two models that read no source.

    The first gives each symbol its relative frequency in the training targets. The second, which
    counts as fitted, gives each symbol its relative frequency after the symbol before it. One is
    added to every count, so that no symbol has the probability 0.

    Returns:
        the loss of the first model and the loss of the second model, by name.
    """
    V = train.target_space.vocabulary_size
    counts = np.ones((V, V))  # of each symbol after each symbol; the begin is never a target
    for _, chunk in train.chunks():
        np.add.at(counts, _pairs(chunk), 1)
    single = counts.sum(axis=0) - V + 1
    totals, n = np.zeros(2), 0
    for _, chunk in part.chunks():
        before, symbol = _pairs(chunk)
        totals[0] -= np.log(single[symbol] / single.sum()).sum()
        totals[1] -= np.log(counts[before, symbol] / counts.sum(axis=1)[before]).sum()
        n += len(symbol)
    return {FREQUENCIES: float(totals[0] / n)}, {BIGRAMS: float(totals[1] / n)}


def measures_of_rules(train: Sequences, part: Sequences) -> dict[str, dict[str, float]]:
    """Return the exact match and the symbol error rate of a copy of the source, and of the most
    frequent target of the training part."""
    source, target = part.source_space, part.target_space
    assert isinstance(target, Tokens)
    most = Counter(
        tuple(target.symbols_of(row)) for _, chunk in train.chunks() for row in chunk.target
    ).most_common(1)[0][0]
    found = dict[str, dict[str, float]]()
    for name in (COPY, FREQUENT_TARGET) if isinstance(source, Tokens) else (FREQUENT_TARGET,):
        exact = distance = symbols = n = 0
        for _, chunk in part.chunks():
            for k, row in enumerate(chunk.target):
                output = list(most)
                if name == COPY and isinstance(source, Tokens):
                    output = source.symbols_of(chunk.source[k])
                true = target.symbols_of(row)
                exact += output == true
                distance += edit_distance(output, true)
                symbols, n = symbols + len(true), n + 1
        found[name] = {"exact_match": exact / n, "symbol_error_rate": distance / max(1, symbols)}
    return found


def _pairs(part: Sequences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the symbol before each valid target symbol, and the target symbol. Before the first
    symbol stands the end of a sequence."""
    target, keep = part.target[..., 0], part.target_keep
    before = np.concatenate([np.full((len(part), 1), END), target[:, :-1]], axis=1)
    return before[keep], target[keep]
