"""Lines of JSON Lines files, decompressed and parsed."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from seqattn.errors import DataError

BOM = b"\xef\xbb\xbf"


@contextmanager
def open_lines(path: Path) -> Iterator[BinaryIO]:
    """Open a JSON Lines file for reading, decompressed if it is a gzip file.

    Raises:
        DataError: if the gzip file is damaged.
    """
    if path.suffix.lower() != ".gz":
        with path.open("rb") as plain:
            yield plain
        return
    try:
        with gzip.open(path) as unpacked:
            yield cast("BinaryIO", unpacked)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: is a damaged gzip file ({error}).") from None


def parse_json(line: bytes, place: str, **hooks: Any) -> Any:
    """Parse a line as JSON.

    Raises:
        DataError: if the line is not valid JSON.
    """
    try:
        return json.loads(line, **hooks)
    except UnicodeDecodeError:
        raise DataError(f"{place}: is not UTF-8. Save the file as UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: is not valid JSON ({str(error)[:200]}).") from None


def parse_object(line: bytes, place: str) -> dict[str, Any]:
    """Parse a line as a JSON object.

    Raises:
        DataError: if the line is not a JSON object with a source.
    """
    content: Any = parse_json(
        line, place, object_pairs_hook=lambda pairs: _unique_keys(pairs, place),
        parse_constant=_parse_constant,
    )  # fmt: skip
    if not isinstance(content, dict):
        raise DataError(f'{place}: is not an object; expected {{"source": [[...], ...]}}.')
    if "source" not in content:
        raise DataError(
            f"{place}: has no 'source'; it has {', '.join(sorted(content)) or 'nothing'}."
        )
    return content


def _unique_keys(pairs: list[tuple[str, Any]], place: str) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise DataError(f"{place}: has {twice!r} twice.")
    return parsed


def _parse_constant(word: str) -> float | None:
    """Parse NaN and Infinity, which are not valid JSON. Some programs write NaN for an empty cell,
    so NaN becomes None."""
    return None if word == "NaN" else float(word.replace("Infinity", "inf"))
