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
from typing import NamedTuple

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


class Fault(NamedTuple):
    """A fault, the result that is required after it, and the function that injects it.

    Attributes:
        description: sentence that describes the fault.
        required: sentence that describes the required result.
        inject: function that injects the fault many times.
    """

    description: str
    required: str
    inject: Callable[[], Tally]


# The longest first, so that two at a time end together.
FAULTS: dict[str, Fault] = {
    "failing": Fault(
        "The n-th write, fsync or rename fails with ENOSPC or EIO, for every n.",
        "The command works around the failure or ends with exit code 5, and a resumed run"
        " gives the same result.",
        processes.failing,
    ),
    "stop_signals": Fault(
        "SIGINT or SIGTERM arrives during a save, a validation or the plotting (100 times each).",
        "The run is saved, and the resumed run gives the same result.",
        lambda: processes.stop_signals(100),
    ),
    "killed": Fault(
        "SIGKILL arrives at a random moment of a training run, and the run is resumed.",
        "The results are the same, bit for bit, as without the fault.",
        lambda: processes.killed(300),
    ),
    "killed_side_by_side": Fault(
        "SIGKILL arrives at one of sixty renames during several saves of three batched seeds.",
        "No seed restarts from the beginning, and all seeds give the same result.",
        processes.killed_side_by_side,
    ),
    "read": Fault(
        "For ten minutes, random bytes are passed to the readers of configs, seven data"
        " formats, checkpoints, metrics and arrays.",
        "A reader either accepts the bytes or rejects them with an error message.",
        lambda: readers.run(600),
    ),
    "stop_signals_at_once": Fault(
        "SIGINT or SIGTERM arrives at a random moment of a training run with the default"
        " config (100 times each).",
        "The command ends with exit code 130 or 143 within one second.",
        lambda: processes.stop_signals_at_once(100),
    ),
    "importing": Fault(
        "SIGINT or SIGTERM arrives while the command imports its modules (100 times each).",
        "The command ends with exit code 130 or 143 within one second and writes no checkpoint.",
        lambda: processes.stop_signals_while_importing(100),
    ),
    "two_at_once": Fault(
        "Two training runs start in the same folder at the same time.",
        "One of the two commands trains, and the other command ends with an error.",
        lambda: processes.two_at_once(50),
    ),
    "at_once": Fault(
        "A training run starts at the same time as another training run, a training run with"
        " many seeds, or a command that reads or draws the run, in the same folder.",
        "Each command ends with exit code 0, or seqattn rejects the command with exit code 2,"
        " 4 or 6. The files are the same as if the successful commands had run alone.",
        lambda: at_once.pairs(at_once.beginning_with("train", "seeds", "other", "report"), DELAYS),
    ),
    "comparisons_at_once": Fault(
        "A comparison starts at the same time as the same comparison, another comparison, or"
        " another command, in the same folder.",
        "The result is as required in the row `at_once`.",
        lambda: at_once.pairs(at_once.beginning_with("compare"), DELAYS),
    ),
    "searches_at_once": Fault(
        "A search starts at the same time as the same search, another search, or another"
        " command, in the same folder or with the same database.",
        "The result is as required in the row `at_once`.",
        lambda: at_once.pairs(at_once.beginning_with("tune"), DELAYS),
    ),
    "restarted": Fault(
        "SIGKILL arrives at one of the first creations of folders, openings, writes or renames of"
        " `train --auto-resume` (one run, and three seeds of which one is finished), and the same"
        " command is repeated.",
        "The result is the same, and another repetition ends with exit code 0 and changes nothing.",
        processes.restarted,
    ),
    "overwritten": Fault(
        "SIGKILL arrives at, or ENOSPC is the result of, one of the openings, writes, fsyncs,"
        " removals and renames up to the first save of `train --overwrite` and shortly after it.",
        "The earlier run is unchanged, or the new run has a checkpoint, except between the removals"
        " and renames of the first save. No command continues a mixture of both runs.",
        processes.overwritten,
    ),
    "disk": Fault(
        "The disk becomes full after n pages of 4 KiB, for every n up to 40. Three checkpoints take"
        " 12 pages, and a whole run takes 22 pages.",
        "After space is freed, a resumed run gives the same result.",
        lambda: disk.full(40),
    ),
    "stopped": Fault(
        "A training run of 200 steps with dropout, sampling and teacher-forcing draws is"
        " stopped after step k and resumed, for every k.",
        "The state is the same as without the stop.",
        states.stopped_at,
    ),
    "groups_stopped": Fault(
        "Batched runs that stop early, diverge, have plateaus or have different numbers of"
        " epochs are stopped after step k and then every 7 steps.",
        "Weights, metrics and results are the same as without the stops.",
        lambda: groups.stopped(range(1, 37)),
    ),
    "groups_killed": Fault(
        "Batched runs as in the row `groups_stopped` are ended twice at the n-th rename of a"
        " checkpoint. The runs have many, few or no common saves.",
        "Weights, metrics and results are the same as without the fault.",
        lambda: groups.killed(range(1, 61)),
    ),
    "many_steps": Fault(
        "A training run takes 20,000 steps.",
        "Neither the memory nor the number of open files of the process grows.",
        lambda: states.many_steps(20_000),
    ),
    "environments": Fault(
        "The command runs without HOME, with a missing, read-only or full TMPDIR, with any"
        " locale, with NO_COLOR, without a terminal, and without a network.",
        "The command trains, draws the pictures, and prints no escape codes.",
        environment.environments,
    ),
    "closed": Fault(
        "The standard streams are closed, full or without a reader, or the terminal is closed.",
        "The training run finishes.",
        environment.closed,
    ),
    "terminals": Fault(
        "The command runs in a terminal, with and without NO_COLOR.",
        "The training run finishes, and the output has no colours with NO_COLOR.",
        environment.terminals,
    ),
    "names": Fault(
        "Run names contain paths that would leave the output folder, or characters with a"
        " meaning to a shell or a terminal.",
        "The command ends with exit code 0, 2 or 5, and writes nothing outside the output folder.",
        folders.names,
    ),
    "outputs_onto_inputs": Fault(
        "Each output (forecasts, weights, pictures, page, sample and schema) is directed to"
        " each file that its command reads, through symbolic and hard links.",
        "The command ends with exit code 2, and no file is changed.",
        outputs.onto_inputs,
    ),
    "outputs_special": Fault(
        "Each output is directed to links, to pipes, to a pipe that its reader closes, to"
        " /dev/null and /dev/full, and to a place where no file can be created.",
        "Links and pipes remain. Either the content is the same as in an ordinary file, or"
        " the command ends with exit code 5.",
        outputs.special,
    ),
    "outputs_failing": Fault(
        "The n-th write, fsync or rename of each output fails with EIO, for every n.",
        "The command ends with exit code 5, and the older file is unchanged.",
        outputs.failing,
    ),
    "outputs_killed": Fault(
        "SIGKILL arrives at the n-th write, fsync or rename of each output, for every n.",
        "Either the older file or the new file is complete, and the repeated command writes"
        " the new file.",
        outputs.killed,
    ),
    "permissions": Fault(
        "A user without root's rights has no read or write permission for files and folders.",
        "The command ends with the documented exit code and without a traceback.",
        folders.permissions,
    ),
    "flipped": Fault(
        "One bit of a checkpoint is flipped.",
        "seqattn rejects the checkpoint.",
        lambda: files.flipped(5000),
    ),
    "cut": Fault(
        "A checkpoint is truncated at every length of its header and at every per cent of the"
        " rest.",
        "seqattn rejects the checkpoint.",
        files.cut,
    ),
    "payloads": Fault(
        "Each file that seqattn reads is replaced by a pickle of the same name, a file with a"
        " false header, or a file with names that other programs execute.",
        "seqattn rejects the file or reads it as text, and executes nothing.",
        files.payloads,
    ),
    "misspelt": Fault(
        "Every config key is misspelt in six ways.",
        "seqattn rejects the key. In at least 95% of the cases, the right key is the first"
        " suggestion.",
        configs.misspelt,
    ),
    "wrong_types": Fault(
        "Every config field gets values of wrong types, NaN, infinity, 2^63 and an integer of"
        " 5,000 digits.",
        "seqattn accepts valid values and rejects all other values.",
        configs.wrong_types,
    ),
    "yaml": Fault(
        "YAML files contain tags, aliases, bombs, 20,000 levels, duplicate keys and traps of"
        " YAML 1.1.",
        "seqattn rejects the file.",
        configs.yaml,
    ),
}

MARK = "\n## Comparison with Lightning\n"
HEAD = """# Fault-injection results

This page lists faults that were injected into seqattn, and the results. For each fault, the first table states the
result that is required after the fault. "The same result" means the same weights, metrics and forecasts as without the
fault. The column "tried" contains the number of attempts to inject the fault. If the machine cannot inject a fault, for
example because mounting a disk needs root, the attempt counts as skipped. If the command ends before the fault can take
effect, the attempt still counts, and the same result is required.

Each fault has a function that injects the fault and checks the result. The test suite also injects most of the faults
a small number of times (`tests/faults/test_faults.py`).

The column "worst time" contains the duration of the longest attempt, from the start of the command to the end of the
check, and the column "worst memory" contains the highest memory of any attempt. The memory is that of seqattn's own
processes. Two faults were tested at a time on two cores, and other programs may have run at the same time, so the times
are upper limits. `make torture` measures every row. To measure selected rows, run
`python -m tests.faults.torture --only NAMES`, where NAMES are names from the first column, separated
by commas.

"""
DETAILS = "For some of the faults, the following list gives additional results:"


def page(found: dict[str, Tally], before: str = "") -> str:
    """The page, in Markdown.

    Args:
        before: the page that is there; its rows of other faults stay.
    """
    rows, remarks = list[str](), list[str]()
    for name, fault in FAULTS.items():
        head, remark = f"| `{name}` | {fault.description} | {fault.required} |", f"- `{name}`: "
        if name in found:
            rows.append(_row(head, found[name]))
            remarks += [f"{remark}{text}" for text in _remarks(found[name])]
        else:
            rows += [line for line in before.splitlines() if line.startswith(head)]
            remarks += [line for line in before.splitlines() if line.startswith(remark)]
    lines = [
        HEAD + f"The measurements used Python {platform.python_version()}, torch {version('torch')}"
        f" and {platform.system()} {platform.machine()} on {os.cpu_count()} cores.\n",
        "| name | fault | required result | tried | passed | skipped | failed | worst time"
        " | worst memory | measured |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
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
    skipped = [f"An attempt was skipped: {reason}." for reason in tally.skipped]
    failed = [f"An attempt failed: {failure[:300]}." for failure in tally.failures[:5]]
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
        print(json.dumps(asdict(FAULTS[chosen.one].inject())))
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
