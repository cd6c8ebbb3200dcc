"""Measure time and peak memory of a training step for several sizes, for a table and a picture.

    python scripts/scale.py docs/images/scale.png          # takes about five minutes

The sizes are N sequences in a batch, S = T steps in source and target, a state of width H, F
features, and R runs in one batch. One size varies at a time. Each point is measured in its own
process, because the peak memory is known only for whole processes. The memory is the increase of
the peak while the runs are built and take a few steps.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from seqattn.config import AdditiveAttention, Recurrent, ScaledDotAttention, Training
from seqattn.models import build_model
from seqattn.plots import as_bytes
from seqattn.plots.style import with_style
from seqattn.training import Batch, RunProgress, TrainingRun
from seqattn.training.learner import build_group
from seqattn.training.loop import train_step

BASE = {"N": 32, "S": 8, "H": 16, "F": 2, "R": 1}
GROWS = {
    "N": [16, 64, 256, 1024, 4096],
    "S": [8, 32, 128, 512, 2048],
    "H": [4, 16, 64, 256],
    "F": [2, 8, 32, 128],
    "R": [1, 4, 16, 64, 256],
}
KINDS = ("manual", "autograd", "additive")


def measure(kind: str, N: int, S: int, H: int, F: int, R: int) -> dict[str, float]:
    """Measure the time of a training step in seconds, and its peak memory in bytes."""
    torch.set_num_threads(1)
    attention = AdditiveAttention() if kind == "additive" else ScaledDotAttention()
    numbers = torch.Generator().manual_seed(1)
    data = Batch(*(torch.randn(N, S, F, generator=numbers) for _ in "xy"))
    small = Batch(data.source[:1], data.target[:1])
    config = Training(batch_size=N, learning_rate=1e-3)
    model = Recurrent(hidden_dim=H, attention=attention)
    warm = RunProgress(TrainingRun(build_model(model, F, 0), small, small, config, 0))
    state, learner = build_group([warm], manual_backward=kind != "autograd")
    # Take one step first, to exclude one-time costs of torch and the allocator.
    train_step(state, learner, learner.plan_epoch(state))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs = [
        RunProgress(TrainingRun(build_model(model, F, k), data, small, config, k)) for k in range(R)
    ]
    state, learner = build_group(runs, manual_backward=kind != "autograd")
    plan = learner.plan_epoch(state)
    taken = []
    for _ in range(6):
        state.step = 0
        began = time.perf_counter()
        train_step(state, learner, plan)
        taken.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": statistics.median(taken[1:]), "bytes": peak * 1024.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--one", help="measure only this point, given as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(**json.loads(arguments.one))))
        return
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for letter, sizes in GROWS.items():
        found[letter] = {kind: [] for kind in KINDS}
        for kind in KINDS:
            for size in sizes:
                if kind == "additive" and letter == "S" and size > 512:
                    continue  # N * T * S * K numbers take 8 GiB
                point = {**BASE, letter: size, "kind": kind}
                done = subprocess.run(
                    [sys.executable, __file__, "--one", json.dumps(point)],
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                found[letter][kind].append({"size": size, **json.loads(done.stdout)})
        print(f"\n| {letter} | " + " | ".join(f"{k}, ms | MiB" for k in KINDS) + " |")
        print("| ---: |" + " ---: |" * 2 * len(KINDS))
        for place, size in enumerate(sizes):
            cells = []
            for kind in KINDS:
                row = found[letter][kind]
                if place < len(row):
                    cells += [
                        f"{row[place]['seconds'] * 1e3:.3g}",
                        f"{row[place]['bytes'] / 2**20:.3g}",
                    ]
                else:
                    cells += ["-", "-"]
            print(f"| {size} | " + " | ".join(cells) + " |", flush=True)
    if arguments.picture:
        arguments.picture.write_bytes(as_bytes(picture(found)))


@with_style
def picture(found: dict[str, dict[str, list[dict[str, Any]]]]) -> Figure:
    """Draw a column of panels for each size, with the time above the memory.

    A gray line grows in proportion to the size.
    """
    figure = Figure(figsize=(13, 5.2), layout="constrained")
    panels = figure.subplots(2, len(found), squeeze=False)
    for column, (letter, kinds) in enumerate(found.items()):
        for row, (key, unit, scale) in enumerate(
            (("seconds", "ms per step", 1e3), ("bytes", "peak MiB", 2**-20))
        ):
            axes = panels[row, column]
            for kind, (color, marker) in zip(
                kinds, (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^")), strict=True
            ):
                sizes = [point["size"] for point in kinds[kind]]
                values = [max(point[key] * scale, 0.05) for point in kinds[kind]]
                axes.plot(sizes, values, marker=marker, ms=4, lw=1.2, color=color, label=kind)
            sizes = [point["size"] for point in kinds[KINDS[0]]]
            last = kinds[KINDS[0]][-1][key] * scale
            line = last * np.array(sizes) / sizes[-1]
            axes.plot(sizes, line, color="#b0b0b0", ls=":", lw=1, zorder=0, label="proportional")
            axes.set(xscale="log", yscale="log")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.set_minor_formatter(NullFormatter())
            axes.set_xlabel("S = T" if letter == "S" else letter)
            if column == 0:
                axes.set_ylabel(unit)
    panels[0, 0].legend(fontsize=7)
    return figure


if __name__ == "__main__":
    main()
