"""Which columns of a table are read, and as what: by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seqattn.data.files.piece import Form
from seqattn.errors import DataError

SHOWN = 40  # signs of a name or of a cell in a message


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are read, and as what.

    Attributes:
        is_long: a point a row; else a sequence a row.
        sequence, order, group: names, or None.
        features: of a point.
        cells: names of the columns with numbers. Long: one a feature; wide: step by step.
        notes: what a reader should be told.
    """

    is_long: bool
    sequence: str | None
    order: str | None
    group: str | None
    features: tuple[str, ...]
    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        named = [name for name in (self.sequence, self.order, self.group) if name is not None]
        return [*named, *self.cells]

    @classmethod
    def find(cls, header: Sequence[str], form: Form, name: str, hint: str) -> Columns:
        """
        Raises:
            DataError: columns are missing or doubled.
        """
        found = f"found {listed(header)}"
        doubled = sorted({cell for cell in header if header.count(cell) > 1})
        if doubled:
            raise DataError(f"{name}:1: the column {doubled[0]!r} stands there twice.")
        if hint:
            raise DataError(f"{name}:1: {hint}; {found}.")
        layout: str = form.layout
        notes: tuple[str, ...] = ()
        if layout == "auto":
            layout, notes = _guessed(header, form)
            named = {form.sequence, form.order} & set(header)
            if layout == "long" and not named and form.sequence is not None:
                expected = ",".join(
                    [w for w in (form.sequence, form.order) if w]
                    + list(form.features or ("x", "y"))
                )
                raise DataError(
                    f"{name}:1: no column {form.sequence!r}; {found}. Expected the header"
                    f" {expected}"
                )
        if layout == "wide":
            wide = cls._wide(header, form, name, found)
            return replace(wide, notes=(*notes, *wide.notes))
        return cls._long(header, form, name, found)

    @classmethod
    def _long(cls, header: Sequence[str], form: Form, name: str, found: str) -> Columns:
        taken = [word for word in (form.sequence, form.order, form.group) if word is not None]
        for word in taken:
            if word not in header:
                expected = ",".join(dict.fromkeys([*taken, *(form.features or ("x", "y"))]))
                raise DataError(
                    f"{name}:1: no column {word!r}; {found}. Expected the header {expected}"
                )
        others = [cell for cell in header if cell not in taken]
        features, notes = chosen(others, form, f"{name}:1: no column", found)
        return cls(True, form.sequence, form.order, form.group, features, features, notes)

    @classmethod
    def _wide(cls, header: Sequence[str], form: Form, name: str, found: str) -> Columns:
        sequence = form.sequence if form.sequence in header else None
        if form.group is not None and form.group not in header:
            raise DataError(f"{name}:1: no column {form.group!r}; {found}.")
        others = [cell for cell in header if cell not in (sequence, form.group)]
        steps = wide_columns(others)
        if not steps:
            raise DataError(
                f"{name}:1: no columns such as x_1, y_1, x_2, y_2, a feature and a step each;"
                f" {found}."
            )
        stems = list(dict.fromkeys(feature for feature, _ in steps))
        features, notes = chosen(stems, form, f"{name}:1: no column", found)
        numbers = sorted({step for feature, step in steps if feature in features})
        cells = list[str]()
        for step in range(numbers[0], numbers[-1] + 1):
            for feature in features:
                if (feature, step) not in steps:
                    raise DataError(
                        f"{name}:1: there is no column {feature!r} of step {step}, but there are"
                        f" steps {numbers[0]} to {numbers[-1]}; {found}."
                    )
                cells.append(steps[feature, step])
        unread = [cell for cell in others if cell not in steps.values()]
        if unread:
            notes = (*notes, f"left out: {listed(unread)}")
        return cls(False, sequence, None, form.group, features, tuple(cells), notes)


def _guessed(header: Sequence[str], form: Form) -> tuple[str, tuple[str, ...]]:
    """Whether a table is long or wide, and notes: wide where columns are called so, two steps of a
    feature at least; where it could be long as well, only if all features have the same steps, none
    left out."""
    if form.order in header or (form.features and set(form.features) <= set(header)):
        return "long", ()
    steps: dict[str, list[int]] = {}
    for feature, step in wide_columns([w for w in header if w not in (form.sequence, form.group)]):
        steps.setdefault(feature, []).append(step)
    if form.features and set(form.features) <= steps.keys():
        return "wide", ()
    if form.order is not None or (form.sequence is not None and form.sequence not in header):
        return ("wide" if any(len(of) > 1 for of in steps.values()) else "long"), ()
    same, *others = {tuple(sorted(of)) for of in steps.values()} or {()}
    if others or len(same) < 2 or same[-1] - same[0] >= len(same):
        return "long", ()
    return "wide", (
        f"a row is read as a sequence of up to {len(same)} points; if it is one point, set"
        " data.layout to long",
    )


def wide_columns(header: Sequence[str]) -> dict[tuple[str, int], str]:
    """(feature, step) -> column, of columns such as x_1, x[2], y.3, lat4, or just 1, 2, 3."""
    found: dict[tuple[str, int], str] = {}
    for cell in header:
        match = re.fullmatch(r"(.*?)[\s_.\-\[(]?(\d{1,9})[\])]?", cell)
        if match:
            found.setdefault((match.group(1) or "value", int(match.group(2))), cell)
    return found


def chosen(
    others: Sequence[str], form: Form, lacks: str, found: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Features to be read, and notes.

    Args:
        others: what there is.
        lacks, found: for a message.

    Raises:
        DataError: one that is asked for is not there.
    """
    wanted = form.features
    if wanted is None:
        if not others:
            raise DataError(f"{lacks} with features; {found}.")
        return tuple(others), ()
    missing = [feature for feature in wanted if feature not in others]
    if not missing:
        left_out = [cell for cell in others if cell not in wanted]
        return wanted, ((f"left out: {listed(left_out)}",) if left_out else ())
    if form.may_rename and len(others) == len(wanted) == len(missing):
        note = f"{', '.join(others)} are read as {', '.join(wanted)}, in this order"
        return tuple(others), (note,)
    raise DataError(f"{lacks} {missing[0]!r}; {found}. Needed are {listed(wanted)}.")


def listed(names: Sequence[str]) -> str:
    """Names for a message, the first few."""
    shown = [name if len(name) <= SHOWN else f"{name[:SHOWN]}..." for name in names[:12]]
    more = [f"and {len(names) - 12} more"] if len(names) > 12 else []
    return ", ".join([*shown, *more]) or "nothing"
