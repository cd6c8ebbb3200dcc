"""BLEU and chrF of outputs as text, computed by the library sacrebleu (Post 2018, "A Call for
Clarity in Reporting BLEU Scores").

Both compare texts, not symbols, so that models with different vocabularies can be compared. The
text of a target is that of its symbols, and where the vocabulary lacks a symbol, that of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import Sequences
from seqattn.data.spaces import Space
from seqattn.data.tokens import Tokens


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

    # One list for each position of a reference, with None where a text has fewer references
    streams = [list(one) for one in zip_longest(*references)]
    metrics = {"bleu": BLEU(force=True), "chrf": CHRF()}  # force: no warning about tokenized text
    found: dict[str, Any] = {
        name: metric.corpus_score(list(outputs), streams).score for name, metric in metrics.items()
    }
    return found | {"signatures": {name: str(one.get_signature()) for name, one in metrics.items()}}


class TextScores:
    """The outputs and the right texts of a part, of which BLEU and chrF are taken.

    Args:
        part: the sequences.
    """

    def __init__(self, part: Sequences) -> None:
        assert isinstance(part.target_space, Tokens)
        self.space, self.texts = part.target_space, part.target_texts
        self.is_used = has_words(self.space) and is_sacrebleu_installed()
        self.outputs, self.references = list[str](), list[list[str]]()

    def target(self, index: int, numbers: NDArray[np.integer]) -> str:
        """Return the text of a target.

        Args:
            index: its index in the part.
            numbers: (T,) its symbols.
        """
        known = None if self.texts is None else self.texts[index]
        return self.space.text(numbers) if known is None else str(known)

    def add(self, output: NDArray[np.integer], references: Sequence[str]) -> None:
        """Add an output (T,) and its right texts."""
        self.outputs.append(self.space.text(output))
        self.references.append(list(dict.fromkeys(references)))

    @property
    def measures(self) -> dict[str, Any]:
        """The result of `measures_of_texts`."""
        return measures_of_texts(self.outputs, self.references)
