"""What to learn from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from seqattn.config.knobs.normalizing import check_normalization, with_scaling
from seqattn.config.knobs.section import (
    ColumnName,
    ColumnNames,
    Count,
    FileName,
    Noise,
    OneOrMore,
    PathLength,
    Section,
    Seed,
    Share,
    UnitTexts,
    Words,
    check_ordered,
    contradiction,
    discriminator,
    require_key,
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
    """Noisy squares: the source is the first corners of a square, the target the others."""

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
    others are the target."""

    model_config = require_key("kind")
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
        check_ordered(self, "min_corners", "corners")
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
    """Standard deviation of the normal noise on the target."""
    length: PathLength = 8
    """Points of each source, or of the longest."""
    min_length: PathLength | None = None
    """Points of the shortest source: each draws its own number, from here to `length`. null: all
    have `length`."""

    @model_validator(mode="after")
    def _shortest_first(self) -> Self:
        check_ordered(self, "min_length", "length")
        return self


class Copy(Paths):
    """Say the source again: step t is told by source point t."""

    model_config = require_key("kind")
    kind: Literal["copy"] = "copy"
    """What the sequences are."""


class Reverse(Paths):
    """Say the source backwards."""

    model_config = require_key("kind")
    kind: Literal["reverse"] = "reverse"
    """What the sequences are."""


class Sort(Paths):
    """Say the source in the order of its first coordinate: what is next depends on contents."""

    model_config = require_key("kind")
    kind: Literal["sort"] = "sort"
    """What the sequences are."""


class Recall(Generated):
    """Pairs of a key and a value, then a key again, noisy: say its value (associative retrieval,
    Ba et al. 2016, section 4.1, with points for letters)."""

    model_config = require_key("kind")
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
        check_ordered(self, "min_pairs", "pairs")
        return self


class Lag(Paths):
    """Go on as it was `lag` steps before: with points numbered through, point t is a noisy point
    t - lag."""

    model_config = require_key("kind")
    kind: Literal["lag"] = "lag"
    """What the sequences are."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on the target."""
    lag: PathLength = 4
    """How many steps back the source of each point lies."""
    steps: PathLength = 4
    """T, points of the target; no more than `lag`, so that each has its source."""

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


class Window(Section):
    """Windows over long series: points of the source, then those of the target."""

    source: Count
    """Points given."""
    target: Count
    """Points of the target."""
    stride: Count = 1
    """Points from the beginning of one window to that of the next."""


class Split(Section):
    """Which sequences train, which choose the best epoch, and which test."""

    by: Literal["sequence", "group", "time"] = "sequence"
    """What is kept together. sequence: each sequence, drawn at random. group: all sequences with
    the same word in the column data.group, drawn at random. time: the first train, the last test;
    with a window each series is cut in three, without one they go by their first step."""
    validation: Share = 0.15
    """Share of the validation part."""
    test: Share = 0.15
    """Share of the test part; what is left trains."""
    seed: Seed = 0
    """Seed of the draw; by time nothing is drawn."""

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        if self.validation + self.test >= 1:
            raise contradiction(
                "test",
                f"and data.split.validation are {self.test + self.validation:g} together, which"
                " leaves nothing to train on. Make them less than 1",
            )
        return self


def column_names(given: list[str] | None) -> tuple[str, ...]:
    """The columns that a key names; none where it says auto or null."""
    return () if given is None or given == ["auto"] else tuple(given)


AUTO = ["auto"]


class OwnFile(Section):
    """Your own sequences, from a file. `seqattn data check FILE` writes this section for you."""

    model_config = require_key("kind")
    kind: Literal["file"] = "file"
    """What the sequences are."""
    path: FileName
    """The file, seen from where the command runs; or a folder of files of one format and all below
    it, or a pattern such as data/*.csv. With the two paths below, the training part."""
    validation_path: FileName | None = None
    """One of its own for the validation part; its files do not train. null: split.validation of
    `path`."""
    test_path: FileName | None = None
    """One of its own for the test part, likewise; null: split.test of `path`."""
    format: Literal["auto", "csv", "tsv", "json", "jsonl", "npz", "npy", "parquet", "arrow"] = (
        "auto"
    )
    """What kind of file; auto goes by the end of its name, which .gz or .zst may follow."""
    layout: Literal["auto", "long", "wide"] = "auto"
    """Of a table. long: a point a row. wide: a sequence a row, with columns such as x_1, y_1, x_2,
    y_2, or a date each. auto: wide where columns are called so, and none says when; else long."""
    series: OneOrMore | None = AUTO
    """Column that says which sequence a row is of, or several that do together; auto: found by name
    and behaviour, as data check says; null: all rows of a long table are one."""
    time: OneOrMore | None = AUTO
    """Column of a long table that counts up within a sequence: numbers or dates; or a date and an
    hour, or a year and a month. auto: found; null: rows are in order."""
    group: ColumnName | None = None
    """Column that says which group a sequence is of, for split.by: group."""
    features: ColumnNames | None = None
    """Columns of source and target; null: all that have no other purpose."""
    ignore: ColumnNames | None = None
    """Columns that are left out; null: none."""
    one_hot: ColumnNames | None = None
    """Columns of words that become a feature of 0 and 1 for each word; null: none."""
    source_features: ColumnNames | None = None
    """Columns of the source, where those of the target are others; null: `features`."""
    target_features: ColumnNames | None = None
    """Columns of the target, where those of the source are others; null: `features`."""
    units: UnitTexts | None = None
    """Unit of each feature that has one, such as {temperature: degC, demand: MW}: shown wherever
    values or errors are in your units. Nothing is converted; null: none are shown."""
    source_length: Count | None = None
    """Points of each source; the rest of the sequence is the target."""
    target_length: Count | None = None
    """Points of each target, the last of the sequence; the rest is the source."""
    window: Window | None = None
    """Sliding windows over long series, never across a split; instead of the two lengths."""
    split: Split = Split()
    """How one file becomes three parts."""
    normalize: Literal["none", "global", "instance"] = "global"
    """global: as `scaling` says. instance: by mean and standard deviation of each sequence's own
    source, for series whose level and size change; `scaling` is then the unit of test losses, and
    for features of the target alone. none: as scaling: none."""
    scaling: Literal["none", "standard", "minmax", "robust"] = "standard"
    """To the model's units, feature by feature, fitted on the training part. standard: mean 0 and
    standard deviation 1. minmax: from -1 to 1. robust: median 0 and quartiles 1 apart, or standard
    deviation 1 where these are equal. What comes out is in your units; losses are scaled."""
    relative: bool = False
    """Subtract each sequence's last source point first, and add it again at the end: for series
    that drift to levels that no training sequence had."""
    missing: Literal["refuse", "drop_sequence", "interpolate"] = "refuse"
    """What becomes of empty cells, and of rows that lack between evenly spaced steps. interpolate:
    what is given is filled linearly from the points of that source alone, and at an end the nearest
    value stays; missing target cells stay missing, and count in no loss and in no error."""
    na_values: Words | None = None
    """What stands for an empty cell, beside the usual (NA, n/a, null, ?, -): [-999] say. null: the
    usual, and numbers such as -999 far from all others are asked about."""
    time_format: ColumnName | None = None
    """Of dates in a text file, as strftime has it: '%d.%m.%Y'; null: found."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """What separates the cells of a text file; null: found."""
    decimal: Literal["auto", ".", ","] = "auto"
    """What separates the whole from its parts in numbers of a text file."""
    thousands: Literal["auto", ",", ".", " ", "'"] | None = "auto"
    """What separates thousands in numbers of a text file; null: nothing does."""
    comment: Annotated[str, Field(min_length=1, max_length=2)] | None = None
    """What a line of a text file begins with that is no row; null: found."""
    skip_rows: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Lines of a text file before its header."""
    header: bool | None = None
    """Whether a text file has a header; null: found."""
    encoding: ColumnName | None = None
    """Of a text file; null: found."""
    season: Count | None = None
    """Steps after which a series repeats, for the seasonal naive baseline and for MASE; null: found
    in the training series, if they have one."""

    cache: Literal["auto", "always", "never"] = "auto"
    """Whether the numbers of the files are kept in a cache folder, from where training reads them
    as it needs them: also more than memory holds, and at the next start without reading the files
    again. auto: of 32 MiB of files or more."""

    _scaling_follows = model_validator(mode="before")(with_scaling)
    _one_way_to_normalize = model_validator(mode="after")(check_normalization)

    @model_validator(mode="after")
    def _one_way_to_cut(self) -> Self:
        given = [k for k in ("source_length", "target_length", "window") if getattr(self, k)]
        if len(given) > 1:
            raise contradiction(given[1], f"and {given[0]} cannot both be meant; give one of them")
        return self

    @model_validator(mode="after")
    def _all_files_or_one(self) -> Self:
        if (self.validation_path is None) != (self.test_path is None):
            lacking = "validation_path" if self.validation_path is None else "test_path"
            raise contradiction(lacking, "is needed too where one part has a file of its own")
        return self

    @model_validator(mode="after")
    def _groups_have_a_column(self) -> Self:
        if self.split.by == "group" and self.group is None:
            raise contradiction("group", "must name a column for data.split.by: group")
        return self

    @model_validator(mode="after")
    def _columns_have_one_purpose(self) -> Self:
        if self.features is not None and (self.source_features or self.target_features):
            raise contradiction(
                "features", "goes without source_features and target_features; give them instead"
            )
        if (self.source_features is None) != (self.target_features is None):
            lacking = "source" if self.source_features is None else "target"
            raise contradiction(f"{lacking}_features", "is needed too, where the other is given")
        taken = {self.group: "group"} if self.group else {}
        for key in ("series", "time"):
            taken |= dict.fromkeys(column_names(getattr(self, key)), key)
        for key in ("features", "source_features", "target_features"):
            names = getattr(self, key) or []
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise contradiction(key, f"names {twice[0]!r} twice")
            for name in names:
                if name in taken:
                    raise contradiction(key, f"names {name!r}, which is data.{taken[name]}")
        return self


Data = Annotated[
    Annotated[Squares, Tag("squares")]
    | Annotated[Polygons, Tag("polygons")]
    | Annotated[Copy, Tag("copy")]
    | Annotated[Reverse, Tag("reverse")]
    | Annotated[Sort, Tag("sort")]
    | Annotated[Recall, Tag("recall")]
    | Annotated[Lag, Tag("lag")]
    | Annotated[OwnFile, Tag("file")],
    discriminator("kind", "squares"),
]
