"""What to learn from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from seqattn.config.knobs.section import (
    Count,
    Noise,
    PathLength,
    Section,
    Seed,
    contradiction,
    must_say,
    ordered,
    told_apart_by,
)


class Generated(Section):
    """What all made sequences share: how many there are, and from which seeds."""

    n_train: Count = 256
    """Training sequences."""
    n_validation: Count = 128
    """Validation sequences: they choose the best epoch and never train."""
    n_test: Count = 128
    """Test sequences: touched once, after training."""
    train_seed: Seed = 13
    """Seed of the training sequences."""
    validation_seed: Seed = 17
    """Seed of the validation sequences; differs from the other two, so no point is shared."""
    test_seed: Seed = 19
    """Seed of the test sequences; differs from the other two, so no point is shared."""

    @model_validator(mode="after")
    def _parts_share_no_seed(self) -> Self:
        seeds: dict[int, str] = {}
        for part in ("train", "validation", "test"):
            seed = getattr(self, f"{part}_seed")
            if seed in seeds:
                raise contradiction(
                    f"{part}_seed",
                    f"is {seed}, and so is data.{seeds[seed]}_seed: the two parts would be the"
                    " same points. Give each part a seed of its own",
                )
            seeds[seed] = part
        return self


class Squares(Generated):
    """Noisy squares: the first corners of a square are given, the others are to be said."""

    kind: Literal["squares"] = "squares"
    """What the sequences are."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on every coordinate (corners are at -1 and 1)."""
    source_length: Annotated[int, Field(ge=1, le=3)] = 2
    """Corners given; what remains of the four is the target."""
    variable_length: bool = False
    """Squares of 2, 3 or 4 corners; each keeps at least one corner of source and of target."""


class Polygons(Generated):
    """Regular polygons round the middle, turned and scaled at random: some corners are given, the
    others are to be said."""

    model_config = must_say("kind")
    kind: Literal["polygons"] = "polygons"
    """What the sequences are."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on every coordinate; corners are 0.5 to 1.5 away from
    the middle."""
    corners: Annotated[int, Field(ge=3, le=1000)] = 5
    """Corners of each polygon, or of the largest."""
    min_corners: Annotated[int, Field(ge=3, le=1000)] | None = None
    """Corners of the smallest: each polygon draws its own number, from here to `corners`. null:
    all have `corners`."""
    source_length: Annotated[int, Field(ge=2, le=999)] = 2
    """Corners given; the first two say all there is to know. The rest is the target."""

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        ordered(self, "min_corners", "corners")
        fewest = self.corners if self.min_corners is None else self.min_corners
        if self.source_length >= fewest:
            raise contradiction(
                "source_length",
                f"is {self.source_length}, which leaves a polygon of {fewest} corners nothing to"
                f" say. Choose 2 to {fewest - 1}",
            )
        return self


class Paths(Generated):
    """What tasks on random paths share. Points lie anywhere in the square from -1 to 1."""

    noise: Noise = 0.0
    """Standard deviation of the normal noise on what is to be said."""
    length: PathLength = 8
    """Points of each source, or of the longest."""
    min_length: PathLength | None = None
    """Points of the shortest source: each draws its own number, from here to `length`. null: all
    have `length`."""

    @model_validator(mode="after")
    def _shortest_first(self) -> Self:
        ordered(self, "min_length", "length")
        return self


class Copy(Paths):
    """Say the source again: step t is told by source point t."""

    model_config = must_say("kind")
    kind: Literal["copy"] = "copy"
    """What the sequences are."""


class Reverse(Paths):
    """Say the source backwards."""

    model_config = must_say("kind")
    kind: Literal["reverse"] = "reverse"
    """What the sequences are."""


class Sort(Paths):
    """Say the source in the order of its first coordinate: what is next depends on contents."""

    model_config = must_say("kind")
    kind: Literal["sort"] = "sort"
    """What the sequences are."""


class Recall(Generated):
    """Pairs of a key and a value, then a key again, noisy: say its value (associative retrieval,
    Ba et al. 2016, section 4.1, with points for letters)."""

    model_config = must_say("kind")
    kind: Literal["recall"] = "recall"
    """What the sequences are."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on the key that asks; keys and values lie anywhere in
    the square from -1 to 1."""
    pairs: Annotated[int, Field(ge=1, le=5000)] = 4
    """Pairs in each source, or in the longest; a source has two points a pair, and the key."""
    min_pairs: Annotated[int, Field(ge=1, le=5000)] | None = None
    """Pairs in the shortest source: each draws its own number, from here to `pairs`. null: all
    have `pairs`."""

    @model_validator(mode="after")
    def _fewest_first(self) -> Self:
        ordered(self, "min_pairs", "pairs")
        return self


class Lag(Paths):
    """Go on as it was `lag` steps before: with points numbered through, point t is a noisy point
    t - lag."""

    model_config = must_say("kind")
    kind: Literal["lag"] = "lag"
    """What the sequences are."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on what is to be said."""
    lag: PathLength = 4
    """How many steps back the source of each point lies."""
    steps: PathLength = 4
    """T, points to be said; no more than `lag`, so that each has its source."""

    @model_validator(mode="after")
    def _each_has_its_source(self) -> Self:
        shortest = self.length if self.min_length is None else self.min_length
        if self.lag > shortest:
            raise contradiction(
                "lag",
                f"is {self.lag}, but a source may have only {shortest} points. Choose 1 to"
                f" {shortest}",
            )
        if self.steps > self.lag:
            raise contradiction(
                "steps",
                f"is {self.steps}, but only the first {self.lag} points after the source lie"
                f" data.lag = {self.lag} steps behind a source point. Choose 1 to {self.lag}",
            )
        return self


Data = Annotated[
    Annotated[Squares, Tag("squares")]
    | Annotated[Polygons, Tag("polygons")]
    | Annotated[Copy, Tag("copy")]
    | Annotated[Reverse, Tag("reverse")]
    | Annotated[Sort, Tag("sort")]
    | Annotated[Recall, Tag("recall")]
    | Annotated[Lag, Tag("lag")],
    told_apart_by("kind", "squares"),
]
