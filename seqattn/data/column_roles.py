"""The roles of the columns in a training table, for reading other tables in the same way."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from seqattn.data.table_style import TableStyle
from seqattn.errors import AmbiguousData, DataError

if TYPE_CHECKING:
    from seqattn.data.reading import ReadOptions

LONG_LAYOUT, WIDE_LAYOUT = "long", "wide"
FILE_SPECIFIC_REASONS = ("it is constant", "it is empty", "the same in every row")
"""Phrases that occur in reasons for ignoring a column. A reason that contains one of them may apply
to one file only."""
NO_COLUMN: dict[str, Any] = {"series": (), "time": None}
"""For each role, the option value that indicates that no column has the role."""
ROLE_PHRASES = {
    "series": ("identified the series", "if all rows are one series"),
    "time": ("gave the time", "to take the rows in order"),
}
"""For each role, two phrases for error messages: the purpose of the columns during training, and
the meaning of the value null."""


@dataclass(frozen=True)
class Resolution:
    """The reading of an ambiguous table that agrees with another table.

    Attributes:
        key: the key of the `data` section that selects the reading: time_format or decimal.
        value: the value of the key.
    """

    key: str
    value: str

    def apply_to(self, options: ReadOptions) -> ReadOptions:
        return replace(options, **{self.key: self.value})  # type: ignore[arg-type]

    def note(self, like: str) -> str:
        """Return a note for the user, without a verb.

        Args:
            like: the origin of the other table, such as "in the training".
        """
        return f"read with data.{self.key}: {self.value!r}, as {like}"


@dataclass(frozen=True)
class ColumnRoles:
    """The role of each column of a table.

    Attributes:
        layout: "long" (one row per step) or "wide" (one row per sequence).
        series: names of the columns with the series id; empty if there are none.
        time: names of the columns with the time; empty if there are none.
        features: names of the numeric feature columns.
        ignored: the reason for leaving out each ignored column, by column name.
        time_formats: `strftime` format of each time column of a text file, or of a single column of
            integers such as 20011229; empty if the times are not dates or if their format is
            unknown.
        delimiter: the delimiter of a text file, or None for other files.
        decimal: the decimal mark of a text file.
        has_decimals: whether numbers of a text file have decimals, so that they show the mark.
    """

    layout: str
    series: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)
    time_formats: tuple[str, ...] = ()
    delimiter: str | None = None
    decimal: str = "."
    has_decimals: bool = True

    def as_plain(self) -> dict[str, Any]:
        """Return the roles as JSON-serializable data."""
        return {
            "layout": self.layout, "series": list(self.series), "time": list(self.time),
            "features": list(self.features), "ignored": dict(self.ignored),
            "time_formats": list(self.time_formats), "delimiter": self.delimiter,
            "decimal": self.decimal, "has_decimals": self.has_decimals,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ColumnRoles:
        """Build the roles from the output of `as_plain`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: if `plain` is not an output of
                `as_plain`.
        """
        if plain["layout"] not in (LONG_LAYOUT, WIDE_LAYOUT):
            raise ValueError("no such layout")
        series, time, features, formats = (
            tuple(str(name) for name in plain[key])
            for key in ("series", "time", "features", "time_formats")
        )
        ignored = {str(name): str(reason) for name, reason in plain["ignored"].items()}
        delimiter = None if plain["delimiter"] is None else str(plain["delimiter"])
        return cls(
            plain["layout"], series, time, features, ignored, formats, delimiter,
            str(plain["decimal"]),
            bool(plain["has_decimals"]),
        )  # fmt: skip

    @property
    def style(self) -> TableStyle:
        """The text style for writing a table with these roles."""
        return TableStyle(self.delimiter, self.decimal, self.series, self.time, self.time_formats)

    @property
    def _known(self) -> tuple[str, ...]:
        """Names of the series, time and feature columns in training, and of the ignored columns.
        Columns that were ignored for a reason that may be specific to one file are left out."""
        return *self.series, *self.time, *self.features, *self._ignored

    @property
    def _ignored(self) -> list[str]:
        return [
            name for name, reason in self.ignored.items()
            if not any(phrase in reason for phrase in FILE_SPECIFIC_REASONS)
        ]  # fmt: skip

    def with_decimal(self, options: ReadOptions, delimiter: str | None) -> ReadOptions:
        """Return the options for a table with the given delimiter. The options get a decimal comma
        if the user set no decimal mark and the training table has this delimiter and a decimal
        comma."""
        is_alike = delimiter is not None and delimiter == self.delimiter
        if options.decimal == "auto" and self.decimal == "," and is_alike:
            return replace(options, decimal=",")
        return options

    def resolve(self, ambiguity: AmbiguousData, options: ReadOptions) -> Resolution:
        """Return the first of the possible readings of an ambiguous table that agrees with the
        training table.

        Args:
            ambiguity: the error of the attempt to read the table.
            options: the options of this attempt.

        Raises:
            AmbiguousData: the given error, if no reading agrees, or if the options already select
                the reading that agrees.
        """
        for choice in ambiguity.choices:
            if choice.get("time_format") in self.time_formats or (
                self.has_decimals and choice == {"decimal": self.decimal}
            ):
                ((key, value),) = choice.items()
                if getattr(options, key) != value:
                    return Resolution(key, value)
        raise ambiguity

    def apply_to(
        self, options: ReadOptions, name: str, header: Sequence[str], *, is_wide: bool
    ) -> ReadOptions:
        """Return the options for reading another table with the roles of the training table.

        The options that the user set take precedence. If the training table had series or time
        columns, the other table must have the same columns. If the training table had none, the
        other table is read without such columns, unless the other table contains columns that were
        unknown in training. If either table is wide, series columns are optional.

        Args:
            options: the options that the user set.
            name: name of the table, for messages.
            header: names of the columns in the table.
            is_wide: whether each row of the table is a sequence.

        Raises:
            DataError: if the table lacks a series or time column that it must have.
        """
        if is_wide or self.layout == WIDE_LAYOUT:  # ids of rows are optional in wide tables
            has_series = bool(self.series) and set(self.series) <= set(header)
            is_open = options.series == "auto" and has_series
            return replace(options, series=self.series) if is_open else options
        options = self._with_role(options, "series", name, header)
        options = self._with_role(options, "time", name, header)
        has_role = {*self._assigned(options), *(options.features or ())}
        ignored = [
            column for column in (*options.ignore, *self._ignored)
            if (column in header or column not in self.ignored) and column not in has_role
        ]  # fmt: skip
        return replace(options, ignore=tuple(ignored))

    def _with_role(
        self, options: ReadOptions, role: str, name: str, header: Sequence[str]
    ) -> ReadOptions:
        """Set the columns of one role in the options unless the user set them, and return the
        options.

        Args:
            options: the options before the role is set.
            role: "series" or "time".
            name: name of the table, for messages.
            header: names of the columns in the table.

        Raises:
            DataError: if the table lacks a column that it must have for this role.
        """
        from seqattn.data.chunk import join_names

        option, trained = getattr(options, role), getattr(self, role)
        only_known = {*self._known, *options.one_hot}.issuperset(header)
        if option != trained and not (option == "auto" and (trained or only_known)):
            return options
        lacking = next((column for column in trained if column not in header), None)
        if lacking is None:
            return replace(options, **{role: trained or NO_COLUMN[role]})
        assigned = {*self._assigned(options), *options.ignore}
        assigned |= {*self.series, *self.time} - set(trained)
        unassigned = [column for column in header if column not in assigned]
        unassigned.sort(key=lambda column: column.casefold() != lacking.casefold())
        hint = f" or say which one it is: --set data.{role}={unassigned[0]};" if unassigned else ""
        was, none = ROLE_PHRASES[role]
        hint += f" or, {none}: --set data.{role}=null."
        raise DataError(
            f"{name}: no column {lacking!r}, which {was} in the training; found"
            f" {join_names(header)}. Rename the column in the file"
            f"{'.' if options.is_training else f';{hint}'}"
        )

    def _assigned(self, options: ReadOptions) -> set[str | None]:
        """Return the names of the series, time, group and one-hot columns in the options, and of
        the features in training."""
        roles = (each for each in (options.series, options.time) if each and each != "auto")
        return {*options.one_hot, options.group, *self.features, *itertools.chain(*roles)}
