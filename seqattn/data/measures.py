"""The errors of a model on a part of a data set, for every kind of steps, and losses of simple
models of symbols. Of vectors, `seqattn.data.metrics` defines the measures. Of symbols, they are

    exact match          share of the sequences that are right in every symbol
    symbol error rate    edit distances (Levenshtein 1966) divided by the number of true symbols,
                         both summed over the sequences: the word error rate for words, the
                         character error rate for characters
    token accuracy       share of the true symbols, with the end of the sequence, that have the
                         largest probability when the model is given all true symbols before them
    perplexity           exponential of the mean cross-entropy of the true symbols
    BLEU, chrF           of words and subwords, by sacrebleu; see `seqattn.data.text_measures`

An output is cut after as many symbols as the longest target of the part has. An unknown symbol of
a target counts as wrong, whatever the output is. For exact match and symbol error rate, a source
that has several targets in the part counts once, with the target that is nearest to the output;
the validation during training counts each pair by itself.

In shapes, N is the number of sequences, n the number of sequences in a chunk, T the target length
and V the size of the vocabulary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqattn.data.scoring import ErrorSums
from seqattn.data.sequences import Floats, Sequences, source_keys
from seqattn.data.spaces import Space
from seqattn.data.text_measures import RightTexts, TextScores, has_words, is_sacrebleu_installed
from seqattn.data.tokens import END, PAD, UNKNOWN, Tokens

FREQUENCIES = "unigram model"
NEVER = -1
"""Takes the place of unknown symbols of targets, so that no output equals them."""
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
    def errors(self) -> tuple[float, float]:
        """Mean squared error of a target cell in free running and with teacher forcing."""
        return self.loss, self.loss_teacher_forced

    @property
    def measures(self) -> dict[str, Any]:
        """MAE and RMSE of each feature in the user's units."""
        return self.sums.measures


class TokenScores:
    """The errors of a model on sequences of symbols, accumulated chunk by chunk.

    Args:
        part: the sequences.
        with_texts: whether the measures have BLEU and chrF.
    """

    def __init__(self, part: Sequences, *, with_texts: bool = True) -> None:
        assert isinstance(part.target_space, Tokens)
        steps = part.target_steps
        self.entropy, self.counts = np.zeros(steps), np.zeros(steps, dtype=np.int64)
        self.right = self.wrong = self.symbols = 0
        self.outputs = OutputCounts(0, 0, 0, 0)
        self.references = references_of(part)
        self.seen = set[bytes]()
        has_texts = with_texts and has_words(part.target_space) and is_sacrebleu_installed()
        self.texts = TextScores(RightTexts(part, self.references)) if has_texts else None

    def add_free_running(self, indices: slice, chunk: Sequences, values: NDArray[Any]) -> None:
        """Add the outputs (n, T, 1) of n sequences in free running."""
        found = values[..., 0]
        true, counted = _nearest_targets(chunk, found, self.references, self.seen)
        if self.texts is not None:
            self.texts.add(indices, found)
        new = OutputCounts.of(found[counted], true[counted])
        self.outputs = OutputCounts(*map(sum, zip(self.outputs, new, strict=True)))

    def add_teacher_forced(self, indices: slice, chunk: Sequences, values: NDArray[Any]) -> None:
        """Add the most probable symbols and the cross-entropies of n sequences with teacher
        forcing, (n, T, 2)."""
        keep = chunk.target_keep
        true = np.where(chunk.target[..., 0] == UNKNOWN, NEVER, chunk.target[..., 0])
        is_right, is_symbol = values[..., 0] == true, keep & (true != END)
        self.right += int(is_right[keep].sum())
        self.wrong += int((~is_right)[is_symbol].sum())
        self.symbols += int(is_symbol.sum())
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
    def errors(self) -> tuple[float, float]:
        """Symbol error rate in free running, and share of wrong symbols with teacher forcing. Both
        are divided by the number of true symbols without the ends, so they can be compared."""
        wrong = self.wrong / self.symbols if self.symbols else math.nan
        return self.outputs.symbol_error_rate, wrong

    @property
    def measures(self) -> dict[str, Any]:
        """The measures that the docstring of the module defines, by name."""
        return {
            "exact_match": self.outputs.exact_match,
            "symbol_error_rate": self.outputs.symbol_error_rate,
            "token_accuracy": self.right / int(self.counts.sum()),
            "perplexity": math.exp(min(self.loss, 700.0)),
            **({} if self.texts is None else self.texts.measures),
        }


Scores = VectorScores | TokenScores


def references_of(part: Sequences) -> dict[bytes, NDArray[np.int64]]:
    """Return the different targets (M, T) of each source that has several, by the bytes of the
    source. Sources with unknown symbols are left out, because they may differ."""
    targets = dict[bytes, set[bytes]]()
    for _, chunk in part.chunks():
        rows = chunk.target[..., 0].astype(np.int64)
        known = ~(chunk.source == UNKNOWN).any(axis=(1, 2))
        for key, row, is_known in zip(source_keys(chunk), rows, known.tolist(), strict=True):
            if not is_known:
                continue
            targets.setdefault(key, set()).add(row.tobytes())
    return {
        key: np.stack([np.frombuffer(row, dtype=np.int64) for row in sorted(rows)])
        for key, rows in targets.items()
        if len(rows) > 1
    }


def _nearest_targets(
    chunk: Sequences, found: NDArray[Any], references: Mapping[bytes, NDArray[np.int64]],
    seen: set[bytes],
) -> tuple[NDArray[Any], NDArray[np.bool_]]:  # fmt: skip
    """Return the target (n, T) with which each output (n, T) is compared, and whether the sequence
    counts, (n,): a source that has several targets counts once.

    Args:
        chunk: the n sequences.
        found: the outputs.
        references: the targets of each source that has several; see `references_of`.
        seen: those sources that earlier chunks had. The function adds the sources of this chunk.
    """
    true, counted = chunk.target[..., 0].copy(), np.ones(len(chunk), dtype=bool)
    for k, key in enumerate(source_keys(chunk) if references else ()):
        if key not in references:
            continue
        counted[k] = key not in seen
        seen.add(key)
        several = references[key]
        distances = edit_distances(np.repeat(found[k : k + 1], len(several), axis=0), several)
        true[k] = several[int(distances.argmin())]
    return true, counted


class SequenceErrors(NamedTuple):
    """The free-running errors of the n sequences that count.

    Attributes:
        totals: (n,) sum of the squared errors of a sequence of vectors, each divided by the scale
            of its feature; edit distance of an output of symbols.
        sizes: (n,) number of observed target cells, or of true symbols without the end; at least 1.
    """

    totals: Floats
    sizes: NDArray[np.int64]


@singledispatch
def sequence_errors(space: Space, part: Sequences, values: NDArray[Any]) -> SequenceErrors:
    """Return the error of each sequence. Sequences without an observed target do not count, and a
    source that has several targets counts once.

    Args:
        space: the space of the targets.
        part: the N sequences.
        values: their outputs (N, T, F) in free running.
    """
    scale, totals, sizes = part.target_space.scale, np.zeros(len(part)), np.zeros(len(part), int)
    for places, chunk in part.chunks():
        errors = (values[places] - chunk.target) / (1.0 if scale is None else scale)
        totals[places] = np.where(chunk.target_cells, np.square(errors), 0).sum(axis=(1, 2))
        sizes[places] = chunk.target_cells.sum(axis=(1, 2))
    return SequenceErrors(totals[sizes > 0], sizes[sizes > 0])


@sequence_errors.register
def _sequence_errors_of_tokens(
    space: Tokens, part: Sequences, values: NDArray[Any]
) -> SequenceErrors:
    references, seen = references_of(part), set[bytes]()
    totals, sizes = np.zeros(len(part)), np.zeros(len(part), int)
    for places, chunk in part.chunks():
        found = values[places, ..., 0]
        true, counted = _nearest_targets(chunk, found, references, seen)
        true = np.where(true == UNKNOWN, NEVER, true)
        totals[places] = edit_distances(found, true)
        sizes[places] = counted * _is_symbol(true).sum(axis=1)
    return SequenceErrors(totals[sizes > 0], sizes[sizes > 0])


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


def _is_symbol(numbers: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return whether each place of sequences (N, T) is before the end of its sequence."""
    before: NDArray[np.bool_] = ((numbers == END) | (numbers == PAD)).cumsum(axis=1) == 0
    return before


def edit_distances(found: NDArray[np.integer], true: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the smallest number of insertions, deletions and substitutions of symbols that turn
    one sequence of numbers into the other, (N,), for N pairs.

    Args:
        found: (N, T) numbers. A sequence ends before its first `END` or `PAD`.
        true: (N, U) numbers.
    """
    N, U = true.shape
    found_lengths, true_lengths = (_is_symbol(one).sum(axis=1) for one in (found, true))
    row = np.tile(np.arange(U + 1), (N, 1))  # distances of the empty beginning
    result: NDArray[np.int64] = true_lengths.copy()
    for i in range(1, int(found_lengths.max(initial=0)) + 1):
        changed = row[:, :-1] + (found[:, i - 1, None] != true)
        new = np.concatenate([np.full((N, 1), i), np.minimum(row[:, 1:] + 1, changed)], axis=1)
        # An insertion costs 1 a step to the right.
        row = np.minimum.accumulate(new - np.arange(U + 1), axis=1) + np.arange(U + 1)
        ended = found_lengths == i
        result[ended] = row[ended, true_lengths[ended]]
    return result


class OutputCounts(NamedTuple):
    """Counts of N outputs in free running, of which sums over parts are taken.

    Attributes:
        exact: number of outputs that are right in every symbol.
        sequences: N.
        distance: sum of the edit distances to the targets.
        symbols: number of symbols of the targets, without the ends.
    """

    exact: int
    sequences: int
    distance: int
    symbols: int

    @classmethod
    def of(cls, found: NDArray[np.integer], true: NDArray[np.integer]) -> OutputCounts:
        """Count the outputs (N, T) of N targets (N, U). No output is right where the target has an
        unknown symbol."""
        true = np.where(true == UNKNOWN, NEVER, true)
        distances, symbols = edit_distances(found, true), int(_is_symbol(true).sum())
        return cls(int((distances == 0).sum()), len(true), int(distances.sum()), symbols)

    @property
    def exact_match(self) -> float:
        return self.exact / max(1, self.sequences)

    @property
    def symbol_error_rate(self) -> float:
        return self.distance / max(1, self.symbols)


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
    single, after = np.ones(V), np.full(V, float(V))  # counts of each symbol, and of its followers
    seen = list[NDArray[np.int64]]()  # most of the V * V pairs never occur
    for _, chunk in train.chunks():
        before, symbol = _pairs(chunk)
        single += np.bincount(symbol, minlength=V)
        after += np.bincount(before, minlength=V)
        seen.append(before * V + symbol)
    pairs, counts = np.unique(np.concatenate(seen), return_counts=True)
    totals, n = np.zeros(2), 0
    for _, chunk in part.chunks():
        before, symbol = _pairs(chunk)
        code = before * V + symbol
        place = np.minimum(np.searchsorted(pairs, code), len(pairs) - 1)
        count = 1 + np.where(pairs[place] == code, counts[place], 0)
        totals[0] -= np.log(single[symbol] / single.sum()).sum()
        totals[1] -= np.log(count / after[before]).sum()
        n += len(symbol)
    return {FREQUENCIES: float(totals[0] / n)}, {BIGRAMS: float(totals[1] / n)}


def measures_of_rules(train: Sequences, part: Sequences) -> dict[str, dict[str, float]]:
    """Return the exact match and the symbol error rate of a copy of the source, and of the most
    frequent target of the training part."""
    assert isinstance(part.target_space, Tokens)
    most, U = Counter[bytes](), train.target_steps
    for _, chunk in train.chunks():
        most.update(row.tobytes() for row in chunk.target[..., 0].astype(np.int64))
    frequent = np.frombuffer(most.most_common(1)[0][0], dtype=np.int64)
    scores = {FREQUENT_TARGET: TokenScores(part, with_texts=False)}
    number_of = part.target_space.number_of
    if isinstance(part.source_space, Tokens):  # a symbol that the target lacks has no number
        scores[COPY] = TokenScores(part, with_texts=False)
        copies = np.array([number_of.get(one, -2) for one in part.source_space.symbols])
        copies[PAD] = PAD
    for places, chunk in part.chunks():
        rows = np.broadcast_to(frequent[:, None], (len(chunk), U, 1))
        scores[FREQUENT_TARGET].add_free_running(places, chunk, rows)
        if COPY in scores:
            scores[COPY].add_free_running(places, chunk, copies[chunk.source])
    return {
        name: {
            "exact_match": one.outputs.exact_match,
            "symbol_error_rate": one.outputs.symbol_error_rate,
        }
        for name, one in scores.items()
    }


def _pairs(part: Sequences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the symbol before each valid target symbol, and the target symbol. Before the first
    symbol stands the end of a sequence."""
    target, keep = part.target[..., 0], part.target_keep
    before = np.concatenate([np.full((len(part), 1), END), target[:, :-1]], axis=1)
    return before[keep], target[keep]
