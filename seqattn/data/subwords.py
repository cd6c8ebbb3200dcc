"""Subwords by byte-pair encoding (Sennrich, Haddow and Birch 2016, "Neural Machine Translation of
Rare Words with Subword Units").

The library sentencepiece learns the subwords. A vocabulary of subwords consists of characters and
then of joined subwords in the order in which they were learned. This order says which neighbors to
join first, so neither the library nor a list of merges is needed to split words.

A word begins with `WORD_BEGIN`, so that subwords can be joined to the text again. A word with this
mark is a marked word.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import groupby, pairwise

from seqattn.errors import UsageError, install_command

WORD_BEGIN = "▁"
DEFAULT_SIZE = 8000
"""Size of the vocabulary if the config sets none."""
NO_RANK = sys.maxsize
"""Rank of what is no subword."""
RESERVED_LETTER = "▅"
"""A character with a meaning of its own in sentencepiece, which is in no joined subword."""
NO_WORD = "no word"
"""Name of an entry that sentencepiece requires. No word has a space."""


def mark_word(word: str) -> str:
    """Return a word after `WORD_BEGIN`. Inside the word, U+FFFD takes the place of `WORD_BEGIN`,
    which would be read as the begin of another word."""
    return WORD_BEGIN + word.replace(WORD_BEGIN, "\ufffd")


def split_word(word: str, rank: Mapping[str, int]) -> list[str]:
    """Return the subwords of a marked word. Of all neighbors that form a subword, those of the
    smallest rank are joined, the leftmost first, until no neighbors form a subword.

    Args:
        word: the marked word.
        rank: position of each subword in the order in which they were learned.
    """
    parts = list(word)
    ranks = [rank.get(a + b, NO_RANK) for a, b in pairwise(parts)]
    while ranks and (best := min(ranks)) < NO_RANK:
        k = ranks.index(best)
        parts[k : k + 2] = [parts[k] + parts[k + 1]]
        del ranks[k]
        for left in (k - 1, k):
            if 0 <= left < len(ranks):
                ranks[left] = rank.get(parts[left] + parts[left + 1], NO_RANK)
    return parts


def join_subwords(subwords: Iterable[str]) -> str:
    """Return subwords as text. A `WORD_BEGIN` without a word leaves no space."""
    return " ".join(filter(None, "".join(subwords).split(WORD_BEGIN)))


def learn_subwords(counts: Mapping[str, int], size: int, min_count: int = 1) -> list[str]:
    """Return at most `size` subwords: the characters, the most frequent first, and then the joined
    subwords in the order in which sentencepiece learns them.

    Args:
        counts: how often each marked word occurs.
        size: maximum number of subwords.
        min_count: how often a character must occur. A rarer character is in no subword.

    Raises:
        UsageError: if sentencepiece is not installed.
    """
    letters = _frequent_letters(counts, min_count)[:size]
    if len(letters) == size:
        return letters
    segments = _segments(counts, set(letters) - {RESERVED_LETTER})
    return [*letters, *(_learn_joined(segments, size) if segments else [])][:size]


def _frequent_letters(counts: Mapping[str, int], min_count: int) -> list[str]:
    """Return the characters that occur at least `min_count` times, the most frequent first."""
    found = Counter[str]()
    for word, count in counts.items():
        for letter in word:
            found[letter] += count
    kept = [letter for letter, count in found.items() if count >= min_count]
    return sorted(kept, key=lambda letter: (-found[letter], letter))


def _segments(counts: Mapping[str, int], letters: Set[str]) -> Mapping[str, int]:
    """Return how often each part of a word occurs if other characters than `letters` separate the
    parts."""
    found = Counter[str]()
    for word, count in counts.items():
        for is_known, run in groupby(word, letters.__contains__):
            if is_known:
                found["".join(run)] += count
    return found


def _learn_joined(counts: Mapping[str, int], size: int) -> Sequence[str]:
    """Return the joined subwords that sentencepiece learns, in order, if there are at most `size`
    characters and joined subwords together.

    Args:
        counts: how often each part of a word occurs.
        size: maximum number of characters and joined subwords, larger than that of characters.
    """
    try:
        import sentencepiece
    except ImportError:
        raise UsageError(
            f"unit: bpe needs sentencepiece to learn subwords: {install_command('text')}"
        ) from None
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in counts.items()),
        input_format="tsv", model_writer=model, model_type="bpe", vocab_size=size + 1,
        hard_vocab_limit=False, character_coverage=1.0, normalization_rule_name="identity",
        add_dummy_prefix=False, remove_extra_whitespaces=False, unk_piece=NO_WORD, bos_id=-1,
        eos_id=-1, num_threads=1, minloglevel=2,
    )  # fmt: skip
    learned = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    found = [learned.id_to_piece(k) for k in range(len(learned))]
    return [piece for piece in found if len(piece) > 1 and piece != NO_WORD]
