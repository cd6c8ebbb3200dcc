"""Detection of numbers that may represent missing values, such as -999."""

from __future__ import annotations

from seqattn.data.files.options import ReadOptions
from seqattn.data.setting_names import setting
from seqattn.data.tables.connection import literal
from seqattn.data.tables.roles import LongLayout
from seqattn.data.tables.table import ROWS, Table
from seqattn.errors import AmbiguousData

SENTINELS = (-9.0, -99.0, -99.9, -99.99, -999.0, -999.9, -999.99, -9999.0, -9999.9, -99999.0,
             999.0, 999.9, 9999.0, 9999.9, 99999.0)  # fmt: skip


def check_sentinels(table: Table, roles: LongLayout, options: ReadOptions) -> None:
    """Check features for numbers that may represent missing values. Outside training, such a number
    only causes a note.

    Raises:
        AmbiguousData: if `data.na_values` is not set and a feature of a training table contains a
            number from `SENTINELS` outside the range of the other values of the feature. There must
            be at least three other values. In addition, either the number is negative and the other
            values are not, or the distance of the number from the range exceeds the width of the
            range.
    """
    if options.na_values is not None:
        return
    listed = ", ".join(map(literal, SENTINELS))
    for name in roles.features:
        if roles.columns[name].kind != "number":
            continue
        if not set(table.measure(*roles.columns[name].range)) & set(SENTINELS):
            continue  # an outlier is the smallest or the largest value
        value = roles.columns[name].sql
        suspects = table.query(
            f"SELECT ({value}) AS v, count(*) FROM {ROWS} WHERE ({value}) IN ({listed}) GROUP BY v"
        )
        for suspect, count in suspects:
            low, high, others = table.one(
                f"SELECT min(v), max(v), count(v) FROM (SELECT ({value}) AS v FROM {ROWS}) WHERE"
                f" v NOT IN ({listed}) AND NOT isnan(v)"
            )
            if others < 3 or low <= suspect <= high:
                continue
            distance = low - suspect if suspect < low else suspect - high
            if distance <= high - low and not suspect < 0 <= low:
                continue
            shown = f"{suspect:g}"
            if not options.is_training:
                table.notes.append(
                    f"column {name!r} has {shown} in {count} cells, and its other values lie"
                    f" between {low:g} and {high:g}; it is read as a value, as data.na_values of"
                    " the training does not name it"
                )
                continue
            raise AmbiguousData(
                f"{table.name}: column {name!r} has {shown} in {count} cells, and its other"
                f" values lie between {low:g} and {high:g}. If this number marks a missing"
                f" value: {setting('na_values', [shown])}; if it is a measured value:"
                f" {setting('na_values', [])}.",
                ({"na_values": shown}, {"na_values": ""}),
            )
