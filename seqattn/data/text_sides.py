"""One side of pairs of texts, while it is read and afterwards.

While a side is read, its symbols get numbers in the order of appearance. Then the vocabulary is
built from the training part, and the numbers are translated to it. Of subwords, the symbols that
are read are marked words (`seqattn.data.subwords`).

In shapes, N is the number of pairs, and "symbols" the number of all symbols of the side.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqattn.config import TextSide
from seqattn.data.sequences import Integers
from seqattn.data.spaces import Space
from seqattn.data.subwords import (
    DEFAULT_SIZE,
    join_subwords,
    learn_subwords,
    mark_word,
    split_word,
)
from seqattn.data.tokens import END, SPECIAL, UNKNOWN, Tokens

BLOCK_PAIRS = 2**16
"""Number of pairs whose symbols are translated to the vocabulary at a time."""


class _NumberOf(dict[str, int]):
    """Number of each symbol in the order of appearance. A symbol that is looked up gets one."""

    def __missing__(self, symbol: str) -> int:
        number = self[symbol] = len(self)
        return number


@dataclass
class ReadSide:
    """The symbols of one side while they are read.

    Attributes:
        has_texts: whether the texts of sequences with unknown symbols are of use.
        known: the space with the vocabulary, if it is not built from the training part.
    """

    config: TextSide
    has_texts: bool = False
    known: Space | None = None
    numbers: array[int] = field(default_factory=lambda: array("i"))
    lengths: array[int] = field(default_factory=lambda: array("i"))
    number_of: _NumberOf = field(default_factory=lambda: _NumberOf(dict.fromkeys(SPECIAL, UNKNOWN)))

    @property
    def has_subwords(self) -> bool:
        """Whether the symbols are marked words while they are read, and subwords afterwards."""
        return self.config.unit == "bpe"

    def split(self, text: str) -> list[str]:
        unit = "word" if self.config.unit == "bpe" else self.config.unit
        symbols = Tokens(SPECIAL, unit, self.config.lowercase).split(text)
        return list(map(mark_word, symbols)) if self.has_subwords else symbols

    def add(self, symbols: Sequence[str], *, ends: bool) -> None:
        self.numbers.extend(map(self.number_of.__getitem__, symbols))
        if ends:
            self.numbers.append(END)
        self.lengths.append(len(symbols) + ends)


class FinishedSide(NamedTuple):
    """The final numbers of one side.

    Attributes:
        space: the space with the vocabulary.
        values: (symbols, 1) numbers, of a type that is as small as the vocabulary permits.
        starts, lengths: (N,) of each pair in `values`.
        unknown: share of the unknown symbols in each part.
        texts: (N,) text of each sequence of a validation or test part that has unknown symbols, and
            None for the others; or None if the texts are of no use.
    """

    space: Tokens
    values: NDArray[np.integer]
    starts: Integers
    lengths: Integers
    unknown: tuple[float, ...]
    texts: NDArray[np.object_] | None


def finish_side(side: ReadSide, part: NDArray[np.int8]) -> FinishedSide:
    """Build the vocabulary from the training part, and translate the numbers of a side to it.

    Args:
        side: the numbers of N pairs.
        part: (N,) part of each pair.
    """
    raw = np.frombuffer(side.numbers, dtype=np.int32)
    lengths = np.frombuffer(side.lengths, dtype=np.int32).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    blocks = [slice(first, first + BLOCK_PAIRS) for first in range(0, len(part), BLOCK_PAIRS)]
    bounds = [slice(starts[one][0], starts[one][-1] + lengths[one][-1]) for one in blocks]
    counts = np.zeros(len(side.number_of), dtype=np.int64)
    for one, bound in zip(blocks, bounds, strict=True):
        in_train = np.repeat(part[one] == 0, lengths[one])
        counts += np.bincount(raw[bound][in_train], minlength=len(counts))
    space = _vocabulary(side, counts)
    known = _known_symbols(side, space)
    new_lengths = np.concatenate(
        [np.add.reduceat(known.sizes[raw[bound]], starts[one] - bound.start)
         for one, bound in zip(blocks, bounds, strict=True)]
    )  # fmt: skip
    new_starts = np.cumsum(new_lengths) - new_lengths
    values = np.empty_like(known.numbers, shape=int(new_lengths.sum()))
    unknown, rows = np.zeros(3), list[Integers]()  # rows: of the pairs with unknown symbols
    for one, bound in zip(blocks, bounds, strict=True):
        found = known.translate(raw[bound])
        values[new_starts[one][0] :][: len(found)] = found
        part_of = np.repeat(part[one], new_lengths[one])
        unknown += np.bincount(part_of[found == UNKNOWN], minlength=3)
        row_of = np.repeat(np.arange(one.start, one.start + len(part[one])), new_lengths[one])
        rows.append(np.unique(row_of[(found == UNKNOWN) & (part_of > 0)]))
    texts = _texts(side, raw, starts, lengths, np.concatenate(rows)) if side.has_texts else None
    unknown /= np.maximum(np.bincount(part, weights=new_lengths, minlength=3), 1)
    side.numbers = array("i")
    shares = tuple(unknown.tolist())
    return FinishedSide(space, values[:, None], new_starts, new_lengths, shares, texts)


def _texts(
    side: ReadSide, raw: NDArray[np.int32], starts: Integers, lengths: Integers, rows: Integers
) -> NDArray[np.object_]:
    """Return the texts (N,) of the targets with the given indices, as they were read but for white
    space, Unicode form and case, and None for the other targets."""
    symbols, found = list(side.number_of), np.full(len(starts), None, dtype=np.object_)
    for k in rows.tolist():
        numbers = raw[starts[k] : starts[k] + lengths[k] - 1]  # without the end
        words = [symbols[number] for number in numbers.tolist()]
        found[k] = join_subwords(words) if side.has_subwords else " ".join(words)
    return found


def _vocabulary(side: ReadSide, counts: Integers) -> Tokens:
    """Return the space of a side, with the vocabulary of the training part if no other is known.

    Args:
        side: the side, whose symbols have been read.
        counts: how often each symbol occurs in the training part.
    """
    config = side.config
    if isinstance(side.known, Tokens):
        return side.known
    count_of = dict(zip(side.number_of, counts.tolist(), strict=True))
    if not side.has_subwords:
        return Tokens.of_counts(
            count_of, config.unit, lowercase=config.lowercase, min_count=config.min_count,
            max_size=config.max_size,
        )  # fmt: skip
    words = {word: n for word, n in count_of.items() if n and word not in SPECIAL}
    found = learn_subwords(words, config.max_size or DEFAULT_SIZE, config.min_count)
    kept = (one for one in found if one not in SPECIAL)
    return Tokens((*SPECIAL, *kept), config.unit, config.lowercase)


class _KnownSymbols(NamedTuple):
    """The numbers in the vocabulary of each of K symbols that were read: one number of a character
    or word, and the numbers of all subwords of a word.

    Attributes:
        numbers: the numbers of all symbols, one symbol after the other.
        starts: (K,) of the numbers of each symbol in `numbers`.
        sizes: (K,) how many numbers each symbol has.
    """

    numbers: NDArray[np.integer]
    starts: Integers
    sizes: Integers

    def translate(self, raw: NDArray[np.int32]) -> NDArray[np.integer]:
        """Return the numbers in the vocabulary of symbols that were read, one after the other."""
        sizes = self.sizes[raw]
        ends = np.cumsum(sizes)
        shift = self.starts[raw] - (ends - sizes)
        found: NDArray[np.integer] = self.numbers[np.repeat(shift, sizes) + np.arange(ends[-1])]
        return found


def _known_symbols(side: ReadSide, space: Tokens) -> _KnownSymbols:
    """Return the numbers in a vocabulary of the symbols of a side."""
    # Reserved symbols keep their numbers: `END` follows each target, and words that are written
    # like a reserved symbol have been read as unknown.
    numbers, sizes = array("i", range(len(SPECIAL))), array("q", [1] * len(SPECIAL))
    for symbol in list(side.number_of)[len(SPECIAL) :]:
        parts = split_word(symbol, space.rank) if side.has_subwords else [symbol]
        numbers.extend(space.number_of.get(part, UNKNOWN) for part in parts)
        sizes.append(len(parts))
    size_of = np.frombuffer(sizes, dtype=np.int64)
    dtype = np.min_scalar_type(len(space.symbols))
    return _KnownSymbols(np.array(numbers, dtype=dtype), np.cumsum(size_of) - size_of, size_of)
