"""Reader of long tables, in which each row is a step. Rows are sorted by series and time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.chunk import DATES, Chunk, Ragged, Where, step_text, to_offsets
from seqattn.data.missing_values import SentinelCounter
from seqattn.data.reading import Reading, setting
from seqattn.data.tables.columns import (
    Column,
    LeftOutColumn,
    Reason,
    describe_empty_cells,
    first_non_number,
    shown_decimal,
)
from seqattn.data.tables.connection import literal
from seqattn.data.tables.facts import are_in_order
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.times import DIGITS_OF_DATES, TimeColumn
from seqattn.errors import DataError

_ISO = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}(?:([T ])\d{1,2}:\d{2}(:\d{2}(?:([.,])\d{1,9})?)?)?"
    r"( ?(?:Z|UTC|[+-]\d{2}(?::?\d{2})?))?"
)
_UNIT_FORMATS = ("%Y", "%m", "%d", "%H", "%M", "%S")
COPY, SORTED = "sorted_copy", "sorted_rows"
CHUNK_ROWS = 2**20
"""Maximum number of rows in a chunk of several sequences."""
FETCH_ROWS = 2**17
"""Maximum number of rows in one fetch from the database."""


@dataclass(frozen=True, eq=False)
class LongTable:
    """A long table with the roles of its columns.

    Attributes:
        table: the rows.
        reading: how the table is read, with the roles of its columns.
        columns: the columns by name.
        time: the time, or None if the order of the rows is the time order.
        numbers: names of the feature columns that contain numbers.
        features: the SQL expression of each feature by name. A feature is one of `numbers` or the
            indicator (0 or 1) of a word in a one-hot column.
        ignored: the reason for leaving out each ignored column, by column name.
        reasons: the reasons for the inferred series id and time columns, as phrases.
    """

    table: Table
    reading: Reading
    columns: Mapping[str, Column]
    time: TimeColumn | None
    numbers: tuple[str, ...]
    features: Mapping[str, str]
    ignored: Mapping[str, LeftOutColumn]
    reasons: tuple[str, ...]

    @classmethod
    def of(
        cls, table: Table, reading: Reading, columns: Mapping[str, Column],
        time: TimeColumn | None, numbers: tuple[str, ...], ignored: Mapping[str, LeftOutColumn],
        reasons: tuple[str, ...],
    ) -> LongTable:  # fmt: skip
        """Complete the reading of a table by its features and by the formats of its times and
        numbers."""
        features = _feature_sql(table, reading, columns, numbers)
        known = [columns[name] for name in (*numbers, *reading.time)]
        known = [column for column in known if column.kind == "number"]
        found = replace(
            reading, features=tuple(features), time_formats=_formats(table, columns, time),
            decimal=shown_decimal(table, known),
        )  # fmt: skip
        long = cls(table, found, columns, time, numbers, features, ignored, reasons)
        if len(special := long.config_time_formats) == 1:
            return replace(long, reading=replace(found, time_format=special.pop()))
        return long

    @property
    def config_time_formats(self) -> set[str]:
        """The `strftime` formats of the time columns whose format is not ISO 8601."""
        if self.time is None:
            return set()
        formats = {form for name in self.time.names for form in self.columns[name].formats[:1]}
        return formats | ({self.time.format} if self.time.format else set())

    @property
    def id_sql(self) -> str:
        """SQL expression for the name of a sequence."""
        keys = ", ".join(f"s{i}" for i in range(len(self.reading.series)))
        return f"concat_ws('/', {keys})" if keys else "''"

    def chunks(self, *, whole: bool = False) -> Iterator[Chunk]:
        """Yield the sequences in chunks.

        Args:
            whole: whether to yield all sequences as one chunk.

        Raises:
            DataError: if a sequence has two groups or no group.
        """
        table, group, series = self.table, self.reading.group, self.reading.series
        notes = self._sort()
        keys = "".join(f"s{i}, " for i in range(len(series)))
        count_groups = (
            ""
            if group is None
            else f", any_value(grp) AS grp, count(DISTINCT grp) AS grps, min({ROW}) AS first_row"
        )
        found = table.connection.execute(
            f"SELECT any_value({self.id_sql}) AS series, count(*) AS n{count_groups}"
            f" FROM {SORTED} GROUP BY {keys}'' ORDER BY min({ROW})"
        ).fetchnumpy()
        lengths = np.asarray(found["n"]).astype(np.int64)
        groups = None
        if group is not None:
            several = np.flatnonzero(np.asarray(found["grps"]) > 1)
            if several.size:
                name = str(found["series"][several[0]])
                words = table.query(
                    f"SELECT DISTINCT grp FROM {SORTED} WHERE {self.id_sql} = {literal(name)}"
                    " ORDER BY 1 LIMIT 2"
                )
                raise DataError(
                    f"{table.name}: series {name!r} has the groups {words[0][0]!r} and"
                    f" {words[1][0]!r} in column {group!r}; it may have one."
                )
            without = np.flatnonzero(np.ma.getmaskarray(found["grp"]))
            if without.size:
                line = table.line(int(found["first_row"][without[0]]))
                raise DataError(f"{table.name}: {line}, column {group!r} is empty.")
            groups = tuple(map(str, found["grp"]))
        ids = tuple(map(str, found["series"])) if series else (Path(table.name).stem or "series",)
        parts = None
        if len(series) > 1:
            texts = ", ".join(self.columns[name].text for name in series)
            parts = tuple(
                table.query(f"SELECT {texts} FROM {ROWS} GROUP BY ALL ORDER BY min({ROW})")
            )
        names = tuple(self.features)

        def places(rows: NDArray[Any]) -> Where:
            return lambda row, k: f"{table.line(int(rows[row]))}, column {names[k]!r}"

        marks = SentinelCounter(table.name, self.reading, "column")
        for first, last in _chunk_bounds(lengths, whole):
            begin, end = int(lengths[:first].sum()), int(lengths[:last].sum())
            rows, order, values = self._fetch_rows(begin, end)
            points = Ragged(values, to_offsets(lengths[first:last]), names)
            more = marks.add(
                replace(points, values=values[:, : len(self.numbers)], features=self.numbers)
            )
            yield Chunk(
                ids=ids[first:last], points=points, where=places(rows), order=order,
                groups=None if groups is None else groups[first:last], notes=(*notes, *more),
                reading=self.reading, id_parts=None if parts is None else parts[first:last],
            )  # fmt: skip
        marks.check()

    def _sort(self) -> tuple[str, ...]:
        """Create the view `SORTED` of the rows with their positions, and return notes for the user.

        The view is sorted by sequence and then by time. The sequences are in the order of their
        first rows in the file. The rows are copied only if they are not already sorted.
        """
        table = self.table
        texts = [self.columns[name].text for name in self.reading.series]
        self._check_ids()
        time = self.time.sql if self.time is not None else f"CAST({ROW} AS DOUBLE)"
        group = "''" if self.reading.group is None else self.columns[self.reading.group].text
        columns = [f"{text} AS s{i}" for i, text in enumerate(texts)]
        columns += [f"{time} AS step", f"{group} AS grp"]
        columns += [
            f"CAST({sql} AS DOUBLE) AS v{i}" for i, sql in enumerate(self.features.values())
        ]
        rows = f"{ROW}, {', '.join(columns)} FROM {ROWS}"
        typed = f"SELECT {rows}"
        notes, sorted_rows = [*table.notes], f"SELECT rowid AS place, {rows}"
        in_order = are_in_order(table, texts, time)
        if not in_order:
            keys = ", ".join(f"s{i}" for i in range(len(texts)))
            first_rows = f"SELECT {keys}, min({ROW}) AS first_row FROM typed GROUP BY {keys}"
            joined = f"typed JOIN ({first_rows}) USING ({keys})"
            table.connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {COPY} AS WITH typed AS ({typed}) SELECT * FROM"
                f" {joined if keys else '(SELECT *, 1 AS first_row FROM typed)'} ORDER BY"
                f" first_row, step, {ROW}"
            )
            sorted_rows = f"SELECT rowid AS place, * FROM {COPY}"
            if self.time is not None:
                self._check_times(self.time)
        table.connection.execute(f"CREATE OR REPLACE TEMP VIEW {SORTED} AS {sorted_rows}")
        if self.time is not None and self.time.note:
            notes.append(self.time.note)
        if not in_order:
            back = f"SELECT {ROW} < lag({ROW}) OVER () AS back FROM {COPY}"
            if table.one(f"SELECT count(*) FILTER (back) FROM ({back})")[0]:
                notes.append("rows are sorted by series and time, which they were not")
        return (*notes, *self._column_notes())

    def _column_notes(self) -> Iterator[str]:
        """Yield notes for the user on features and on columns that are left out."""
        for name in self.numbers:
            column = self.columns[name]
            if column.note:
                yield f"{name!r}: {column.note}"
            if empty := describe_empty_cells(self.table, column):
                yield empty
        for name, why in self.ignored.items():
            if why.reason != Reason.BY_USER:
                yield f"{name!r} is left out: {why}"

    def _check_ids(self) -> None:
        """Check that each row has a series id.

        Raises:
            DataError: if a series id is empty.
        """
        for name in self.reading.series:
            text = self.columns[name].text
            (row,) = self.table.one(f"SELECT min({ROW}) FROM {ROWS} WHERE {text} IS NULL")
            if row is not None:
                line = self.table.line(row)
                raise DataError(f"{self.table.name}: {line}, column {name!r} is empty.")

    def _check_times(self, time: TimeColumn) -> None:
        """Check that times are unique in each sequence.

        Raises:
            DataError: if a sequence has two rows with the same time.
        """
        table = self.table
        twice = table.query(
            f"SELECT {ROW}, before, {self.id_sql}, step FROM (SELECT *, lag({ROW}) OVER w AS"
            f" before, lag(step) OVER w AS last, lag(first_row) OVER w AS last_series FROM {COPY}"
            f" WINDOW w AS ()) WHERE step = last AND first_row = last_series ORDER BY"
            f" {ROW} LIMIT 1"
        )
        if twice:
            row, before, series, step = twice[0]
            of_series = f" of series {series!r}" if self.reading.series else ""
            shown = step_text(np.datetime64(step, "us") if time.is_date else step)
            raise DataError(
                f"{table.name}: {table.line(before)} and {table.line(row)} are both of time {shown}"
                f"{of_series}. Remove one of them, or name the column that distinguishes them:"
                f" {setting('series', 'COLUMN')}."
            )

    def _fetch_rows(
        self, begin: int, end: int
    ) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.float64]]:
        """Fetch a range of sorted rows.

        Returns:
            the row numbers in the file, the times or None, and the values (rows, F).
        """
        F = len(self.features)
        cells = "".join(f", coalesce(v{i}, 'nan'::DOUBLE) AS v{i}" for i in range(F))
        rows, points = np.empty(end - begin, np.int64), np.empty((end - begin, F))
        is_date = self.time is not None and self.time.is_date
        order = np.empty(end - begin, DATES if is_date else np.float64)
        for first in range(begin, end, FETCH_ROWS):
            last = min(first + FETCH_ROWS, end)
            block = slice(first - begin, last - begin)
            found = self.table.connection.execute(
                f"SELECT {ROW} AS r, step{cells} FROM {SORTED} WHERE place >= {first} AND place <"
                f" {last}"  # in order because of preserve_insertion_order in connection.py
            ).fetchnumpy()
            rows[block], order[block] = found["r"], found["step"]
            for i in range(F):
                points[block, i] = found[f"v{i}"]
        return rows, None if self.time is None else order, points


def _feature_sql(
    table: Table, reading: Reading, columns: Mapping[str, Column], numbers: Sequence[str]
) -> dict[str, str]:
    """Return the SQL expression of each feature by name. Features of a one-hot column are the words
    in the reading, or all words if the reading contains none for this column.

    Raises:
        DataError: if a feature column contains words, or if a one-hot column contains a word that
            is not in the reading.
    """
    features = {name: columns[name].sql for name in numbers}
    for name in numbers:
        if columns[name].kind == "words":
            word = first_non_number(table, columns[name], reading)
            advice = (
                f"take {name!r} out of {setting('features')}, because {setting('one_hot')}"
                " already makes a feature of each word"
                if name in reading.one_hot
                else f"for a feature of 0 and 1 for each word, set {setting('one_hot', [name])}"
            )
            raise DataError(f"{table.name}: {word}. Correct the cell; or, {advice}.")
    for name in reading.one_hot:
        text, words = columns[name].text, reading.words(name)
        if words is None:
            found = table.query(
                f"SELECT DISTINCT {text} FROM {ROWS} WHERE {text} IS NOT NULL ORDER BY 1"
            )
            words = tuple(word for (word,) in found)
        elif others := table.query(
            f"SELECT {ROW}, {text} FROM {ROWS} WHERE {text} NOT IN"
            f" ({', '.join(map(literal, words))}) ORDER BY {ROW} LIMIT 1"
        ):
            row, word = others[0]
            raise DataError(
                f"{table.name}: {table.line(row)}, column {name!r} contains {word!r}; known values"
                f" are {', '.join(words)}."
            )
        for word in words:
            features[f"{name}={word}"] = (
                f"CASE WHEN {text} IS NULL THEN NULL WHEN {text} = {literal(word)} THEN 1.0"
                " ELSE 0.0 END"
            )
    return features


def _chunk_bounds(lengths: NDArray[np.int64], whole: bool) -> Iterator[tuple[int, int]]:
    """Yield the range of sequences in each chunk as a pair (first, end)."""
    if whole:
        yield 0, len(lengths)
        return
    first = size = 0
    for k, length in enumerate(lengths.tolist()):
        if size and size + length > CHUNK_ROWS:
            yield first, k
            first, size = k, 0
        size += length
    yield first, len(lengths)


def _formats(
    table: Table, by_name: Mapping[str, Column], time: TimeColumn | None
) -> tuple[str, ...]:
    """Return the `strftime` format of each time column. The result is empty if the times are not
    dates, if any format is unknown, or if the file has dates of its own type."""
    if time is None or not time.is_date:
        return ()
    columns = [by_name[name] for name in time.names]
    if time.format:
        return (time.format,)
    if table.is_text or [column.kind for column in columns] == ["number"]:
        return _text_formats(table, columns)
    return ()


def _text_formats(table: Table, columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the `strftime` format of each time column in a text file, or an empty tuple if any
    format is unknown."""
    words = [
        str(table.one(f"SELECT {c.text} FROM {ROWS} ORDER BY {ROW} LIMIT 1")[0]) for c in columns
    ]
    first, *others = zip(columns, words, strict=True)
    if others and first[0].kind == "number" and not _date_format(*first):
        found = [_part_format(form, word) for form, word in zip(_UNIT_FORMATS, words, strict=False)]
    else:
        of_times = ["%H:%M:%S" if word.count(":") > 1 else "%H:%M" for _, word in others]
        found = [
            _date_format(*first),
            *(
                _part_format(unit, word) if column.kind == "number" else form
                for (column, word), form, unit in zip(
                    others, of_times, _UNIT_FORMATS[3:], strict=False
                )
            ),
        ]
    return tuple(found) if all(found) else ()


def _part_format(form: str, word: str) -> str:
    """Return the format of a part of a date, with a leading zero only if `word` has one."""
    is_padded = word.startswith("0") and len(word) > 1
    return form if form == "%Y" or is_padded else f"%-{form[1]}"


def _date_format(column: Column, word: str) -> str:
    """Return the format of a column of dates, or "" if the format is unknown."""
    if column.kind == "number":
        digits = word.removesuffix(".0")
        forms = {len(str(first)): form for form, (first, _) in DIGITS_OF_DATES.items()}
        return forms.get(len(digits), "")
    if column.formats and column.zone:
        return column.formats[0].replace("%z", "+0000").replace("%Z", "UTC")
    if column.formats:
        return column.formats[0]
    match = _ISO.fullmatch(word)
    if match is None:
        return ""
    between, seconds, point, zone = match.groups()
    time = f"{between}%H:%M" if between else ""
    if seconds:
        time += f":%S{point}%f" if point else ":%S"
    utc = re.sub(r"\d", "0", zone or "").replace("-", "+")  # such as +00:00 for -05:00
    return f"%Y-%m-%d{time}{utc}"
