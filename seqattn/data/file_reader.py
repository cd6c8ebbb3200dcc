"""Reader of several files that share one layout."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seqattn.data.column_roles import Resolution
from seqattn.data.files import (
    NESTED,
    TABLES,
    Chunk,
    ReadOptions,
    file_format,
    file_kind,
    read_chunks,
)
from seqattn.data.paths import file_series_names
from seqattn.data.setting_names import setting
from seqattn.errors import AmbiguousData, DataError, NoRows, counted


class FileReader:
    """Reader of files that share one layout, which the first file determines.

    Args:
        path: the path as the user typed it.
        files: the files in the order in which they are read.
        options: the options for reading the files.
    """

    def __init__(self, path: str, files: Sequence[Path], options: ReadOptions) -> None:
        self.path, self.files, self.options = path, files, options
        self.called = dict(zip(files, file_series_names(path, files), strict=True))
        self.infers_decimal = options.decimal == "auto"
        self.first: Chunk | None = None
        self.first_file = files[0]
        self.without_rows = dict[str, None]()
        self.resolved = dict[Resolution, dict[str, None]]()
        self.has_only_whole_numbers = True

    @property
    def notes(self) -> list[str]:
        """Notes for the user on ambiguous files, and on files without rows, among the files that
        were read."""
        notes = [
            f"{_first_names(files)}: {'is' if len(files) == 1 else 'are'}"
            f" {resolution.note(f'{self.first_file} shows')}"
            for resolution, files in self.resolved.items()
        ]
        if n := len(self.without_rows):
            verb, names = "is" if n == 1 else "are", _first_names(self.without_rows)
            notes.append(f"{counted(n, 'file')} without rows {verb} left out: {names}")
        return notes

    def chunks(self) -> Iterator[tuple[str, Chunk]]:
        """Yield pairs (name of the file, chunk) in order.

        Raises:
            DataError: if a file differs from the first file in its features, in the type of its
                times, in its separate targets or in its decimal mark.
        """
        for file in self.files:
            for chunk in self._read(file):
                if self.first is None:
                    self.first_file = file
                    self._set_layout(chunk)
                assert self.first is not None
                self._check_like_first(file, chunk, self.first)
                yield str(file), self._with_unique_names(file, chunk)

    def _check_like_first(self, file: Path, chunk: Chunk, first: Chunk) -> None:
        if chunk.points.features != first.points.features:
            raise DataError(
                f"{file}: has the features {', '.join(chunk.points.features)},"
                f" {self.files[0]} {', '.join(first.points.features)}."
            )
        for kind, mine, others in (
            ("steps", _describe_steps(chunk), _describe_steps(first)),
            ("targets", _describe_targets(chunk), _describe_targets(first)),
        ):
            if mine != others:
                raise DataError(
                    f"{file}: has {mine} where {self.files[0]} has {others}. The {kind} of all"
                    " files must be of one kind."
                )
        if self.infers_decimal:
            self._check_decimal(file, chunk, first)

    def _check_decimal(self, file: Path, chunk: Chunk, first: Chunk) -> None:
        marks = f"{setting('decimal', ',')} or {setting('decimal', '.')}"
        choose = f"Set the decimal mark of all files: {marks}."
        if chunk.style.decimal == "," and first.style.decimal != ",":
            if self.has_only_whole_numbers:  # which have no decimal mark
                self.options = replace(self.options, decimal=",")
                return
            raise DataError(
                f"{file}: has numbers with decimal commas, and {self.files[0]} has none. {choose}"
            )
        mine, others = chunk.style.separator, first.style.separator
        if first.style.decimal == "," and mine != others:
            raise DataError(
                f"{file}: separates cells by {mine!r}, but {self.files[0]} by {others!r}, so the"
                f" decimal comma of that file may not apply. {choose}"
            )
        values = chunk.points.values
        self.has_only_whole_numbers &= bool((np.isnan(values) | (values == np.round(values))).all())

    def _read(self, file: Path) -> Iterator[Chunk]:
        """Yield the chunks of a file. If there are several files, a file may have no rows.

        If the first file shows how to read an ambiguous file, the file is read in the same way.
        """
        try:
            try:
                yield from read_chunks(file, self.options)
            except AmbiguousData as ambiguity:
                if self.first is None or self.first.roles is None:
                    raise
                resolution = self.first.roles.resolve(ambiguity, self.options)
                self.resolved.setdefault(resolution, {})[str(file)] = None
                yield from read_chunks(file, resolution.apply_to(self.options))
        except NoRows:
            if len(self.files) == 1:
                raise
            self.without_rows[str(file)] = None

    def _set_layout(self, chunk: Chunk) -> None:
        self.first = chunk
        if self.infers_decimal and chunk.style.decimal == ",":
            self.options = replace(self.options, decimal=",")
        kind = file_format(self.files[0], self.options.format)
        if len(self.files) > 1 and kind not in ("npz", "npy") and not chunk.is_wide:
            if kind == "jsonl" and chunk.order is None and not chunk.style.series:
                return
            self.options = replace(
                self.options, layout="long", features=chunk.points.features,
                series=chunk.style.series, time=chunk.style.time or None,
            )  # fmt: skip

    def _with_unique_names(self, file: Path, chunk: Chunk) -> Chunk:
        """Make sequence names unique across several files without series ids.

        The only sequence in a chunk of a table gets the file name, and so does the only sequence in
        a chunk of a JSON Lines file if it is sequence 1. Otherwise, names that only count the
        sequences get the file name as a prefix.
        """
        if len(self.files) == 1 or chunk.style.series:
            return chunk
        called, ids = self.called[file], chunk.ids
        if len(chunk) == 1 and not chunk.is_wide:
            kind = file_kind(file, file_format(file, self.options.format))
            if kind in TABLES or (kind.startswith(NESTED) and ids == ("1",)):
                return replace(chunk, ids=(called,))
        first = int(ids[0]) if ids[0].isdecimal() else -1
        are_numbers = ids == tuple(str(first + k) for k in range(len(ids)))
        if not are_numbers and not chunk.is_wide:  # ids of wide tables are the numbers of rows
            return chunk
        return replace(chunk, ids=tuple(f"{called}:{name}" for name in ids))


def _first_names(files: Collection[str]) -> str:
    return ", ".join([*files][:5]) + (", ..." if len(files) > 5 else "")


def _describe_steps(chunk: Chunk) -> str:
    if chunk.order is None:
        return "no steps"
    return "dates as steps" if chunk.order.dtype.kind == "M" else "numbers as steps"


def _describe_targets(chunk: Chunk) -> str:
    return (
        "no separate targets"
        if chunk.target is None
        else (f"separate targets ({', '.join(chunk.target.features)})")
    )
