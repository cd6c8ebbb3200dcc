"""The limits of the machine: free disk space, open files, physical memory and CPU cores."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from seqattn.errors import StorageError, unequal_numbers

MIN_OPEN_FILES = 48
"""The number of open files that a process needs at least in addition to one lock per run."""
RESERVED_FDS = 200
"""The number of open files that are allowed, if possible, in addition to one lock per run."""


def check_free_space(needed: Mapping[Path, int]) -> None:
    """Check that the disks of all folders have enough free space.

    Args:
        needed: the number of bytes that will be written to each folder. The folders do not have to
            exist yet.

    Raises:
        StorageError: if the folders on a disk together need more than the free space of the disk.
    """
    disks: dict[int, tuple[Path, int]] = {}
    for folder, size in needed.items():
        existing = folder
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        disk = existing.stat().st_dev
        disks[disk] = existing, size + disks.get(disk, (existing, 0))[1]
    for existing, total in disks.values():
        free = shutil.disk_usage(existing).free
        if free < total:
            there, needs = unequal_numbers(free / 2**20, total / 2**20)
            raise StorageError(
                f"{existing}: its disk has {there} MiB free, but two checkpoints of each"
                f" run need {needs} MiB. Free some space, or choose another"
                " --output-dir."
            )


def allow_open_files(runs: int = 1) -> None:
    """Raise the limit on open files of this process, so that a command can train a number of runs
    at the same time.

    Raises:
        StorageError: if the system does not allow that many files.
    """
    try:
        import resource
    except ImportError:  # the platform has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed, wanted = runs + MIN_OPEN_FILES, runs + RESERVED_FDS
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or wanted <= soft:
        return
    if hard != unlimited and needed > hard:
        subject, remedy = "seqattn needs", "Raise"
        if runs > 1:
            subject, remedy = f"{runs:,} concurrent runs need", "Train fewer runs at once, or raise"
        raise StorageError(
            f"{subject} {needed:,} open files, but this process may have at most {hard:,}. {remedy}"
            f" the limit (ulimit -n {wanted})."
        )
    with contextlib.suppress(ValueError, OSError):  # opening too many files then raises the error
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == unlimited else min(wanted, hard), hard)
        )


def physical_memory() -> int:
    """Return the memory of the machine in bytes, or the memory limit of the control group if this
    limit is lower. If neither value is known, return 4 GiB."""
    limits = []
    with contextlib.suppress(ValueError, OSError, AttributeError):
        limits.append(int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    with contextlib.suppress(ValueError, OSError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return min(limits, default=4 * 2**30)


def core_count() -> int:
    """Return the number of CPU cores that this process may use. A fractional CPU limit set by the
    control group, for example in a container, is rounded up to a whole number of cores."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(ValueError, OSError):  # without a limit, the quota is "max"
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split())
        cores = min(cores, max(1, -(-quota // period)))
    return cores
