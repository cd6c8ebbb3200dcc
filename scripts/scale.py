"""Measure time and peak memory of a training step for several sizes, for a table and a picture.

    python scripts/scale.py docs/images/scale.png docs/images/cost.png

The sizes are N sequences in a batch, S = T steps in source and target, a state of width H, F
features, and R runs in one batch. One size varies at a time. The kinds are

    manual       a GRU with scaled_dot attention and manually derived gradients
    autograd     the same model with autograd
    additive     a GRU with additive attention and manually derived gradients
    transformer  a Transformer of width H with 2 heads and 2 + 2 layers
    torch        the model of `manual` in plain torch (scripts/practised.py), which trains R runs
                 one after the other, so the time of one run is multiplied by R

The second picture shows the time against S = T and against R. Each point is measured in its own
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import practised
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from torch import nn

from seqattn.config import (
    AdditiveAttention,
    ConstantForcing,
    Recurrent,
    ScaledDotAttention,
    Training,
    Transformer,
)
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
    "R": [1, 4, 16, 64, 256, 1024, 4096],
}
KINDS = ("manual", "autograd", "additive", "transformer", "torch")
STYLES = (("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#555555", "x"))


def measure(kind: str, N: int, S: int, H: int, F: int, R: int) -> dict[str, float]:
    """Measure the time of a training step in seconds, and its peak memory in bytes."""
    torch.set_num_threads(1)
    numbers = torch.Generator().manual_seed(1)
    data = Batch(*(torch.randn(N, S, F, generator=numbers) for _ in "xy"))
    small = Batch(data.source[:1], data.target[:1])
    build = step_in_torch if kind == "torch" else step_in_seqattn
    build(kind, small, H, 1)()  # excludes one-time costs of torch and the allocator
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step, taken = build(kind, data, H, R), []
    for _ in range(6):
        began = time.perf_counter()
        step()
        taken.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    factor = R if kind == "torch" else 1
    return {"seconds": factor * statistics.median(taken[1:]), "bytes": peak * 1024.0}


def step_in_seqattn(kind: str, data: Batch, H: int, R: int) -> Callable[[], None]:
    """Return a function that trains R runs on one batch."""
    attention = AdditiveAttention() if kind == "additive" else ScaledDotAttention()
    model: Recurrent | Transformer = Recurrent(hidden_dim=H, attention=attention)
    if kind == "transformer":
        model = Transformer(model_dim=H, heads=2, layers=2, feedforward_dim=2 * H)
    forced = 1.0 if kind == "transformer" else 0.5
    config = Training(
        batch_size=len(data), learning_rate=1e-3,
        teacher_forcing=ConstantForcing(probability=forced),
    )  # fmt: skip
    few, F = data.take(slice(0, 1)), data.source.shape[-1]
    runs = [
        RunProgress(TrainingRun(build_model(model, F, seed), data, few, config, seed))
        for seed in range(R)
    ]
    state, learner = build_group(runs, manual_backward=kind != "autograd")
    plan = learner.plan_epoch(state)

    def step() -> None:
        state.step = 0
        train_step(state, learner, plan)

    return step


def step_in_torch(kind: str, data: Batch, H: int, R: int) -> Callable[[], None]:
    """Return a function that trains one run on one batch in plain torch."""
    model = practised.PractisedModel(data.source.shape[-1], H)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        forced = (torch.rand(data.target_steps) < 0.5).tolist()
        loss = nn.functional.mse_loss(model(data.source, data.target, forced), data.target)
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("summary", type=Path, nargs="?", help="picture for README.md")
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
    if arguments.summary:
        arguments.summary.write_bytes(as_bytes(summary_picture(found)))


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
            for kind, (color, marker) in zip(kinds, STYLES, strict=True):
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
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=8)
    return figure


@with_style
def summary_picture(found: dict[str, dict[str, list[dict[str, Any]]]]) -> Figure:
    """Draw the time of a training step against the length and against the number of runs."""
    names = {
        "manual": "seqattn, GRU with attention",
        "torch": "plain torch, the same model",
        "transformer": "seqattn, Transformer",
    }
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    titles = {"S": "points in source and target", "R": "runs (seeds) trained at once"}
    for axes, (letter, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for kind, label in names.items():
            color, marker = STYLES[KINDS.index(kind)]
            points = found[letter][kind]
            axes.plot(
                [point["size"] for point in points], [point["seconds"] * 1e3 for point in points],
                marker=marker, ms=4, lw=1.4, color=color, label=label,
            )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel=title)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
    first = figure.axes[0]
    first.set_ylabel("ms per training step")
    first.legend(fontsize=8)
    return figure


if __name__ == "__main__":
    main()
