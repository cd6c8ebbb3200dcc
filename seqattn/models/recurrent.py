"""The GRU encoder-decoder, with attention or without.

Letters: N sequences, S source length, T target length, F features, H width of the state; any
leading axes of runs. The encoder reads the source into states (N, S, H). The decoder starts
from the state at the last real source point, is fed that point first, and then says one point
a step.

`context: output` (Luong et al. 2015, section 3): the new state h_t asks, and output and context
make the point, W [c_t; h_t] + b. `context: input` (Bahdanau et al. 2015, section 3.1): the
previous state h_{t-1} asks, and the context joins the input of the next state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqattn.attention import Attention, Memory, build_attention, weighted_sum
from seqattn.config import Recurrent
from seqattn.layers import GRU, Affine
from seqattn.models.contract import AttentionMap, Forecast, SequenceModel


@dataclass(frozen=True)
class Encoded:
    """What the decoder starts from.

    Attributes:
        memory: what it can look at; None without attention.
        hidden: (..., N, H) the encoder's state at the last real source point.
        point: (..., N, F) that point.
    """

    memory: Memory | None
    hidden: Tensor
    point: Tensor


class RecurrentModel(SequenceModel):
    """See the module's docstring for the equations."""

    def __init__(self, config: Recurrent, features: int) -> None:
        super().__init__()
        H = config.hidden_dim
        attended = config.attention is not None
        self.features = features
        self.context_is_input = attended and config.context == "input"
        self.context_is_output = attended and config.context == "output"
        self.encoder = GRU(features, H)
        self.decoder = GRU(features + (H if self.context_is_input else 0), H)
        self.attention: Attention | None = (
            build_attention(config.attention, H) if config.attention is not None else None
        )
        self.output = Affine(H + (H if self.context_is_output else 0), features)

    def encode(self, source: Tensor, source_lengths: Tensor | None) -> Encoded:
        """Read the source. Padding is never read: not its points, states or weights."""
        *_, S, _ = source.shape
        keep = None
        if source_lengths is not None:
            keep = torch.arange(S, device=source.device) < source_lengths.unsqueeze(-1)
            source = source.masked_fill(~keep.unsqueeze(-1), 0)  # so no NaN there can spread
        states, last = self.encoder.run(self.encoder.project_steps(source))
        memory = None if self.attention is None else self.attention.remember(states, keep)
        if source_lengths is None:
            return Encoded(memory, last, source.select(-2, -1))
        return Encoded(
            memory, _last_real(states, source_lengths), _last_real(source, source_lengths)
        )

    def step(
        self, point: Tensor, hidden: Tensor, memory: Memory | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """One step of the decoder.

        Args:
            point: (..., N, F) what it is fed.
            hidden: (..., N, H) its previous state.
            memory: from `encode`.

        Returns:
            the point it says (..., N, F), its new state (..., N, H), and its attention weights
            (..., N, S) or None.
        """
        hidden, looked = self._next_state(self.decoder.project(point), hidden, memory)
        if self.context_is_output:
            values, weights = self._say(hidden.unsqueeze(-2), memory)
            assert weights is not None
            return values.squeeze(-2), hidden, weights.squeeze(-2)
        return self.output(hidden), hidden, looked

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None,
        teacher_forcing: Tensor,
        with_attention: bool = True,
    ) -> Forecast:
        _check(source, source_lengths, self.features)
        *lead, T, F = target.shape
        if tuple(lead) != tuple(source.shape[:-2]) or self.features != F or T < 1:
            raise ValueError(
                f"target must be {tuple(source.shape[:-2])} by T >= 1 by {self.features},"
                f" has shape {tuple(target.shape)}"
            )
        if teacher_forcing.dtype != torch.bool:
            raise ValueError("teacher_forcing must hold booleans, one toss of a coin each")
        start = self.encode(source, source_lengths)
        # What the decoder is fed when it is told the truth.
        truth = torch.cat([start.point.unsqueeze(-2), target.narrow(-2, 0, T - 1)], dim=-2)
        everyone, anyone = who_is_told(teacher_forcing, T)
        own = [t for t in range(1, T) if not everyone[t]]  # steps that need the decoder's own word
        told = [t for t in range(T) if t == 0 or everyone[t]]  # all others, projected at once
        known = truth if not own else truth[..., told, :]
        steps = dict(zip(told, self.decoder.project_steps(known), strict=True))

        hidden, values, weights = start.hidden, list[Tensor](), list[Tensor]()
        for first, last in zip([0, *own], [*own, T], strict=True):
            # Between two own steps every input is known: one stretch, one attention, one output.
            if first > 0:
                fed = values[-1].select(-2, -1)
                if anyone[first]:
                    coins = teacher_forcing.expand(*lead, T)[..., first, None].to(source.device)
                    fed = torch.where(coins, truth[..., first, :], fed)
                steps[first] = self.decoder.project(fed)
            stretch = [steps[t] for t in range(first, last)]
            said, looked, hidden = self._decode(stretch, hidden, start.memory)
            values.append(said)
            if with_attention and looked is not None:
                weights.append(looked)
        return _forecast(values, weights)

    def forecast(
        self,
        source: Tensor,
        steps: int,
        *,
        source_lengths: Tensor | None = None,
        with_attention: bool = True,
    ) -> Forecast:
        _check(source, source_lengths, self.features)
        if steps < 1:
            raise ValueError(f"steps must be 1 or more, is {steps}")
        start = self.encode(source, source_lengths)
        point, hidden = start.point, start.hidden
        values, weights = list[Tensor](), list[Tensor]()
        for _ in range(steps):
            point, hidden, looked = self.step(point, hidden, start.memory)
            values.append(point.unsqueeze(-2))
            if with_attention and looked is not None:
                weights.append(looked.unsqueeze(-2))
        return _forecast(values, weights)

    def _decode(
        self, projected: list[Tensor], hidden: Tensor, memory: Memory | None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """A stretch of L known inputs (..., N, 3H): values (..., N, L, F), weights, last state."""
        if not self.context_is_input:
            states, last = self.decoder.run(projected, hidden)
            values, weights = self._say(states, memory)
            return values, weights, last
        hiddens, looked = list[Tensor](), list[Tensor]()
        for step in projected:
            hidden, weights_here = self._next_state(step, hidden, memory)
            assert weights_here is not None
            hiddens.append(hidden)
            looked.append(weights_here)
        values = self.output(torch.stack(hiddens, dim=-2))
        return values, torch.stack(looked, dim=-2), hidden

    def _next_state(
        self, projected: Tensor, hidden: Tensor, memory: Memory | None
    ) -> tuple[Tensor, Tensor | None]:
        """The new state, and (`context: input`) where the old one looked, (..., N, S)."""
        if not self.context_is_input:
            return self.decoder.step(projected, hidden), None
        assert self.attention is not None and memory is not None
        weights = self.attention.weigh(hidden.unsqueeze(-2), memory)
        context = weighted_sum(weights, memory.values).squeeze(-2)
        joined = projected + self.decoder.project_context(context)
        return self.decoder.step(joined, hidden), weights.squeeze(-2)

    def _say(self, states: Tensor, memory: Memory | None) -> tuple[Tensor, Tensor | None]:
        """Points (..., N, L, F) from states (..., N, L, H), with the weights that made them."""
        if not self.context_is_output:
            return self.output(states), None
        assert self.attention is not None and memory is not None
        weights = self.attention.weigh(states, memory)
        context = weighted_sum(weights, memory.values)
        return self.output(torch.cat([context, states], dim=-1)), weights


def _forecast(values: list[Tensor], weights: list[Tensor]) -> Forecast:
    if not weights:
        return Forecast(_joined(values))
    return Forecast(_joined(values), (AttentionMap(_joined(weights).unsqueeze(-3)),))


def _joined(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-2)


def who_is_told(teacher_forcing: Tensor, steps: int) -> tuple[list[bool], list[bool]]:
    """For each step: whether all sequences (of all runs) are told the truth, and whether any is."""
    if teacher_forcing.dim() == 1:
        told = teacher_forcing.tolist()
        told = told * steps if len(told) == 1 else told
        return told, told
    tosses = teacher_forcing.flatten(0, -2)
    heads = tosses.sum(dim=0).tolist() * (steps // tosses.shape[-1])
    return [count == len(tosses) for count in heads], [count > 0 for count in heads]


def _last_real(points: Tensor, lengths: Tensor) -> Tensor:
    """The last real row of each sequence: (..., N, L, W) -> (..., N, W)."""
    place = (lengths - 1)[..., None, None]
    return torch.take_along_dim(points, place, dim=-2).squeeze(-2)


def _check(source: Tensor, lengths: Tensor | None, features: int) -> None:
    """Refuse shapes that cannot be meant. Values on a device are not looked at: that would wait."""
    if source.dim() < 3 or source.shape[-1] != features or source.shape[-2] < 1:
        raise ValueError(
            f"source must be (..., N, S, {features}) with S >= 1, has shape {tuple(source.shape)}"
        )
    if lengths is None:
        return
    if lengths.shape != source.shape[:-2]:
        raise ValueError(
            f"source_lengths must be {tuple(source.shape[:-2])}, has shape {tuple(lengths.shape)}"
        )
    if lengths.device.type == "cpu" and lengths.numel():
        least, most = (int(bound) for bound in lengths.aminmax())
        if least < 1 or most > source.shape[-2]:
            raise ValueError(f"source_lengths must lie within 1 and {source.shape[-2]}")
