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
    environment,
    files,
    folders,
    groups,
    outputs,
    processes,
    readers,
    states,
)

DELAYS = (0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.8)
"""Seconds between two commands that are begun at once."""

# The longest first, so that two at a time end together.
FAULTS: dict[str, tuple[str, Callable[[], Tally]]] = {
    "failing": (
        "the n-th write, fsync or rename fails with ENOSPC or EIO, for every n: exit 5, and a"
        " resume gives the same result",
        processes.failing,
    ),
    "stop_signals": (
        "SIGINT and SIGTERM during a save, a validation, the plotting, 100 of each: the run is"
        " saved, and a resume gives the same result",
        lambda: processes.stop_signals(100),
    ),
    "killed": (
        "SIGKILL at a random moment, then a resume to the end: the same final bytes",
        lambda: processes.killed(300),
    ),
    "killed_side_by_side": (
        "SIGKILL at each of sixty renames of three batched seeds, which are some saves: no seed"
        " restarts, and all give the same result",
        processes.killed_side_by_side,
    ),
    "read": (
        "random bytes into every reader (config, seven data formats, checkpoint, metrics, arrays)"
        " for ten minutes: read, or rejected with an error",
        lambda: readers.run(600),
    ),
    "stop_signals_at_once": (
        "SIGINT and SIGTERM at a random moment of a training with the default config, 100 of"
        " each: exit 130 or 143 within a second",
        lambda: processes.stop_signals_at_once(100),
    ),
    "system_calls": (
        "killed at each system call of one save: two complete checkpoints exist",
        processes.killed_at_each_system_call,
    ),
    "importing": (
        "SIGINT and SIGTERM during the import, 100 of each: exit 130 or 143 within a second, and"
        " nothing written",
        lambda: processes.stop_signals_while_importing(100),
    ),
    "two_at_once": (
        "two trainings started in one folder at once: one trains, the other ends with an error",
        lambda: processes.two_at_once(50),
    ),
    "at_once": (
        "a training and another training, many seeds, or a command that reads or draws its run,"
        " started in one folder at once: exit 0 or 6, and the files are those that each writes"
        " alone",
        lambda: at_once.pairs(
            at_once.beginning_with("train", "seeds", "other", "report"), DELAYS
        ),
    ),
    "comparisons_at_once": (
        "a comparison and the same, another, or another command started in its folder at once: as"
        " in the row above",
        lambda: at_once.pairs(at_once.beginning_with("compare"), DELAYS),
    ),
    "searches_at_once": (
        "a search and the same, another, or another command started in its folder, or in its"
        " database, at once: as in the row above",
        lambda: at_once.pairs(at_once.beginning_with("tune"), DELAYS),
    ),
    "disk": (
        "a full disk at every size up to 40 pages of 4 KiB (three checkpoints are 12, a whole run"
        " 20), with and without the check of free space; with space again a resume gives the same"
        " result",
        lambda: disk.full(40),
    ),
    "stopped": (
        "stopped after step k and resumed, for every k of a 200-step training with dropout,"
        " sampling and teacher-forcing draws: the same state",
        states.stopped_at,
    ),
    "groups_stopped": (
        "batched runs that stop early, diverge, have plateaus or other numbers of epochs, stopped"
        " after step k and every 7 steps from there: the same weights, metrics and results as"
        " without a stop",
        lambda: groups.stopped(range(1, 37)),
    ),
    "groups_killed": (
        "the same, ended at the n-th rename of a checkpoint, twice, with many, few and no common"
        " saves: the same weights, metrics and results",
        lambda: groups.killed(range(1, 61)),
    ),
    "groups_killed_for_real": (
        "SIGKILL at the n-th rename of four seeds, some of which stop early: the same weights,"
        " metrics and forecasts",
        lambda: groups.killed_for_real(range(13, 103, 3)),
    ),
    "left_out": (
        "one item of the state not restored on purpose: the check of a resumed training detects"
        " it",
        states.left_out,
    ),
    "many_steps": (
        "20,000 steps: no growth of memory or of open files",
        lambda: states.many_steps(20_000),
    ),
    "environments": (
        "no HOME; no, a read-only or a full TMPDIR; any locale; NO_COLOR; no terminal; no"
        " network: trained and drawn, without escape codes",
        environment.environments,
    ),
    "closed": (
        "standard streams closed, full, or without a reader; the terminal closed: trained to the"
        " end",
        environment.closed,
    ),
    "terminals": ("in a terminal, with and without NO_COLOR: trained to the end, and no colours with"
        " NO_COLOR", environment.terminals),
    "links": (
        "links, folders and pipes in place of each file of a run: nothing outside is changed, and"
        " the command does not block",
        folders.links,
    ),
    "names": (
        "run names that would leave the folder, or have a meaning to a shell or terminal: exit 0,"
        " 2 or 5, and nothing is written elsewhere",
        folders.names,
    ),
    "outputs_onto_inputs": (
        "each output (forecasts, weights, pictures, page, sample, schema) onto each file that its"
        " command reads, through symbolic and hard links: exit 2, and nothing is changed",
        outputs.onto_inputs,
    ),
    "outputs_special": (
        "each output through links, into pipes, into a pipe that its reader closes, into"
        " /dev/null and /dev/full, and where no file can be created: the links and pipes stay, the"
        " content is that of a plain file, or exit 5",
        outputs.special,
    ),
    "outputs_full_disk": (
        "each output over an older file on a disk with 1 to 12 free pages of 4 KiB: exit 5 and"
        " the older file, or exit 0 and the new one",
        outputs.full_disk,
    ),
    "outputs_failing": (
        "the n-th write, fsync or rename of each output fails with EIO, for every n: exit 5, and"
        " the older file is unchanged",
        outputs.failing,
    ),
    "outputs_killed": (
        "SIGKILL at the n-th write, fsync or rename of each output, for every n: the older or the"
        " new file is complete, and the repeated command writes the new one",
        outputs.killed,
    ),
    "permissions": (
        "files and folders without read or write permission, as a user without root's rights: the"
        " documented exit code, without a traceback",
        folders.permissions,
    ),
    "flipped": (
        "one bit of a checkpoint flipped: rejected",
        lambda: files.flipped(5000),
    ),
    "cut": (
        "a checkpoint truncated at every length of its header and every per cent after it:"
        " rejected",
        files.cut,
    ),
    "swapped": ("two tensors of one shape swapped in a checkpoint: rejected", files.swapped),
    "payloads": (
        "pickles under the name of each file that is read, false headers, names that other"
        " programs execute: rejected or read as text, nothing executed",
        files.payloads,
    ),
    "misspelt": (
        "every config key misspelt in six ways: rejected, and the right key is the first"
        " suggestion (in at least 95%)",
        configs.misspelt,
    ),
    "wrong_types": (
        "every config field with wrong types, NaN, infinity, 2^63, a 5000-digit integer: accepted"
        " if valid, else rejected",
        configs.wrong_types,
    ),
    "yaml": (
        "YAML tags, aliases, bombs, 20,000 levels, duplicate keys, traps of YAML 1.1: rejected",
        configs.yaml,
    ),
}  # fmt: skip

MARK = "\n## Comparison with Lightning\n"
HEAD = """# Fault-injection results

Each row is a fault that was injected on purpose, as often as the column "tried" says, and the result that must follow.
The checks themselves are tested with a deliberate mistake in seqattn, which each of them must detect
(`tests/faults/test_faults.py`, which also runs a short version of every row with the test suite). A fault that could not
be injected counts as skipped, never as passed.

Times and memory are the worst of a case, with two faults tried at a time on two cores. Other programs may have run at
the same time, so a time is an upper limit. Memory is that of seqattn's own processes, where a row has some. `make
torture` measures every row, `python -m tests.faults.torture --only names` some of them.

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
        "| fault, and required result | tried | passed | skipped | failed | worst time | worst memory"
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
