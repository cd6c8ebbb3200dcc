"""A reader of the file given with `--attention-override forced:FILE.json`.

The file contains rows of attention weights:

    {"rows": [{"step": 2, "layer": 0, "head": 0, "weights": [0, 1]}]}

A row replaces the attention weights of one decoder step. Steps are counted from 1, and layers and
heads are counted from 0. The model computes all other weights as usual, and computes the forecast
from the forced weights and the other weights. Without the key `layer`, the row applies to all
layers. Without the key `head`, the row applies to all heads. Without the key `id`, the row applies
to all sequences. A row of zeros gives a context of 0. Rows are not normalized.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqattn.errors import UsageError
from seqattn.runs.storage import read_regular_file

EXAMPLE = '{"rows": [{"step": 2, "layer": 0, "head": 0, "weights": [0, 1]}]}'
KEYS = ("step", "layer", "head", "id", "weights")


@dataclass(frozen=True)
class ForcedRow:
    """Forced attention weights of one decoder step.

    Attributes:
        place: the origin and the index of the row, for messages.
        step: the decoder step, counted from 1.
        weights: one number for each point of the source.
        layer, head: the index of the layer and the index of the head, counted from 0; None for all
            layers or all heads.
        id: the id of the sequence; None for all sequences.
    """

    place: str
    step: int
    weights: tuple[float, ...]
    layer: int | None = None
    head: int | None = None
    id: str | None = None


def read_rows(path: Path) -> tuple[ForcedRow, ...]:
    """Read a JSON file of rows.

    Raises:
        UsageError: if the file cannot be read, or if it does not contain a JSON object of the form
            `{"rows": [...]}` with valid rows.
    """
    try:
        raw = read_regular_file(path)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{path}: cannot be read ({reason}). Give a file {EXAMPLE}.") from None
    if not raw.strip():
        raise UsageError(f"{path}: is empty. Expected {EXAMPLE}.")
    try:
        content = json.loads(raw, object_pairs_hook=lambda pairs: _unique_keys(path, pairs))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not valid JSON ({error}). Expected {EXAMPLE}.") from None
    return parse_rows(content, str(path))


def parse_rows(content: Any, origin: str) -> tuple[ForcedRow, ...]:
    """Convert the content of a file, or an argument of the Python API, to rows.

    Args:
        content: the content, which should be an object of the form `{"rows": [...]}`.
        origin: the name of the file or the argument that contains the rows, for messages.

    Raises:
        UsageError: if the content is not an object of the form `{"rows": [...]}` with valid rows.
    """
    if not isinstance(content, Mapping) or "rows" not in content:
        raise UsageError(f"{origin}: expected {EXAMPLE}, found {_shown(content)}.")
    if unknown := [key for key in content if key != "rows"]:
        raise UsageError(f"{origin}: unknown key {unknown[0]!r}. Expected {EXAMPLE}.")
    rows = content["rows"]
    if not isinstance(rows, list | tuple):
        raise UsageError(f"{origin}: rows: expected a list, found {_shown(rows)}.")
    return tuple(_parse_row(row, f"{origin}: rows[{i}]") for i, row in enumerate(rows))


def _parse_row(row: Any, place: str) -> ForcedRow:
    """Convert an element of the list `rows` to a `ForcedRow`.

    Args:
        row: the element of the list.
        place: the origin and the index of the row, for messages.

    Raises:
        UsageError: if the element is not a valid row.
    """
    if not isinstance(row, Mapping):
        raise UsageError(f"{place}: expected an object, found {_shown(row)}.")
    if unknown := [key for key in row if key not in KEYS]:
        raise UsageError(
            f"{place}: unknown key {unknown[0]!r}; a row has {', '.join(KEYS[:-1])} and {KEYS[-1]}."
        )
    for key in ("step", "weights"):
        if key not in row:
            raise UsageError(f"{place}: has no {key}. Expected {EXAMPLE}.")
    indices = {key: _parse_integer(row[key], f"{place}.{key}")
               for key in ("step", "layer", "head") if key in row}  # fmt: skip
    if not isinstance(row.get("id", ""), str):
        raise UsageError(f"{place}.id: expected a text, found {_shown(row['id'])}.")
    weights = row["weights"].tolist() if isinstance(row["weights"], np.ndarray) else row["weights"]
    if not isinstance(weights, list | tuple):
        raise UsageError(f"{place}.weights: expected a list of numbers, found {_shown(weights)}.")
    numbers = (_parse_weight(each, f"{place}.weights[{i}]") for i, each in enumerate(weights))
    return ForcedRow(place, weights=tuple(numbers), id=row.get("id"), **indices)


def _parse_integer(value: Any, place: str) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise UsageError(f"{place}: expected a whole number, found {_shown(value)}.")


def _parse_weight(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise UsageError(f"{place}: expected a number, found {_shown(value)}.")
    try:
        number = float(value)
    except OverflowError:
        raise UsageError(f"{place}: is too large; give a finite number.") from None
    if not math.isfinite(number):
        shown = "NaN" if math.isnan(number) else str(number)
        raise UsageError(f"{place}: is {shown}; give a finite number.")
    return number


def _unique_keys(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict[str, Any]()
    for key, value in pairs:
        if key in found:
            raise UsageError(f"{path}: has the key {key!r} twice in one object. Remove one.")
        found[key] = value
    return found


def _shown(value: Any) -> str:
    """Return a value as text for a message.

    None, True and False become their JSON names, such as "null". A list becomes "a list", an object
    becomes "an object", and any other long value is truncated.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, Mapping):
        return "an object"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
