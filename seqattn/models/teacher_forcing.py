"""Decoder inputs in training. The input of each step after step 0 is the previous target (teacher
forcing, Williams and Zipser 1989) or the model's own previous output, as in scheduled sampling
(Bengio et al. 2015).

The symbols in shapes are defined in `seqattn.models.base`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from seqattn.models.modality import FeatureSpec


def shift_right(
    start_token: Tensor, target: Tensor, forced_steps: Sequence[int] | None = None
) -> Tensor:
    """Return the decoder inputs of step 0 and of the teacher-forced steps: the start token,
    followed by the previous target of each teacher-forced step.

    Args:
        start_token: the start token (..., N, F).
        target: the targets (..., N, T, F).
        forced_steps: the teacher-forced steps after step 0, in ascending order; None for all steps
            after step 0.

    Returns:
        the inputs (..., N, 1 + number of forced steps, F).
    """
    first, steps = start_token.unsqueeze(-2), target.shape[-2] - 1
    if forced_steps is None or len(forced_steps) == steps:
        return torch.cat([first, target.narrow(-2, 0, steps)], dim=-2) if steps else first
    if not forced_steps:
        return first
    return torch.cat([first, target[..., [t - 1 for t in forced_steps], :]], dim=-2)


def select_decoder_input(
    teacher_forcing: Tensor, target: Tensor, output: Tensor, step: int
) -> Tensor:
    """Return the decoder input (..., N, F) of a step after step 0. For sequences with teacher
    forcing at this step, the input is the target at `step - 1`. For all other sequences, the input
    is the model's output at `step - 1`.

    Args:
        teacher_forcing: booleans that broadcast to (..., N, T); True means teacher forcing.
        target: the targets (..., N, T, F).
        output: the model's output at `step - 1`, (..., N, F).
        step: the step that receives the input, 1 or more.
    """
    forced = teacher_forcing if teacher_forcing.shape[-1] == 1 else teacher_forcing[..., step, None]
    forced = forced.to(target.device, non_blocking=True)
    return torch.where(forced, target.select(-2, step - 1), output)


def find_forced_steps(teacher_forcing: Tensor, steps: int) -> tuple[list[bool], list[bool]]:
    """Return two lists with one value per step: whether all sequences of all runs are
    teacher-forced, and whether any sequence is teacher-forced.

    The function does not read a mask on a GPU, because the CPU would have to wait for the GPU.
    Instead, it assumes that such a mask is True for some but not all sequences of each step.
    """
    if has_unknown_values(teacher_forcing):
        return [False] * steps, [True] * steps
    if teacher_forcing.dim() == 1:
        forced = teacher_forcing.tolist()
        forced = forced * steps if len(forced) == 1 else forced
        return forced, forced
    rows = teacher_forcing.flatten(0, -2)
    counts = rows.sum(dim=0).tolist() * (steps // rows.shape[-1])
    return [count == len(rows) for count in counts], [count > 0 for count in counts]


def has_unknown_values(mask: Tensor) -> bool:
    """Return whether the CPU cannot read the values of a mask without waiting for the GPU."""
    return mask.device.type != "cpu"


InputMode = Literal["forced", "free", "mixed"]


class Segment(NamedTuple):
    """A segment of decoder steps, from `first` to `last - 1`. Only the first step of a segment may
    need an output of the model as its input.

    Attributes:
        feed: the input of the first step. "forced" means the target, or the start token at step 0.
            "free" means the model's output. "mixed" means the target for some sequences and the
            model's output for the other sequences.
    """

    first: int
    last: int
    feed: InputMode


def segments(teacher_forcing: Tensor, steps: int) -> tuple[Segment, ...]:
    """Split the decoder steps into segments. Each step that needs the model's previous output as
    its input starts a new segment."""
    all_forced, any_forced = find_forced_steps(teacher_forcing, steps)
    return _segments(tuple(all_forced), tuple(any_forced))


@lru_cache(maxsize=4096)
def _segments(all_forced: tuple[bool, ...], any_forced: tuple[bool, ...]) -> tuple[Segment, ...]:
    splits = [t for t in range(1, len(all_forced)) if not all_forced[t]]
    feeds: list[InputMode] = ["forced", *("mixed" if any_forced[t] else "free" for t in splits)]
    return tuple(map(Segment, [0, *splits], [*splits, len(all_forced)], feeds))


def check_source(source: Tensor, lengths: Tensor | None, features: FeatureSpec) -> None:
    """Check the shapes of the sources (..., N, S, F) and the source lengths (..., N).

    The function checks the values of the lengths only if the lengths are on the CPU. On another
    device, the check would have to wait until the device has finished its operations.

    Raises:
        ValueError: if a shape or a length is invalid.
    """
    F = features.source_dim
    if source.dim() < 3 or source.shape[-1] != F or source.shape[-2] < 1:
        raise ValueError(
            f"source must be (..., N, S, {F}) with S >= 1, has shape {tuple(source.shape)}"
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
            raise ValueError(
                f"source_lengths must lie within 1 and {source.shape[-2]}, are {least} to {most}"
            )


def check_target(
    source: Tensor, target: Tensor, features: FeatureSpec, teacher_forcing: Tensor
) -> None:
    """Check the shape of the targets (..., N, T, F) and the type of the teacher-forcing mask.

    Raises:
        ValueError: if the shape does not fit the source and the features, or if the mask is not
            boolean.
    """
    *lead, T, F = target.shape
    if tuple(lead) != tuple(source.shape[:-2]) or features.target_dim != F or T < 1:
        raise ValueError(
            f"target must be {tuple(source.shape[:-2])} by T >= 1 by {features.target_dim},"
            f" has shape {tuple(target.shape)}"
        )
    if teacher_forcing.dtype != torch.bool:
        raise ValueError(f"teacher_forcing must be a tensor of bool, is {teacher_forcing.dtype}")


def check_steps(steps: int) -> None:
    """Check the number of steps of a forecast.

    Raises:
        ValueError: if `steps` is less than 1.
    """
    if steps < 1:
        raise ValueError(f"steps must be 1 or more, is {steps}")
