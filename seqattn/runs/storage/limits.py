"""Limits of the machine: free disk space, open files, physical memory."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from seqattn.errors import StorageError

SPARE_FILES = 200
"""Open files that a process needs in addition to the locks of its runs."""


def check_free_space(needed: Mapping[Path, int]) -> None:
    """Check that folders have room for what will be written.

    Args:
        needed: bytes for each folder, which need not exist yet; those of one disk are added up.

    Raises:
        StorageError: a disk has fewer bytes free.
    """
    disks: dict[int, tuple[Path, int]] = {}
    for folder, size in needed.items():
        place = folder
        while not place.exists() and place != place.parent:
            place = place.parent
        disk = place.stat().st_dev
        disks[disk] = place, size + disks.get(disk, (place, 0))[1]
    for place, total in disks.values():
        free = shutil.disk_usage(place).free
        if free < total:
            raise StorageError(
                f"{place}: {free / 2**20:.1f} MiB are free there, but two checkpoints of each run"
                f" need {total / 2**20:.1f} MiB. Make room, or choose another --output-dir."
            )


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files to what `count` runs at once need.

    Raises:
        StorageError: the system does not allow as many.
    """
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted, endless = count + SPARE_FILES, resource.RLIM_INFINITY
    if soft == endless or wanted <= soft:
        return
    if hard != endless and count >= hard:
        raise StorageError(
            f"{count:,} runs at once need as many open files, but this process may have no more"
            f" than {hard:,} (ulimit -n). Train fewer at once, or raise that."
        )
    with contextlib.suppress(ValueError, OSError):  # then a file that cannot be opened says so
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == endless else min(wanted, hard), hard)
        )


def physical_memory() -> int:
    """Bytes of memory: the machine's, or the control group's if that is less. 4 GiB if unknown."""
    found = []
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found.append(int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    with contextlib.suppress(ValueError, OSError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found, default=4 * 2**30)
