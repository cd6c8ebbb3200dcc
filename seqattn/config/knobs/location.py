"""The keys of the section `model.attention.location`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from seqattn.config.knobs.section import Section, contradiction, discriminator, require_key


class LocationKnobs(Section):
    """The base class of the sections of location-based addressing."""


class LocationShift(LocationKnobs):
    """Location-based addressing that moves the previous attention weights by learned shifts
    (Graves, Wayne and Danihelka 2014)."""

    kind: Literal["location_shift"] = "location_shift"
    """The kind of location-based addressing."""
    shift_range: Annotated[int, Field(ge=1, le=63)] = 3
    """Number of relative shifts, centered at 0. For example, 3 allows the shifts -1, 0 and 1."""

    @model_validator(mode="after")
    def _check_shift_range(self) -> Self:
        n = self.shift_range
        if n % 2 == 0:
            raise contradiction(
                "shift_range",
                f"is {n}, but must be odd: 0, and as many shifts backward as forward."
                f" Choose {n - 1} or {n + 1}",
            )
        return self


class GaussianWindow(LocationKnobs):
    """A Gaussian window around a predicted source position (Luong et al. 2015, local-p)."""

    model_config = require_key("kind")
    kind: Literal["local"] = "local"
    """The kind of location-based addressing."""
    window: Annotated[int, Field(ge=1, le=100_000)] = 2
    """D, half the width of the window. Source steps further than D from the predicted position have
    weight 0. The standard deviation of the Gaussian is D / 2."""


Location = Annotated[
    Annotated[LocationShift, Tag("location_shift")] | Annotated[GaussianWindow, Tag("local")],
    discriminator("kind", "location_shift"),
]
