"""The results of the checks of the contract, and the comparison of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

State = Literal["passed", "warning", "failed", "not applicable"]
TOLERANCE = 1e-11
"""Largest absolute difference between two float64 results that count as equal."""


class CheckFailedError(Exception):
    """The error of a check that found a mistake. The message of the error contains the
    measured numbers and the likely mistake.

    Attributes:
        blocks: whether other checks would only report the same mistake again.
    """

    def __init__(self, message: str, *, blocks: bool = False) -> None:
        super().__init__(message)
        self.blocks = blocks


class CheckWarningError(Exception):
    """The error of a check that found a property that is often, but not always, a mistake."""


class NotApplicableError(Exception):
    """The error of a check that does not apply. The message of the error states the reason."""


@dataclass(frozen=True)
class CheckRow:
    """The result of one check of a mechanism.

    Attributes:
        check: the name of the check.
        state: the result.
        message: measured numbers if the check passed, a description of the mistake if the check
            failed or gave a warning, or the reason why the check does not apply.
    """

    check: str
    state: State
    message: str

    def as_plain(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass(frozen=True)
class Difference:
    """The largest absolute difference between two tensors.

    Attributes:
        value: the difference. It is infinite if only one of the two values is NaN, and 0 if both
            are NaN.
        index: the index at which the tensors differ most.
    """

    value: float
    index: tuple[int, ...]

    @property
    def is_equal(self) -> bool:
        return self.value <= TOLERANCE

    def place(self, *axes: str) -> str:
        """Return the place of the difference, such as "sequence 2, step 1".

        Args:
            axes: the names of the first axes; "" for an axis that the text leaves out.
        """
        return place_of(self.index, axes)


def place_of(index: Sequence[int], axes: Sequence[str]) -> str:
    """Return an index as text, with positions counted from 1; see `Difference.place`."""
    pairs = zip(axes, index, strict=False)
    return ", ".join(f"{axis} {position + 1}" for axis, position in pairs if axis)


def tensor_difference(found: Tensor, expected: Tensor) -> Difference:
    """Return the largest difference between two tensors of the same shape."""
    if not found.numel():
        return Difference(0.0, (0,) * found.dim())
    found, expected = found.detach().double(), expected.detach().double()
    difference = (found - expected).abs()
    difference = difference.where(found != expected, 0.0)  # two equal infinities
    both_nan = found.isnan() & expected.isnan()
    difference = difference.nan_to_num(nan=torch.inf).masked_fill(both_nan, 0.0)
    index = torch.unravel_index(difference.argmax(), difference.shape)
    return Difference(float(difference.max()), tuple(int(position) for position in index))


def largest(differences: Sequence[Difference]) -> tuple[int, Difference]:
    """Return the position and the value of the largest of several differences."""
    position = max(range(len(differences)), key=lambda k: differences[k].value)
    return position, differences[position]
