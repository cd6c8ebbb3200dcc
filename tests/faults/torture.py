"""Every fault, as often as it takes to be believed, and the page that says what came of it.

make torture                                  # all; half an hour on two cores
python -m tests.faults.torture --only killed,flipped --output page.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from tests.conftest import ROOT
from tests.faults import (
    Tally,
    at_once,
    configs,
    disk,
    files,
    folders,
    groups,
    outputs,
    processes,
    readers,
    states,
    surroundings,
)

DELAYS = (0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.8)
"""Seconds between two commands that are begun at once."""

# The longest first, so that two at a time end together.
FAULTS: dict[str, tuple[str, Callable[[], Tally]]] = {
    "failing": (
        "the n-th write, fsync or rename fails with ENOSPC or EIO, for every n: exit 5, and a resume"
        " ends the same",
        processes.failing,
    ),
    "told_to_stop": (
        "SIGINT and SIGTERM during a save, a validation, the plotting, 100 of each: saved, and a"
        " resume ends the same",
        lambda: processes.told_to_stop(100),
    ),
    "killed": (
        "SIGKILL at a random moment, then resume to the end: the same final bytes",
        lambda: processes.killed(300),
    ),
    "killed_side_by_side": (
        "SIGKILL at sixty renames in turn of three seeds side by side, which are some saves: none begins again, and"
        " all end the same",
        processes.killed_side_by_side,
    ),
    "read": (
        "random bytes into every reader (config, seven data formats, checkpoint, metrics, arrays)"
        " for ten minutes: read or refused",
        lambda: readers.run(600),
    ),
    "told_at_once": (
        "SIGINT and SIGTERM at a random moment of the default config's training, 100 of each: exit"
        " 130 or 143 within a second",
        lambda: processes.told_to_stop_at_once(100),
    ),
    "system_calls": (
        "killed at each system call of one save: two whole checkpoints are there",
        processes.killed_at_each_system_call,
    ),
    "importing": (
        "SIGINT and SIGTERM during the import, 100 of each: exit 130 or 143 within a second, and"
        " nothing written",
        lambda: processes.told_to_stop_while_importing(100),
    ),
    "two_at_once": (
        "two trainings begun in one folder at once: one trains, the other is refused",
        lambda: processes.two_at_once(50),
    ),
    "at_once": (
        "a training with another, with seeds, or with a command that reads or draws its run, begun"
        " in one folder at once: exit 0 or 6, and what was written is what each writes alone",
        lambda: at_once.pairs(
            at_once.beginning_with("train", "seeds", "other", "report"), DELAYS
        ),
    ),
    "comparisons_at_once": (
        "a comparison with the same, with another, or with another command begun in its folder at"
        " once: the same",
        lambda: at_once.pairs(at_once.beginning_with("compare"), DELAYS),
    ),
    "searches_at_once": (
        "a search with the same, with another, or with another command begun in its folder, or in"
        " its database, at once: the same",
        lambda: at_once.pairs(at_once.beginning_with("tune"), DELAYS),
    ),
    "disk": (
        "a disk full at every size up to 40 pages of 4 KiB (three checkpoints are 12, a whole run 20), free space"
        " asked for beforehand and not; with room again a resume ends the same",
        lambda: disk.full(40),
    ),
    "stopped": (
        "stopped after step k and resumed, for every k of a 200-step training with dropout,"
        " sampling and coins",
        states.stopped_at,
    ),
    "groups_stopped": (
        "runs side by side that end early, diverge, have plateaus or other numbers of epochs, stopped after"
        " step k and every 7 steps from there: the same weights, metrics and results as at once",
        lambda: groups.stopped(range(1, 37)),
    ),
    "groups_killed": (
        "the same ended at the n-th checkpoint that is renamed, twice, with many common saves, few and"
        " none: the same weights, metrics and results",
        lambda: groups.killed(range(1, 61)),
    ),
    "groups_killed_for_real": (
        "SIGKILL at the n-th rename of four seeds of which some stop early: the same weights, metrics"
        " and forecasts",
        lambda: groups.killed_for_real(range(13, 103, 3)),
    ),
    "left_out": (
        "one restored item left out on purpose: the oracle of the row above notices",
        states.left_out,
    ),
    "many_steps": (
        "20,000 steps: no growth of memory or of open files",
        lambda: states.many_steps(20_000),
    ),
    "environments": (
        "no HOME, no, read-only or full TMPDIR, any locale, NO_COLOR, no terminal, no network: trained and"
        " drawn, without escape codes",
        surroundings.environments,
    ),
    "closed": (
        "standard streams closed, full, or their reader gone; the terminal closed: trained to the"
        " end",
        surroundings.closed,
    ),
    "terminals": ("in a terminal, with NO_COLOR and without", surroundings.terminals),
    "links": (
        "links, folders and pipes in the way of every file of a run: nothing outside is touched,"
        " nothing waited for",
        folders.links,
    ),
    "names": (
        "run names that would leave the folder, or mean something to a shell or terminal",
        folders.names,
    ),
    "outputs_onto_inputs": (
        "every output (forecasts, weights, pictures, page, sample, schema) onto every file that its command"
        " reads, through links and hard links: exit 2, and nothing is changed",
        outputs.onto_inputs,
    ),
    "outputs_special": (
        "every output through links, into pipes, into a pipe whose reader leaves, into /dev/null and"
        " /dev/full, and where no file can be: the links and pipes stay, the content is that of a"
        " plain file, or exit 5",
        outputs.special,
    ),
    "outputs_full_disk": (
        "every output over an older file on a disk with 1 to 12 pages of 4 KiB free: exit 5 and the"
        " older one, or exit 0 and the new one",
        outputs.full_disk,
    ),
    "outputs_failing": (
        "the n-th write, fsync or rename of every output fails with EIO, for every n: exit 5, and"
        " the older file is there",
        outputs.failing,
    ),
    "outputs_killed": (
        "SIGKILL at the n-th write, fsync or rename of every output, for every n: the older file or"
        " the new one is there whole, and the command then writes the new one",
        outputs.killed,
    ),
    "permissions": (
        "files and folders that may not be read or written, without root's rights",
        folders.permissions,
    ),
    "flipped": (
        "one bit of a checkpoint flipped: refused",
        lambda: files.flipped(5000),
    ),
    "cut": (
        "a checkpoint cut at every length of its header and every per cent after: refused",
        files.cut,
    ),
    "swapped": ("two tensors of one shape swapped in a checkpoint: refused", files.swapped),
    "payloads": (
        "pickles under the name of every file that is read, headers that lie, names that are code"
        " elsewhere: refused or taken for words, nothing run",
        files.payloads,
    ),
    "misspelt": (
        "every config key misspelt in six ways: refused, and the right key is the first suggestion"
        " (95% at least)",
        configs.misspelt,
    ),
    "wrong_types": (
        "every config field against wrong types, NaN, infinity, 2^63, a 5000-digit integer: right or"
        " refused",
        configs.wrong_types,
    ),
    "yaml": (
        "YAML tags, aliases, bombs, 20,000 levels, doubled keys, traps of YAML 1.1: refused",
        configs.yaml,
    ),
}  # fmt: skip

MARK = "\n## The same for Lightning\n"
HEAD = """# What it was put through

Every row is a fault that was brought about on purpose, as often as it says, with what must hold
after it. Each check was also shown a product with a mistake planted in it, and noticed
(`tests/faults/test_faults.py`, where a short version of every row runs with the suite). A fault that
could not be brought about counts as skipped, never as passed. Times and memory are the worst of a
case, with two faults tried at a time on two cores; other programs may have run beside them, so a
time is an upper limit. Memory is that of seqattn's own processes, where a row has some.
`make torture` measures every row, `python -m tests.faults.torture --only names` some.

"""


def page(found: dict[str, Tally], before: str = "") -> str:
    """The page, in Markdown.

    Args:
        before: the page that is there; its rows of other faults stay.
    """
    rows, remarks = list[str](), list[str]()
    for name, (what, _) in FAULTS.items():
        head, remark = f"| {what} |", f"- {what.partition(':')[0]}: "
        if name in found:
            rows.append(_row(head, found[name]))
            remarks += [f"{remark}{text}." for text in _remarks(found[name])]
        else:
            rows += [line for line in before.splitlines() if line.startswith(head)]
            remarks += [line for line in before.splitlines() if line.startswith(remark)]
    lines = [
        HEAD + f"Python {platform.python_version()}, torch {version('torch')},"
        f" {platform.system()} {platform.machine()}, {os.cpu_count()} cores.\n",
        "| fault, and what must hold | tried | passed | skipped | failed | worst time | worst memory"
        " | measured |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        *rows, "", *remarks,
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _row(head: str, tally: Tally) -> str:
    seconds = f"{tally.worst_seconds:.2g} s" if tally.worst_seconds < 10 else (
        f"{tally.worst_seconds:.0f} s")  # fmt: skip
    memory = f"{tally.worst_mib:.0f} MiB" if tally.worst_mib else ""
    return (
        f"{head} {tally.tried:,} | {tally.passed:,} | {sum(tally.skipped.values()):,} |"
        f" {len(tally.failures):,} | {seconds} | {memory} | {time.strftime('%Y-%m-%d')} |"
    )


def _remarks(tally: Tally) -> list[str]:
    skipped = [f"skipped: {reason}" for reason in tally.skipped]
    failed = [f"failed: {failure[:300]}" for failure in tally.failures[:5]]
    return [*tally.remarks, *skipped, *failed]


def in_a_process(name: str) -> Tally:
    """One fault, so that what it does to its process ends with it."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.torture", "--one", name], cwd=ROOT,
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        tally = Tally(tried=1, failures=[f"ended with {done.returncode}: {done.stderr[-2000:]}"])
    else:
        tally = Tally(**json.loads(done.stdout.splitlines()[-1]))
    print(
        f"{name}: {tally.tried:,} tried, {tally.passed:,} passed, {len(tally.failures)} failed,"
        f" {time.monotonic() - began:.0f} s",
        *tally.failures[:3], file=sys.stderr, flush=True, sep="\n  ",
    )  # fmt: skip
    return tally


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", help="names, with commas between; the rows of others stay")
    options.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability.md")
    options.add_argument("--one", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.one:
        print(json.dumps(asdict(FAULTS[chosen.one][1]())))
        return 0
    names = chosen.only.split(",") if chosen.only else list(FAULTS)
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(names, pool.map(in_a_process, names), strict=True))
    # What stands below the mark was measured by another command and stays.
    before = chosen.output.read_text() if chosen.output.exists() else ""
    above, mark, below = before.partition(MARK)
    chosen.output.write_text(page(found, above) + mark + below)
    return int(any(tally.failures for tally in found.values()))


if __name__ == "__main__":
    sys.exit(main())
