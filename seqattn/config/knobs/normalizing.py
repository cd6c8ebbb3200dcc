"""Checks of the keys `data.normalize`, `data.scaling` and `data.relative`."""

from __future__ import annotations

from typing import Any

from seqattn.config.knobs.section import Section, contradiction


def with_scaling(content: Any) -> Any:
    """Set `scaling: none` if the section has `normalize: none` and no `scaling`."""
    if isinstance(content, dict) and content.get("normalize") == "none":
        return {"scaling": "none", **content}
    return content


def check_normalization(section: Section) -> Section:
    """Check that `normalize`, `scaling` and `relative` in a section do not contradict each other.

    Raises:
        PydanticCustomError: if two of the keys contradict each other.
    """
    normalize, scaling, relative = (
        getattr(section, key) for key in ("normalize", "scaling", "relative")
    )
    if normalize == "none" and scaling != "none":
        raise contradiction(
            "scaling",
            f"is {scaling}, but data.normalize is none, which scales nothing. Leave scaling out,"
            " set it to none, or set data.normalize to global",
        )
    if normalize == "instance" and relative:
        raise contradiction(
            "relative",
            "is true, but data.normalize: instance takes the level from each sequence already. Set"
            " relative to false, or data.normalize to global",
        )
    return section
