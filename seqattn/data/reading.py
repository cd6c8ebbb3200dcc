"""Options for reading files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from seqattn.data.column_roles import ColumnRoles

Auto = Literal["auto"]


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a file.

    The value "auto" or None means that the reader detects the value, unless the description of the
    attribute gives another meaning.

    Attributes:
        format: csv, tsv, jsonl, json, npz, npy, parquet or arrow. If "auto", the suffix of the file
            determines the format.
        layout: layout of a table or of an array with two axes: "long", "wide" or "auto".
        delimiter: delimiter of a text file.
        comment: prefix of comment lines in a text file.
        encoding: encoding of a text file.
        has_header: whether a text file has a header.
        skip_rows: number of lines before the header of a text file.
        decimal: decimal mark of a text file.
        thousands: thousands separator of a text file, or None if the file has no separator.
        na_values: words for empty cells in addition to the usual words. If None, only the usual
            words indicate an empty cell, and `is_training` determines the effect of a number that
            looks like a missing value.
        time_format: `strftime` format of dates.
        series: names of the columns with the series id, or () if all rows are one series.
        time: names of the columns with the time, or None if the order of the rows is the time
            order.
        group: name of the column with the group, or None if there is no group.
        features: names of the columns to read, in this order, or None for all columns without
            another role. A feature from a `one_hot` column is named `column=word`.
        ignore: names of columns to leave out.
        one_hot: names of columns that contain words. Each word becomes a feature.
        may_rename: whether to take the columns in order if there are as many columns as features
            but no column has the name of a feature.
        is_training: whether a number that looks like a missing value is an error. If False, such a
            number only causes a note.
        source_and_target: names of the source features and of the target features in an NPZ file
            with separate arrays. If None, `features` selects the source features. It also selects
            the target features if the file has the same feature names for source and target;
            otherwise, all target features are read.
        roles: roles of the columns in the training table, or None. These roles may replace the
            value "auto" of other attributes.
        max_values: maximum number of values in one sequence of a long table, or None for no limit.
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
        """Names of the features that are numeric columns, or None for all numeric columns."""
        if self.features is None:
            return None
        return tuple(name for name in self.features if not self._is_word(name))

    def words(self, column: str) -> tuple[str, ...] | None:
        """Return the words of a one-hot column that `features` selects. If `features` selects none
        of them, return None, which stands for all words."""
        begin = f"{column}="
        found = [n.removeprefix(begin) for n in self.features or () if n.startswith(begin)]
        return tuple(found) or None

    def _is_word(self, name: str) -> bool:
        return any(name.startswith(f"{column}=") for column in self.one_hot)
