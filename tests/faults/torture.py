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
        "The n-th write, fsync or rename fails with ENOSPC or EIO, for every n: the command"
        " ends with exit code 5, and a resume gives the same result",
        processes.failing,
    ),
    "stop_signals": (
        "SIGINT and SIGTERM arrive during a save, a validation or the plotting, 100 of each:"
        " the run is saved, and a resume gives the same result",
        lambda: processes.stop_signals(100),
    ),
    "killed": (
        "SIGKILL arrives at a random moment, and the run is resumed: the final files have the"
        " same bytes",
        lambda: processes.killed(300),
    ),
    "killed_side_by_side": (
        "SIGKILL arrives at each of sixty renames of three batched seeds (several saves): no"
        " seed restarts, and all seeds give the same result",
        processes.killed_side_by_side,
    ),
    "read": (
        "Every reader (config, seven data formats, checkpoint, metrics, arrays) gets random"
        " bytes for ten minutes: it reads them, or rejects them with an error",
        lambda: readers.run(600),
    ),
    "stop_signals_at_once": (
        "SIGINT and SIGTERM arrive at a random moment of a training run with the default"
        " config, 100 of each: it ends with exit code 130 or 143 within a second",
        lambda: processes.stop_signals_at_once(100),
    ),
    "system_calls": (
        "The process is killed at each system call of one save: two complete checkpoints exist",
        processes.killed_at_each_system_call,
    ),
    "importing": (
        "SIGINT and SIGTERM arrive during the import, 100 of each: the command ends with exit"
        " code 130 or 143 within a second and writes nothing",
        lambda: processes.stop_signals_while_importing(100),
    ),
    "two_at_once": (
        "Two training runs start in one folder at the same time: one trains, and the other ends"
        " with an error",
        lambda: processes.two_at_once(50),
    ),
    "at_once": (
        "A training run starts in one folder at the same time as another training run, a"
        " training run with many seeds, or a command that reads or draws the run: each ends with"
        " exit code 0 or 6, and the files are the same as if each had run alone",
        lambda: at_once.pairs(
            at_once.beginning_with("train", "seeds", "other", "report"), DELAYS
        ),
    ),
    "comparisons_at_once": (
        "A comparison starts in one folder at the same time as the same comparison, another"
        " comparison, or another command: the result is as in the row above",
        lambda: at_once.pairs(at_once.beginning_with("compare"), DELAYS),
    ),
    "searches_at_once": (
        "A search starts at the same time as the same search, another search, or another"
        " command, in one folder or with one database: the result is as in the row above",
        lambda: at_once.pairs(at_once.beginning_with("tune"), DELAYS),
    ),
    "disk": (
        "The disk becomes full after n pages of 4 KiB, for every n up to 40 (three checkpoints"
        " take 12 pages, and a whole run takes 20), with and without the check of free space:"
        " when there is space again, a resume gives the same result",
        lambda: disk.full(40),
    ),
    "stopped": (
        "A 200-step training run with dropout, sampling and teacher-forcing draws is stopped"
        " after step k and resumed, for every k: the state is the same",
        states.stopped_at,
    ),
    "groups_stopped": (
        "Batched runs that stop early, diverge, have plateaus or have different numbers of"
        " epochs are stopped after step k and then every 7 steps: weights, metrics and results"
        " are the same as without a stop",
        lambda: groups.stopped(range(1, 37)),
    ),
    "groups_killed": (
        "Batched runs as in the row above are ended twice at the n-th rename of a checkpoint,"
        " with many, few and no common saves: weights, metrics and results are the same",
        lambda: groups.killed(range(1, 61)),
    ),
    "groups_killed_for_real": (
        "SIGKILL arrives at the n-th rename of four seeds, some of which stop early: weights,"
        " metrics and forecasts are the same",
        lambda: groups.killed_for_real(range(13, 103, 3)),
    ),
    "left_out": (
        "One item of the state is deliberately not restored: the check of resumed training runs"
        " detects it",
        states.left_out,
    ),
    "many_steps": (
        "A training run takes 20,000 steps: neither its memory nor its number of open files"
        " grows",
        lambda: states.many_steps(20_000),
    ),
    "environments": (
        "The command runs without HOME, with a missing, read-only or full TMPDIR, with any"
        " locale, with NO_COLOR, without a terminal, and without a network: it trains and draws,"
        " and prints no escape codes",
        environment.environments,
    ),
    "closed": (
        "The standard streams are closed, full or without a reader, or the terminal is closed:"
        " the training run finishes",
        environment.closed,
    ),
    "terminals": ("The command runs in a terminal, with and without NO_COLOR: the training run finishes,"
        " and there are no colours with NO_COLOR", environment.terminals),
    "links": (
        "Links, folders and pipes replace each file of a run: nothing outside is changed, and"
        " the command does not block",
        folders.links,
    ),
    "names": (
        "Runs have names that would leave the folder, or that have a meaning to a shell or"
        " terminal: the command ends with exit code 0, 2 or 5, and nothing is written elsewhere",
        folders.names,
    ),
    "outputs_onto_inputs": (
        "Each output (forecasts, weights, pictures, page, sample, schema) is directed to each"
        " file that its command reads, through symbolic and hard links: the command ends with"
        " exit code 2, and nothing is changed",
        outputs.onto_inputs,
    ),
    "outputs_special": (
        "Each output is directed to links, to pipes, to a pipe that its reader closes, to"
        " /dev/null and /dev/full, and to a place where no file can be created: links and pipes"
        " remain, and the content is that of an ordinary file or the exit code is 5",
        outputs.special,
    ),
    "outputs_full_disk": (
        "Each output replaces an older file on a disk with 1 to 12 free pages of 4 KiB: the"
        " exit code is 5 and the older file remains, or the exit code is 0 and the new file is"
        " complete",
        outputs.full_disk,
    ),
    "outputs_failing": (
        "The n-th write, fsync or rename of each output fails with EIO, for every n: the"
        " command ends with exit code 5, and the older file is unchanged",
        outputs.failing,
    ),
    "outputs_killed": (
        "SIGKILL arrives at the n-th write, fsync or rename of each output, for every n: the"
        " older or the new file is complete, and the repeated command writes the new file",
        outputs.killed,
    ),
    "permissions": (
        "Files and folders have no read or write permission, for a user without root's rights:"
        " the command ends with the documented exit code and without a traceback",
        folders.permissions,
    ),
    "flipped": (
        "One bit of a checkpoint is flipped: the checkpoint is rejected",
        lambda: files.flipped(5000),
    ),
    "cut": (
        "A checkpoint is truncated at every length of its header and at every per cent after"
        " it: the checkpoint is rejected",
        files.cut,
    ),
    "swapped": ("Two tensors of the same shape are swapped in a checkpoint: the checkpoint is rejected", files.swapped),
    "payloads": (
        "Each file that is read is replaced by a pickle of the same name, a file with a false"
        " header, or a file with names that other programs execute: the file is rejected or read"
        " as text, and nothing is executed",
        files.payloads,
    ),
    "misspelt": (
        "Every config key is misspelt in six ways: the key is rejected, and the right key is"
        " the first suggestion (in at least 95% of the cases)",
        configs.misspelt,
    ),
    "wrong_types": (
        "Every config field gets wrong types, NaN, infinity, 2^63 and a 5000-digit integer:"
        " valid values are accepted, and all others are rejected",
        configs.wrong_types,
    ),
    "yaml": (
        "YAML files contain tags, aliases, bombs, 20,000 levels, duplicate keys and traps of"
        " YAML 1.1: the file is rejected",
        configs.yaml,
    ),
}  # fmt: skip

MARK = "\n## Comparison with Lightning\n"
HEAD = """# Fault-injection results

Each row of the table describes a fault and the result that is required after the fault. The column "tried" contains the
number of times that the fault was injected. The checks themselves are tested as well: for each check, a test makes a
deliberate mistake in seqattn, which the check must detect (`tests/faults/test_faults.py`). This test file is part of
the test suite. It also injects the faults of every row a small number of times. If a fault cannot be injected, the
attempt counts as skipped, never as passed.

The columns "worst time" and "worst memory" contain the longest time and the highest memory of any attempt in the row.
The memory is the memory of seqattn's own processes. Two faults were tested at a time on two cores, and other programs
may have run at the same time, so the times are upper limits. `make torture` measures every row, and `python -m
tests.faults.torture --only NAMES` measures selected rows.

"""
DETAILS = "The following list gives additional results for some of the faults:"


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
        HEAD + f"The measurements used Python {platform.python_version()}, torch {version('torch')}"
        f" and {platform.system()} {platform.machine()} on {os.cpu_count()} cores.\n",
        "| fault, and required result | tried | passed | skipped | failed | worst time | worst memory"
        " | measured |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        *rows, "", DETAILS, "", *remarks,
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
