"""What a reader of files is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Auto = Literal["auto"]


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be understood.

    Attributes:
        format: csv, tsv, jsonl, json, npz, npy, parquet or arrow; auto goes by the file's ending.
        layout: of a table: long, wide, or auto.
        delimiter, comment, encoding: of a text; None: found.
        has_header: of a text; None: found.
        skip_rows: lines of a text before its header.
        decimal, thousands: signs inside numbers of a text; auto: found. `thousands` None: there is
            none.
        na_values: what an empty cell may hold, beside the usual; None: the usual alone, and a
            number that looks like a missing value is asked about.
        time_format: of dates, as strftime has it; None: found.
        series: columns that name the sequence of a row; (): all rows are one; auto: found.
        time: columns that count up within a sequence; None: rows are in order; auto: found.
        group: column of groups; None: there is none.
        features: columns to be read, in this order; None: all that have no other purpose. A word of
            a `one_hot` column is called column=word.
        ignore: columns that are left out.
        one_hot: columns of words that become a feature for each word.
        may_rename: where no column has the name of a feature, but there are as many columns, they
            are taken in their own order.
        asks: whether a number that looks like a missing value is a question; else it is a note.
        source_and_target: features of source and of target, for an NPZ file with an array and
            names for each; None: `features`, and all of the target.
        most: numbers of one sequence of a table with a point a row; None: any.
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
    series: tuple[str, ...] | Auto = "auto"
    time: tuple[str, ...] | Auto | None = "auto"
    group: str | None = None
    features: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    may_rename: bool = False
    asks: bool = True
    source_and_target: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    most: int | None = None

    @property
    def number_columns(self) -> tuple[str, ...] | None:
        """The features that are columns of numbers; None: all there are."""
        if self.features is None:
            return None
        return tuple(name for name in self.features if not self._is_word(name))

    def words(self, column: str) -> tuple[str, ...] | None:
        """The words of a column that are features; None: all that it holds."""
        begin = f"{column}="
        found = [n.removeprefix(begin) for n in self.features or () if n.startswith(begin)]
        return tuple(found) or None

    def _is_word(self, name: str) -> bool:
        return any(name.startswith(f"{column}=") for column in self.one_hot)
