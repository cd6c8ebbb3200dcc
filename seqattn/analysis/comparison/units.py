"""The units of the losses of the variants in a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqattn.analysis.comparison.result import VariantResult
from seqattn.runs.checkpoint_file import read_checkpoint

SCALE_DIGITS = 6
"""Number of digits to which scales are compared, because a fit on another machine may differ by
rounding."""


@dataclass(frozen=True)
class LossUnit:
    """The unit of test losses.

    Attributes:
        scaling, relative: the config keys `data.scaling` and `data.relative`.
        scale: the scale of each target feature, fitted to the training part, in the units of the
            data; None if it is unknown, or for `scaling: none`.
    """

    scaling: str
    relative: bool
    scale: tuple[str, ...] | None


def units_of_losses(
    variants: Sequence[VariantResult], data: Mapping[str, Mapping[str, Any]]
) -> dict[str, LossUnit]:
    """Return the unit of each variant's losses, by the name of the variant.

    The scale is unknown if no run of a variant has a checkpoint, as after the divergence of all
    seeds in the first epoch. Such a variant gets the scale of the first variant with the same
    values of `data.scaling` and `data.relative`.

    Args:
        variants: the results of the variants.
        data: the `data` section of each variant's config, by variant name.

    Raises:
        CheckpointError: if a checkpoint cannot be read.
    """
    units = dict[str, LossUnit]()
    for variant in variants:
        section = data[variant.name]
        scaling, relative = str(section.get("scaling", "none")), bool(section.get("relative"))
        scale = None if scaling == "none" else _target_scale(variant)
        units[variant.name] = LossUnit(scaling, relative, scale)
    known = {(unit.scaling, unit.relative): unit for unit in reversed(units.values()) if unit.scale}
    return {
        name: unit if unit.scale else known.get((unit.scaling, unit.relative), unit)
        for name, unit in units.items()
    }


def _target_scale(variant: VariantResult) -> tuple[str, ...] | None:
    """Return the rounded scale of each target feature of a variant's first run with a
    checkpoint."""
    for folder in variant.folders.values():
        if folder.best.is_file():
            scale = read_checkpoint(folder.best).spec.scaling.target.scale
            return tuple(f"{value:.{SCALE_DIGITS}g}" for value in np.atleast_1d(scale))
    return None
