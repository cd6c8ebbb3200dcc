"""Options for reading files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from seqattn.data.column_roles import ColumnRoles

Auto = Literal["auto"]


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file. Auto and None stand for values that are detected, unless noted.

    Attributes:
        format: csv, tsv, jsonl, json, npz, npy, parquet or arrow; auto: by the suffix of the file.
        layout: of a table: long, wide, or auto.
        delimiter, comment, encoding, has_header: of a text file.
        skip_rows: number of lines of a text file before its header.
        decimal, thousands: decimal mark and thousands separator of a text file. `thousands` None:
            there is no separator.
        na_values: words for empty cells besides the usual ones; None: only the usual ones, and
            numbers that look like a missing value are handled as `is_training` says.
        time_format: strftime format of dates.
        series: columns with the series id; (): all rows are one series.
        time: columns with the time; None: rows are in order.
        group: column with the group; None: there is none.
        features: columns to read, in this order; None: all columns without another role. A feature
            of a `one_hot` column is called column=word.
        ignore: columns to leave out.
        one_hot: columns of words that become one feature per word.
        may_rename: whether to take the columns in order if none has the name of a feature, but
            their number matches.
        is_training: whether a number that looks like a missing value is an error; else it is a
            note.
        source_and_target: source and target features of an NPZ file with separate arrays; None:
            `features` for the source, and all target features.
        roles: roles of the columns of the training table, for options that are auto; None: there
            are none.
        max_values: most values of one sequence of a long table; None: no limit.
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
    is_training: bool = True
    source_and_target: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    roles: ColumnRoles | None = None
    max_values: int | None = None

    @property
    def number_columns(self) -> tuple[str, ...] | None:
        """The features that are columns of numbers; None: all."""
        if self.features is None:
            return None
        return tuple(name for name in self.features if not self._is_word(name))

    def words(self, column: str) -> tuple[str, ...] | None:
        """The words of a one-hot column that are features; None: all."""
        begin = f"{column}="
        found = [n.removeprefix(begin) for n in self.features or () if n.startswith(begin)]
        return tuple(found) or None

    def _is_word(self, name: str) -> bool:
        return any(name.startswith(f"{column}=") for column in self.one_hot)
