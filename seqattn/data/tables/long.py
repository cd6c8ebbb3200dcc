"""Reader of long tables, in which each row is a step. Rows are sorted by series and time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.chunk import DATES, Chunk, Ragged, step_text, to_offsets
from seqattn.data.column_roles import LONG_LAYOUT, ColumnRoles
from seqattn.data.reading import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.data.tables.columns import Column, describe_empty_cells, first_non_number
from seqattn.data.tables.connection import literal
from seqattn.data.tables.facts import IGNORED_BY_USER, are_in_order
from seqattn.data.tables.roles import LongLayout
from seqattn.data.tables.table import ROW, ROWS, Table
from seqattn.data.tables.times import DIGITS_OF_DATES
from seqattn.errors import DataError

_ISO = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}(?:([T ])\d{1,2}:\d{2}(:\d{2}(?:([.,])\d{1,9})?)?)?"
    r"( ?(?:Z|UTC|[+-]\d{2}(?::?\d{2})?))?"
)
_UNIT_FORMATS = ("%Y", "%m", "%d", "%H", "%M", "%S")


def to_column_roles(table: Table, roles: LongLayout) -> ColumnRoles:
    """Return the column roles of a long table, with the formats of its times and numbers."""
    names = () if roles.time is None else roles.time.names
    numbers = [roles.columns[name] for name in (*roles.features, *names)]
    numbers = [column for column in numbers if column.kind == "number"]
    decimal = "," if any(column.decimal == "," for column in numbers) else "."
    formats: tuple[str, ...] = ()
    if roles.time is not None and roles.time.is_date:
        columns = [roles.columns[name] for name in names]
        if roles.time.format:
            formats = (roles.time.format,)
        elif table.is_text or [column.kind for column in columns] == ["number"]:
            formats = _formats(table, columns)
    return ColumnRoles(
        LONG_LAYOUT, roles.series, names, roles.features, roles.ignored, formats, table.delimiter,
        decimal, table.is_text and _has_decimals(table, numbers),
    )  # fmt: skip


def _has_decimals(table: Table, numbers: list[Column]) -> bool:
    if not numbers:
        return False
    conditions = " OR ".join(f"{column.sql} <> round({column.sql})" for column in numbers)
    found = table.one(f"SELECT EXISTS (SELECT 1 FROM {ROWS} WHERE {conditions})")
    return bool(found[0])


def _formats(table: Table, columns: list[Column]) -> tuple[str, ...]:
    """Return the `strftime` format of each time column, or an empty tuple if any format is
    unknown."""
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
    return f"%Y-%m-%d{time}{_utc(zone or '')}"


def _utc(zone: str) -> str:
    """Return UTC in the notation of a time zone, for example +00:00 for -05:00."""
    return re.sub(r"\d", "0", zone).replace("-", "+")


COPY, SORTED = "sorted_copy", "sorted_rows"
CHUNK_ROWS = 2**20
"""Maximum number of rows in a chunk of several sequences."""
FETCH_ROWS = 2**17
"""Maximum number of rows in one fetch from the database."""


def long_chunks(
    table: Table, roles: LongLayout, options: ReadOptions, *, whole: bool
) -> Iterator[Chunk]:
    """Yield the sequences of a long table in chunks.

    Args:
        table: the rows.
        roles: roles of the columns.
        options: the options for reading the table.
        whole: whether to yield all sequences as one chunk.

    Raises:
        DataError: if a feature column contains words, if a one-hot column contains an unknown word,
            if a sequence has two groups, no group or two rows with the same time, or if a series id
            is empty.
    """
    features, values = _feature_sql(table, roles, options)
    notes = _sort(table, roles, values)
    keys = "".join(f"s{i}, " for i in range(len(roles.series)))
    count_groups = (
        ""
        if roles.group is None
        else f", any_value(grp) AS grp, count(DISTINCT grp) AS grps, min({ROW}) AS first_row"
    )
    found = table.connection.execute(
        f"SELECT any_value({_series_sql(roles)}) AS series, count(*) AS n{count_groups}"
        f" FROM {SORTED} GROUP BY {keys}'' ORDER BY min({ROW})"
    ).fetchnumpy()
    lengths = np.asarray(found["n"]).astype(np.int64)
    if roles.group is not None:
        several = np.flatnonzero(np.asarray(found["grps"]) > 1)
        if several.size:
            _raise_several_groups(table, roles, str(found["series"][several[0]]))
        without = np.flatnonzero(np.ma.getmaskarray(found["grp"]))
        if without.size:
            line = table.line(int(found["first_row"][without[0]]))
            raise DataError(f"{table.name}: {line}, column {roles.group!r} is empty.")
    ids = tuple(map(str, found["series"])) if roles.series else (Path(table.name).stem or "series",)
    groups = tuple(map(str, found["grp"])) if roles.group is not None else None
    parts = _id_parts(table, roles) if len(roles.series) > 1 else None
    column_roles = to_column_roles(table, roles)
    for first, last in _chunk_bounds(lengths, whole):
        begin, end = int(lengths[:first].sum()), int(lengths[:last].sum())
        rows, order, points = _fetch_rows(table, roles, len(values), begin, end)
        yield Chunk(
            ids=ids[first:last], points=Ragged(points, to_offsets(lengths[first:last]), features),
            where=_place_in_table(table, rows, features), order=order,
            groups=None if groups is None else groups[first:last], notes=notes, roles=column_roles,
            id_parts=None if parts is None else parts[first:last],
        )  # fmt: skip


def _series_sql(roles: LongLayout) -> str:
    """Return an SQL expression for the name of a sequence."""
    keys = ", ".join(f"s{i}" for i in range(len(roles.series)))
    return f"concat_ws('/', {keys})" if keys else "''"


def _id_parts(table: Table, roles: LongLayout) -> tuple[tuple[str, ...], ...]:
    """Return the values of the series columns for each sequence, in the order of the file."""
    texts = ", ".join(roles.columns[name].text for name in roles.series)
    return tuple(table.query(f"SELECT {texts} FROM {ROWS} GROUP BY ALL ORDER BY min({ROW})"))


def _place_in_table(table: Table, rows: NDArray[Any], features: tuple[str, ...]) -> Any:
    def where(row: int, feature: int) -> str:
        return f"{table.line(int(rows[row]))}, column {features[feature]!r}"

    return where


def _feature_sql(
    table: Table, roles: LongLayout, options: ReadOptions
) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of the features and the SQL expression of each feature. A feature is a
    numeric column or the indicator (0 or 1) of a word in a one-hot column.

    Raises:
        DataError: if a feature column contains words, or if a one-hot column contains an unknown
            word.
    """
    names, values = list(roles.features), [roles.columns[name].sql for name in roles.features]
    for name in roles.features:
        if roles.columns[name].kind == "words":
            word = first_non_number(table, roles.columns[name], options)
            advice = (
                f"take {name!r} out of {setting('features')}, because {setting('one_hot')} already"
                " makes a feature of each word"
                if name in options.one_hot
                else f"for a feature of 0 and 1 for each word, set {setting('one_hot', [name])}"
            )
            raise DataError(f"{table.name}: {word}. Correct the cell; or, {advice}.")
    for name in options.one_hot:
        text = roles.columns[name].text
        for word in _one_hot_words(table, name, text, options):
            names.append(f"{name}={word}")
            values.append(
                f"CASE WHEN {text} IS NULL THEN NULL WHEN {text} = {literal(word)} THEN 1.0 ELSE"
                " 0.0 END"
            )
    return tuple(names), values


def _one_hot_words(table: Table, name: str, text: str, options: ReadOptions) -> tuple[str, ...]:
    """Return the words of a one-hot column that become features: the words in the options, or all
    words if the options contain no words for this column.

    Raises:
        DataError: if the column contains a word that is not in the options.
    """
    known = options.words(name)
    if known is None:
        found = table.query(
            f"SELECT DISTINCT {text} FROM {ROWS} WHERE {text} IS NOT NULL ORDER BY 1"
        )
        return tuple(word for (word,) in found)
    others = table.query(
        f"SELECT {ROW}, {text} FROM {ROWS} WHERE {text} NOT IN ({', '.join(map(literal, known))})"
        f" ORDER BY {ROW} LIMIT 1"
    )
    if others:
        row, word = others[0]
        raise DataError(
            f"{table.name}: {table.line(row)}, column {name!r} contains {word!r}; known values are"
            f" {', '.join(known)}."
        )
    return known


def _sort(table: Table, roles: LongLayout, values: list[str]) -> tuple[str, ...]:
    """Create the view `SORTED` of the rows with their positions, and return notes for the user.

    The view is sorted by sequence and then by time. The sequences are in the order of their first
    rows in the file. The rows are copied only if they are not already sorted.

    Raises:
        DataError: if a series id is empty, or if a sequence has two rows with the same time.
    """
    texts = [roles.columns[name].text for name in roles.series]
    for name, text in zip(roles.series, texts, strict=True):
        (row,) = table.one(f"SELECT min({ROW}) FROM {ROWS} WHERE {text} IS NULL")
        if row is not None:
            raise DataError(f"{table.name}: {table.line(row)}, column {name!r} is empty.")
    time = roles.time.sql if roles.time is not None else f"CAST({ROW} AS DOUBLE)"
    group = roles.columns[roles.group].text if roles.group is not None else "''"
    columns = [f"{text} AS s{i}" for i, text in enumerate(texts)]
    columns += [f"{time} AS step", f"{group} AS grp"]
    columns += [f"CAST({value} AS DOUBLE) AS v{i}" for i, value in enumerate(values)]
    typed = f"SELECT {ROW}, {', '.join(columns)} FROM {ROWS}"
    notes, sorted_rows = [*table.notes], f"SELECT {ROW} - 1 AS place, * FROM ({typed})"
    in_order = are_in_order(table, texts, time)
    if not in_order:
        _copy_sorted(table, typed, [f"s{i}" for i in range(len(texts))])
        sorted_rows = f"SELECT rowid AS place, * FROM {COPY}"
        if roles.time is not None:
            _check_times(table, roles)
    table.connection.execute(f"CREATE OR REPLACE TEMP VIEW {SORTED} AS {sorted_rows}")
    if roles.time is not None and roles.time.note:
        notes.append(roles.time.note)
    if not in_order and _were_moved(table):
        notes.append("rows are sorted by series and time, which they were not")
    return (*notes, *_column_notes(table, roles))


def _column_notes(table: Table, roles: LongLayout) -> Iterator[str]:
    """Yield notes for the user on features and on columns that are left out."""
    for name in roles.features:
        column = roles.columns[name]
        if column.note:
            yield f"{name!r}: {column.note}"
        if empty := describe_empty_cells(table, column):
            yield empty
    for name, why in roles.ignored.items():
        if why != IGNORED_BY_USER:
            yield f"{name!r} is left out: {why}"


def _copy_sorted(table: Table, typed: str, keys: Sequence[str]) -> None:
    together = ", ".join(keys)
    first_rows = f"SELECT {together}, min({ROW}) AS first_row FROM typed GROUP BY {together}"
    joined = f"typed JOIN ({first_rows}) USING ({together})"
    table.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {COPY} AS WITH typed AS ({typed}) SELECT * FROM"
        f" {joined if keys else '(SELECT *, 1 AS first_row FROM typed)'} ORDER BY first_row, step,"
        f" {ROW}"
    )


def _were_moved(table: Table) -> bool:
    """Return whether the order of the sorted rows differs from the order in the file."""
    back = f"SELECT {ROW} < lag({ROW}) OVER () AS back FROM {COPY}"
    return bool(table.one(f"SELECT count(*) FILTER (back) FROM ({back})")[0])


def _check_times(table: Table, roles: LongLayout) -> None:
    """Check that times are unique in each sequence.

    Raises:
        DataError: if a sequence has two rows with the same time.
    """
    assert roles.time is not None
    twice = table.query(
        f"SELECT {ROW}, before, {_series_sql(roles)}, step FROM (SELECT *, lag({ROW}) OVER w AS"
        f" before, lag(step) OVER w AS last, lag(first_row) OVER w AS last_series FROM {COPY}"
        f" WINDOW w AS ()) WHERE step = last AND first_row = last_series ORDER BY"
        f" {ROW} LIMIT 1"
    )
    if twice:
        row, before, series, step = twice[0]
        of_series = f" of series {series!r}" if roles.series else ""
        shown = step_text(np.datetime64(step, "us") if roles.time.is_date else step)
        raise DataError(
            f"{table.name}: {table.line(before)} and {table.line(row)} are both of time {shown}"
            f"{of_series}. Remove one of them, or name the column that distinguishes them:"
            f" {setting('series', 'COLUMN')}."
        )


def _raise_several_groups(table: Table, roles: LongLayout, series: str) -> None:
    assert roles.group is not None
    words = table.query(
        f"SELECT DISTINCT grp FROM {SORTED} WHERE {_series_sql(roles)} = {literal(series)} ORDER"
        " BY 1 LIMIT 2"
    )
    raise DataError(
        f"{table.name}: series {series!r} has the groups {words[0][0]!r} and {words[1][0]!r} in"
        f" column {roles.group!r}; it may have one."
    )


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


def _fetch_rows(
    table: Table, roles: LongLayout, width: int, begin: int, end: int
) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.float64]]:
    """Fetch a range of sorted rows.

    Returns:
        the row numbers in the file, the times or None, and the values (rows, F).
    """
    cells = "".join(f", coalesce(v{i}, 'nan'::DOUBLE) AS v{i}" for i in range(width))
    rows, points = np.empty(end - begin, np.int64), np.empty((end - begin, width))
    is_date = roles.time is not None and roles.time.is_date
    order = np.empty(end - begin, DATES if is_date else np.float64)
    for first in range(begin, end, FETCH_ROWS):
        last = min(first + FETCH_ROWS, end)
        block = slice(first - begin, last - begin)
        found = table.connection.execute(
            f"SELECT {ROW} AS r, step{cells} FROM {SORTED} WHERE place >= {first} AND place <"
            f" {last}"  # in order because of preserve_insertion_order in connection.py
        ).fetchnumpy()
        rows[block], order[block] = found["r"], found["step"]
        for i in range(width):
            points[block, i] = found[f"v{i}"]
    return rows, None if roles.time is None else order, points
