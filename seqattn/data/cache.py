"""A cache on disk for series that were read from files.

An entry is a folder. The name of the folder is a digest of the format version, the read options,
and the paths, sizes and modification times of the files. An entry is written under a temporary name
and renamed when it is complete, so that several processes can write the same entry at the same
time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from seqattn.data.series import Series
from seqattn.data.store import VERSION, SeriesStore, open_mapped
from seqattn.errors import DataError, StorageError

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
        return _with_current_names(series, name, files)
    with _new_folder(home, files) as made:
        store = SeriesStore(made)
        digests = read(store)
        if _have_changed(files, options, key):
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


def _with_current_names(series: Series, name: str, files: Sequence[Path]) -> Series:
    """Return the series with the current file names, which may differ from the cached names."""
    digests = dict(zip(map(str, files), series.digests.values(), strict=True))
    return replace(series, name=name, digests=digests)


def _cache_key(files: Sequence[Path], options: str) -> str:
    text = [str(VERSION), options]
    for file in files:
        status = file.stat()
        text.append(f"{file.resolve()}\t{status.st_size}\t{status.st_mtime_ns}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:24]


def _have_changed(files: Sequence[Path], options: str, key: str) -> bool:
    try:
        return _cache_key(files, options) != key
    except OSError:  # a file was removed
        return True


@contextlib.contextmanager
def _new_folder(home: Path, files: Sequence[Path]) -> Iterator[Path]:
    """Create a folder next to the cache entries. When the context ends, remove the folder unless it
    was renamed.

    Raises:
        StorageError: if the free disk space is less than twice the size of the files, or if the
            entry cannot be written.
    """
    made = home / f"making-{os.getpid()}-{os.urandom(4).hex()}"
    remedy = "Set SEQATTN_CACHE to a folder with more room, or data.cache: never."
    try:
        made.mkdir(parents=True)
        _remove_abandoned(home)
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


def _remove_abandoned(home: Path) -> None:
    """Remove incomplete entries that are older than `ABANDONED_SECONDS`."""
    for folder in home.glob("making-*"):
        with contextlib.suppress(OSError):  # another process may remove the folder first
            written = max(one.stat().st_mtime for one in (folder, *folder.iterdir()))
            if time.time() - written > ABANDONED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
