"""Descriptions of files with pairs of texts, for `seqattn data check`."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Text
from seqattn.data.subwords import DEFAULT_SIZE, learn_subwords, mark_word, split_word
from seqattn.data.text import (
    BRACES,
    COMPRESSED,
    SHIPPED,
    Pair,
    first_columns,
    has_control,
    read_pairs,
)
from seqattn.data.tokens import Tokens
from seqattn.errors import DataError, UsageError, counted

SAMPLED_PAIRS = 50
NUMBER = re.compile(r"[\s\d.,:;/+\-%T]*")
SUFFIXES = (".tsv", ".txt", ".csv", ".jsonl", ".ndjson", ".parquet", ".pq")
MAX_RATIO = 9
"""Ratio of the numbers of words above which a pair counts as suspicious."""
MIN_COUNTS = (2, 5)


def has_pairs_of_texts(path: str, encoding: str = "utf-8") -> bool:
    """Return whether a file has pairs of texts: if it is one of several parallel files, or if its
    records have the texts `source` and `target` or two texts only, none of them a number or a
    date."""
    if BRACES.search(path) or path in SHIPPED:
        return True
    if not any(path.lower().removesuffix(end).endswith(SUFFIXES) for end in (*COMPRESSED, "")):
        return False
    try:
        config = Text(path=path, encoding=encoding)
        columns = [name.strip().lower() for name in first_columns(path, encoding)]
        sample = list(islice(read_pairs(config, path, []), SAMPLED_PAIRS))
    except DataError:
        return False
    if len(columns) > 2 and not {"source", "target"} <= set(columns):
        return False
    cells = [text for pair in sample for text in (pair.source, pair.target)]
    return len(sample) > 1 and not any(NUMBER.fullmatch(cell) for cell in cells if cell)


@dataclass
class _SideCounts:
    """What is counted of one side."""

    words: Counter[str] = field(default_factory=Counter)
    word_lengths: array[int] = field(default_factory=lambda: array("i"))
    lengths: array[int] = field(default_factory=lambda: array("i"))

    def add(self, words: list[str]) -> None:
        self.words.update(words)
        self.word_lengths.append(len(words))
        self.lengths.append(sum(map(len, words)) + len(words) - 1)

    def describe(self) -> Iterator[str]:
        """Yield lines about the lengths and the symbols, by unit."""
        yield _quantiles(self.word_lengths, "words")
        yield _quantiles(self.lengths, "characters")
        for unit, counts in (("words", self.words), ("characters", self.characters)):
            rare = (sum(count for count in counts.values() if count < least) / counts.total()
                    for least in MIN_COUNTS)  # fmt: skip
            shares = ", ".join(f"{share:.2%} with min_count: {least}"
                               for share, least in zip(rare, MIN_COUNTS, strict=True))  # fmt: skip
            yield f"{len(counts):,} different {unit}; unknown: {shares}"
        yield from self._describe_subwords()

    def _describe_subwords(self) -> Iterator[str]:
        """Yield a line about the subwords of the words, if sentencepiece is installed."""
        marked = {mark_word(word): count for word, count in self.words.items()}
        try:
            learned = learn_subwords(marked, DEFAULT_SIZE)
        except UsageError:
            return
        rank = {subword: k for k, subword in enumerate(learned)}
        total = sum(count * len(split_word(word, rank)) for word, count in marked.items())
        yield f"{len(learned):,} subwords with unit: bpe, {total / self.words.total():.2f} per word"

    @property
    def characters(self) -> Counter[str]:
        """The characters of all words, and the spaces between them."""
        found = Counter[str]()
        for word, count in self.words.items():
            for character in word:
                found[character] += count
        found[" "] = self.words.total() - len(self.lengths)
        return +found


def describe_pairs(path: str, pairs: Iterable[Pair]) -> Iterator[str]:
    """Yield lines of text about the pairs of a file: their number, lengths, symbols, duplicates,
    and pairs that are unlikely to be translations of each other.

    Args:
        path: name of the file.
        pairs: the pairs, which are read once.
    """
    space, sides = Tokens(unit="word"), (_SideCounts(), _SideCounts())
    hashes, sources = array("q"), array("q")
    n = empty = control = equal = 0
    for pair in pairs:
        n += 1
        words = [space.split(text) for text in (pair.source, pair.target)]
        if not all(words):
            empty += 1
            continue
        if has_control(pair.source) or has_control(pair.target):
            control += 1
            continue
        equal += pair.source == pair.target
        sources.append(hash(pair.source))
        hashes.append(hash((pair.source, pair.target)))
        for side, found in zip(sides, words, strict=True):
            side.add(found)
    if not hashes:
        raise DataError(f"{path}: has no pair of texts.")
    yield f"{path}: {counted(n, 'pair')} of texts"
    for name, side in zip(("source", "target"), sides, strict=True):
        yield from (f"  {name}: {line}" for line in side.describe())
    yield _duplicates(hashes, sources)
    ratio = np.frombuffer(sides[0].word_lengths, np.int32) / np.frombuffer(
        sides[1].word_lengths, np.int32
    )
    extreme = int(((ratio > MAX_RATIO) | (ratio < 1 / MAX_RATIO)).sum())
    yield (
        f"  suspicious: {equal:,} with equal sides, {extreme:,} with more than {MAX_RATIO} times as"
        " many words on one side"
    )
    if empty or control:
        yield f"  left out: {empty:,} with an empty side, {control:,} with a control character"


def _duplicates(pairs: array[int], sources: array[int]) -> str:
    """Return text about equal pairs and about sources with several targets, given hashes."""
    kinds, of_source = (len(np.unique(_integers(one))) for one in (pairs, sources))
    again, several = len(pairs) - kinds, kinds - of_source
    return f"  duplicates: {again:,} pairs; {several:,} further targets of a known source"


def _integers(numbers: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(numbers, dtype=np.int64)


def _quantiles(lengths: array[int], unit: str) -> str:
    found = np.frombuffer(lengths, dtype=np.int32)
    middle, high = np.quantile(found, [0.5, 0.95], method="higher")
    return f"{found.min():,} to {found.max():,} {unit}, median {middle:,}, 95% at most {high:,}"


def section_of(path: str, encoding: str) -> str:
    """Return the section `data` of a config that trains on a file of pairs."""
    lines = ("kind: text", f"path: {json.dumps(path, ensure_ascii=False)}",
             *([] if encoding == "utf-8" else [f"encoding: {encoding}"]),
             "# source: {unit: bpe}  # subwords, if many words are rare",
             "# target: {unit: bpe}")  # fmt: skip
    return "\n  ".join(("data:", *lines))
