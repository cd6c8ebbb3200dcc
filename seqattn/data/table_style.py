"""The style of a table file. Forecasts are written in the style of the input file."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class TableStyle:
    """The separator, number format, and series and time columns of a table to write.

    Attributes:
        separator: separator of a text file, or None for the usual separator of the format.
        decimal: decimal mark of a text file.
        series: names of the columns with the series id; empty if there are none.
        time: names of the columns with the time; empty if there are none.
        time_formats: `strftime` format of each column in `time`, with `%q` for the quarter; if
            empty, dates are written in ISO 8601 format in a single column.
    """

    separator: str | None = None
    decimal: str = "."
    series: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    time_formats: tuple[str, ...] = ()

    def without_format(self) -> TableStyle:
        """Return the style for a file in another format, with only the names of the series columns
        and of the first time column."""
        return replace(self, separator=None, decimal=".", time=self.time[:1], time_formats=())


DEFAULT_STYLE = TableStyle()
