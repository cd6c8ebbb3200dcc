"""Interventions on attention weights. An intervention replaces the weights in a forecast, to test
how much the forecast depends on the weights.

In shapes, N is the number of sequences, L the number of attention layers, A the number of heads, T
the number of decoder steps, S the number of source steps, and `...` an optional leading axis of
runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, assert_never

import torch
from torch import Tensor

from seqattn.errors import UsageError, counted

AttentionKind = Literal["cross", "encoder_self", "decoder_self"]
OverrideMode = Literal["uniform", "shuffled", "previous", "one_hot", "zeros"]
MODES = "uniform, shuffled, previous, one_hot:K, zeros[:LAYER[:HEAD]] or forced:FILE.json"
SEED = 0


class WeightIntervention(Protocol):
    """A function that replaces the attention weights of one forecast. For each layer, successive
    calls of the function cover successive decoder steps.

    Attributes:
        kind: the kind of attention whose weights are replaced; see `AttentionMap.kind`. A model
            leaves the other kinds as they are.
    """

    kind: AttentionKind

    def __call__(self, weights: Tensor, keep: Tensor | None, layer: int = 0) -> Tensor:
        """Return the weights (..., N, A, T, S) that replace `weights` (..., N, A, T, S).

        Args:
            weights: the model's own weights for the next T decoder steps.
            keep: a mask that broadcasts to (..., N, A, S), True at valid source steps; None if all
                steps are valid.
            layer: the index of the attention layer, counted from 0.
        """
        ...


@dataclass(frozen=True)
class Override:
    """A rule that replaces the model's own weights.

    Attributes:
        mode: `uniform` gives equal weights to all valid source steps; `shuffled` randomly permutes
            the model's own weights among the valid source steps, separately for each decoder step;
            `previous` uses the model's own weights of the previous decoder step (the first step
            keeps its own weights); `one_hot` puts all weight on one source step; `zeros` sets all
            weights of the selected layers and heads to 0, so their context is 0.
        index: the source step of `one_hot`, counted from 0.
        layer: the layer of `zeros`, counted from 0; None for all layers.
        head: the head of `zeros` in that layer, counted from 0; None for all heads.
        kind: the kind of attention to which `zeros` applies. The other modes need "cross".
    """

    mode: OverrideMode
    index: int = 0
    layer: int | None = None
    head: int | None = None
    kind: AttentionKind = "cross"

    @classmethod
    def parse(cls, text: str) -> Override:
        """Parse `uniform`, `shuffled`, `previous`, `one_hot:K`, `zeros`, `zeros:LAYER` or
        `zeros:LAYER:HEAD`, whose numbers count from 1.

        Raises:
            UsageError: if the text has a different form.
        """
        mode, *parts = text.split(":")
        if all(
            part.isascii() and part.isdigit() and len(part) < 10 and int(part) > 0 for part in parts
        ):
            match mode, [int(part) - 1 for part in parts]:
                case ("uniform" | "shuffled" | "previous" | "zeros") as known, []:
                    return cls(known)
                case "one_hot", [index]:
                    return cls("one_hot", index)
                case "zeros", [layer]:
                    return cls("zeros", layer=layer)
                case "zeros", [layer, head]:
                    return cls("zeros", layer=layer, head=head)
        raise UsageError(
            f"--attention-override {text}: expected {MODES}; K, LAYER and HEAD count from 1."
        )

    def check(self, shortest: int, shape: tuple[int, int]) -> None:
        """Check that the source step of `one_hot` exists in every source, or that the layer and the
        head of `zeros` exist in the model.

        Args:
            shortest: the length of the shortest source.
            shape: the number of layers and the number of heads; see `Seq2SeqModel.attention_shape`.

        Raises:
            UsageError: if the shortest source does not have the step, or if the model does not have
                the layer or the head.
        """
        if self.mode == "one_hot" and self.index >= shortest:
            raise UsageError(
                f"--attention-override one_hot:{self.index + 1}: the shortest source has {shortest}"
                f" points, so K must lie within 1 and {shortest}."
            )
        chosen = ":".join(str(k + 1) for k in (self.layer, self.head) if k is not None)
        for what, k, count in zip(("layer", "head"), (self.layer, self.head), shape, strict=True):
            if k is not None and k >= count:
                raise UsageError(
                    f"--attention-override zeros:{chosen}: the model has {counted(count, what)}, so"
                    f" {what.upper()} must be {'1' if count == 1 else f'within 1 and {count}'}."
                )

    def start(self) -> WeightIntervention:
        """Return a new intervention, to be applied to one forecast from the first decoder step."""
        return _OverrideIntervention(self)


@dataclass(frozen=True, eq=False)
class ForcedWeights:
    """A tensor with weights that replace some of the model's own weights.

    Attributes:
        weights: the weights (N, L, A, T, S) for a forecast of N sequences and T steps. NaN keeps
            the weight of the model. Any other number replaces the weight, without normalization. If
            all S weights of a decoder step are 0, the context is 0. A weight that is not NaN must
            be 0 at the padding of the source.
    """

    weights: Tensor

    def start(self) -> WeightIntervention:
        """Return a new intervention, to be applied to one forecast from the first decoder step."""
        return _ForcedIntervention(self.weights)


class _OverrideIntervention:
    """An `Override` that is applied to one forecast. With the mode `previous`, the intervention
    stores the previous weights of each layer."""

    def __init__(self, override: Override) -> None:
        self.override, self.kind = override, override.kind
        self.prev_weights = dict[int, Tensor]()
        self.generator = torch.Generator().manual_seed(SEED)

    def __call__(self, weights: Tensor, keep: Tensor | None, layer: int = 0) -> Tensor:
        *_, S = weights.shape
        valid = torch.ones(S, dtype=torch.bool, device=weights.device) if keep is None else keep
        valid = valid.unsqueeze(-2).expand(weights.shape)
        match self.override.mode:
            case "uniform":
                return valid.to(weights.dtype) / valid.sum(dim=-1, keepdim=True)
            case "one_hot":
                chosen = torch.arange(S, device=weights.device) == self.override.index
                return chosen.to(weights.dtype).expand(weights.shape)
            case "shuffled":
                keys = torch.rand(weights.shape, generator=self.generator).to(weights.device)
                order = keys.masked_fill(~valid, 2.0).argsort(dim=-1)  # padding stays last
                return weights.gather(-1, order)
            case "previous":
                first = self.prev_weights.get(layer, weights.narrow(-2, 0, 1))
                self.prev_weights[layer] = weights.narrow(-2, weights.shape[-2] - 1, 1)
                return torch.cat([first, weights[..., :-1, :]], dim=-2)
            case "zeros":
                return self._without_weight(weights, layer)
            case _:
                assert_never(self.override.mode)

    def _without_weight(self, weights: Tensor, layer: int) -> Tensor:
        if self.override.layer not in (None, layer):
            return weights
        if self.override.head is None:
            return torch.zeros_like(weights)
        heads = torch.arange(weights.shape[-3], device=weights.device)
        return weights.masked_fill((heads == self.override.head)[:, None, None], 0)


class _ForcedIntervention:
    """`ForcedWeights` that are applied to one forecast. The intervention counts the decoder steps
    of each layer."""

    kind: AttentionKind = "cross"

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights
        self.steps = dict[int, int]()

    def __call__(self, weights: Tensor, keep: Tensor | None, layer: int = 0) -> Tensor:
        *_, N, A, T, S = weights.shape
        first = self.steps.get(layer, 0)
        self.steps[layer] = first + T
        forced = self.weights
        if not (
            forced.dim() == 5
            and layer < forced.shape[1]
            and first + T <= forced.shape[3]
            and (forced.shape[0], forced.shape[2], forced.shape[4]) == (N, A, S)
        ):
            raise ValueError(
                f"forced weights {tuple(forced.shape)} do not fit {N} sequences, layer {layer},"
                f" {A} heads, step {first + T} and {S} source steps; expected (N, L, A, T, S)"
            )
        rows = forced[:, layer, :, first : first + T].to(weights)
        return torch.where(rows.isnan(), weights, rows)


AttentionOverride = Override | ForcedWeights
"""An object that replaces the attention weights of a model in a forecast."""
