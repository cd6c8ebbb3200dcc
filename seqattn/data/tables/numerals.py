"""How numbers are written in a text: decimal marks, signs between thousands, units.

Each way of writing is a pattern. A column has the way that fits all its cells; where two fit that
give different numbers, the user is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seqattn.data.files.options import ReadOptions
from seqattn.data.tables.connection import literal
from seqattn.data.tables.table import ROWS, Table

EXPONENT = r"([eE][+-]?\d+)?"
SPACES = "[ \u00a0\u202f\u2009]"
UNIT = re.compile(
    r"([$€£¥]?)\s?([+-]?[\d.,' \u00a0\u202f]*\d[\d.,]*" + EXPONENT + r")\s?([^\d\s.,][^\d]*|)"
)


@dataclass(frozen=True)
class Numeral:
    """One way to write numbers.

    Attributes:
        decimal: mark before decimals.
        thousands: sign between thousands; empty: none.
    """

    decimal: str
    thousands: str

    @property
    def pattern(self) -> str:
        mark = re.escape(self.decimal)
        plain = rf"\d+({mark}\d*)?|{mark}\d+"
        if self.thousands:
            sign = SPACES if self.thousands == " " else re.escape(self.thousands)
            plain = rf"\d{{1,3}}({sign}\d{{3}})+({mark}\d*)?|{plain}"
        return rf"[+-]?({plain}){EXPONENT}"

    def sql(self, text: str) -> str:
        """DOUBLE of a cell; NULL where it is not written so."""
        digits = text
        if self.thousands == " ":
            digits = f"regexp_replace({digits}, {literal(SPACES)}, '', 'g')"
        elif self.thousands:
            digits = f"replace({digits}, {literal(self.thousands)}, '')"
        if self.decimal == ",":
            digits = f"replace({digits}, ',', '.')"
        guard = f"regexp_full_match({text}, {literal(self.pattern)})"
        return f"CASE WHEN {guard} THEN TRY_CAST({digits} AS DOUBLE) END"

    @property
    def note(self) -> str:
        said = [f"{self.decimal!r} stands before decimals"] if self.decimal != "." else []
        said += [f"{self.thousands!r} between thousands"] if self.thousands else []
        return " and ".join(said)


PLAIN = Numeral(".", "")
NUMERALS = (
    PLAIN, Numeral(",", ""), Numeral(".", ","), Numeral(",", "."), Numeral(".", " "),
    Numeral(",", " "), Numeral(".", "'"),
)  # fmt: skip


@dataclass(frozen=True)
class NumeralMatch:
    """How the numbers of a column are written.

    Attributes:
        numeral: the way.
        text: SQL of the cells without a unit.
        other: another way that fits as well and gives other numbers; None: there is none.
        example: a cell that shows it.
        unit: what stands behind, or before, every number; empty: nothing.
        units: where they differ.
    """

    numeral: Numeral
    text: str
    other: Numeral | None = None
    example: str = ""
    unit: str = ""
    units: tuple[str, ...] = ()


def allowed_numerals(options: ReadOptions) -> Iterator[Numeral]:
    """The ways that the user leaves open."""
    for numeral in NUMERALS:
        if options.decimal not in ("auto", numeral.decimal):
            continue
        if options.thousands is None and numeral.thousands:
            continue
        if options.thousands not in (None, "auto", numeral.thousands):
            continue
        yield numeral


def find_numeral(
    table: Table, text: str, n: int, sample: Sequence[str], options: ReadOptions, least: float
) -> NumeralMatch | None:
    """How the numbers of a column are written; None: too few of its cells are numbers.

    Args:
        text: SQL of its cells.
        n: cells that are not empty.
        sample: some of them.
        least: share of them that must be numbers.
    """
    unit, units = _units_of_sample(sample)
    if units:
        return NumeralMatch(PLAIN, text, units=units)
    if unit:
        text = f"trim(replace({text}, {literal(unit)}, ''), ' \u00a0\u202f')"
    ways = list(allowed_numerals(options))
    counts = table.one(
        "SELECT "
        + ", ".join(f"count({way.sql(text)})" for way in ways)
        + f" FROM {ROWS} WHERE {text} IS NOT NULL"
    )
    most = max(counts, default=0)
    if not ways or most < least * n or most == 0:
        return None
    best = ways[counts.index(most)]
    other = None
    if best == Numeral(",", "") and Numeral(".", ",") in ways:
        american = Numeral(".", ",")
        if counts[ways.index(american)] == most:
            other = american
    (example,) = (
        table.one(f"SELECT any_value({text}) FROM {ROWS} WHERE contains({text}, ',')")
        if other
        else ("",)
    )
    return NumeralMatch(best, text, other, example or "", unit)


def _units_of_sample(sample: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The unit that all numbers of a sample have; or several that they have."""
    found: dict[str, int] = {}
    for word in sample:
        match = UNIT.fullmatch(word)
        if match is None:
            continue
        unit = (match[1] or match[4] or "").strip()
        found[unit] = found.get(unit, 0) + 1
    total = sum(found.values())
    if total * 5 < len(sample) * 4 or not any(found):
        return "", ()
    if len(found) == 1:
        return next(iter(found)), ()
    named = {unit: count for unit, count in found.items() if unit}
    if sum(named.values()) * 2 > total and len(named) > 1:
        return "", tuple(sorted(named))
    return "", ()
