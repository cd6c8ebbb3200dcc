"""The limits of the machine: open files, physical memory and CPU cores."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from seqattn.errors import StorageError

MIN_OPEN_FILES = 48
"""The number of open files that a process needs at least in addition to one lock per run."""
RESERVED_FDS = 200
"""The number of open files that are allowed, if possible, in addition to one lock per run."""


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
