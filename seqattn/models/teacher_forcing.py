"""What a decoder is fed while it learns: the truth, or its own word, as the coins fall.

Shapes may carry leading axes of runs; letters as in `seqattn.models.base`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from seqattn.models.base import FeatureSpec


def shift_right(point: Tensor, target: Tensor, forced: Sequence[int] | None = None) -> Tensor:
    """What is fed where the truth is told: the last source point (..., N, F), then, as each step
    is told the point before it, the target (..., N, T, F) without its last.

    Args:
        forced: steps but the first, in their order; None: all.

    Returns:
        (..., N, 1 + steps told, F).
    """
    first, steps = point.unsqueeze(-2), target.shape[-2] - 1
    if forced is None or len(forced) == steps:
        return torch.cat([first, target.narrow(-2, 0, steps)], dim=-2) if steps else first
    if not forced:
        return first
    return torch.cat([first, target[..., [t - 1 for t in forced], :]], dim=-2)


def decoder_input(teacher_forcing: Tensor, target: Tensor, own: Tensor, step: int) -> Tensor:
    """What is fed at a step but the first: (..., N, F) of the target (..., N, T, F), the point
    before, where the coin says so, of the decoder's own word (..., N, F) elsewhere."""
    coins = teacher_forcing if teacher_forcing.shape[-1] == 1 else teacher_forcing[..., step, None]
    return torch.where(coins.to(target.device), target.select(-2, step - 1), own)


def forced_steps(teacher_forcing: Tensor, steps: int) -> tuple[list[bool], list[bool]]:
    """For each step: whether all sequences (of all runs) are told the truth, and whether any is."""
    if teacher_forcing.dim() == 1:
        forced = teacher_forcing.tolist()
        forced = forced * steps if len(forced) == 1 else forced
        return forced, forced
    tosses = teacher_forcing.flatten(0, -2)
    heads = tosses.sum(dim=0).tolist() * (steps // tosses.shape[-1])
    return [count == len(tosses) for count in heads], [count > 0 for count in heads]


Feed = Literal["forced", "own", "mixed"]


class Segment(NamedTuple):
    """Decoder steps `first` to `last - 1`, whose inputs are all known once the first has its own.

    Attributes:
        feed: what the first step is fed: "forced", the truth (step 0: the last source point);
            "own", the model's own output; "mixed", either, as each sequence's coin says.
    """

    first: int
    last: int
    feed: Feed


def segments(teacher_forcing: Tensor, steps: int) -> tuple[Segment, ...]:
    """The decoder's steps, cut before each that needs the output of the step before it."""
    everyone, anyone = forced_steps(teacher_forcing, steps)
    return _segments(tuple(everyone), tuple(anyone))


@lru_cache(maxsize=4096)
def _segments(everyone: tuple[bool, ...], anyone: tuple[bool, ...]) -> tuple[Segment, ...]:
    cuts = [t for t in range(1, len(everyone)) if not everyone[t]]
    feeds: list[Feed] = ["forced", *("mixed" if anyone[t] else "own" for t in cuts)]
    return tuple(map(Segment, [0, *cuts], [*cuts, len(everyone)], feeds))


def check_source(source: Tensor, lengths: Tensor | None, points: FeatureSpec) -> None:
    """Refuse shapes that cannot be meant. Values on a device are not looked at: that would wait."""
    if source.dim() < 3 or source.shape[-1] != points.given or source.shape[-2] < 1:
        raise ValueError(
            f"source must be (..., N, S, {points.given}) with S >= 1, has shape"
            f" {tuple(source.shape)}"
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


def check_target(
    source: Tensor, target: Tensor, points: FeatureSpec, teacher_forcing: Tensor
) -> None:
    """Refuse a target that does not fit its source, or coins that are none."""
    *lead, T, F = target.shape
    if tuple(lead) != tuple(source.shape[:-2]) or points.said != F or T < 1:
        raise ValueError(
            f"target must be {tuple(source.shape[:-2])} by T >= 1 by {points.said},"
            f" has shape {tuple(target.shape)}"
        )
    if teacher_forcing.dtype != torch.bool:
        raise ValueError("teacher_forcing must hold booleans, one toss of a coin each")


def check_steps(steps: int) -> None:
    """Refuse to forecast nothing."""
    if steps < 1:
        raise ValueError(f"steps must be 1 or more, is {steps}")
