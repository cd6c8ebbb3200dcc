"""Attention held against known links between target steps and source steps.

A row of weights belongs to a decoder step, and links belong to a target step. A model may attend to
the source of a symbol when it writes the symbol, or when it reads it one step later. The measures
are therefore computed at three shifts. At shift s, the weights of decoder step t are held against
the links of target step t + s: at shift 0, those of the symbol that the step writes; at shift -1,
those of the symbol that it reads; at shift 1, those of the symbol that the next step writes. A
target step without such a decoder step is left out.

    hit      share of the target steps whose largest weight is at a linked source step. Equal
             largest weights share the step.
    weight   mean sum of the weights at the linked source steps
    AER      1 - (|A and S| + |A and P|) / (|A| + |S|), the alignment error rate of Och and Ney
             2003, "A Systematic Comparison of Various Statistical Alignment Models", eq. 7, where A
             links each target step to the source step with its largest weight, S are the sure
             links, and P are the sure and the possible links

Target steps without any link, such as the end, are left out, because weights always point
somewhere.

In shapes, N is the number of sequences, L of layers, A of heads, T the target length, S the source
length, V and W the sizes of the vocabularies of target and source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.attention_metrics import largest_weight_shares
from seqattn.data import Sequences
from seqattn.data.sequences import Floats
from seqattn.data.tokens import Links

SHIFTS = (-1, 0, 1)
UNIFORM, DIAGONAL, IBM_MODEL_1 = "uniform", "diagonal", "IBM model 1 (fitted)"
MAX_FITTED_PAIRS = 10_000
"""Number of training pairs from which IBM model 1 is estimated."""
EM_ITERATIONS = 5


@dataclass(frozen=True)
class Alignment:
    """How attention agrees with known links.

    Attributes:
        aer, hit, weight: (3, L, A) the measures that the docstring of the module defines, at each
            shift of `SHIFTS`.
        by_kind: for each kind of target steps, the number of its linked target steps, and `hit` and
            `weight` of these steps, each (3, L, A).
        steps: number of target steps that have links.
        sure, possible: number of sure links, and of links that are only possible.
    """

    aer: Floats
    hit: Floats
    weight: Floats
    by_kind: dict[str, tuple[int, Floats, Floats]]
    steps: int
    sure: int
    possible: int

    @property
    def best(self) -> tuple[int, int, int]:
        """Indices of the shift, the layer and the head with the smallest AER."""
        shift, layer, head = np.unravel_index(int(self.aer.argmin()), self.aer.shape)
        return int(shift), int(layer), int(head)

    def as_plain(self) -> dict[str, Any]:
        """Return the measures of the best head as plain values for JSON, by shift."""
        shift, layer, head = self.best

        def by_shift(values: Floats) -> dict[str, float]:
            named = zip(SHIFTS, values[:, layer, head].tolist(), strict=True)
            return {f"{s:+d}" if s else "0": value for s, value in named}

        return {
            "aer": by_shift(self.aer),
            "hit": by_shift(self.hit),
            "weight": by_shift(self.weight),
            "best_shift": SHIFTS[shift],
            "best_head": [layer, head],
            "kinds": {
                kind: {"steps": steps, "hit": by_shift(hit), "weight": by_shift(weight)}
                for kind, (steps, hit, weight) in self.by_kind.items()
            },
            "steps": self.steps,
            "sure_links": self.sure,
            "possible_links": self.possible,
            "aer_by_head": self.aer.tolist(),
        }


class AlignmentSums:
    """Sums from which an `Alignment` is computed, chunk by chunk."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.by_kind: Any = 0.0  # (hit or weight, shift, L, A, number of kinds + 1)
        self.right: Any = 0.0  # (sure or any link, shift, L, A) largest weights
        self.steps: Any = 0  # (shift, number of kinds + 1) linked target steps with a row
        self.sure: Any = 0  # (shift,) sure links of target steps with a row
        self.possible = 0

    def add(self, weights: NDArray[np.floating], links: Links) -> None:
        """Add the weights (N, L, A, T, S) of N sequences, with 0 in the padding."""
        N, L, A, T, S = weights.shape
        linked = links.linked(T, S)
        sure = np.zeros_like(linked)
        row = np.repeat(np.arange(N), np.diff(links.starts))
        sure[row, links.target, links.source] = links.sure
        has_link = np.asarray(linked.any(axis=-1))
        self.names = links.kind_names
        kinds = np.full((N, T), -1) if links.kinds is None else links.kinds[:, :T]
        kinds = np.where(has_link, kinds, -1)
        in_kind = kinds[..., None] == np.arange(-1, len(self.names))  # (N, T, kinds + 1)
        in_kind[..., 0] = has_link
        largest = largest_weight_shares(weights)
        sums, right = np.zeros((2, 3, L, A, in_kind.shape[-1])), np.zeros((2, 3, L, A))
        counts = np.zeros((3, in_kind.shape[-1]), dtype=np.int64)
        of_shift = np.zeros(3, dtype=np.int64)
        for k, shift in enumerate(SHIFTS):
            rows = slice(max(0, -shift), T - max(0, shift))
            steps = slice(max(0, shift), T - max(0, -shift))
            at_linked, at_sure = linked[:, None, None, steps], sure[:, None, None, steps]
            for values, total in zip((largest, weights), sums, strict=True):
                found = np.where(at_linked, values[..., rows, :], 0).sum(-1, dtype=np.float64)
                total[k] = np.einsum("nlat,ntk->lak", found, in_kind[:, steps])
            right[0, k] = np.where(at_sure, largest[..., rows, :], 0).sum((0, 3, 4))
            right[1, k] = sums[0, k, ..., 0]
            counts[k], of_shift[k] = in_kind[:, steps].sum((0, 1)), sure[:, steps].sum()
        self.by_kind, self.right = self.by_kind + sums, self.right + right
        self.steps = self.steps + counts
        self.sure = self.sure + of_shift
        self.possible += int((linked & ~sure).sum())

    def result(self) -> Alignment | None:
        """Return the measures; None if no target step has a link."""
        if not np.any(self.steps):
            return None
        hit, weight = self.by_kind / np.maximum(self.steps, 1)[:, None, None]
        written = self.steps[:, None, None, 0]
        return Alignment(
            1 - self.right.sum(axis=0) / np.maximum(written + self.sure[:, None, None], 1),
            hit[..., 0], weight[..., 0],
            {
                name: (int(self.steps[1, k]), hit[..., k], weight[..., k])
                for k, name in enumerate(self.names, 1)
                if self.steps[1, k]
            },
            int(self.steps[1, 0]), int(self.sure[1]), self.possible,
        )  # fmt: skip


def alignments_of_rules(train: Sequences, part: Sequences) -> dict[str, Alignment]:
    """Return the measures of three rules on a part with links, by name.

    `uniform` gives all source steps the same weight. `diagonal` gives the whole weight to the
    source step at the same relative place. `IBM model 1` (Brown et al. 1993, "The Mathematics of
    Statistical Machine Translation", section 4) gives each source step the probability that it
    generated the symbol, estimated from pairs of the training part without their links. The first
    two rules need no training.
    """
    found = dict[str, Alignment]()
    rules: dict[str, Callable[[Sequences], Floats]] = {UNIFORM: _uniform, DIAGONAL: _diagonal}
    if part.source_space.vocabulary_size and part.target_space.vocabulary_size:
        table = _translation_table(train)
        rules[IBM_MODEL_1] = lambda chunk: _weights_of_table(table, chunk)
    for name, rule in rules.items():
        sums = AlignmentSums()
        for places, chunk in part.chunks():
            if part.links is not None:
                sums.add(rule(chunk)[:, None, None], part.links.select(places))
        if (measured := sums.result()) is not None:
            found[name] = measured
    return found


def _uniform(chunk: Sequences) -> Floats:
    weights: Floats = chunk.source_keep / chunk.source_lengths[:, None]
    return np.repeat(weights[:, None], chunk.target_steps, axis=1)


def _diagonal(chunk: Sequences) -> Floats:
    symbols = np.maximum(chunk.target_lengths[:, None] - 1, 1)  # without the end
    relative = (np.arange(chunk.target_steps) + 0.5) / symbols
    place = np.minimum((relative * chunk.source_lengths[:, None]).astype(np.int64),
                       chunk.source_lengths[:, None] - 1)  # fmt: skip
    weights: Floats = (place[..., None] == np.arange(chunk.source_steps)).astype(np.float64)
    return weights


def _translation_table(train: Sequences) -> Floats:
    """Return the probabilities (W, V) of a target symbol given a source symbol, by the EM algorithm
    of IBM model 1 with a uniform start."""
    W, V = train.source_space.vocabulary_size, train.target_space.vocabulary_size
    pairs = train.select(slice(0, MAX_FITTED_PAIRS))
    keep = pairs.target_keep[:, :, None] & pairs.source_keep[:, None, :]
    cell = pairs.source[:, None, :, 0] * V + pairs.target[:, :, None, 0]  # (N, T, S)
    table = np.full(W * V, 1 / V)
    for _ in range(EM_ITERATIONS):
        share = np.where(keep, table[cell], 0)
        share /= np.maximum(share.sum(axis=-1, keepdims=True), 1e-300)
        counts = np.bincount(cell[keep], share[keep], minlength=W * V).reshape(W, V)
        table = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)).ravel()
    found: Floats = table.reshape(W, V)
    return found


def _weights_of_table(table: Floats, chunk: Sequences) -> Floats:
    weights: Floats = table[chunk.source[:, None, :, 0], chunk.target[:, :, None, 0]]
    weights = np.where(chunk.source_keep[:, None], weights, 0)
    total = weights.sum(axis=-1, keepdims=True)
    shares = weights / np.where(total > 0, total, 1)
    return np.asarray(np.where(total > 0, shares, _uniform(chunk)))
