"""A model of symbols as a practised user of torch writes it, for scripts/bench_words.py, and the
loop of a tutorial for the same model.

nn.GRU encodes packed sources in both directions, one product computes the keys, and nn.GRUCell is
called once for each step. In shapes, N is the number of sequences, S the source length, T the
number of steps, B the beam size, E the width of the embeddings, H that of the states, and V the
size of the vocabulary of the target.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

BEGIN, END = 1, 2


class PractisedWords(nn.Module):
    """A bidirectional GRU encoder and a GRU decoder with additive attention, whose context is
    concatenated with the input (Bahdanau et al. 2015).

    Args:
        source_symbols, target_symbols: sizes of the vocabularies.
        embedding: E.
        hidden: H, the width of each direction of the encoder, of the decoder and of the keys.
        merged: whether the model has the equations of seqattn's `context: input`: the states of
            both directions are projected to H, and the output is a linear map of the state. By
            default, as usual, the decoder reads states of width 2H, and a readout follows.
    """

    def __init__(
        self, source_symbols: int, target_symbols: int, embedding: int, hidden: int,
        *, merged: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        memory = hidden if merged else 2 * hidden
        self.merge = nn.Linear(2 * hidden, hidden) if merged else None
        self.source = nn.Embedding(source_symbols, embedding)
        self.target = nn.Embedding(target_symbols, embedding)
        self.encoder = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.decoder = nn.GRUCell(embedding + memory, hidden)
        self.key, self.query = nn.Linear(memory, hidden), nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.readout = None if merged else nn.Linear(3 * hidden, hidden)
        self.output = nn.Linear(hidden, target_symbols)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the encoder states (N, S, 2H or H), the keys (N, S, H), the mask (N, S) of valid
        steps and the first decoder state (N, H) of sources (N, S)."""
        packed = pack_padded_sequence(
            self.source(source), lengths, batch_first=True, enforce_sorted=False
        )
        outputs, last = self.encoder(packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True)
        if self.merge is not None:
            states = self.merge(states)
        keep = (torch.arange(states.shape[1]) < lengths.unsqueeze(-1)).to(states.device)
        return states, self.key(states), keep, self.bridge(torch.cat([*last], dim=-1)).tanh()

    def advance(
        self, symbols: Tensor, state: Tensor, states: Tensor, keys: Tensor, keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run a decoder step on embedded symbols (N, E). Return the context and the next state."""
        hidden = (self.query(state).unsqueeze(1) + keys).tanh()
        scores = self.score(hidden).squeeze(-1).masked_fill(~keep, -torch.inf)
        context = torch.bmm(scores.softmax(-1).unsqueeze(1), states).squeeze(1)
        return context, self.decoder(torch.cat([symbols, context], dim=-1), state)

    def logits(self, state: Tensor, context: Tensor) -> Tensor:
        """Return the logits (..., V) of states and contexts."""
        if self.readout is not None:
            state = self.readout(torch.cat([state, context], dim=-1)).tanh()
        logits: Tensor = self.output(state)
        return logits

    def step(
        self, symbols: Tensor, state: Tensor, states: Tensor, keys: Tensor, keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run a decoder step. Return the logits (N, V) and the next state (N, H)."""
        context, state = self.advance(self.target(symbols), state, states, keys, keep)
        return self.logits(state, context), state

    def loss(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross-entropy of the targets (N, T), whose padding is 0. The keys, the
        readout, the output layer and the loss are computed for all steps at once."""
        states, keys, keep, state = self.encode(source, lengths)
        read = torch.cat([torch.full_like(target[:, :1], BEGIN), target[:, :-1]], dim=1)
        embedded, found = self.target(read), list[tuple[Tensor, Tensor]]()
        for t in range(target.shape[1]):
            context, state = self.advance(embedded[:, t], state, states, keys, keep)
            found.append((state, context))
        states_of_steps, contexts = (torch.stack(one, dim=1) for one in zip(*found, strict=True))
        logits = self.logits(states_of_steps, contexts).flatten(0, 1)
        return nn.functional.cross_entropy(logits, target.flatten(), ignore_index=0)

    def tutorial_loss(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        """Return `loss` as a tutorial's loop computes it: keys, output layer and loss in each
        step."""
        states, _, keep, state = self.encode(source, lengths)
        symbols, total = torch.full_like(target[:, 0], BEGIN), states.new_zeros(())
        for t in range(target.shape[1]):
            logits, state = self.step(symbols, state, states, self.key(states), keep)
            total = total + nn.functional.cross_entropy(
                logits, target[:, t], ignore_index=0, reduction="sum"
            )
            symbols = target[:, t]
        return total / (target > 0).sum()

    @torch.inference_mode()
    def greedy(self, source: Tensor, lengths: Tensor, steps: int, ends: Tensor) -> Tensor:
        """Return the most probable symbols (N, up to `steps`). Sequence n ends at step `ends[n]`,
        whatever its logits are."""
        states, keys, keep, state = self.encode(source, lengths)
        symbols, found = torch.full((len(source),), BEGIN), list[Tensor]()
        ended = torch.zeros(len(source), dtype=torch.bool)
        for t in range(steps):
            logits, state = self.step(symbols, state, states, keys, keep)
            symbols = with_end(logits, ends <= t).argmax(dim=-1)
            found.append(symbols)
            ended |= symbols == END
            if ended.all():
                break
        return torch.stack(found, dim=1)

    @torch.inference_mode()
    def beam(self, source: Tensor, lengths: Tensor, steps: int, ends: Tensor, B: int) -> Tensor:
        """Return the symbols (N, up to `steps`) of the best of B beams; see `greedy`."""
        N = len(source)
        states, keys, keep, state = (
            one.repeat_interleave(B, 0) for one in self.encode(source, lengths)
        )
        ends = ends.repeat_interleave(B)
        symbols, ended = torch.full((N * B,), BEGIN), torch.zeros(N * B, dtype=torch.bool)
        scores = torch.full((N, B), -torch.inf)
        scores[:, 0] = 0
        found = torch.zeros((N * B, 0), dtype=torch.long)
        for t in range(steps):
            logits, state = self.step(symbols, state, states, keys, keep)
            gained = with_end(logits, ends <= t).log_softmax(dim=-1)
            V = gained.shape[-1]
            gained[ended] = -torch.inf
            gained[ended, END] = 0
            scores, index = (scores.unsqueeze(-1) + gained.view(N, B, V)).flatten(1).topk(B)
            rows = (index // V + B * torch.arange(N).unsqueeze(1)).flatten()
            symbols = (index % V).flatten()
            state = state[rows]
            found = torch.cat([found[rows], symbols.unsqueeze(1)], dim=1)
            ended = ended[rows] | (symbols == END)
            if ended.all():
                break
        return found.view(N, B, -1)[:, 0]


def with_end(logits: Tensor, ends: Tensor) -> Tensor:
    """Make the end certain for the sequences (N,) that end, and impossible for the others. The
    padding and the begin are impossible for all."""
    logits = logits.clone()
    logits[:, :END] = -torch.inf
    logits[:, END] += torch.where(ends, 40.0, -40.0)
    return logits
