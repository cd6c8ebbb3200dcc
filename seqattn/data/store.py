"""Stores of series in memory or in memory-mapped files, and a cache of them on disk.

An entry of the cache is a folder. The name of the folder is a digest of the format version, the
reading, and the paths, sizes and modification times of the files. An entry is written under a
temporary name and renamed when it is complete, so that several processes can write the same entry
at the same time.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config.files import read_regular_file
from seqattn.data.chunk import Ragged, to_offsets
from seqattn.data.reading import Reading
from seqattn.data.sequences import Integers, row_blocks
from seqattn.data.series import Series
from seqattn.data.spacing import Spacing
from seqattn.errors import DataError, StorageError

META = "meta.json"
VERSION = 4
"""Version of the folder layout and of the reading of files. Folders of other versions are not
read."""


class PackedNames(collections.abc.Sequence[str]):
    """A sequence of strings in one array of bytes.

    Args:
        content: (bytes,) the concatenated strings in UTF-8.
        lengths: (N,) number of bytes in each string.
    """

    def __init__(self, content: NDArray[np.uint8], lengths: Integers) -> None:
        self.content, self.lengths = content, lengths

    @functools.cached_property
    def offsets(self) -> Integers:
        """Indices (N + 1,) of the first byte of each string and of the end of the last string."""
        return to_offsets(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self[k] for k in range(len(self))[place])
        k = range(len(self))[place]
        first, last = (int(one) for one in self.offsets[k : k + 2])
        return bytes(self.content[first:last]).decode()


class SeriesStore:
    """A store that collects series with the same columns.

    Args:
        folder: an empty folder for the rows, or None to keep the rows in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.arrays: dict[str, list[NDArray[Any]]] = {}
        self.dtypes: dict[str, str] = {}
        self.ids, self.groups = list[str](), list[str]()
        self.first: Series | None = None
        self.empty, self.bytes = 0, 0
        self.notes = dict[str, None]()
        self.count = 0

    def add(self, series: Series) -> None:
        """Add series to the store."""
        self.first = self.first or series
        self.empty += series.empty
        self.count += len(series)
        self.notes |= dict.fromkeys(series.notes)
        points, spacing, target = series.points, series.spacing, series.target
        self._append("values", points.values)
        self._append("lengths", points.lengths)
        dropped = series.dropped
        self._append("dropped", np.zeros(len(series), bool) if dropped is None else dropped)
        if series.order is not None:
            self._append("order", series.order)
        if spacing is not None:
            self._append("unit", spacing.unit)
            self._append("step", spacing.step)
            self._append("day", spacing.day)
        if target is not None:
            self._append("target_values", target.values)
            self._append("target_lengths", target.lengths)
        self._append_names("ids", self.ids, series.ids)
        self._append_names("groups", self.groups, series.groups or ())

    def _append_names(self, name: str, arrays: list[str], words: Sequence[str]) -> None:
        if self.folder is None:
            arrays.extend(words)
            return
        texts = [word.encode() for word in words]
        self._append(name, np.frombuffer(b"".join(texts), dtype=np.uint8))
        self._append(f"{name}_lengths", np.array([len(text) for text in texts], np.int64))

    def clear(self) -> None:
        """Remove all series."""
        if self.folder is not None:
            for file in self.folder.iterdir():
                file.unlink()
        self.__init__(self.folder)  # type: ignore[misc]

    @contextlib.contextmanager
    def sibling(self) -> Iterator[SeriesStore]:
        """Create a temporary store on the disk of this store, or in memory if this store has no
        folder."""
        if self.folder is None:
            yield SeriesStore()
            return
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix="making-") as place:
            yield SeriesStore(Path(place))

    def finish(self, name: str) -> Series:
        """Return all series. If the store has a folder, the series are valid only as long as the
        files in this folder exist.

        Args:
            name: name of the files, for messages.
        """
        if self.folder is None:
            return self.series(name, {})
        self.write(name, {}, {})
        found = open_mapped(self.folder)
        assert found is not None
        return found

    def _append(self, name: str, array: NDArray[Any]) -> None:
        array = np.ascontiguousarray(array)
        self.bytes += array.nbytes
        if self.folder is None:
            self.arrays.setdefault(name, []).append(array)
            return
        before = np.dtype(self.dtypes.setdefault(name, array.dtype.str))
        dtype = np.promote_types(before, array.dtype)
        path = self.folder / name
        if dtype != before:
            self.dtypes[name] = dtype.str
            if path.exists():  # rewrite the file with the wider dtype
                wide = path.with_name(f"{path.name}.wide")
                for _, some in row_blocks(np.memmap(path, dtype=before, mode="r")):
                    _append_to(wide, np.ascontiguousarray(some, dtype=dtype))
                wide.replace(path)
        _append_to(path, array.astype(dtype, copy=False))

    def series(self, name: str, digests: dict[str, str]) -> Series:
        """Return all series of a store that keeps its rows in memory.

        Args:
            name: name of the files, for messages.
            digests: SHA-256 digest of each file by file name.
        """
        assert self.first is not None and self.folder is None
        arrays = {key: parts[0] if len(parts) == 1 else np.concatenate(parts)
                  for key, parts in self.arrays.items()}  # fmt: skip
        groups = self.groups if self.first.groups is not None else None
        return _build_series(self._metadata(name, digests), arrays, self.ids, groups)

    def write(self, name: str, digests: dict[str, str], more: dict[str, Any]) -> None:
        """Write the metadata. After that, `open_mapped` can open the folder.

        Args:
            name: name of the files, for messages.
            digests: SHA-256 digest of each file by file name.
            more: additional entries of the metadata.
        """
        assert self.first is not None and self.folder is not None
        metadata = {
            **self._metadata(name, digests), "version": VERSION, "dtypes": self.dtypes, **more,
            "has_groups": self.first.groups is not None,
            "bytes": {
                key: path.stat().st_size if (path := self.folder / key).exists() else 0
                for key in self.dtypes
            },
        }  # fmt: skip
        (self.folder / META).write_text(json.dumps(metadata), encoding="utf-8")

    def _metadata(self, name: str, digests: dict[str, str]) -> dict[str, Any]:
        assert self.first is not None
        target = self.first.target
        return {
            "name": name, "columns": list(self.first.columns), "empty": self.empty,
            "target_columns": None if target is None else list(target.features),
            "notes": list(self.notes), "digests": digests,
            "reading": None if self.first.reading is None else self.first.reading.as_plain(),
        }  # fmt: skip


def _append_to(path: Path, array: NDArray[Any]) -> None:
    if array.size:
        with path.open("ab") as file:
            file.write(array.view(np.uint8).data)  # arrays of dates lack the buffer protocol


def open_mapped(folder: Path) -> Series | None:
    """Return the series in a folder, or None if the folder is incomplete or has another version."""
    try:
        metadata = json.loads(read_regular_file(folder / META))
        if metadata["version"] != VERSION:
            return None
        arrays = {key: _map_file(folder / key, metadata["dtypes"][key], size)
                  for key, size in metadata["bytes"].items()}  # fmt: skip
    except (OSError, ValueError, KeyError):
        return None
    columns = len(metadata["columns"])
    arrays["values"] = arrays["values"].reshape(-1, columns)
    if metadata["target_columns"] is not None:
        target_columns = len(metadata["target_columns"])
        arrays["target_values"] = arrays["target_values"].reshape(-1, target_columns)
    texts = {key: PackedNames(arrays[key], arrays[f"{key}_lengths"]) for key in ("ids", "groups")}
    groups = texts["groups"] if metadata["has_groups"] else None
    return _build_series(metadata, arrays, texts["ids"], groups)


def _map_file(path: Path, dtype: str, size: int) -> NDArray[Any]:
    """Memory-map one array.

    Raises:
        ValueError: if the file does not have the expected size.
    """
    if not size:
        return np.zeros(0, dtype=dtype)
    if path.stat().st_size != size:
        raise ValueError(f"{path} is incomplete")
    return np.memmap(path, dtype=dtype, mode="r")


def _build_series(
    metadata: dict[str, Any], arrays: dict[str, NDArray[Any]], ids: Sequence[str],
    groups: Sequence[str] | None,
) -> Series:  # fmt: skip
    spacing, target = None, None
    if "unit" in arrays:
        spacing = Spacing(*(np.asarray(arrays[key]) for key in ("unit", "step", "day")))
    if metadata["target_columns"] is not None:
        target = Ragged(arrays["target_values"], to_offsets(arrays["target_lengths"]),
                        tuple(metadata["target_columns"]))  # fmt: skip
    points = Ragged(arrays["values"], to_offsets(arrays["lengths"]), tuple(metadata["columns"]))
    return Series(
        metadata["name"], ids, points, arrays.get("order"), spacing, groups, target,
        metadata["empty"], arrays["dropped"] if arrays["dropped"].any() else None,
        tuple(metadata["notes"]), dict(metadata["digests"]),
        None if metadata["reading"] is None else Reading.from_plain(metadata["reading"]),
    )  # fmt: skip


MIN_CACHED_BYTES = 2**25
"""Minimum total file size, in bytes, at which `data.cache: auto` uses the cache."""

ABANDONED_SECONDS = 86_400
"""Age in seconds after which an incomplete entry is removed."""


def cache_folder() -> Path:
    """Return the folder that the environment variable `SEQATTN_CACHE` specifies. If this variable
    is not set, return the folder `seqattn` in the user's cache folder."""
    folder = os.environ.get("SEQATTN_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seqattn"


def is_large(files: Sequence[Path]) -> bool:
    """Return whether `data.cache: auto` uses the cache for the given files."""
    return sum(file.stat().st_size for file in files) >= MIN_CACHED_BYTES


def load_cached(
    files: Sequence[Path], options: str, name: str,
    read: Callable[[SeriesStore], dict[str, str]],
) -> Series:  # fmt: skip
    """Return the series of the files from the cache. If the cache has no entry for the files and
    options, read the files and add an entry.

    Args:
        files: the files in the order in which they are read.
        options: all options that affect how the files are read, as text.
        name: name of the files, for messages.
        read: function that adds the series to a store, and returns the SHA-256 digest of each file
            by file name.

    Raises:
        DataError: if a file changed while it was being read.
        StorageError: if the entry cannot be written or read back.
    """
    home, key = cache_folder(), _cache_key(files, options)
    entry = home / key
    series = open_mapped(entry)
    if series is not None:
        current = dict(zip(map(str, files), series.digests.values(), strict=True))
        return replace(series, name=name, digests=current)  # the files may have moved
    with _new_folder(home, files) as made:
        store = SeriesStore(made)
        digests = read(store)
        try:
            has_changed = _cache_key(files, options) != key
        except OSError:  # a file was removed
            has_changed = True
        if has_changed:
            raise DataError(f"{name}: changed while it was read. Repeat the command.")
        store.write(name, digests, {"files": [str(file.resolve()) for file in files]})
        # OSError means that another process wrote the entry first, or that a damaged entry remains.
        with contextlib.suppress(OSError):
            if open_mapped(entry) is None:
                shutil.rmtree(entry, ignore_errors=True)
            made.rename(entry)
    series = open_mapped(entry)
    if series is None:
        raise StorageError(f"{entry}: cannot be read back. Remove it, or set data.cache: never.")
    return series


def _cache_key(files: Sequence[Path], options: str) -> str:
    text = [str(VERSION), options]
    for file in files:
        status = file.stat()
        text.append(f"{file.resolve()}\t{status.st_size}\t{status.st_mtime_ns}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:24]


@contextlib.contextmanager
def _new_folder(home: Path, files: Sequence[Path]) -> Iterator[Path]:
    """Create a folder next to the cache entries, and remove abandoned ones. When the context ends,
    remove the folder unless it was renamed.

    Raises:
        StorageError: if the free disk space is less than twice the size of the files, or if the
            entry cannot be written.
    """
    made = home / f"making-{os.getpid()}-{os.urandom(4).hex()}"
    remedy = "Set SEQATTN_CACHE to a folder with more room, or data.cache: never."
    try:
        made.mkdir(parents=True)
        for folder in home.glob("making-*"):
            with contextlib.suppress(OSError):  # another process may remove the folder first
                written = max(one.stat().st_mtime for one in (folder, *folder.iterdir()))
                if time.time() - written > ABANDONED_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
        size, free = sum(file.stat().st_size for file in files), shutil.disk_usage(home).free
        if 2 * size > free:
            raise StorageError(
                f"{home}: has {free / 2**30:.1f} GiB free, and the numbers of"
                f" {size / 2**30:.1f} GiB of files may need twice as much. {remedy}"
            )
        yield made
    except OSError as error:
        raise StorageError(f"{home}: {error.strerror or error}. {remedy}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
