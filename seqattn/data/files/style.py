"""The style of a table file, so that forecasts are written like the input."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class TableStyle:
    """How a table is written.

    Attributes:
        separator: of a text file; None: that of the format.
        decimal: the decimal mark of a text file.
        series: columns with the series id; empty: there are none.
        time: columns with the time; empty: there are none.
        time_formats: strftime format of each column of `time`, with %q for the quarter; empty:
            ISO 8601 in one column.
    """

    separator: str | None = None
    decimal: str = "."
    series: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    time_formats: tuple[str, ...] = ()

    def without_format(self) -> TableStyle:
        """The style with the column names alone, for a file of another format."""
        return replace(self, separator=None, decimal=".", time=self.time[:1], time_formats=())


DEFAULT_STYLE = TableStyle()
