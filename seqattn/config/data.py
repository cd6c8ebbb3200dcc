"""The keys of the section `data`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from seqattn.config.section import (
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
    Variants,
    Words,
    check_ordered,
    contradiction,
)

MIN_SOURCES = 1000
"""Smallest number of different sources of a task with symbols, so that each part has some."""


class Generated(Section):
    """The keys that all generated tasks have: the numbers of sequences and the seeds."""

    n_train: Count = 256
    """Number of training sequences."""
    n_validation: Count = 128
    """Number of sequences in the validation part, which determines the best epoch."""
    n_test: Count = 128
    """Number of sequences in the test part, which is used once, after training."""
    train_seed: Seed = 13
    """Seed of the training sequences."""
    validation_seed: Seed = 17
    """Seed of the validation sequences, different from the other two seeds."""
    test_seed: Seed = 19
    """Seed of the test sequences, different from the other two seeds."""

    @model_validator(mode="after")
    def _check_seeds(self) -> Self:
        seeds: dict[int, str] = {}
        for part in ("train", "validation", "test"):
            seed = getattr(self, f"{part}_seed")
            if seed in seeds:
                raise contradiction(
                    f"{part}_seed",
                    f"is {seed}, and so is data.{seeds[seed]}_seed: the two parts would be"
                    " equal. Give each part a seed of its own",
                )
            seeds[seed] = part
        return self


class Squares(Generated):
    """Noisy squares. The source consists of the first corners of a square, and the target consists
    of the other corners."""

    kind: Literal["squares"] = "squares"
    """Name of the task, or `file` for your own sequences."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on every coordinate. The corners are at -1 and 1."""
    source_length: Annotated[int, Field(ge=1, le=3)] = 2
    """Number of source corners. The target consists of the other corners."""
    variable_length: bool = False
    """Whether sequences have 2, 3 or 4 corners of a square instead of always 4 corners."""


class Polygons(Generated):
    """Regular polygons, randomly rotated and scaled. The source consists of the first corners of a
    polygon, and the target consists of the other corners."""

    kind: Literal["polygons"] = "polygons"
    """Name of the task, or `file` for your own sequences."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on every coordinate. The distance of each corner from
    the center is between 0.5 and 1.5."""
    corners: Annotated[int, Field(ge=3, le=1000)] = 5
    """Number of corners of each polygon, or of the largest polygon if `min_corners` is set."""
    min_corners: Annotated[int, Field(ge=3, le=1000)] | None = None
    """Number of corners of the smallest polygon. The number of corners of each polygon is random,
    from `min_corners` to `corners`. With `null`, every polygon has `corners` corners."""
    source_length: Annotated[int, Field(ge=2, le=999)] = 2
    """Number of source corners. The target consists of the other corners of the polygon."""

    @model_validator(mode="after")
    def _check_rest(self) -> Self:
        check_ordered(self, "min_corners", "corners")
        fewest = self.corners if self.min_corners is None else self.min_corners
        if self.source_length >= fewest:
            raise contradiction(
                "source_length",
                f"is {self.source_length}, which leaves a polygon of {fewest} corners without"
                f" a target. Choose 2 to {fewest - 1}",
            )
        return self


class Drawn(Generated):
    """The keys of the tasks whose steps are random points or random symbols."""

    noise: Noise = 0.0
    """Standard deviation of the normal noise."""
    symbols: Annotated[int, Field(ge=2, le=100_000)] | None = None
    """Number of different symbols, if the steps are random symbols instead of random points. With
    `null`, the steps are points with coordinates from -1 to 1."""

    @model_validator(mode="before")
    @classmethod
    def _set_noise(cls, values: Any) -> Any:
        """Symbols have no noise, so 0 replaces the default noise of points."""
        if isinstance(values, dict) and values.get("symbols") is not None:
            return {"noise": 0.0} | values
        return values

    def _check_symbols(self, sources: float) -> None:
        """Check the keys of symbols.

        Args:
            sources: number of different sources.
        """
        if self.symbols is None:
            return
        if self.noise:
            raise contradiction(
                "noise", f"is {self.noise:g}, but symbols have no noise. Set it to 0"
            )
        if sources < MIN_SOURCES:
            raise contradiction(
                "symbols",
                f"is {self.symbols}, which gives only {sources:.0f} different sources, fewer than"
                f" {MIN_SOURCES:,}. No source is in two parts, so allow more symbols or longer"
                " sources",
            )


class Paths(Drawn):
    """The keys of the tasks whose sources are random points with coordinates from -1 to 1, or
    random symbols."""

    noise: Noise = 0.0
    """Standard deviation of the normal noise on the target."""
    length: PathLength = 8
    """Length of each source, or of the longest source if `min_length` is set."""
    min_length: PathLength | None = None
    """Length of the shortest source. The length of each source is random, from `min_length` to
    `length`. With `null`, every source has the length `length`."""
    test_length: PathLength | None = None
    """Length of each source of the test part, or of its longest source if `min_test_length` is set.
    Training and validation keep the lengths of `length` and `min_length`. `null` means that the
    test part has these lengths as well."""
    min_test_length: PathLength | None = None
    """Length of the shortest source of the test part; see `min_length`. Requires `test_length`."""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        check_ordered(self, "min_length", "length")
        if self.test_length is not None:
            check_ordered(self, "min_test_length", "test_length")
        elif self.min_test_length is not None:
            raise contradiction(
                "min_test_length", "requires test_length, the length of the longest test source"
            )
        shortest = self.length if self.test_length is None else min(self.length, self.test_length)
        self._check_symbols(float(self.symbols or 0) ** min(shortest, 100))
        return self

    def for_test_part(self) -> Self:
        """Return the task with the lengths of the test part, which generates its sequences."""
        if self.test_length is None:
            return self
        return self.model_copy(
            update={"length": self.test_length, "min_length": self.min_test_length}
        )


class Copy(Paths):
    """A task in which the target is a copy of the source: target step t equals source step t."""

    kind: Literal["copy"] = "copy"
    """Name of the task, or `file` for your own sequences."""


class Reverse(Paths):
    """A task in which the target consists of the source points in reverse order."""

    kind: Literal["reverse"] = "reverse"
    """Name of the task, or `file` for your own sequences."""


class Sort(Paths):
    """A task in which the target consists of the source points, sorted by their first coordinate,
    or of the source symbols, sorted by their numbers."""

    kind: Literal["sort"] = "sort"
    """Name of the task, or `file` for your own sequences."""


class Recall(Drawn):
    """A task in which the source consists of key-value pairs and a noisy copy of one key, and the
    target is the value of this key (associative retrieval, Ba et al. 2016, section 4.1). The keys
    of a source are different. With `symbols: N`, there are N keys and N values."""

    kind: Literal["recall"] = "recall"
    """Name of the task, or `file` for your own sequences."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on the copied key. The coordinates of keys and values
    are uniformly distributed from -1 to 1."""
    pairs: Annotated[int, Field(ge=1, le=5000)] = 4
    """Number of pairs in each source, or in the longest source if `min_pairs` is set. A source has
    two steps for each pair, and one step for the copied key."""
    min_pairs: Annotated[int, Field(ge=1, le=5000)] | None = None
    """Number of pairs in the shortest source. The number of pairs of each source is random, from
    `min_pairs` to `pairs`. With `null`, every source has `pairs` pairs."""

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        check_ordered(self, "min_pairs", "pairs")
        if self.symbols is not None and self.pairs > self.symbols:
            raise contradiction(
                "pairs", f"is {self.pairs}, but there are only {self.symbols} different keys"
            )
        self._check_symbols(float(self.symbols or 0) ** min(2 * self.pairs, 100))
        return self


class Lag(Paths):
    """A task in which each target step equals the source step `lag` steps earlier, plus noise."""

    kind: Literal["lag"] = "lag"
    """Name of the task, or `file` for your own sequences."""
    noise: Noise = 0.1
    """Standard deviation of the normal noise on the target."""
    lag: PathLength = 4
    """Number of steps between a target step and its source step."""
    steps: PathLength = 4
    """Length T of the target, at most `lag`, so that each target step has a source step."""

    @model_validator(mode="after")
    def _check_lag(self) -> Self:
        parts = (self, self.for_test_part())
        shortest = min(one.min_length or one.length for one in parts)
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


class Dates(Generated):
    """A task of language: a date in one of six human formats is written in the form of ISO 8601,
    character by character."""

    kind: Literal["dates"] = "dates"
    """Name of the task, or `file` for your own sequences."""


class Numbers(Generated):
    """A task of language: the digits of a number are written in words. German says the units before
    the tens, English does not."""

    kind: Literal["numbers"] = "numbers"
    """Name of the task, or `file` for your own sequences."""
    language: Literal["german", "english"] = "german"
    """Language of the words."""
    digits: Annotated[int, Field(ge=3, le=6)] = 6
    """Largest number of digits. Each number of digits from 1 on has the same probability."""


class Grammar(Generated):
    """A task of language: a sentence of English words is translated to an artificial language with
    another order of words."""

    kind: Literal["grammar"] = "grammar"
    """Name of the task, or `file` for your own sequences."""


class Window(Section):
    """Sliding windows over series. In a window, the target steps follow the source steps."""

    source: Count
    """Length of the source."""
    target: Count
    """Length of the target."""
    stride: Count = 1
    """Number of steps between the starts of two windows."""


class Split(Section):
    """The split of the data into a training, a validation and a test part."""

    by: Literal["sequence", "group", "time"] = "sequence"
    """What is split. `sequence` splits the sequences at random. `group` splits groups at random; a
    group consists of all sequences with the same value in the column `data.group`. `time` puts the
    first steps into the training part and the last steps into the test part. `time` splits each
    series if `window` is set, and otherwise orders whole series by their first step."""
    validation: Share = 0.15
    """Share of the validation part."""
    test: Share = 0.15
    """Share of the test part; the rest is the training part."""
    seed: Seed = 0
    """Seed of the random split. The seed has no effect with `by: time`."""

    @model_validator(mode="after")
    def _check_rest(self) -> Self:
        if self.validation + self.test >= 1:
            raise contradiction(
                "test",
                f"and data.split.validation are {self.test + self.validation:g} together, which"
                " leaves nothing to train on. Make them less than 1",
            )
        return self


def column_names(given: list[str] | None) -> tuple[str, ...]:
    """Return the columns that a key names. For `[auto]` and `null`, return an empty tuple."""
    return () if given is None or given == ["auto"] else tuple(given)


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


AUTO = ["auto"]


class OwnFile(Section):
    """Sequences from your own files. `seqattn data check FILE` prints this section for a file."""

    kind: Literal["file"] = "file"
    """Name of the task, or `file` for your own sequences."""
    path: FileName
    """A file, a folder of files of the same format (including subfolders), or a pattern such as
    `data/*.csv`, relative to the working directory. If `validation_path` and `test_path` are set,
    `path` is only the training part."""
    validation_path: FileName | None = None
    """Path of the validation part. `null` means the share `split.validation` of `path`."""
    test_path: FileName | None = None
    """Path of the test part. `null` means the share `split.test` of `path`."""
    format: Literal["auto", "csv", "tsv", "json", "jsonl", "npz", "npy", "parquet", "arrow"] = (
        "auto"
    )
    """Format of the files. With `auto`, the suffix determines the format (before .gz or .zst)."""
    layout: Literal["auto", "long", "wide"] = "auto"
    """Layout of a table. With `long`, a row is a step. With `wide`, a row is a sequence, with
    columns such as x_1, y_1, x_2, y_2, or dates. `auto` means `wide` if there are such columns and
    no time column."""
    series: OneOrMore | None = AUTO
    """Column or columns with the series id of a row. `auto` detects the columns from names and
    values, as `seqattn data check` does. With `null`, all rows of a long table form one series."""
    time: OneOrMore | None = AUTO
    """Time column of a long table, with numbers or dates, or several columns, such as a date and an
    hour. `auto` detects the columns. With `null`, the rows are in order of time."""
    group: ColumnName | None = None
    """Column with the group of a sequence, for `split.by: group`."""
    features: ColumnNames | None = None
    """Columns of source and target. `null` means all columns without another role."""
    ignore: ColumnNames | None = None
    """Columns to leave out. `null` means no columns."""
    one_hot: ColumnNames | None = None
    """Columns of words. Each word becomes a feature with the values 0 and 1. `null` means none."""
    source_features: ColumnNames | None = None
    """Columns of the source, if the target has other columns. `null` means `features`."""
    target_features: ColumnNames | None = None
    """Columns of the target, if the source has other columns. `null` means `features`."""
    units: UnitTexts | None = None
    """Units of features, such as `{temperature: degC, demand: MW}`, shown with values and errors.
    Units do not convert values. `null` means no units."""
    source_length: Count | None = None
    """Length of each source. The rest of the sequence is the target."""
    target_length: Count | None = None
    """Length of each target, at the end of the sequence. The rest is the source."""
    window: Window | None = None
    """Sliding windows over the series of each part. `null` means no windows."""
    split: Split = Split()
    """The split of `path` into three parts."""
    normalize: Literal["none", "global", "instance"] = "global"
    """`global` applies only `scaling`. `instance` also normalizes by mean and standard deviation of
    each source, for series with changing level and scale; this also sets the unit of training and
    validation losses, and `scaling` that of test losses. `none` means `scaling: none`."""
    scaling: Literal["none", "standard", "minmax", "robust"] = "standard"
    """Scaling of each feature, fitted on the training part, to mean 0 and standard deviation 1
    (`standard`), to the interval from -1 to 1 (`minmax`), or to median 0 and interquartile range 1
    (`robust`; standard deviation 1 if the quartiles are equal). Forecasts are in your units; losses
    are scaled."""
    relative: bool = False
    """Whether the last source step is subtracted from each sequence and added to the forecast. Use
    `true` for series that drift beyond the levels of the training part."""
    missing: Literal["refuse", "drop_sequence", "interpolate"] = "refuse"
    """Handling of empty cells, and of missing rows between evenly spaced steps. `refuse` reports an
    error. `drop_sequence` leaves out the sequence or window. `interpolate` interpolates source
    cells linearly within the source (at an end, it repeats the nearest value), and leaves missing
    target cells out of losses and errors."""
    spacing: Literal["even", "uneven"] = "even"
    """Distance of the rows of a series in time. With `even`, all times lie on a grid, such as hours
    or months, and rows can be missing. With `uneven`, consecutive rows in the order of `time` are
    one step apart, whatever their times."""
    na_values: Words | None = None
    """Words or numbers for empty cells, such as `[-999]`, in addition to the usual words (NA, n/a,
    null, ?). With `null`, a number such as -999 that is far from all others is an error."""
    time_format: ColumnName | None = None
    """strftime format of dates in a text file, such as `%d.%m.%Y`. `null` means automatic
    detection."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Delimiter of cells in a text file. `null` means automatic detection."""
    decimal: Literal["auto", ".", ","] = "auto"
    """Decimal mark of numbers in a text file. `auto` means automatic detection."""
    thousands: Literal["auto", ",", ".", " ", "'"] | None = "auto"
    """Thousands separator of numbers in a text file. `auto` means automatic detection, and `null`
    means no separator."""
    comment: Annotated[str, Field(min_length=1, max_length=2)] | None = None
    """Prefix of comment lines in a text file. `null` means automatic detection."""
    skip_rows: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Number of lines before the header of a text file."""
    header: bool | None = None
    """Whether a text file has a header. `null` means automatic detection."""
    encoding: ColumnName | None = None
    """Encoding of a text file. `null` means automatic detection."""
    season: Count | None = None
    """Season length in steps, for the seasonal naive baseline and MASE. With `null`, the season
    length is estimated from the training series, if they have a season."""
    cache: Literal["auto", "always", "never"] = "auto"
    """Whether the values of the files are cached on disk, so that files may be larger than memory
    and are read only once. `auto` caches files of 32 MiB or more."""

    _set_scaling = model_validator(mode="before")(with_scaling)
    _check_normalize = model_validator(mode="after")(check_normalization)

    @model_validator(mode="after")
    def _check_cut(self) -> Self:
        given = [k for k in ("source_length", "target_length", "window") if getattr(self, k)]
        if len(given) > 1:
            raise contradiction(given[1], f"and {given[0]} cannot both be set; remove one of them")
        return self

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        if (self.validation_path is None) != (self.test_path is None):
            lacking = "validation_path" if self.validation_path is None else "test_path"
            raise contradiction(lacking, "is required, since another part has its own path")
        return self

    @model_validator(mode="after")
    def _check_group(self) -> Self:
        if self.split.by == "group" and self.group is None:
            raise contradiction("group", "must name a column for data.split.by: group")
        return self

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if self.features is not None and (self.source_features or self.target_features):
            raise contradiction(
                "features", "cannot be set with source_features and target_features; remove it"
            )
        if (self.source_features is None) != (self.target_features is None):
            lacking = "source" if self.source_features is None else "target"
            raise contradiction(f"{lacking}_features", "is required with the other of the two")
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


LINKS_OF_WORDS = (
    "has links between words or characters, but with unit: bpe the symbols are subwords. Leave the"
    " links out, or choose another unit"
)


class TextSide(Section):
    """The symbols of one side of pairs of texts."""

    column: ColumnName | None = None
    """Column of the text in a table with a header. `null` means the column named `source` or
    `target`, and without such names or without a header, the first or the second column."""
    unit: Literal["character", "word", "bpe"] = "word"
    """What a symbol is. Words are separated by white space. `bpe` splits words into subwords, which
    byte-pair encoding learns from the training part (extra `text`)."""
    lowercase: bool = False
    """Whether text is converted to lower case."""
    min_count: Count = 1
    """How often a symbol must occur in the training part to be known. The others are read as
    `<unknown>`. With `unit: bpe`, this applies to characters."""
    max_size: Count | None = None
    """Largest number of known symbols, the most frequent first. `null` means no maximum, and 8,000
    with `unit: bpe`."""


class TextSplit(Section):
    """The split of pairs of texts into a training, a validation and a test part."""

    by: Literal["source", "stem", "pair", "group"] = "source"
    """What is split. With `source`, all pairs with the same source are in one part, and with
    `group`, all pairs with the same value in the column `data.group`. With `stem`, all pairs whose
    sources differ only in a final `s`, `'s` or `s'` are in one part, as English plurals and
    possessives."""
    validation: Annotated[int | float, Field(gt=0, le=1e9)] = 0.1
    """Share of the validation part, or, from 1 on, the number of its sources, stems, pairs or
    groups."""
    test: Annotated[int | float, Field(gt=0, le=1e9)] = 0.1
    """Share of the test part, or, from 1 on, the number of its sources, stems, pairs or
    groups."""
    seed: Seed = 0
    """Seed of the split. A source is in the same part in every file with the same seed and the same
    sources."""


class Text(Section):
    """Pairs of texts from your own files, such as sentences and their translations. `seqattn data
    check FILE` prints this section for a file."""

    kind: Literal["text"] = "text"
    """Name of the task, or `file` for your own sequences."""
    path: FileName
    """A file of pairs: TSV (.tsv, .txt), CSV, JSON Lines or Parquet, text also compressed (.gz,
    .xz, .zst). Two parallel files of lines have a name with braces, such as `train.{en,de}`; a
    third name in the braces is a file of alignments. `shipped:cmudict` is a file of this package.
    If `validation_path` and `test_path` are set, `path` is only the training part."""
    validation_path: FileName | None = None
    """Path of the validation part. `null` means the share `split.validation` of `path`."""
    test_path: FileName | None = None
    """Path of the test part. `null` means the share `split.test` of `path`."""
    source: TextSide = TextSide()
    """The symbols of the sources."""
    target: TextSide = TextSide()
    """The symbols of the targets."""
    max_length: Count = 100
    """Largest number of symbols of a source or a target. Longer pairs are left out, and their
    number is reported."""
    group: ColumnName | None = None
    """Column with the group of a pair, for `split.by: group`."""
    alignment: ColumnName | None = None
    """Column with the known links of a pair, such as `0-0 1-2 2p1`: source and target symbols from
    0, with `-` for a sure link and `p` or `?` for one that is only possible."""
    encoding: ColumnName = "utf-8"
    """Encoding of text files."""
    split: TextSplit = TextSplit()
    """The split of `path` into three parts."""

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        if (self.validation_path is None) != (self.test_path is None):
            lacking = "validation_path" if self.validation_path is None else "test_path"
            raise contradiction(lacking, "is required, since another part has its own path")
        if self.split.by == "group" and self.group is None:
            raise contradiction("group", "must name a column for data.split.by: group")
        if self.alignment is not None and "bpe" in (self.source.unit, self.target.unit):
            raise contradiction("alignment", LINKS_OF_WORDS)
        return self


TASK = Variants("kind", "squares", noun="task", base=Generated)
FromFiles = OwnFile | Text
"""The sections of data from files."""
Data = Annotated[
    Squares
    | Polygons
    | Copy
    | Reverse
    | Sort
    | Recall
    | Lag
    | Dates
    | Numbers
    | Grammar
    | Text
    | OwnFile,
    TASK,
]
