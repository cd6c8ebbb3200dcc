"""BLEU and chrF of outputs as text, computed by the library sacrebleu (Post 2018, "A Call for
Clarity in Reporting BLEU Scores").

Both compare texts, not symbols, so that models with different vocabularies can be compared. The
text of a target is that of its symbols, and where the vocabulary lacks a symbol, that of the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Sequences, source_keys
from seqattn.data.spaces import Space
from seqattn.data.tokens import Tokens

BLEU_COUNTS = 10
"""Number of sums from which BLEU is computed; see `bleu_counts`."""


def has_words(space: Space) -> bool:
    """Return whether steps are words or subwords, so that BLEU and chrF are defined."""
    return isinstance(space, Tokens) and space.unit in ("word", "bpe")


def is_sacrebleu_installed() -> bool:
    try:
        import sacrebleu.metrics  # noqa: F401
    except ImportError:
        return False
    return True


def measures_of_texts(
    outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return BLEU and chrF from 0 to 100 as `bleu` and `chrf`, and the signatures of sacrebleu as
    `signatures`. The result is empty if sacrebleu is not installed or if there are no outputs.

    Args:
        outputs: N texts.
        references: one or more right texts for each of them.
    """
    if not outputs or not is_sacrebleu_installed():
        return {}
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    streams = _streams(references)
    metrics = {"bleu": BLEU(force=True), "chrf": CHRF()}  # force: no warning about tokenized text
    found: dict[str, Any] = {
        name: metric.corpus_score(list(outputs), streams).score for name, metric in metrics.items()
    }
    return found | {"signatures": {name: str(one.get_signature()) for name, one in metrics.items()}}


def _streams(references: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Return a list for each position of a reference, with None where a text has fewer of them."""
    return [list(one) for one in itertools.zip_longest(*references)]


def bleu_counts(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return the sums over texts from which BLEU is computed (Papineni et al. 2002): the number of
    words of the outputs, that of the references, and for n-grams of 1 to 4 words, how many are
    right, and how many the outputs have, (10,). Counts of several groups of texts can be added.

    Args:
        outputs: N texts.
        references: one or more right texts for each of them.
    """
    if not outputs:
        return np.zeros(BLEU_COUNTS, dtype=np.int64)
    from sacrebleu.metrics.bleu import BLEU

    found = BLEU(force=True).corpus_score(list(outputs), _streams(references))
    return np.array([found.sys_len, found.ref_len, *found.counts, *found.totals], dtype=np.int64)


def bleu_of(counts: Sequence[int]) -> float:
    """Compute BLEU from 0 to 100 from the sums of `bleu_counts`, smoothed as in
    `measures_of_texts`."""
    from sacrebleu.metrics.bleu import BLEU

    outputs, references, *ngrams = counts
    found = BLEU.compute_bleu(ngrams[:4], ngrams[4:], outputs, references, smooth_method="exp")
    return float(found.score)


class RightTexts:
    """The right texts of the sequences of a part.

    Args:
        part: the sequences.
        sources: the bytes of the sources that have several targets; see `source_keys`. Such a
            source counts once, with the texts of all its targets.

    Attributes:
        texts: for each sequence, its right texts; empty if an equal source came before it.
    """

    def __init__(self, part: Sequences, sources: Collection[bytes]) -> None:
        assert isinstance(part.target_space, Tokens)
        self.space, known = part.target_space, part.target_texts
        self.texts, several = list[list[str]](), dict[bytes, list[str]]()
        for places, chunk in part.chunks():
            keys = source_keys(chunk) if sources else itertools.repeat(b"")
            rows = zip(range(len(part))[places], keys, chunk.target[..., 0], strict=False)
            for index, key, numbers in rows:
                text = None if known is None else known[index]
                right = [self.space.text(numbers) if text is None else str(text)]
                if key in several:
                    several[key] += right
                    right = []
                elif key in sources:
                    several[key] = right
                self.texts.append(right)
        for right in several.values():
            right[:] = dict.fromkeys(right)

    def pairs(
        self, places: slice, outputs: NDArray[np.integer]
    ) -> tuple[list[str], list[list[str]]]:
        """Return the texts of the outputs (n, T) of the sequences at `places` that count, and the
        right texts of each."""
        counted = [(k, right) for k, right in enumerate(self.texts[places]) if right]
        return [self.space.text(outputs[k]) for k, _ in counted], [right for _, right in counted]


class TextScores:
    """The outputs and the right texts of a part, of which BLEU and chrF are taken.

    Args:
        right: the right texts of the part.
    """

    def __init__(self, right: RightTexts) -> None:
        self.right = right
        self.outputs, self.references = list[str](), list[list[str]]()

    def add(self, places: slice, outputs: NDArray[np.integer]) -> None:
        """Add the outputs (n, T) of the sequences at `places`."""
        texts, references = self.right.pairs(places, outputs)
        self.outputs += texts
        self.references += references

    @property
    def measures(self) -> dict[str, Any]:
        """The result of `measures_of_texts`."""
        return measures_of_texts(self.outputs, self.references)
