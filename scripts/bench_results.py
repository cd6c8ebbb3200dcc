"""The times, the conditions and the picture of a benchmark."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from seqattn.experiments.run_environment import find_git_revision
from seqattn.plots.style import with_style
from seqattn.runs.storage import core_count

PACKAGES = ("torch", "numpy", "pydantic", "typer", "matplotlib")


class BenchTable:
    """A table of times, which is printed row by row and kept for a JSON file."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.rows: dict[str, dict[str, Any]] = {}
        print(f"{'what':<44}{'theirs, s':>22}{'ours, s':>22}{'ratio':>22}  must")

    def pair(
        self, name: str, theirs: Callable[[], Any], ours: Callable[[], Any], must: str, *,
        times: bool = True, warm: bool = True,
    ) -> None:  # fmt: skip
        """Measure two functions alternately, and add a row.

        Args:
            name: the name of the row.
            theirs: the function to compare with.
            ours: the function that uses seqattn.
            must: the goal for the ratio, which is printed.
            times: True if the ratio is the time of `theirs` divided by the time of `ours`, False if
                it is the inverse.
            warm: whether both functions run once before the measurement.
        """
        if warm:
            theirs(), ours()
        pairs = [(seconds(theirs), seconds(ours)) for _ in range(self.repeats)]
        ratios = [a / b if times else b / a for a, b in pairs]
        self.row(name, [a for a, _ in pairs], [b for _, b in pairs], ratios, must)

    def row(
        self, name: str, theirs: list[float], ours: list[float], ratios: list[float], must: str
    ) -> None:
        self.rows[name] = {"theirs": theirs, "ours": ours, "ratio": ratios, "must": must}
        cells = [spread(column) for column in (theirs, ours, ratios)]
        print(f"{name:<44}" + "".join(f"{cell:>22}" for cell in cells) + f"  {must}", flush=True)


def spread(values: list[float]) -> str:
    """Return the median, the lowest and the highest value as text."""
    if not values:
        return "-"
    return f"{statistics.median(values):.3g} [{min(values):.3g}, {max(values):.3g}]"


def seconds(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def describe_conditions() -> dict[str, Any]:
    """Return the machine, the versions, the number of threads, the git revision, and the load of
    the machine over the last minute (None on Windows)."""
    return {
        "processor": _processor(),
        "cores": core_count(),
        "system": platform.platform(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": sys.version.split()[0],
        "packages": {name: version(name) for name in PACKAGES},
        "threads": torch.get_num_threads(),
        "git_revision": find_git_revision(Path(__file__)),
    }


def _processor() -> str:
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        for line in cpus.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def conditions_text(conditions: Mapping[str, Any]) -> str:
    """Return the conditions as lines of text."""
    packages = ", ".join(f"{name} {found}" for name, found in conditions["packages"].items())
    return (
        f"{conditions['processor']}, cores: {conditions['cores']}, load: {conditions['load']},"
        f" {conditions['system']}\n"
        f"Python {conditions['python']}, {packages}\n"
        f"threads: {conditions['threads']}, git revision: {conditions['git_revision']}"
    )


@with_style
def ratio_figure(rows: Mapping[str, Mapping[str, Any]], title: str) -> Figure:
    """Draw the median ratio of each row, with a line from the lowest to the highest ratio.

    Args:
        rows: the rows of the benchmark by name, each with the list `ratio` and the goal `must`.
        title: the title of the picture.
    """
    figure = Figure(figsize=(8, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows.values()):
        ratios = row["ratio"]
        axes.plot([min(ratios), max(ratios)], [place, place], color="#0072b2", lw=2, alpha=0.4)
        axes.plot(statistics.median(ratios), place, "o", ms=5, color="#0072b2")
    axes.axvline(1, color="#b0b0b0", ls=":", lw=1, zorder=0)
    labels = [f"{name}  ({row['must']})" if row["must"] else name for name, row in rows.items()]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("ratio: median and range of the repeats (goal in parentheses)")
    axes.set_title(title, fontsize=9)
    return figure
