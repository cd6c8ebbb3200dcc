"""How a table is written, so that it can be read like the file it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class TableStyle:
    """
    Attributes:
        separator: between the cells of a text; None: that of the format.
        decimal: the decimal mark of a text.
        series: columns that name a sequence, one or several; none: the file has none.
        time: columns that say when; none: the file has none.
        time_formats: a format of dates for each column of `time`, as strftime has it, and %q for
            the quarter; empty: ISO 8601 in one column.
    """

    separator: str | None = None
    decimal: str = "."
    series: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    time_formats: tuple[str, ...] = ()

    def without_format(self) -> TableStyle:
        """The names of the columns alone, for a file of another format."""
        return replace(self, separator=None, decimal=".", time=self.time[:1], time_formats=())


DEFAULT_STYLE = TableStyle()
