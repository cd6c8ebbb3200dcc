"""A disk that is full: a small file system of memory, of every size up to three checkpoints."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.faults import Tally
from tests.faults.processes import ends_the_same, nurtured, words

PAGE = 4096


def full(sizes: int, step: int = 1) -> Tally:
    """Train where only so many pages are free, for every number of pages; then make room and
    resume.

    Args:
        sizes: pages at most; three checkpoints and the rest of a run are about 40.
        step: between two sizes.
    """
    tally = Tally()
    codes: dict[int, int] = {}
    with nurtured() as (nursery, home):
        disk = home / "disk"
        disk.mkdir()
        for pages in range(1, sizes + 1, step):
            if not mounted(disk, pages * PAGE):
                tally.skip("mounting needs root")
                continue
            try:
                with tally.case(f"{pages} pages"):
                    done = nursery.run(words("disk"), home)
                    codes[done.code] = codes.get(done.code, 0) + 1
                    tally.took(done.mib)
                    assert done.code in (0, 5), f"exit code {done.code}: {done.err}"
                    assert "Traceback" not in done.err, done.err
                    if done.code == 5:
                        assert "No space left" in done.err, done.err
                    assert mounted(disk, 2**24, again=True)
                    ends_the_same(nursery, home, "disk", tally)
            finally:
                subprocess.run(["umount", str(disk)], check=True)
    tally.remarks.append(
        f"Of {sum(codes.values())} training runs, {codes.get(5, 0)} ended with exit code 5, and"
        f" {codes.get(0, 0)} finished."
    )
    return tally


def mounted(place: Path, size: int, *, again: bool = False) -> bool:
    if shutil.which("mount") is None:
        return False
    options = f"size={size}" + (",remount" if again else "")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True
    )
    return done.returncode == 0
