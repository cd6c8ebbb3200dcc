"""Where the numbers of large files are kept, so that they are read once.

An entry is a folder named by a digest of what it was made from: paths, sizes and times of the
files, and how they are read. It is made under another name and renamed when it is whole, so that
processes may make the same one side by side.
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
"""Bytes of files from which on `data.cache: auto` keeps their numbers."""

ABANDONED_SECONDS = 86_400
"""Seconds after which nobody goes on with an entry that is not whole."""


def cache_folder() -> Path:
    """SEQATTN_CACHE, or seqattn in the user's cache folder."""
    given = os.environ.get("SEQATTN_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seqattn"


def is_large(files: Sequence[Path]) -> bool:
    return sum(file.stat().st_size for file in files) >= MIN_CACHED_BYTES


def load_cached(
    files: Sequence[Path], how: str, name: str,
    read: Callable[[SeriesStore], dict[str, str]],
) -> Series:  # fmt: skip
    """The series of some files, from the cache folder; read into it first if they are not there.

    Args:
        how: they are read, in words that change when the series would.
        name: of the files, for messages.
        read: puts their series into a store, and returns the SHA-256 of each file.

    Raises:
        DataError: a file changed while it was read.
        StorageError: there is no room for them.
    """
    home, key = cache_folder(), _cache_key(files, how)
    entry = home / key
    found = open_mapped(entry)
    if found is not None:
        return _with_current_names(found, name, files)
    with _new_folder(home, files) as made:
        store = SeriesStore(made)
        digests = read(store)
        if _cache_key(files, how) != key:
            raise DataError(f"{name}: changed while it was read. Give the same command again.")
        store.write(name, digests, {"files": [str(file.resolve()) for file in files]})
        with contextlib.suppress(OSError):  # another process was faster, or an old one is broken
            if open_mapped(entry) is None:
                shutil.rmtree(entry, ignore_errors=True)
            made.rename(entry)
    found = open_mapped(entry)
    if found is None:
        raise StorageError(f"{entry}: cannot be read back. Remove it, or set data.cache: never.")
    return found


def _with_current_names(found: Series, name: str, files: Sequence[Path]) -> Series:
    """With the names that the files have now: they may have been given another way before."""
    digests = dict(zip(map(str, files), found.digests.values(), strict=True))
    return replace(found, name=name, digests=digests)


def _cache_key(files: Sequence[Path], how: str) -> str:
    text = [str(VERSION), how]
    for file in files:
        status = file.stat()
        text.append(f"{file.resolve()}\t{status.st_size}\t{status.st_mtime_ns}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:24]


@contextlib.contextmanager
def _new_folder(home: Path, files: Sequence[Path]) -> Iterator[Path]:
    """An empty folder beside the entries, removed unless it is renamed.

    Raises:
        StorageError: there is no room, or the folder cannot be made.
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
    """Remove what processes that were killed were making: whatever nobody wrote to for a day."""
    for place in home.glob("making-*"):
        with contextlib.suppress(OSError):  # another process removes it
            written = max(one.stat().st_mtime for one in (place, *place.iterdir()))
            if time.time() - written > ABANDONED_SECONDS:
                shutil.rmtree(place, ignore_errors=True)
