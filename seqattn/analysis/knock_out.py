"""The cost of each attention head: the errors of a model in free running, with the weights of one
head at a time set to 0, so that the head adds nothing (Michel et al. 2019, "Are Sixteen Heads
Really Better than One?"; Voita et al. 2019, "Analyzing Multi-Head Self-Attention"). The model is
not trained again.

A difference is tested over the sequences of one trained model with Wilcoxon's signed-rank test,
with Holm's correction for all heads. The test is about this model and says nothing about models
from other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.comparison.signed_rank import signed_rank
from seqattn.analysis.comparison.statistics import LEVEL, RATE_DIGITS, holm
from seqattn.analysis.evaluation.forecasts import free_run
from seqattn.data import Sequences
from seqattn.data.measures import sequence_errors
from seqattn.models import AttentionKind, Seq2SeqModel
from seqattn.models.attention import Override

KINDS: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self", "cross")
RMSE, SYMBOL_ERRORS, SEQUENCE_ERRORS = "rmse", "symbol_error_rate", "sequence_error_rate"


@dataclass(frozen=True)
class HeadCost:
    """The errors without one head.

    Attributes:
        kind: the kind of attention; see `AttentionMap.kind`.
        layer, head: the indices of the layer and the head, counted from 0.
        measures: the measures without the head, by name.
        differences: the measures without the head minus those with all heads, by name.
        worse, better, equal: the numbers of sequences whose error is greater without the head, is
            smaller, and is equal.
        p_holm: the p-value of the test, with Holm's correction for all heads.
    """

    kind: AttentionKind
    layer: int
    head: int
    measures: dict[str, float]
    differences: dict[str, float]
    worse: int
    better: int
    equal: int
    p_holm: float


@dataclass(frozen=True)
class KnockOut:
    """The errors of a model with all heads and without each head.

    Attributes:
        sequences: the number of sequences that count; see `sequence_errors`.
        scaled: whether the RMSE is in scaled units instead of the units of the data.
        measures: the measures with all heads, by name: `rmse` of vectors, which is the root of the
            loss; `symbol_error_rate`, which is tested, and `sequence_error_rate` of symbols.
        heads: the heads by kind, layer and head.
    """

    sequences: int
    scaled: bool
    measures: dict[str, float]
    heads: list[HeadCost]

    @property
    def main_measure(self) -> str:
        """The measure that is tested."""
        return next(iter(self.measures))

    def differences(self) -> dict[str, NDArray[np.float64]]:
        """Return the differences of the main measure, (layers, heads), by kind of attention."""
        return self._arrange([head.differences[self.main_measure] for head in self.heads])

    def significant(self) -> dict[str, NDArray[np.float64]]:
        """Return 1 for each significant difference and 0 for the others, (layers, heads), by kind
        of attention."""
        return self._arrange([float(head.p_holm < LEVEL) for head in self.heads])

    def _arrange(self, values: Sequence[float]) -> dict[str, NDArray[np.float64]]:
        """Arrange a value of each head in an array (layers, heads) for each kind of attention."""
        found = dict[str, NDArray[np.float64]]()
        for kind in dict.fromkeys(head.kind for head in self.heads):
            of_kind = [(head.layer, value) for head, value in zip(self.heads, values, strict=True)
                       if head.kind == kind]  # fmt: skip
            layers = 1 + max(layer for layer, _ in of_kind)
            found[kind] = np.reshape([value for _, value in of_kind], (layers, -1))
        return found

    def as_plain(self) -> dict[str, Any]:
        return asdict(self)


def knock_out_heads(model: Seq2SeqModel, part: Sequences) -> KnockOut:
    """Measure the errors of a model with all heads, and without each head of each layer.

    Args:
        model: the model.
        part: the sequences with their targets.

    Raises:
        UsageError: if the model has no attention weights that can be replaced.
    """
    model.attention_shape()  # raises the UsageError
    names, measures = list(_heads_of(model, part)), _errors_with(model, part, None)[0]
    without, changes = list[dict[str, float]](), list[NDArray[np.float64]]()
    for kind, layer, head in names:
        if head == 0:
            # The model's own operations round differently, so a head that adds nothing is compared
            # with the same operations, in which no head has the index -1.
            same = Override("zeros", layer=layer, head=-1, kind=kind)
            _, before = _errors_with(model, part, same)
        override = Override("zeros", layer=layer, head=head, kind=kind)
        after, of_sequences = _errors_with(model, part, override)
        without.append(after)
        changes.append(np.round(of_sequences - before, RATE_DIGITS))
    corrected = holm([signed_rank(change, LEVEL).p for change in changes])
    costs = [
        HeadCost(
            *name, after, {each: after[each] - measures[each] for each in measures},
            int((change > 0).sum()), int((change < 0).sum()), int((change == 0).sum()), p,
        )
        for name, after, change, p in zip(names, without, changes, corrected, strict=True)
    ]  # fmt: skip
    return KnockOut(len(before), not part.is_identity, measures, costs)


def _errors_with(
    model: Seq2SeqModel, part: Sequences, override: Override | None
) -> tuple[dict[str, float], NDArray[np.float64]]:
    """Return the measures with replaced weights, and the error of each sequence that counts."""
    forecast = free_run(model, part, part.target_steps, override, with_attention=False)
    errors = sequence_errors(part.target_space, part, forecast.values)
    mean, means = float(errors.totals.sum() / errors.sizes.sum()), errors.totals / errors.sizes
    if part.target_space.vocabulary_size:
        return {SYMBOL_ERRORS: mean, SEQUENCE_ERRORS: float((errors.totals > 0).mean())}, means
    return {RMSE: math.sqrt(mean)}, np.sqrt(means)


def _heads_of(model: Seq2SeqModel, part: Sequences) -> Iterator[tuple[AttentionKind, int, int]]:
    """Yield the kind, layer and head of all heads, as the weights of a short forecast have them."""
    maps = free_run(model, part.select(slice(0, 1)), 1).maps
    for kind in KINDS:
        if kind in maps:
            _, layers, heads, _, _ = maps[kind].shape
            yield from ((kind, layer, head) for layer in range(layers) for head in range(heads))
