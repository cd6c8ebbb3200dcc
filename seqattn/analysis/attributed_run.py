"""What the outputs of a run depend on: one test sequence in detail, and means over several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from seqattn.analysis.attribution import (
    FEW_NODES,
    FRACTIONS,
    RANDOM,
    WEIGHTS,
    Attribution,
    EmbeddedSource,
    Floats,
    area_above,
    attribute,
    rank_correlation,
    removal_curves,
    trace_states,
)
from seqattn.analysis.evaluation.texts import longest_output
from seqattn.data import Sequences
from seqattn.data.tokens import PAD
from seqattn.models.decoding import GREEDY, decode
from seqattn.training import LoadedModel
from seqattn.training.threads import restore_thread_count


@dataclass(frozen=True)
class AttributedSequence:
    """One test sequence, and what its output depends on. S is the source length, and T the number
    of output steps.

    Attributes:
        source_names, output_names: the S symbols of the source and the T symbols of the output;
            empty for vectors.
        attribution: the contributions of the source steps.
        trace: the result of `trace_states`; None if no other test sequence has as many source
            steps.
        other: the index of the test sequence that gave the other source; None without a trace.
    """

    source_names: list[str]
    output_names: list[str]
    attribution: Attribution
    trace: Floats | None
    other: int | None


@dataclass(frozen=True)
class Faithfulness:
    """Whether a method finds the source steps that matter, for N sequences.

    Attributes:
        curves: the curve of each sequence, (N, 11), by method; see `removal_curves`.
        agreement: Kendall's tau of each method with the attention weights, the mean over the
            output steps of each sequence, (N,), by method; empty without attention. NaN for a
            sequence in which no output step has a rank order.
    """

    curves: dict[str, Floats]
    agreement: dict[str, Floats]

    def areas(self) -> dict[str, Floats]:
        """Return the area of each method above random removal, (N,)."""
        return {
            name: np.array([area_above(*pair) for pair in zip(each, self.curves[RANDOM],
                                                               strict=True)])
            for name, each in self.curves.items() if name != RANDOM
        }  # fmt: skip


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread of torch, which is faster than several for tensors of this size."""
    with restore_thread_count():
        torch.set_num_threads(1)
        yield


def mean_and_error(values: Floats) -> tuple[float, float]:
    """Return the mean of the numbers that are not NaN, and its standard error; NaN if there are
    none, or for the error, fewer than two."""
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if len(known) else float("nan")
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("nan")
    return mean, error


def embed_sequence(trained: LoadedModel, part: Sequences, k: int) -> EmbeddedSource:
    """Return the model as a function of the source of sequence k, with its own output."""
    model, source = trained.model, _source(part, k)
    with torch.inference_mode():
        if model.features.target_symbols:
            found = decode(model, source[None], None, longest_output(trained), GREEDY).symbols[0, 0]
            output = found[found != PAD].unsqueeze(-1)
        else:
            steps = int(part.target_lengths[k])
            output = model.forecast(source[None], steps, with_attention=False).values[0]
    return EmbeddedSource(model, source, output.clone())


def _source(part: Sequences, k: int) -> torch.Tensor:
    """Return the source (S, F) of a sequence, in the units of the model, without padding."""
    scaled, _ = part.select(slice(k, k + 1)).encode()
    source = torch.as_tensor(scaled[0, : part.source_lengths[k]])
    return source.long() if part.source_space.symbols else source.float()


def attribute_sequence(trained: LoadedModel, part: Sequences, k: int) -> AttributedSequence:
    """Compute what the output of test sequence k depends on. The source of its trace is that of the
    next test sequence with as many source steps, and other steps."""
    embedded = embed_sequence(trained, part, k)
    own, trace, found = _source(part, k), None, None
    for other in [*range(k + 1, len(part)), *range(k)]:
        if part.source_lengths[other] == len(own):
            wrong = _source(part, other)
            if not torch.equal(wrong, own):
                trace, found = trace_states(embedded, wrong), other
                break
    symbols = trained.spec.source.symbols, trained.spec.target.symbols
    names = [
        [alphabet[number] for number in numbers[:, 0].tolist()] if alphabet else []
        for alphabet, numbers in zip(symbols, (own, embedded.target), strict=True)
    ]
    return AttributedSequence(names[0], names[1], attribute(embedded), trace, found)


def measure_faithfulness(
    trained: LoadedModel, part: Sequences, indices: Iterable[int]
) -> Faithfulness:
    """Measure the removal curves and the agreement for the sequences with the given indices."""
    curves, agreement = dict[str, list[Floats]](), dict[str, list[float]]()
    for k in indices:
        embedded = embed_sequence(trained, part, k)
        importance = attribute(embedded, FEW_NODES).importance()
        for name, curve in removal_curves(embedded, importance, seed=k).items():
            curves.setdefault(name, []).append(curve)
        for name, values in importance.items():
            if name != WEIGHTS and WEIGHTS in importance:
                tau = rank_correlation(importance[WEIGHTS], values)
                known = tau[~np.isnan(tau)]
                agreement.setdefault(name, []).append(known.mean() if len(known) else np.nan)
    return Faithfulness(
        {name: np.stack(each) for name, each in curves.items()},
        {name: np.array(each) for name, each in agreement.items()},
    )


__all__ = [
    "FRACTIONS", "AttributedSequence", "Faithfulness", "attribute_sequence", "embed_sequence",
    "mean_and_error", "measure_faithfulness", "one_thread",
]  # fmt: skip
