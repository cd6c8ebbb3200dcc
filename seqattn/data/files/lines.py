"""JSON lines: an object a sequence, with `source`, and where there are some `target` and `id`.

{"id": "a", "source": [[-1.02, -0.97], [-1.05, 1.01]], "target": [[1.0, 1.0]]}

A point is a list of numbers, or one number for one feature; null is an empty cell.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from seqattn.data.files.arrays import default_names
from seqattn.data.files.blocks import blocks_of_lines
from seqattn.data.files.chunk import LONGEST_LINE, Chunk, Ragged, offsets_of
from seqattn.data.files.options import ReadOptions
from seqattn.data.sequences import Integers
from seqattn.errors import DataError

BLOCK = 2**20  # bytes that are read at once
AT_ONCE = 2**18  # numbers of a piece, or a sequence more


def holds_nested_points(path: Path) -> bool:
    """Whether the first line is an object with a list of points; else its objects are rows."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
    if b'"target"' in first and b"[" in first:
        return True
    return b'"source"' in first or not first.lstrip(b"\xef\xbb\xbf \t").startswith(b"{")


def check_json_lines(path: Path, name: str) -> None:
    """
    Raises:
        DataError: a line is longer than any may be, or no JSON; the first of them.
    """
    number = 0
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise DataError(f"{name}:{number}: is longer than {LONGEST_LINE // 2**20} MiB.")
            try:
                json.loads(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line or b"null")
            except UnicodeDecodeError:
                raise DataError(f"{name}:{number}: is not UTF-8. Save the file as UTF-8.") from None
            except (ValueError, RecursionError) as error:
                if line.strip():
                    raise DataError(
                        f"{name}:{number}: is not valid JSON ({str(error)[:200]})."
                    ) from None


def read_json_lines(raw: BinaryIO, name: str, options: ReadOptions) -> Iterator[Chunk]:
    """Pieces of a file.

    Raises:
        DataError: with the line, and what would do.
    """
    reader = _Reader(name, options)
    gathered, size = list[tuple[int, str, Any, Any, str | None]](), 0
    number = 0

    def too_long(lines: int) -> DataError:
        return DataError(f"{name}:{lines + 1}: is longer than {LONGEST_LINE // 2**20} MiB.")

    for block, pauses in blocks_of_lines(raw, BLOCK, LONGEST_LINE, too_long):
        for line in io.BytesIO(block):
            number += 1
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if not line.strip():
                continue
            found = reader.object(line, number)
            gathered.append(found)
            size += found[2].size + (0 if found[3] is None else found[3].size)
            if size >= AT_ONCE:
                yield reader.chunk(gathered)
                gathered, size = [], 0
        if pauses and gathered:
            yield reader.chunk(gathered)
            gathered, size = [], 0
    if gathered:
        yield reader.chunk(gathered)
    if reader.features is None:
        raise DataError(
            f'{name}: is empty. Expected an object a line, such as {{"source": [[0.0, 1.0]]}}.'
        )


class _Reader:
    """What the lines of a file have in common."""

    def __init__(self, name: str, options: ReadOptions) -> None:
        self.name, self.options = name, options
        self.features: int | None = None
        self.target_width: int | None = None
        self.has_target: bool | None = None

    def object(self, line: bytes, number: int) -> tuple[int, str, Any, Any, str | None]:
        """(line, id, source (S, F), target (T, F) or None, group) of a line."""
        place = f"{self.name}:{number}"
        try:
            content = json.loads(
                line, object_pairs_hook=lambda pairs: _once(pairs, place), parse_constant=_constant
            )
        except UnicodeDecodeError:
            raise DataError(f"{place}: is not UTF-8. Save the file as UTF-8.") from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: is not valid JSON ({str(error)[:200]}).") from None
        if not isinstance(content, dict):
            raise DataError(f'{place}: is no object; expected {{"source": [[...], ...]}}.')
        if "source" not in content:
            raise DataError(
                f"{place}: has no 'source'; it has {', '.join(sorted(content)) or 'nothing'}."
            )
        named = content.get("id", str(number))
        if isinstance(named, bool) or not isinstance(named, str | int):
            raise DataError(f"{place}: 'id' must be a text or a whole number.")
        source = self.points(content["source"], "source", place)
        if self.features is None:
            self.features = source.shape[1]
            names = self.options.features
            if names is not None and len(names) != self.features:
                raise DataError(
                    f"{place}: its points have {self.features} features, but there are"
                    f" {len(names)} names: {', '.join(names)}."
                )
        target = content.get("target")
        if self.has_target is None:
            self.has_target = target is not None
        if (target is not None) != self.has_target:
            raise DataError(
                f"{place}: {'has a' if target is not None else 'has no'} 'target', the lines before"
                f" have {'one' if self.has_target else 'none'}."
            )
        target_points = None if target is None else self.points(target, "target", place)
        if target_points is not None and self.target_width is None:
            self.target_width = target_points.shape[1]
        for what, points, wanted in (
            ("source", source, self.features),
            ("target", target_points, self.target_width),
        ):
            if points is not None and points.shape[1] != wanted:
                raise DataError(
                    f"{place}: the points of its {what} have {points.shape[1]} features, those"
                    f" before have {wanted}."
                )
        group = content.get(self.options.group) if self.options.group else None
        if self.options.group and not isinstance(group, str | int):
            raise DataError(f"{place}: has no group {self.options.group!r}.")
        return number, str(named), source, target_points, None if group is None else str(group)

    def points(self, given: Any, what: str, place: str) -> Any:
        """(L, F) numbers; null is NaN."""
        if not isinstance(given, list) or not given:
            raise DataError(f"{place}: {what!r} must be a list of points, one at least.")
        rows = [point if isinstance(point, list) else [point] for point in given]
        width = len(rows[0])
        for step, row in enumerate(rows, start=1):
            if len(row) != width or not width:
                raise DataError(
                    f"{place}: point {step} of {what!r} has {len(row)} numbers, the first has"
                    f" {width}."
                )
            for feature, value in enumerate(row, start=1):
                if value is None or type(value) in (int, float):
                    continue
                raise DataError(
                    f"{place}: point {step} of {what!r}, number {feature}, is"
                    f" {json.dumps(value)[:40]}, not a number."
                )
        try:
            return np.array(rows, dtype=np.float64)
        except OverflowError:
            raise DataError(f"{place}: {what!r} has a number too large to work with.") from None

    def chunk(self, gathered: list[tuple[int, str, Any, Any, str | None]]) -> Chunk:
        lines = [number for number, *_ in gathered]
        assert self.features is not None
        names = self.options.features or default_names(self.features)
        points = _ragged([source for _, _, source, _, _ in gathered], names)
        groups = [group for *_, group in gathered if group is not None]
        target, where_target = None, None
        if self.has_target and self.target_width is not None:
            same = self.target_width == self.features
            target_names = (
                names if same else tuple(f"t{i}" for i in range(1, self.target_width + 1))
            )
            target = _ragged(
                [target_points for _, _, _, target_points, _ in gathered], target_names
            )
            where_target = _where(lines, target.offsets, target_names, "target")
        return Chunk(
            ids=tuple(name for _, name, *_ in gathered),
            points=points,
            where=_where(lines, points.offsets, names, "source"),
            target=target,
            where_target=where_target,
            groups=tuple(groups) or None,
        )


def _ragged(rows: list[Any], names: tuple[str, ...]) -> Ragged:
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return Ragged(np.concatenate(rows), offsets_of(lengths), tuple(names))


def _where(lines: list[int], offsets: Integers, names: tuple[str, ...], what: str) -> Any:
    def where(row: int, feature: int) -> str:
        k = int(np.searchsorted(offsets, row, side="right")) - 1
        step = row - int(offsets[k]) + 1
        return f"line {lines[k]}, point {step} of its {what}, {names[feature]!r}"

    return where


def _once(pairs: list[tuple[str, Any]], place: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise DataError(f"{place}: has {twice!r} twice.")
    return found


def _constant(word: str) -> float | None:
    """NaN, which some programs write for an empty cell; JSON itself knows neither."""
    return None if word == "NaN" else float(word.replace("Infinity", "inf"))
