"""The roles that a training found for the columns of a table, and another table read by them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from seqattn.data.files.style import TableStyle
from seqattn.errors import DataError

if TYPE_CHECKING:
    from seqattn.data.files.options import ReadOptions

LONG_LAYOUT, WIDE_LAYOUT = "long", "wide"
FILE_SPECIFIC_REASONS = ("it is constant", "it is empty", "the same in every row")
"""Reasons why columns are left out that may not hold for another file."""
NO_COLUMN: dict[str, Any] = {"series": (), "time": None}
"""What options say of a role that no column has."""
ROLE_PHRASES = {
    "series": ("told the series apart", "if all rows are one series"),
    "time": ("gave the time", "to take the rows as they come"),
}
"""What a column of a role did in the training, and when there is none."""


@dataclass(frozen=True)
class ColumnRoles:
    """What each column of a table was taken for.

    Attributes:
        layout: long (a row is a step) or wide (a row is a sequence).
        series: columns that name the sequence of a row; (): all rows are one.
        time: columns that count up within a sequence; (): rows are in order.
        features: columns of numbers.
        ignored: columns that were left out, with the reason.
        time_formats: of dates of a text, a column each; (): ISO 8601, or there were none.
        delimiter: between the cells of a text; None: it was none.
        decimal: the decimal mark of a text.
    """

    layout: str
    series: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)
    time_formats: tuple[str, ...] = ()
    delimiter: str | None = None
    decimal: str = "."

    def as_plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "layout": self.layout, "series": list(self.series), "time": list(self.time),
            "features": list(self.features), "ignored": dict(self.ignored),
            "time_formats": list(self.time_formats), "delimiter": self.delimiter,
            "decimal": self.decimal,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ColumnRoles:
        """
        Raises:
            KeyError, TypeError, ValueError: it is not what `as_plain` wrote.
        """
        if plain["layout"] not in (LONG_LAYOUT, WIDE_LAYOUT):
            raise ValueError("no such layout")
        series, time, features, formats = (
            tuple(str(name) for name in plain[key])
            for key in ("series", "time", "features", "time_formats")
        )
        ignored = {str(name): str(why) for name, why in plain["ignored"].items()}
        delimiter = None if plain["delimiter"] is None else str(plain["delimiter"])
        return cls(
            plain["layout"], series, time, features, ignored, formats, delimiter,
            str(plain["decimal"]),
        )  # fmt: skip

    @property
    def style(self) -> TableStyle:
        """How a table is written that is read like this one."""
        return TableStyle(self.delimiter, self.decimal, self.series, self.time, self.time_formats)

    @property
    def _known(self) -> tuple[str, ...]:
        """Columns whose role holds for any file."""
        return *self.series, *self.time, *self.features, *self._ignored

    @property
    def _ignored(self) -> list[str]:
        return [
            name for name, why in self.ignored.items()
            if not any(reason in why for reason in FILE_SPECIFIC_REASONS)
        ]  # fmt: skip

    def with_decimal(self, options: ReadOptions, delimiter: str | None) -> ReadOptions:
        """Options with the decimal comma of the training, for a text with the same delimiter: there
        1.234 is a thousand and more."""
        is_alike = delimiter is not None and delimiter == self.delimiter
        if options.decimal == "auto" and self.decimal == "," and is_alike:
            return replace(options, decimal=",")
        return options

    def answer(self, choices: Sequence[Mapping[str, str]]) -> Mapping[str, str] | None:
        """Which of several readings the training had; None: it does not say."""
        for choice in choices:
            if choice.get("time_format") in self.time_formats or (
                self.decimal == "," and choice == {"decimal": ","}
            ):
                return choice
        return None

    def applied(
        self, options: ReadOptions, name: str, header: Sequence[str], *, is_wide: bool
    ) -> ReadOptions:
        """How another table is read: by these roles, wherever `options` say auto.

        A column that the training had for series or time must be there. Where it had none, the
        table has none either, unless it has columns that the training did not know.

        Args:
            name: of the table, for messages.
            is_wide: whether the table has a sequence a row.

        Raises:
            DataError: the table lacks the column of the series or of the time.
        """
        if is_wide or self.layout == WIDE_LAYOUT:  # a row may be a sequence whatever names it
            has_series = bool(self.series) and set(self.series) <= set(header)
            is_asked = options.series == "auto" and has_series
            return replace(options, series=self.series) if is_asked else options
        options = self._with_role(options, "series", name, header)
        options = self._with_role(options, "time", name, header)
        has_role = {*self._taken(options), *(options.features or ())}
        ignored = [
            column for column in (*options.ignore, *self._ignored)
            if (column in header or column not in self.ignored) and column not in has_role
        ]  # fmt: skip
        return replace(options, ignore=tuple(ignored))

    def _with_role(
        self, options: ReadOptions, role: str, name: str, header: Sequence[str]
    ) -> ReadOptions:
        """
        Args:
            role: series or time.

        Raises:
            DataError: a column of the role is not there.
        """
        from seqattn.data.files.columns import join_names

        given, trained = getattr(options, role), getattr(self, role)
        only_known = {*self._known, *options.one_hot}.issuperset(header)
        if given != trained and not (given == "auto" and (trained or only_known)):
            return options
        lacking = next((column for column in trained if column not in header), None)
        if lacking is None:
            return replace(options, **{role: trained or NO_COLUMN[role]})
        taken = {*self._taken(options), *options.ignore}
        taken |= {*self.series, *self.time} - set(trained)
        left = [column for column in header if column not in taken]
        left.sort(key=lambda column: column.casefold() != lacking.casefold())
        instead = f" or say which one it is: --set data.{role}={left[0]};" if left else ""
        was, none = ROLE_PHRASES[role]
        instead += f" or, {none}: --set data.{role}=null."
        raise DataError(
            f"{name}: no column {lacking!r}, which {was} in the training; found"
            f" {join_names(header)}. Rename the column in the file"
            f"{'.' if options.asks else f';{instead}'}"
        )

    def _taken(self, options: ReadOptions) -> set[str | None]:
        """Columns that have a role, in the options or in the training."""
        roles = (each for each in (options.series, options.time) if each and each != "auto")
        return {*options.one_hot, options.group, *self.features, *itertools.chain(*roles)}
