"""A trained model in two parts that can become graphs: read a source, and make one step.

A graph takes and gives tensors with names, and nothing else: no None, no objects, no Python left
to run. It works on one run (no leading axis R), always takes lengths, and speaks the user's units.
What depends on the source alone is its *memory*; what a step hands to the next is its *state*.

Letters: N sequences, S source length, T target length, F features, H width of the state, A heads,
t steps made so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from seqattn.data import Scaling
from seqattn.data.instance import ROUNDING
from seqattn.models import (
    AttentionKind,
    FastWeightsModel,
    RecurrentModel,
    Seq2SeqModel,
    TransformerModel,
)
from seqattn.models.attention import Memory
from seqattn.models.cells import Cell, last_valid
from seqattn.models.fast_weights import StateMemory
from seqattn.models.recurrent import State
from seqattn.models.transformer import KVCache, LearnedPositionalEmbedding

Named = dict[str, Tensor]
OFFSET, SCALE = "offset", "scale"
"""Own shift and scale of each sequence's target."""
POINT, NEXT = "point", "next_"
WEIGHTS: dict[AttentionKind, str] = {
    "cross": "weights",
    "encoder_self": "encoder_self",
    "decoder_self": "decoder_self",
}
"""What the weights of a kind are called, here as in attention.npz."""


@dataclass(frozen=True)
class Begun:
    """What is known when the source has been read.

    Attributes:
        point: (N, F) what the first step is fed.
        memory, state: see the module's docstring; every tensor begins with N.
        maps: the source's own, (N, layers, A, S, S).
    """

    point: Tensor
    memory: Named
    state: Named
    maps: Named


@dataclass(frozen=True)
class Made:
    """What came of a step.

    Attributes:
        point: (N, F) what it says.
        state: with the names of the state before.
        maps: one row of each kind of weights, (N, layers, A, S or t).
    """

    point: Tensor
    state: Named
    maps: Named


class Parts(ABC):
    """A model in the two parts that graphs are made of; all in the model's own units."""

    growing: frozenset[str] = frozenset()
    """State that is a step longer after each step, along its axis -2, from nothing."""

    @abstractmethod
    def begin(self, source: Tensor, lengths: Tensor) -> Begun:
        """Read sources (N, S, F) of lengths (N,)."""

    @abstractmethod
    def step(self, point: Tensor, memory: Named, state: Named) -> Made:
        """One step, fed a point (N, F)."""


# --- the families ---------------------------------------------------------------------------------


class RecurrentParts(Parts):
    """The recurrent encoder-decoder. Its cells read by `scanned`."""

    def __init__(self, model: RecurrentModel) -> None:
        self.model = model
        for module in model.modules():
            if isinstance(module, Cell):
                module.reading = scanned

    def begin(self, source: Tensor, lengths: Tensor) -> Begun:
        model = self.model
        encoded = model.encode(source, lengths)
        N, _ = encoded.point.shape
        memory, state = Named(), Named()
        for layer, cell in enumerate(encoded.state.cells):
            state[f"cell_{layer}"] = cell
        if model.feeds_input:
            state["fed"] = source.new_zeros(N, model.hidden)
        if model.attention is not None and encoded.memory is not None:
            kept = encoded.memory
            assert kept.keep is not None
            memory = {"keys": kept.keys, "values": kept.values, "keep": kept.keep}
            if model.attention.location is not None:
                *lead, S, _ = kept.keys.shape
                start = model.attention.location.start(kept.keep, source.new_zeros(*lead, 1, S))
                if start is not None:
                    state["last"] = start.clone()
        return Begun(encoded.point, memory, state, {})

    def step(self, point: Tensor, memory: Named, state: Named) -> Made:
        cells = tuple(state[f"cell_{layer}"] for layer in range(1 + len(self.model.decoder_above)))
        before = State(cells, state.get("fed"), state.get("last"))
        kept = None
        if self.model.attention is not None:
            kept = Memory(memory["keys"], memory["values"], memory["keep"])
        said, look, after = self.model.step(point, before, kept)
        new = {f"cell_{layer}": cell for layer, cell in enumerate(after.cells)}
        new |= {name: rows for name, rows in (("fed", after.fed), ("last", after.last))
                if rows is not None}  # fmt: skip
        maps = Named()
        if look is not None:
            weights = look.weights.squeeze(-2)  # (N, [A,] S)
            maps["weights"] = weights.unsqueeze(1) if weights.dim() == 3 else weights[:, None, None]
        return Made(said.squeeze(-2), new, maps)


class FastWeightsParts(Parts):
    """Fast weights, remembered as the states that were written, in the order of the library's own
    sums: an inner loop of layer norms makes much of little differences."""

    growing = frozenset({"written", "written_factors"})

    def __init__(self, model: FastWeightsModel) -> None:
        self.model = model

    def begin(self, source: Tensor, lengths: Tensor) -> Begun:
        model = self.model
        N, S, _ = source.shape
        steps = torch.arange(S, device=source.device)
        keep = steps < lengths.unsqueeze(-1)
        source = source.masked_fill(~keep.unsqueeze(-1), 0)

        def read(before: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], Tensor]:
            (state, states, factors, point), (projected, here, real, step) = before, now
            held = projected + model.encoder_state(state)
            new, _ = model.settle(held, StateMemory(states, factors), model.encoder_norm)
            written = StateMemory(states, factors).write(new, real, model.decay, model.rate)
            at = steps == step  # a place for each state is there from the start
            states = written.states[:, -1:].where(at.unsqueeze(-1), states)
            factors = written.factors[:, -1:].where(at, written.factors[:, :-1])
            state = new.where(real.unsqueeze(-1), state)
            point = here.where(real.unsqueeze(-1), point)
            return [state, states, factors, point], new.clone()

        start = [source.new_zeros(N, model.hidden), source.new_zeros(N, S, model.hidden),
                 source.new_zeros(N, S), torch.zeros_like(source[:, 0])]  # fmt: skip
        rows = [model.encoder_input(source).transpose(0, 1), source.transpose(0, 1), keep.mT, steps]
        (state, states, factors, point), _ = _scan(read, start, rows)
        carried = {
            "hidden": state, "factors": factors,
            "written": states[:, :0].clone(), "written_factors": states[:, :0, :1].clone(),
        }  # fmt: skip
        return Begun(model.points.start_token(point), {"states": states}, carried, {})

    def step(self, point: Tensor, memory: Named, state: Named) -> Made:
        _, S, _ = memory["states"].shape
        past = StateMemory(
            torch.cat([memory["states"], state["written"]], dim=-2),
            torch.cat([state["factors"], state["written_factors"].squeeze(-1)], dim=-1),
        )
        said, hidden, strengths, after = self.model.step(
            self.model.decoder_input(point), state["hidden"], past
        )
        assert isinstance(after, StateMemory) and strengths is not None
        new = {
            "hidden": hidden, "factors": after.factors[:, :S],
            "written": after.states[:, S:], "written_factors": after.factors[:, S:].unsqueeze(-1),
        }  # fmt: skip
        return Made(said, new, {"weights": strengths[:, None, None, :S]})


class TransformerParts(Parts):
    """The Transformer. Its state is the keys and values of the steps made, none at first."""

    def __init__(self, model: TransformerModel, longest: int) -> None:
        self.model = model
        self.layers = range(len(model.decoder))
        for module in model.modules():
            if isinstance(module, LearnedPositionalEmbedding) and module.longest < longest:
                # No source is as long as the examples: what they meet there is no number.
                none = module.weight.new_full((longest - module.longest, model.width), torch.nan)
                module.weight = nn.Parameter(torch.cat([module.weight, none]))
                module.longest = longest
        self.growing = frozenset(
            f"{what}_{layer}" for layer in self.layers for what in ("target_keys", "target_values")
        )

    def begin(self, source: Tensor, lengths: Tensor) -> Begun:
        encoded = self.model.encode(source, lengths, with_weights=True)
        assert encoded.keep is not None
        memory: Named = {"keep": encoded.keep}
        state = Named()
        for layer, (keys, values) in enumerate(encoded.memory):
            memory |= {f"keys_{layer}": keys, f"values_{layer}": values}
            none = keys[..., :0, :].clone()
            state |= {f"target_keys_{layer}": none, f"target_values_{layer}": none.clone()}
        maps = {"encoder_self": torch.stack(encoded.weights, dim=1)}
        return Begun(encoded.point, memory, state, maps)

    def step(self, point: Tensor, memory: Named, state: Named) -> Made:
        known = [KVCache(memory[f"keys_{k}"], memory[f"values_{k}"]) for k in self.layers]
        caches = [
            KVCache(state[f"target_keys_{k}"], state[f"target_values_{k}"]) for k in self.layers
        ]
        said, back, over, after = self.model.step(
            point, known, memory["keep"], caches, with_weights=True
        )
        new = Named()
        for layer, (keys, values) in enumerate(after):
            new |= {f"target_keys_{layer}": keys, f"target_values_{layer}": values}
        maps = {"weights": torch.stack(over, dim=1).squeeze(-2),
                "decoder_self": torch.stack(back, dim=1).squeeze(-2)}  # fmt: skip
        return Made(said, new, maps)


def parts_of(model: Seq2SeqModel, longest: int) -> Parts:
    """The two parts of a model, which is changed: it can no longer be trained.

    Args:
        longest: points of the longest example that it will be traced with.

    Raises:
        TypeError: a family that has no parts here.
    """
    match model:
        case RecurrentModel():
            return RecurrentParts(model)
        case FastWeightsModel():
            return FastWeightsParts(model)
        case TransformerModel():
            return TransformerParts(model, longest)
        case _:
            raise TypeError(f"{type(model).__name__} has no graphs")


def scanned(cell: Cell, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Whole sequences (N, L, inputs) in a loop that a graph keeps as a loop; see `Cell.reading`."""
    N, _, _ = inputs.shape
    projected = cell.project(inputs).transpose(0, 1)
    weight, bias, kernel = cell.weight_hh, cell.bias_hh, cell.eager_step()

    def read(before: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        state = kernel(now[0], before[0], weight, bias)
        # The loop compares strides, and those of a width of 1 are anything.
        return [state.clone(memory_format=torch.contiguous_format)], state.clone()

    start = [inputs.new_zeros(N, cell.parts * cell.hidden)]
    (last,), states = _scan(read, start, [projected])
    return states.transpose(0, 1), last


def _scan(
    step: Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], Tensor]],
    start: list[Tensor],
    rows: list[Tensor],
) -> tuple[list[Tensor], Tensor]:
    """The state after the last row, and what each step gave, (L, ...)."""
    from torch._higher_order_ops.scan import scan

    last, each = scan(step, start, rows, dim=0)
    return cast(list[Tensor], last), cast(Tensor, each)


# --- the graphs -----------------------------------------------------------------------------------


class Units(nn.Module):
    """From the user's units, in float64, to the model's, in float32, and back."""

    source_shift: Tensor
    source_scale: Tensor
    target_shift: Tensor
    target_scale: Tensor

    def __init__(self, scaling: Scaling) -> None:
        super().__init__()
        for side, scaler in (("source", scaling.source), ("target", scaling.target)):
            self.register_buffer(f"{side}_shift", torch.from_numpy(scaler.shift.copy()))
            self.register_buffer(f"{side}_scale", torch.from_numpy(scaler.scale.copy()))
        self.carried = list(scaling.source_index_of_target)
        self.relative, self.instance = scaling.relative, scaling.instance

    def given(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Named]:
        """Source (N, S, F) in the model's units, padding 0; and the own shift and scale of each
        sequence's target, (N, F). See `Scaling.sequence_scalers`."""
        _, S, _ = source.shape
        keep = torch.arange(S, device=source.device) < lengths.unsqueeze(-1)
        source = source.masked_fill(~keep.unsqueeze(-1), 0)
        shift, scale = torch.zeros_like(source[:, 0]), torch.ones_like(source[:, 0])
        if self.relative:
            shift = last_valid(source, lengths)
        elif self.instance:
            shift, scale = self._statistics(source, lengths, keep.unsqueeze(-1))
        source = (source - shift.unsqueeze(1)) / scale.unsqueeze(1)
        scaled = (source - self.source_shift) / self.source_scale
        own = {
            name: torch.cat([values, torch.full_like(values[:, :1], none)], dim=-1)[:, self.carried]
            for name, values, none in ((OFFSET, shift, 0.0), (SCALE, scale, 1.0))
        }
        return scaled.float().masked_fill(~keep.unsqueeze(-1), 0), own

    def _statistics(self, source: Tensor, lengths: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Own shift and scale (N, F) of sources (N, S, F), whose real points `keep` (N, S, 1)
        tells; the arithmetic of `InstanceStatistics`."""
        low = source.masked_fill(~keep, torch.inf).amin(dim=1)
        high = source.masked_fill(~keep, -torch.inf).amax(dim=1)
        constant = high - low <= ROUNDING * torch.maximum(low.abs(), high.abs())
        spread = (high - low).masked_fill(constant, 1)
        unit = ((source - low.unsqueeze(1)) / spread.unsqueeze(1)).masked_fill(~keep, 0)
        n = lengths.unsqueeze(-1).to(source.dtype)
        mean = unit.sum(dim=1) / n
        squares = (unit - mean.unsqueeze(1)).square().masked_fill(~keep, 0)
        std = spread * (squares.sum(dim=1) / n).sqrt()
        return low + spread * mean, (std / self.source_scale).masked_fill(constant, 1)

    def fed(self, point: Tensor, own: Named) -> Tensor:
        """A target's point (N, F) in the model's units."""
        point = (point - own[OFFSET]) / own[SCALE]
        return ((point - self.target_shift) / self.target_scale).float()

    def said(self, point: Tensor, own: Named) -> Tensor:
        """A point that the model says, (N, F), in the user's units."""
        point = point.double() * self.target_scale + self.target_shift
        return point * own[SCALE] + own[OFFSET]


class Graph(nn.Module, ABC):
    """The interface of every graph: named tensors in, named tensors out, in this order."""

    def __init__(self, model: Seq2SeqModel, parts: Parts, scaling: Scaling) -> None:
        super().__init__()
        self.model, self.parts, self.units = model, parts, Units(scaling)

    @abstractmethod
    def outputs(self, inputs: Named) -> Named:
        """What comes out of what goes in."""

    def forward(self, inputs: Named) -> Named:
        return self.outputs(inputs)


class EncoderGraph(Graph):
    """source (N, S, F) and source_lengths (N,) -> what the first step takes, and `encoder_self`
    where the source looks at itself."""

    def outputs(self, inputs: Named) -> Named:
        lengths = inputs["source_lengths"]
        scaled, own = self.units.given(inputs["source"], lengths)
        begun = self.parts.begin(scaled, lengths)
        point = self.units.said(begun.point, own)
        return {POINT: point, **own, **begun.memory, **begun.state, **begun.maps}


class StepGraph(Graph):
    """A point, memory and state -> next_point, the weights of this step, and the next state."""

    def outputs(self, inputs: Named) -> Named:
        fed = self.units.fed(inputs[POINT], inputs)
        made = self.parts.step(fed, inputs, inputs)
        state = {NEXT + name: rows for name, rows in made.state.items()}
        return {NEXT + POINT: self.units.said(made.point, inputs), **made.maps, **state}
