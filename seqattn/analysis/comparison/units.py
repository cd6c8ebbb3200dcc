"""The units of the losses of the variants in a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seqattn.analysis.comparison.result import VariantResult
from seqattn.runs.checkpoint_file import read_checkpoint

SCALE_DIGITS = 6
"""Number of digits to which scales are compared, because a fit on another machine may differ by
rounding."""


Features = tuple[tuple[str, str], ...]
"""The name and the unit of each target feature; "" for a feature without a unit."""


@dataclass(frozen=True)
class LossUnit:
    """The unit of test losses.

    Attributes:
        scaling, relative: the config keys `data.scaling` and `data.relative`.
        features: the target features; None if they are unknown.
        scale: the scale of each target feature, fitted to the training part, in the units of the
            data; None if it is unknown, or for `scaling: none`.
    """

    scaling: str
    relative: bool
    features: Features | None
    scale: tuple[str, ...] | None


def units_of_losses(
    variants: Sequence[VariantResult], data: Mapping[str, Mapping[str, Any]]
) -> dict[str, LossUnit]:
    """Return the unit of each variant's losses, by the name of the variant.

    The features and the scale are unknown if no run of a variant has a checkpoint, as after the
    divergence of all seeds in the first epoch. Such a variant gets those of the first variant with
    the same values of the config keys that determine the unit.

    Args:
        variants: the results of the variants.
        data: the `data` section of each variant's config, by variant name.

    Raises:
        CheckpointError: if a checkpoint cannot be read.
    """
    units = {variant.name: _unit_of(variant, data[variant.name]) for variant in variants}
    settings = {name: _settings(section) for name, section in data.items()}
    known = {settings[name]: units[name] for name in reversed(units) if units[name].features}
    return {
        name: unit if unit.features else known.get(settings[name], unit)
        for name, unit in units.items()
    }


def _settings(data: Mapping[str, Any]) -> str:
    """Return a string that is equal for two data sections with the same unit of losses, apart from
    the fitted scale."""
    features = data.get("target_features") or data.get("features")
    return repr((_scaling_of(data), features, data.get("units")))


def _scaling_of(data: Mapping[str, Any]) -> tuple[str, bool]:
    return str(data.get("scaling", "none")), bool(data.get("relative"))


def _unit_of(variant: VariantResult, data: Mapping[str, Any]) -> LossUnit:
    """Return the unit of a variant's losses, from a summary or from its first run with a
    checkpoint. The scale is rounded."""
    scaling, relative = _scaling_of(data)
    if scaling == "none" and variant.summaries:
        found = variant.any_summary
        units = found.get("units", {})
        features = tuple((name, units.get(name, "")) for name in found["features"])
        return LossUnit(scaling, relative, features, None)
    for folder in variant.folders.values():
        if folder.best.is_file():
            spec = read_checkpoint(folder.best).spec
            features = tuple((name, spec.units.get(name, "")) for name in spec.target_features)
            scale = tuple(f"{value:.{SCALE_DIGITS}g}"
                          for value in spec.target.scale)  # fmt: skip
            return LossUnit(scaling, relative, features, None if scaling == "none" else scale)
    return LossUnit(scaling, relative, None, None)
