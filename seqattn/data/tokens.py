"""Steps that are symbols of a vocabulary: characters, words, subwords or the symbols of a task.

A sequence of tokens is an array of symbol numbers, int64 with one feature: (N, L, 1). The numbers 0
to 3 are reserved: padding, the begin of a sequence (the first decoder input), the end of a sequence
(the last step of every target), and a symbol that is not in the vocabulary.

`Links` say which source steps determine a target step, where this is known. A link is sure or only
possible, as in Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models",
section 4.1.

In shapes, N is the number of sequences, S the source length, T the target length, L the length of
either side, and K the number of links.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqattn.data.spaces import Floats, Integers, Scaler, Space
from seqattn.data.subwords import join_subwords, mark_word, split_word
from seqattn.data.units import Units
from seqattn.errors import DataError

PAD, BEGIN, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<begin>", "<end>", "<unknown>")
"""The reserved symbols, by number."""

Unit = Literal["character", "word", "bpe", "symbol"]
SEPARATORS: dict[Unit, str] = {"character": "", "word": " ", "bpe": "", "symbol": " "}
"""Text between two symbols, by unit."""


@dataclass(frozen=True, eq=False)
class Tokens(Space):
    """Steps that are symbols of a vocabulary.

    Attributes:
        symbols: all symbols by number, of which the first four are `SPECIAL`.
        unit: what a symbol is. "bpe" stands for the subwords of `seqattn.data.subwords`, in the
            order in which they were learned. "symbol" stands for the symbols of a generated task,
            which are written with spaces between them.
        lowercase: whether text is converted to lower case.
        names: name of the one feature.
        units: always empty.
    """

    loss_name, error_name = "cross-entropy", "symbol error rate"
    symbols: tuple[str, ...] = SPECIAL
    unit: Unit = "word"
    lowercase: bool = False
    names: tuple[str, ...] = ("symbol",)
    units: Units = field(default_factory=dict)

    @classmethod
    def of_symbols(cls, symbols: Iterable[str], unit: Unit = "symbol") -> Tokens:
        """Build the space of a vocabulary without the reserved symbols.

        Raises:
            DataError: if a symbol occurs twice or is one of the reserved symbols.
        """
        found = (*SPECIAL, *symbols)
        if len(set(found)) < len(found):
            twice = next(one for k, one in enumerate(found) if one in found[:k])
            raise DataError(f"the symbol {twice!r} occurs twice in the vocabulary.")
        return cls(found, unit)

    @classmethod
    def of_counts(
        cls, counts: Mapping[str, int], unit: Unit, *, lowercase: bool = False, min_count: int = 1,
        max_size: int | None = None,
    ) -> Tokens:  # fmt: skip
        """Build the vocabulary of counted symbols, the most frequent first, and symbols that are
        equally frequent in the order of their code points.

        Args:
            counts: how often each symbol occurs in the training part. The reserved symbols may be
                among them, and are left out.
            unit: what a symbol is.
            lowercase: whether text is converted to lower case.
            min_count: how often a symbol must occur to get a number.
            max_size: maximum number of symbols without the reserved ones; None for no maximum.
        """
        kept = [one for one, n in counts.items() if n >= min_count and one not in SPECIAL]
        kept.sort(key=lambda symbol: (-counts[symbol], symbol))
        return cls((*SPECIAL, *kept[:max_size]), unit, lowercase)

    @cached_property
    def number_of(self) -> Mapping[str, int]:
        """Number of each symbol."""
        return {symbol: k for k, symbol in enumerate(self.symbols)}

    @cached_property
    def rank(self) -> Mapping[str, int]:
        """Number of each symbol that is not reserved: of subwords, the order of learning."""
        return {symbol: k for symbol, k in self.number_of.items() if k >= len(SPECIAL)}

    @property
    def is_identity(self) -> bool:
        return True

    @property
    def scale(self) -> Floats:
        return np.ones(1)

    def fitted_as(self, other: Space) -> Tokens:
        assert isinstance(other, Tokens)
        return other

    def needed_by_weights(self, side: str) -> dict[str, Any]:
        digest = hashlib.sha256("\n".join(self.symbols).encode()).hexdigest()
        return {
            f"data.{side}.unit": self.unit,
            f"data.{side}.lowercase": self.lowercase,
            f"the vocabulary of the {side}": f"{len(self.symbols)} symbols, SHA-256 {digest[:12]}",
        }

    def encode(
        self, values: NDArray[Any], keep: NDArray[np.bool_], per_sequence: Scaler, like: DTypeLike
    ) -> Integers:
        return values

    def decode(self, values: NDArray[Any], per_sequence: Scaler) -> Integers:
        return values

    def trim(self, values: NDArray[Any]) -> NDArray[Any]:
        ended = (values == END).cumsum(axis=-2) - (values == END) > 0
        return np.where(ended, PAD, values)

    def forecast_lengths(self, values: NDArray[Any], wanted: Integers) -> Integers:
        found: Integers = (values[..., 0] != PAD).sum(axis=1)
        return found

    def split(self, text: str) -> list[str]:
        """Return the symbols of a text in Unicode normalization form C."""
        text = unicodedata.normalize("NFC", text)
        if self.lowercase:
            text = text.lower()
        if self.unit == "bpe":
            return [
                part for word in text.split() for part in split_word(mark_word(word), self.rank)
            ]
        return list(text) if self.unit == "character" else text.split()

    def numbers(self, symbols: Sequence[str], *, ends: bool) -> Integers:
        """Return the numbers (L,) of symbols, followed by the end of the sequence if `ends`. Words
        that are written like a reserved symbol are unknown."""
        found = [max(self.number_of.get(symbol, UNKNOWN), UNKNOWN) for symbol in symbols]
        return np.array([*found, END] if ends else found, dtype=np.int64)

    def pad(self, sequences: Sequence[Sequence[str]], *, ends: bool) -> tuple[Integers, Integers]:
        """Return the numbers (N, L, 1) of several sequences of symbols, with `PAD` after the end of
        each sequence, and their lengths (N,).

        Args:
            sequences: the symbols of each sequence.
            ends: whether each sequence is followed by `END`, which counts in its length.
        """
        lengths = np.array([len(one) + ends for one in sequences], dtype=np.int64)
        found = np.full((len(sequences), int(lengths.max(initial=1))), PAD, dtype=np.int64)
        for k, symbols in enumerate(sequences):
            found[k, : lengths[k]] = self.numbers(symbols, ends=ends)
        return found[:, :, None], lengths

    def symbols_of(self, numbers: NDArray[np.integer]) -> list[str]:
        """Return the symbols of numbers (L,) or (L, 1) up to the end of the sequence."""
        found = list[str]()
        for number in np.asarray(numbers).ravel().astype(np.int64).tolist():
            if number in (END, PAD):
                break
            found.append(self.symbols[number])
        return found

    def text(self, numbers: NDArray[np.integer]) -> str:
        """Return numbers (L,) or (L, 1) as text, up to the end of the sequence."""
        symbols = self.symbols_of(numbers)
        return join_subwords(symbols) if self.unit == "bpe" else SEPARATORS[self.unit].join(symbols)

    def as_plain(self) -> dict[str, Any]:
        return {
            "kind": "tokens", "names": list(self.names), "unit": self.unit,
            "lowercase": self.lowercase, "symbols": list(self.symbols),
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Tokens:
        """Build the space from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError: if `plain` is not an output of `as_plain`.
        """
        symbols = tuple(str(symbol) for symbol in plain["symbols"])
        if symbols[:4] != SPECIAL or plain["unit"] not in SEPARATORS:
            raise ValueError("the vocabulary lacks the reserved symbols or a known unit")
        names = tuple(str(name) for name in plain["names"])
        return cls(symbols, plain["unit"], bool(plain["lowercase"]), names)


@dataclass(frozen=True, eq=False)
class Links:
    """The known links between target steps and source steps, and the kinds of target steps.

    Attributes:
        starts: (N + 1,) index of the first link of each sequence; the last element is K.
        target: (K,) target step of each link.
        source: (K,) source step of each link.
        sure: (K,) whether a link is sure. A link that is not sure is possible.
        kinds: (N, T) number of the kind of each target step, -1 at padding; None without kinds.
        kind_names: names of the kinds, by number.
    """

    starts: Integers
    target: Integers
    source: Integers
    sure: NDArray[np.bool_]
    kinds: Integers | None = None
    kind_names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, links: Sequence[Sequence[tuple[int, int, bool]]],
        kinds: Sequence[Sequence[str]] | None = None,
    ) -> Links:  # fmt: skip
        """Build the links of N sequences.

        Args:
            links: for each sequence, triples (target step, source step, whether it is sure).
            kinds: for each sequence, the kind of each target step.
        """
        starts = np.cumsum([0, *map(len, links)], dtype=np.int64)
        every = np.array([link for one in links for link in one], dtype=np.int64).reshape(-1, 3)
        if kinds is None:
            return cls(starts, every[:, 0], every[:, 1], every[:, 2] == 1)
        names = tuple(dict.fromkeys(kind for one in kinds for kind in one))
        numbers = np.full((len(kinds), max(map(len, kinds), default=0)), -1, dtype=np.int64)
        for k, one in enumerate(kinds):
            numbers[k, : len(one)] = [names.index(kind) for kind in one]
        return cls(starts, every[:, 0], every[:, 1], every[:, 2] == 1, numbers, names)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[tuple[Integers, Integers, NDArray[np.bool_]]]:
        """Yield the target steps, the source steps and the sureness of each sequence's links."""
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield self.target[first:last], self.source[first:last], self.sure[first:last]

    def select(self, indices: slice | Integers) -> Links:
        """Return the links of the sequences at the given indices."""
        chosen = np.arange(len(self))[indices]
        counts = (self.starts[1:] - self.starts[:-1])[chosen]
        places = np.concatenate(
            [np.arange(self.starts[k], self.starts[k + 1]) for k in chosen.tolist()]
            or [np.zeros(0, dtype=np.int64)]
        ).astype(np.int64)
        return Links(
            np.cumsum([0, *counts.tolist()], dtype=np.int64), self.target[places],
            self.source[places], self.sure[places],
            None if self.kinds is None else self.kinds[chosen], self.kind_names,
        )  # fmt: skip

    def linked(self, target_steps: int, source_steps: int) -> NDArray[np.bool_]:
        """Return whether there is a sure or possible link, (N, `target_steps`, `source_steps`)."""
        found = np.zeros((len(self), target_steps, source_steps), dtype=bool)
        row = np.repeat(np.arange(len(self)), np.diff(self.starts))
        found[row, self.target, self.source] = True
        return found

    def alignment(self, steps: int) -> Integers:
        """Return the alignment (N, `steps`): the one source step to which a target step has a sure
        link, or -1 for a target step with no sure link or with several."""
        found = np.full((len(self), steps), -1, dtype=np.int64)
        count = np.zeros((len(self), steps), dtype=np.int64)
        row = np.repeat(np.arange(len(self)), np.diff(self.starts))[self.sure]
        np.add.at(count, (row, self.target[self.sure]), 1)
        found[row, self.target[self.sure]] = self.source[self.sure]
        return np.where(count == 1, found, -1)
