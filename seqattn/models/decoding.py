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
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqattn.data.tokens import BEGIN, END, PAD
from seqattn.errors import UsageError
from seqattn.models.base import ModelOutput, Seq2SeqModel
from seqattn.rng import rng_for

FIRST_RANK = 1e9
"""Subtracted from the scores of results without an end, so that they are only used if there are
fewer ended results than asked for."""
MIN_TEMPERATURE = 1e-3
"""Smallest temperature of sampling."""
MAX_SAMPLES = 1000
"""Largest number of samples of a sequence."""


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
    """Find the outputs of N sequences.

    Args:
        model: the model of a single run.
        source: (N, S, F) sources.
        source_lengths: (N,) number of valid steps of each source; None if all steps are valid.
        steps: T, the largest number of decoder steps.
        decoding: how to find them.
        first: number of the first sequence among all sequences, from which the random numbers of
            samples are drawn.

    Raises:
        UsageError: if the steps of the targets are not symbols.
    """
    if not model.features.target_symbols:
        raise UsageError(
            "Beam search and sampling need targets of symbols; those of this model are vectors."
        )
    if decoding.is_greedy:
        return _read_greedily(model, source, source_lengths, steps)
    if decoding.temperature is not None:
        return _sample(model, source, source_lengths, steps, decoding, first)
    return _beam_search(model, source, source_lengths, steps, decoding)


@torch.inference_mode()
def _read_greedily(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, steps: int
) -> Results:
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


@torch.inference_mode()
def _beam_search(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, steps: int,
    decoding: Decoding,
) -> Results:  # fmt: skip
    N, B, M, device = len(source), decoding.beam, decoding.n_best, source.device
    repeated = [None if x is None else x.repeat_interleave(B, 0) for x in (source, source_lengths)]
    assert repeated[0] is not None
    start = model.begin(repeated[0], steps, source_lengths=repeated[1], with_attention=False)
    decoder_input, state = start.decoder_input, start.state
    log_probs = torch.full((N, B), -torch.inf, dtype=torch.float64, device=device)
    log_probs[:, 0] = 0  # all beams begin alike, so only one of them counts
    symbols = torch.full((N, B, steps), PAD, device=device)
    best = Results(
        torch.full((N, M, steps), PAD, device=device),
        log_probs.new_full((N, M), -torch.inf), log_probs.new_full((N, M), -torch.inf),
    )  # fmt: skip
    for t in range(steps):
        output, _, state = model.decoder_step(
            decoder_input, start.memory, state, with_attention=False
        )
        next_symbol = log_probabilities(output.squeeze(-2)).view(N, B, -1)
        V = next_symbol.shape[-1]
        # Each beam has one continuation that ends, so 2B candidates contain B that do not.
        found, index = (log_probs.unsqueeze(-1) + next_symbol).flatten(1).topk(min(2 * B, B * V))
        parents, chosen = index // V, index % V
        candidates = symbols.gather(1, parents.unsqueeze(-1).expand(-1, -1, steps))
        candidates[..., t] = chosen
        ended = found.masked_fill(chosen != END, -torch.inf)
        scores = ended / _length_penalty(t + 1, decoding.length_penalty)
        best = _merge(best, Results(candidates, ended, scores), scores)
        log_probs, places = found.masked_fill(chosen == END, -torch.inf).topk(B)
        symbols = candidates.gather(1, places.unsqueeze(-1).expand(-1, -1, steps))
        # A log-probability never rises, and the longest result has the largest divisor.
        bound = log_probs[:, 0] / _length_penalty(steps, decoding.length_penalty)
        if (best.scores[:, -1] >= bound).all():
            return best
        rows = parents.gather(1, places) + B * torch.arange(N, device=device).unsqueeze(1)
        state = _select_rows(state, rows.flatten())
        decoder_input = symbols[..., t].view(N * B, 1)
    scores = log_probs / _length_penalty(steps, decoding.length_penalty)
    return _merge(best, Results(symbols, log_probs, scores), scores - FIRST_RANK)


def _merge(best: Results, more: Results, ranks: Tensor) -> Results:
    """Return the M best of the results so far and of more results with the given ranks."""
    M, steps = best.symbols.shape[1:]
    _, kept = torch.cat([best.scores, ranks], dim=1).topk(M)
    return Results(
        torch.cat([best.symbols, more.symbols], dim=1).gather(
            1, kept.unsqueeze(-1).expand(-1, -1, steps)
        ),
        torch.cat([best.log_probs, more.log_probs], dim=1).gather(1, kept),
        torch.cat([best.scores, more.scores], dim=1).gather(1, kept),
    )


def _select_rows(state: Any, rows: Tensor) -> Any:
    """Return a decoder state whose sequences are the given rows; see `DecoderStart.state`."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state.index_select(0, rows)
    parts = [_select_rows(part, rows) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


@torch.inference_mode()
def _sample(
    model: Seq2SeqModel, source: Tensor, source_lengths: Tensor | None, steps: int,
    decoding: Decoding, first: int,
) -> Results:  # fmt: skip
    """Sample M results of each sequence by inversion of the distribution function. The random
    numbers of a result depend only on the seed, the number of the sequence and that of the result.
    """
    N, M, device = len(source), decoding.n_best, source.device
    temperature = decoding.temperature or 1.0
    u = torch.from_numpy(
        np.stack(
            [rng_for(decoding.seed, "decoding", MAX_SAMPLES * (first + k) + m).random_sample(steps)
             for k in range(N) for m in range(M)]
        )
    ).to(device).view(N * M, steps)  # fmt: skip
    repeated = [None if x is None else x.repeat_interleave(M, 0) for x in (source, source_lengths)]
    assert repeated[0] is not None
    start = model.begin(repeated[0], steps, source_lengths=repeated[1], with_attention=False)
    decoder_input, state = start.decoder_input, start.state
    symbols = torch.full((N * M, steps), PAD, device=device)
    log_probs = torch.zeros(N * M, dtype=torch.float64, device=device)
    running = torch.ones(N * M, dtype=torch.bool, device=device)
    for t in range(steps):
        output, _, state = model.decoder_step(
            decoder_input, start.memory, state, with_attention=False
        )
        logits = output.squeeze(-2)
        cumulative = log_probabilities(logits / temperature).exp().cumsum(dim=-1)
        place = u[:, t, None] * cumulative[:, -1:]
        chosen = torch.searchsorted(cumulative, place, right=True).clamp(max=logits.shape[-1] - 1)
        gained = log_probabilities(logits).gather(-1, chosen).squeeze(-1)
        log_probs += gained.where(running, 0)
        symbols[:, t] = chosen.squeeze(-1).where(running, PAD)
        running = running & (chosen.squeeze(-1) != END)
        decoder_input = chosen
        if not running.any():
            break
    log_probs = log_probs.view(N, M)
    order = log_probs.argsort(dim=1, descending=True, stable=True)
    ordered = symbols.view(N, M, steps).gather(1, order.unsqueeze(-1).expand(-1, -1, steps))
    log_probs = log_probs.gather(1, order)
    return Results(ordered, log_probs, log_probs)
