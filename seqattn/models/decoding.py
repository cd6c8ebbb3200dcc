"""Search for the best outputs of a model whose steps are symbols: beam search, sampling, and the
pass that forces a given output.

Greedy decoding is `Seq2SeqModel.forecast`. Beam search keeps the B most probable beginnings of each
sequence. Results are ranked by

    score = log p(y | x) / lp(y),   lp(y) = (5 + |y|)^a / (5 + 1)^a

with the length |y| in symbols, including the end (Wu et al. 2016, "Google's Neural Machine
Translation System", section 7, eq. 14, without its coverage penalty). With a = 0, the score is the
log-probability.

The attention of a result is that of a pass in which the decoder reads the result itself, and
therefore belongs to this result and not to another one of the beam.

In shapes, N is the number of sequences, S the source length, T the number of decoder steps, B the
beam size, M the number of results of a sequence, and V the size of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from seqattn.data.tokens import BEGIN, END, PAD
from seqattn.errors import UsageError
from seqattn.models.base import ModelOutput, Seq2SeqModel
from seqattn.models.teacher_forcing import check_source, check_steps
from seqattn.rng import rng_for

FIRST_RANK = 1e9
"""Subtracted from the scores of results without an end, so that they are only used if there are
fewer ended results than asked for."""
MIN_TEMPERATURE = 1e-3
"""Smallest temperature of sampling."""
MAX_SAMPLES = 1000
"""Largest number of samples of a sequence."""
SEQUENCES_AT_ONCE = 256
"""Number of sequences whose outputs are found together."""


@dataclass(frozen=True)
class Decoding:
    """How outputs are found. The default is greedy decoding.

    Attributes:
        beam: B, the number of beginnings that beam search keeps; 1 for no beam search.
        length_penalty: a in the docstring of the module.
        n_best: M, the number of results of each sequence.
        temperature: divisor of the logits from which symbols are sampled; None for no sampling.
        seed: seed of the sampling.

    Raises:
        UsageError: if the values contradict each other.
    """

    beam: int = 1
    length_penalty: float = 0.6
    n_best: int = 1
    temperature: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("beam", self.beam), ("n_best", self.n_best), ("seed", self.seed)):
            if not isinstance(value, int) or value < (name != "seed"):
                raise UsageError(f"{name} {value!r}: expected a whole number, 1 or more.")
        if self.temperature is not None and not MIN_TEMPERATURE <= self.temperature < math.inf:
            raise UsageError(f"temperature {self.temperature}: expected {MIN_TEMPERATURE} or more.")
        if not 0 <= self.length_penalty < math.inf:
            raise UsageError(f"length_penalty {self.length_penalty}: expected 0 or more.")
        if self.temperature is not None and self.beam > 1:
            raise UsageError("--beam and --temperature exclude each other: search or sample.")
        if self.temperature is None and self.n_best > self.beam:
            raise UsageError(
                f"--n-best {self.n_best} needs --beam {self.n_best} or more, or --temperature to"
                " sample."
            )

    @property
    def is_greedy(self) -> bool:
        return self.beam == 1 and self.temperature is None

    def __str__(self) -> str:
        if self.temperature is not None:
            return f"sampled at temperature {self.temperature:g}, seed {self.seed}"
        if self.beam == 1:
            return "greedy"
        return f"beam of {self.beam}, length penalty {self.length_penalty:g}"


GREEDY = Decoding()


@dataclass(frozen=True)
class Results:
    """The M best or sampled outputs of N sequences, the best first.

    Attributes:
        symbols: (N, M, T) symbol numbers, with `PAD` after the end. A result without an end has
            been cut off after T steps.
        log_probs: (N, M) natural logarithm of the probability of each result, -inf where there are
            fewer than M results.
        scores: (N, M) scores by which results of a beam are ranked; of samples, `log_probs`.
    """

    symbols: Tensor
    log_probs: Tensor
    scores: Tensor


def decode(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, steps: int,
    decoding: Decoding, first: int = 0,
) -> Results:  # fmt: skip
    """Find the outputs of N sequences, in batches of sources of similar lengths.

    Args:
        model: the model of a single run.
        source: (N, S, F) sources.
        source_lengths: (N,) number of valid steps of each source; None if all steps are valid.
        steps: T, the largest number of decoder steps.
        decoding: how to find them.
        first: number of the first sequence among all sequences, from which the random numbers of
            samples are drawn.

    Returns:
        The results, with as many steps as the longest of them.

    Raises:
        UsageError: if the steps of the targets are not symbols.
    """
    if not model.features.target_symbols:
        raise UsageError(
            "Beam search and sampling need targets of symbols; those of this model are vectors."
        )
    check_source(source, source_lengths, model.features)
    check_steps(steps)
    N, S, _ = source.shape
    lengths = torch.full((N,), S, device=source.device)
    order = (lengths if source_lengths is None else source_lengths).argsort(stable=True)
    parts = list[Results]()
    for rows in order.split(SEQUENCES_AT_ONCE):
        sources, of_rows = source[rows], None
        if source_lengths is not None:
            of_rows = source_lengths[rows]
            sources = sources[:, : int(of_rows[-1])]
        with torch.inference_mode():
            if decoding.temperature is not None:
                found = _sample(model, sources, of_rows, steps, decoding, (first + rows).tolist())
            elif decoding.is_greedy:
                found = _read_greedily(model, sources, of_rows, steps)
            else:
                found = _beam_search(model, sources, of_rows, steps, decoding)
        parts.append(found)
    longest = max(found.symbols.shape[-1] for found in parts)
    symbols = [pad(one.symbols, (0, longest - one.symbols.shape[-1]), value=PAD) for one in parts]
    back = order.argsort()
    return Results(
        torch.cat(symbols)[back],
        torch.cat([one.log_probs for one in parts])[back],
        torch.cat([one.scores for one in parts])[back],
    )


def _read_greedily(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, steps: int
) -> Results:
    """Read the most probable symbol of each step. A sequence that ends leaves the batch."""
    if type(model).forecast is not Seq2SeqModel.forecast:
        return _read_forecast(model, source, source_lengths, steps)
    N, device = len(source), source.device
    decoder_input, memory, state, _ = model.begin(
        source, steps, source_lengths=source_lengths, with_attention=False
    )
    rows = torch.arange(N, device=device)
    found = list[tuple[Tensor, Tensor, Tensor]]()
    for _ in range(steps):
        output, _, state = model.decoder_step(decoder_input, memory, state, with_attention=False)
        gained, chosen = output.squeeze(-2)[..., END:].double().log_softmax(dim=-1).max(dim=-1)
        chosen += END
        found.append((rows, chosen, gained))
        running = (chosen != END).nonzero().squeeze(-1)
        if not len(running):
            break
        if len(running) < len(rows):
            rows, chosen = rows[running], chosen[running]
            memory, state = take_sequences(memory, running), take_sequences(state, running)
        decoder_input = chosen.unsqueeze(-1)
    T = len(found)
    symbols = torch.full((N, T), PAD, device=device)
    rows, chosen, gained = (torch.cat(part) for part in zip(*found, strict=True))
    counts = torch.tensor([len(part) for part, _, _ in found], device=device)
    symbols[rows, torch.arange(T, device=device).repeat_interleave(counts)] = chosen
    log_probs = gained.new_zeros((N, 1))
    log_probs[:, 0].index_add_(0, rows, gained)
    return Results(symbols.unsqueeze(1), log_probs, log_probs)


def _read_forecast(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, steps: int
) -> Results:
    """Read the most probable symbols of a model that defines only `forecast`."""
    outputs = model.forecast(
        source, steps, source_lengths=source_lengths, with_attention=False
    ).values
    symbols = model.target_modality.read(outputs)
    has_ended = ((symbols == END).cumsum(-2) - (symbols == END).long()) > 0
    gained = log_probabilities(outputs).gather(-1, symbols).masked_fill(has_ended, 0)
    log_probs = gained.sum(dim=(-2, -1)).unsqueeze(-1)
    return Results(symbols.masked_fill(has_ended, PAD).mT, log_probs, log_probs)


def force(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, target: Tensor,
    *, with_attention: bool = True,
) -> ModelOutput:  # fmt: skip
    """Return the outputs and the attention of a decoder that reads given targets (N, T, F)."""
    truth = torch.ones(target.shape[-2], dtype=torch.bool)
    output: ModelOutput = model(
        source, target, source_lengths=source_lengths, teacher_forcing=truth,
        with_attention=with_attention,
    )  # fmt: skip
    return output


def log_probabilities(outputs: Tensor) -> Tensor:
    """Return the log-probabilities (..., V) of outputs (..., V) in double precision. The padding
    and the begin of a sequence are never read from outputs, and have the probability 0."""
    never = torch.tensor([PAD, BEGIN], device=outputs.device)
    return outputs.double().index_fill(-1, never, -torch.inf).log_softmax(dim=-1)


def _length_penalty(length: int, a: float) -> float:
    return float(((5 + length) / 6) ** a)


class _Best(NamedTuple):
    """The M best results of N sequences so far, as places in a `_History`.

    Attributes:
        scores, log_probs: (N, M); see `Results`.
        places: (N, M) place of the beginning of which a result consists without its end.
        steps: (N, M) step of the end of each result; T for a result without an end, and -1 where
            there is no result.
    """

    scores: Tensor
    log_probs: Tensor
    places: Tensor
    steps: Tensor

    def merged(self, more: _Best, ranks: Tensor) -> _Best:
        """Return the M best of these and of more results with the given ranks."""
        _, kept = torch.cat([self.scores, ranks], dim=1).topk(self.scores.shape[1])
        joined = (torch.cat(pair, dim=1) for pair in zip(self, more, strict=True))
        return _Best(*(one.gather(1, kept) for one in joined))

    def take(self, rows: Tensor) -> _Best:
        return _Best(*(one[rows] for one in self))

    def write(self, rows: Tensor, part: _Best) -> None:
        """Replace the results of some sequences."""
        for own, new in zip(self, part, strict=True):
            own[rows] = new


class _History:
    """The last symbols of the beginnings that a beam search kept at each step, and their parents.

    Attributes:
        symbols, parents: (T, N, B).
    """

    def __init__(self, steps: int, N: int, B: int, device: torch.device) -> None:
        self.symbols = torch.zeros((steps, N, B), dtype=torch.long, device=device)
        self.parents = torch.zeros_like(self.symbols)

    def add(self, step: int, rows: Tensor, symbols: Tensor, parents: Tensor) -> None:
        """Add a step (n, up to B) of the sequences `rows`."""
        width = symbols.shape[1]
        self.symbols[step, rows, :width] = symbols
        self.parents[step, rows, :width] = parents

    def results(self, best: _Best, steps: int) -> Results:
        """Follow the parents from the last step of each result to its first."""
        symbols, places = best.steps.new_full((*best.steps.shape, steps), PAD), best.places
        for t in reversed(range(steps)):
            started, ends = best.steps > t, best.steps == t
            own = self.symbols[t].gather(1, places)
            symbols[..., t] = own.where(started, PAD).masked_fill(ends, END)
            places = self.parents[t].gather(1, places).where(started, places)
        return Results(symbols, best.log_probs, best.scores)


def _beam_search(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, steps: int,
    decoding: Decoding,
) -> Results:  # fmt: skip
    """Keep the B most probable beginnings of each sequence. A sequence leaves the batch when none
    of its beginnings can become one of its M best results.

    The first step has one beginning for each sequence, and the next ones have up to B. Instead of
    the symbols of each beginning, a step keeps its last symbol and its parent, the place of the
    beginning that it continues among those of the step before.
    """
    N, B, M, device = len(source), decoding.beam, decoding.n_best, source.device
    decoder_input, memory, state, _ = model.begin(
        source, steps, source_lengths=source_lengths, with_attention=False
    )
    reads = memory  # what the decoder reads: of each sequence, or of each of its beginnings
    rows = torch.arange(N, device=device)
    log_probs = torch.zeros((N, 1), dtype=torch.float64, device=device)
    history = _History(steps, N, B, device)
    best = _Best(
        log_probs.new_full((N, M), -torch.inf), log_probs.new_full((N, M), -torch.inf),
        torch.zeros((N, M), dtype=torch.long, device=device),
        torch.full((N, M), -1, device=device),
    )  # fmt: skip
    of_rows = best
    for t in range(steps):
        output, _, state = model.decoder_step(decoder_input, reads, state, with_attention=False)
        n, width = log_probs.shape
        next_symbol = log_probabilities(output.squeeze(-2))
        V = next_symbol.shape[-1]
        # Each beginning has one continuation that ends, so 2B candidates contain B that do not.
        found, index = (log_probs.view(-1, 1) + next_symbol).view(n, -1).topk(min(2 * B, width * V))
        parents, chosen = index.div(V, rounding_mode="floor"), index % V
        ends = chosen == END
        ended = found.masked_fill(~ends, -torch.inf)
        scores = ended / _length_penalty(t + 1, decoding.length_penalty)
        of_rows = of_rows.merged(_Best(scores, ended, parents, torch.full_like(parents, t)), scores)
        log_probs, places = found.masked_fill(ends, -torch.inf).topk(min(B, found.shape[1]))
        parents, chosen = parents.gather(1, places), chosen.gather(1, places)
        history.add(t, rows, chosen, parents)
        # A log-probability never rises, and the longest result has the largest divisor.
        bound = log_probs[:, 0] / _length_penalty(steps, decoding.length_penalty)
        running = (of_rows.scores[:, -1] < bound).nonzero().squeeze(-1)
        if len(running) < n:
            best.write(rows, of_rows)
        if not len(running):
            return history.results(best, t + 1)
        before, width = width, log_probs.shape[1]
        if len(running) < n:
            rows, of_rows, memory = (
                rows[running],
                of_rows.take(running),
                take_sequences(memory, running),
            )
            log_probs, parents, chosen = (x[running] for x in (log_probs, parents, chosen))
        if len(running) < n or width != before:
            reads = memory
            if not model.shares_memory:
                each = torch.arange(len(rows), device=device).repeat_interleave(width)
                reads = take_sequences(memory, each)
        state = take_sequences(state, (parents + before * running.unsqueeze(1)).flatten())
        decoder_input = chosen.view(-1, 1)
    scores = log_probs / _length_penalty(steps, decoding.length_penalty)
    places = torch.arange(log_probs.shape[1], device=device).expand_as(log_probs)
    unended = _Best(scores, log_probs, places, torch.full_like(places, steps))
    best.write(rows, of_rows.merged(unended, scores - FIRST_RANK))
    return history.results(best, steps)


def take_sequences(part: Any, rows: Tensor) -> Any:
    """Return the memory or the state of a decoder for the given sequences; see `DecoderStart`."""
    if part is None or isinstance(part, int):
        return part
    if isinstance(part, Tensor):
        return part.index_select(0, rows)
    if hasattr(part, "take"):
        return part.take(rows)
    parts = [take_sequences(each, rows) for each in part]
    return type(part)(*parts) if hasattr(part, "_fields") else tuple(parts)


def _sample(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, steps: int,
    decoding: Decoding, numbers: Sequence[int],
) -> Results:  # fmt: skip
    """Sample M results of each sequence by inversion of the distribution function. The random
    numbers of a result depend only on the seed, the number of the sequence and that of the result.
    """
    N, M, device = len(source), decoding.n_best, source.device
    temperature = decoding.temperature or 1.0
    u = torch.from_numpy(
        np.stack(
            [rng_for(decoding.seed, "decoding", MAX_SAMPLES * number + m).random_sample(steps)
             for number in numbers for m in range(M)]
        )
    ).to(device)  # fmt: skip
    start = model.begin(source, steps, source_lengths=source_lengths, with_attention=False)
    each = torch.arange(N, device=device).repeat_interleave(M)
    decoder_input, memory, state = (take_sequences(part, each) for part in start[:3])
    rows = torch.arange(N * M, device=device)
    symbols = torch.full((N * M, steps), PAD, device=device)
    log_probs = torch.zeros(N * M, dtype=torch.float64, device=device)
    for t in range(steps):
        output, _, state = model.decoder_step(decoder_input, memory, state, with_attention=False)
        logits = output.squeeze(-2)
        cumulative = log_probabilities(logits / temperature).exp().cumsum(dim=-1)
        place = u[rows, t, None] * cumulative[:, -1:]
        chosen = torch.searchsorted(cumulative, place, right=True).clamp(max=logits.shape[-1] - 1)
        symbols[rows, t] = chosen.squeeze(-1)
        log_probs[rows] += log_probabilities(logits).gather(-1, chosen).squeeze(-1)
        running = (chosen.squeeze(-1) != END).nonzero().squeeze(-1)
        if not len(running):
            break
        if len(running) < len(rows):
            rows, chosen = rows[running], chosen[running]
            memory, state = take_sequences(memory, running), take_sequences(state, running)
        decoder_input = chosen
    log_probs = log_probs.view(N, M)
    order = log_probs.argsort(dim=1, descending=True, stable=True)
    ordered = symbols.view(N, M, steps).gather(1, order.unsqueeze(-1).expand(-1, -1, steps))
    log_probs = log_probs.gather(1, order)
    return Results(ordered, log_probs, log_probs)
