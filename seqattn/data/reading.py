"""How a file of sequences is read: its format, its text, its times and the roles of its columns.

The names of these settings in messages are config keys, options of `seqattn data check`, or changes
of a DataFrame in Python.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from seqattn.config import as_value
from seqattn.errors import AmbiguousData, DataError

Auto = Literal["auto"]
LONG_LAYOUT, WIDE_LAYOUT = "long", "wide"
STORED_NAMES = ("series", "time", "features", "ignore", "time_formats")
"""The tuples of names that a checkpoint stores."""
ROLE_PHRASES = {
    "series": ("identified the series", "if all rows are one series"),
    "time": ("gave the time", "to take the rows in order"),
}
"""For each role, two phrases for error messages: the purpose of the columns during training, and
the meaning of the value null."""
MAX_SHOWN = 40  # maximum length of a name or a cell in a message, in characters


class Resolution(NamedTuple):
    """The key of the `data` section that selects one reading of an ambiguous table, time_format or
    decimal, and its value."""

    key: str
    value: str

    def note(self, like: str) -> str:
        """Return a note for the user, without a verb.

        Args:
            like: the origin of the table that shows this reading, such as "in the training".
        """
        return f"read with data.{self.key}: {self.value!r}, as {like}"


@dataclass(frozen=True)
class Reading:
    """How a file is read, and in which style a table is written.

    A config gives a reading in which "auto" or None may stand for a value that the reader detects.
    A table that was read gives a reading with the values that were detected. Checkpoints store the
    reading of the training table.

    Attributes:
        format: csv, tsv, jsonl, json, npz, npy, parquet or arrow. If "auto", the suffix of the file
            determines the format.
        layout: layout of a table or of an array with two axes: "long" (one row per step), "wide"
            (one row per sequence) or "auto".
        delimiter: delimiter of a text file; None also for other files.
        comment: prefix of comment lines in a text file.
        encoding: encoding of a text file.
        has_header: whether a text file has a header.
        skip_rows: number of lines before the header of a text file.
        decimal: decimal mark of a text file; "auto" also if the numbers that were read have no
            decimals, so that they do not show the mark.
        thousands: thousands separator of a text file, or None if the file has no separator.
        na_values: words for empty cells in addition to the usual words. If None, only the usual
            words indicate an empty cell, and `is_training` determines the effect of a number that
            looks like a missing value.
        time_format: `strftime` format of dates.
        time_formats: `strftime` format of each time column that was read, with `%q` for the
            quarter; empty if the times are not dates, if the format is unknown, or if the file has
            dates of its own type.
        series: names of the columns with the series id, or () if all rows are one series.
        time: names of the columns with the time, or () if the order of the rows is the time order.
        group: name of the column with the group, or None if there is no group.
        features: names of the columns to read, in this order, or None for all columns without
            another role. A feature from a `one_hot` column is named `column=word`.
        ignore: names of columns to leave out. After a table was read, these include the columns
            that were left out for a reason that applies to other tables, too.
        one_hot: names of columns that contain words. Each word becomes a feature.
        source_and_target: names of the source features and of the target features in an NPZ file
            with separate arrays. If None, `features` selects the source features. It also selects
            the target features if the file has the same feature names for source and target;
            otherwise, all target features are read.
        trained: the reading of the training table, or None. It may replace the value "auto" of
            other attributes.
        may_rename: whether to take the columns in order if there are as many columns as features
            but no column has the name of a feature.
        is_training: whether a number that looks like a missing value is an error. If False, such a
            number only causes a note, and `trained` resolves ambiguities.
    """

    format: str = "auto"
    layout: str = "auto"
    delimiter: str | None = None
    comment: str | None = None
    encoding: str | None = None
    has_header: bool | None = None
    skip_rows: int = 0
    decimal: str = "auto"
    thousands: str | None = "auto"
    na_values: tuple[str, ...] | None = None
    time_format: str | None = None
    time_formats: tuple[str, ...] = ()
    series: tuple[str, ...] | Auto = "auto"
    time: tuple[str, ...] | Auto = "auto"
    group: str | None = None
    features: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    source_and_target: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    trained: Reading | None = None
    may_rename: bool = False
    is_training: bool = True

    # --- columns ----------------------------------------------------------------------------------

    @property
    def series_columns(self) -> tuple[str, ...]:
        """Names of the known columns with the series id."""
        return () if self.series == "auto" else self.series

    @property
    def time_columns(self) -> tuple[str, ...]:
        """Names of the known columns with the time."""
        return () if self.time == "auto" else self.time

    @property
    def number_columns(self) -> tuple[str, ...] | None:
        """Names of the features that are numeric columns, or None for all numeric columns."""
        if self.features is None:
            return None
        begins = tuple(f"{column}=" for column in self.one_hot)
        return tuple(name for name in self.features if not (begins and name.startswith(begins)))

    def words(self, column: str) -> tuple[str, ...] | None:
        """Return the words of a one-hot column that `features` selects. If `features` selects none
        of them, return None, which stands for all words."""
        begin = f"{column}="
        found = [n.removeprefix(begin) for n in self.features or () if n.startswith(begin)]
        return tuple(found) or None

    def select_features(
        self, others: Sequence[str], lacks: str, found: str
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Select the features to read.

        Args:
            others: names in the file that can be features.
            lacks: the beginning of the error message, which states what kind of name is missing,
                such as "data.csv: no column".
            found: the part of the error message after the missing name, which lists what the file
                contains.

        Returns:
            the names of the selected features, as in the file, and notes for the user.

        Raises:
            DataError: if a requested feature is missing, or if the file has no features.
        """
        if self.features is None:
            if not others:
                raise DataError(f"{lacks} with features; {found}.")
            return tuple(others), ()
        missing = [feature for feature in self.features if feature not in others]
        if not missing:
            left_out = [cell for cell in others if cell not in self.features]
            return self.features, ((f"left out: {join_names(left_out)}",) if left_out else ())
        if self.may_rename and len(others) == len(self.features) == len(missing):
            names = f"{', '.join(others)} are read as {', '.join(self.features)}"
            return tuple(others), (f"{names}, in this order",)
        raise DataError(f"{lacks} {missing[0]!r}; {found}. Needed are {join_names(self.features)}.")

    # --- other files in the same way --------------------------------------------------------------

    def resolve(self, ambiguity: AmbiguousData, like: Reading) -> Resolution:
        """Return the first of the possible readings of an ambiguous table that agrees with another
        table.

        Args:
            ambiguity: the error of the attempt to read the table as `self`.
            like: the reading of the other table.

        Raises:
            AmbiguousData: the given error, if no reading agrees, or if `self` already selects the
                reading that agrees.
        """
        for choice in ambiguity.choices:
            if choice.get("time_format") in like.time_formats or choice == {
                "decimal": like.decimal
            }:
                ((key, value),) = choice.items()
                if getattr(self, key) != value:
                    return Resolution(key, value)
        raise ambiguity

    def with_trained_decimal(self, delimiter: str | None) -> Reading:
        """Return the reading of a table with the given delimiter. The decimal mark is a comma if
        the user set no mark and the training table has this delimiter and decimal commas."""
        trained = self.trained
        if trained is None or delimiter is None or delimiter != trained.delimiter:
            return self
        has_comma = self.decimal == "auto" and trained.decimal == ","
        return replace(self, decimal=",") if has_comma else self

    def with_trained_roles(self, name: str, header: Sequence[str], *, is_wide: bool) -> Reading:
        """Return the reading of a table with the column roles of the training table.

        The values that the user set take precedence. If the training table had series or time
        columns, the other table must have the same columns. If the training table had none, the
        other table is read without such columns, unless the other table contains columns that were
        unknown in training. If either table is wide, series columns are optional.

        Args:
            name: name of the table, for messages.
            header: names of the columns in the table.
            is_wide: whether each row of the table is a sequence.
        """
        trained = self.trained
        assert trained is not None
        if is_wide or trained.layout == WIDE_LAYOUT:  # ids of rows are optional in wide tables
            series = trained.series_columns
            has_series = bool(series) and set(series) <= set(header)
            return replace(self, series=series) if self.series == "auto" and has_series else self
        found = self
        for role in ("series", "time"):
            found = found._with_trained_role(role, trained, name, header)
        has_role = {*found._assigned(trained), *(found.features or ())}
        ignored = [
            column for column in dict.fromkeys([*found.ignore, *trained.ignore])
            if (column in header or column not in trained.ignore) and column not in has_role
        ]  # fmt: skip
        return replace(found, ignore=tuple(ignored))

    def _with_trained_role(
        self, role: str, trained: Reading, name: str, header: Sequence[str]
    ) -> Reading:
        """Return the reading with the columns that have a role in the training table, unless the
        user set other columns.

        Raises:
            DataError: if the table lacks a column that it must have for this role.
        """
        value, columns = getattr(self, role), getattr(trained, f"{role}_columns")
        known = {*trained.series_columns, *trained.time_columns, *(trained.features or ()),
                 *trained.ignore, *self.one_hot}  # fmt: skip
        if value != columns and not (value == "auto" and (columns or known.issuperset(header))):
            return self
        lacking = next((column for column in columns if column not in header), None)
        if lacking is None:
            return replace(self, **{role: columns})
        assigned = {*self._assigned(trained), *self.ignore}
        assigned |= {*trained.series_columns, *trained.time_columns} - set(columns)
        unassigned = [column for column in header if column not in assigned]
        unassigned.sort(key=lambda column: column.casefold() != lacking.casefold())
        hint = f" or say which one it is: --set data.{role}={unassigned[0]};" if unassigned else ""
        was, none = ROLE_PHRASES[role]
        hint += f" or, {none}: --set data.{role}=null."
        raise DataError(
            f"{name}: no column {lacking!r}, which {was} in the training; found"
            f" {join_names(header)}. {renaming('.' if self.is_training else f';{hint}')}"
        )

    def _assigned(self, trained: Reading) -> set[str | None]:
        """Return the names of the series, time, group and one-hot columns, and of the features in
        training."""
        return {*self.one_hot, self.group, *(trained.features or ()), *self.series_columns,
                *self.time_columns}  # fmt: skip

    # --- writing and storing ----------------------------------------------------------------------

    def without_text_style(self) -> Reading:
        """Return the style for a file in another format, with only the names of the series columns
        and of the first time column."""
        return replace(
            self, delimiter=None, decimal="auto", time=self.time_columns[:1], time_formats=()
        )

    def as_plain(self) -> dict[str, Any]:
        """Return what another table needs to be read in the same way, as JSON-serializable data."""
        names = {key: list(getattr(self, key) or ()) for key in STORED_NAMES}
        return {
            "layout": self.layout, "delimiter": self.delimiter, "decimal": self.decimal, **names,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Reading:
        """Build a reading from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError: if `plain` is not an output of `as_plain`.
        """
        layout, decimal, delimiter = plain["layout"], plain["decimal"], plain["delimiter"]
        if layout not in (LONG_LAYOUT, WIDE_LAYOUT) or decimal not in (".", ",", "auto"):
            raise ValueError("no such layout or decimal mark")
        if delimiter is not None and not isinstance(delimiter, str):
            raise TypeError("the delimiter is no text")
        names: dict[str, Any] = {key: tuple(plain[key]) for key in STORED_NAMES}
        if not all(isinstance(name, str) for some in names.values() for name in some):
            raise TypeError("a name is no text")
        return cls(layout=layout, delimiter=delimiter, decimal=decimal, **names)


def join_names(names: Sequence[str]) -> str:
    """Join the first twelve names of a list for a message, and append the number of further names
    if the list is longer."""
    shown = list(map(shorten, names[:12]))
    more = [f"and {len(names) - 12} more"] if len(names) > 12 else []
    return ", ".join([*shown, *more]) or "nothing"


def shorten(text: str, size: int = MAX_SHOWN) -> str:
    """Return a text for a message. If the text has more than `size` characters, return the first
    `size` characters and "..."."""
    return text if len(text) <= size else f"{text[:size]}..."


SHORT_OPTIONS = {"na_values": "--na"}
"""The options that are not named after their config key, by key."""
Origin = Literal["config", "options", "frame"]
_origin: ContextVar[Origin] = ContextVar("_origin", default="config")


@contextlib.contextmanager
def name_origin(origin: Origin) -> Iterator[None]:
    """Return a context manager in which messages contain the remedies for an origin of settings:
    config keys, the options of `seqattn data check`, or a DataFrame in Python."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)


def renaming(others: str = ".") -> str:
    """Return text for a message that states to rename a column.

    Args:
        others: the end of the sentence, with remedies other than renaming the column of a file.
    """
    if _origin.get() == "frame":
        return "Rename a column of the DataFrame, or its index."
    return f"Rename the column in the file{others}"


def setting(key: str, value: str | Sequence[str] | None = "") -> str:
    """Return text for a message that states how to set a key of the section `data`.

    For example, the text is `data.ignore: ['day']`, or `--ignore day` in `seqattn data check`.

    Args:
        key: the key without `data.`.
        value: the value, a list of values, None for `null` or `none`, or "" for the name alone.
    """
    if _origin.get() == "options":
        option = SHORT_OPTIONS.get(key, f"--{key.replace('_', '-')}")
        if value == "":
            return option
        if value is None:
            return f"{option} none"
        text = shlex.quote(value if isinstance(value, str) else ",".join(value))
        return f"{option}={text}" if text.startswith("-") or text == "''" else f"{option} {text}"
    if value == "":
        return f"data.{key}"
    if value is None:
        return f"data.{key}: null"
    return f"data.{key}: {as_value(value) if isinstance(value, str) else list(value)}"
