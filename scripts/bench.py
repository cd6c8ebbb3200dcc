"""Compare the speed of seqattn with that of a typical notebook on the same work, in one process.

    make bench                                       # or: python scripts/bench.py --repeats 5
    python scripts/bench.py --only A,seeds --json figures.json --peers

The script prints the machine, the versions and the git revision. It writes these and all times to
outputs/bench.json, and a picture of the ratios to outputs/bench.png.

The notebook's loop is the usual tutorial code for encoder-decoders with attention. It has a
DataLoader over a TensorDataset, a decoder GRU that is called once for each step, a teacher-forcing
coin flip for each step, `.item()` after every batch, and one validation pass per epoch. seqattn's
loop does the same work with two validation passes (free running and teacher-forced). Both loops use
one thread. Because times drift on a busy machine, the two loops alternate, and the result is the
ratio of their times. The script measures these rows:

    A        hidden width 2, 128 squares, batch size 16, 100 epochs
    B        hidden width 64, 2048 squares, batch size 64, 5 epochs
    C        hidden width 64, 2048 random paths of 32 + 32 points, batch size 64, 1 epoch
    seeds    64 and 256 seeds of A in one batch, against one run of the notebook's loop
    plain    A, B, C and 64 seeds of A in optimized plain torch (scripts/plain.py, without
             validation), against the notebook's loop
    folders  64 seeds of A with run folders, against one run of the notebook's loop
    process  `seqattn train configs/notebook.yaml` against a notebook that runs as a script
    help     `seqattn --help` against `python -c "import typer"`
    words    training steps of models of symbols, against scripts/practised_words.py
    decode   greedy decoding and beam search of words, against scripts/practised_words.py
    start    `seqattn predict` for one line against `python -c "import torch"`
    predict  free-running forecasts of 100,000 squares, in microseconds per sequence and step
    cells    A, B and C with LSTMs, with simple recurrent networks and with two heads: autograd,
             against manually derived gradients
    film     A with attention recorded every 20 epochs, and squares.yaml with attention recorded
             every 10 epochs, each against the same training without recorded attention
    report   the HTML report of a run of squares.yaml
    page     the live page in headless Chromium: its size, the seconds until the first drag is
             answered, and the milliseconds of a drag step; only with `--only page`
    saving   B with a checkpoint every epoch, and B with a plain write and fsync of as many bytes
             every epoch, each against B without checkpoints
    transformer
             training steps of a Transformer, against the same steps of nn.Transformer
    busy     A while another process keeps a core busy, against A alone; seqattn measures which
             number of threads is fastest
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import notebook
import plain
import torch
from bench_peers import bench_peers, bench_transformer
from bench_results import BenchTable, conditions_text, describe_conditions, ratio_figure, seconds
from bench_words import bench_decoding, bench_start, bench_training
from workloads import Work, seqattn_loop, squares_of, workloads

from seqattn import experiments
from seqattn.analysis.evaluation import free_run
from seqattn.config import Recurrent, Squares, Training, resolve
from seqattn.data import DataSpec, load_data, squares
from seqattn.models import build_model
from seqattn.plots import as_bytes
from seqattn.runs.storage import BackgroundWriter
from seqattn.training import (
    RunState,
    TrainingRun,
    save_state,
    train_models,
)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SEQATTN = Path(sys.executable).with_name("seqattn")


def notebook_loop(work: Work) -> float:
    """Train with the notebook's loop, and return the last validation loss."""
    data, held_out = work.data, work.validation
    _, _, losses = notebook.train_notebook(
        data.source, data.target, held_out.source, held_out.target,
        hidden=work.hidden, batch_size=work.batch_size, epochs=work.epochs,
    )  # fmt: skip
    return losses[-1]


def plain_loop(work: Work, runs: int = 1) -> None:
    """Train in plain torch; see scripts/plain.py."""
    plain.train_plain(
        work.data.source, work.data.target, hidden=work.hidden, batch_size=work.batch_size,
        epochs=work.epochs, runs=runs,
    )  # fmt: skip


def with_folders(folder: Path) -> None:
    """Train 64 seeds of work A, and write their run folders."""
    sets = ["model.hidden_dim=2", "data.n_train=128", "training.epochs=100"]
    config = resolve(None, sets).config
    experiments.train_many(experiments.seeds_of(config, folder / "many", 64), threads=1)


# --- measuring ------------------------------------------------------------------------------------


def command(*words: str | Path) -> Callable[[], None]:
    """Return a function that runs a command as a process."""

    def run() -> None:
        subprocess.run(list(map(str, words)), check=True, capture_output=True)

    return run


def predictions(table: BenchTable) -> None:
    """Measure forecasts of 100,000 squares by a model of width 16, in microseconds per step."""
    model = build_model(Recurrent(hidden_dim=16), 2, 1)
    part = squares.generate_squares(100_000, 1, noise=0.1, source_length=2, variable_length=False)
    steps = part.target.shape[1]
    free_run(model, part.select(slice(0, 4096)), steps)
    taken = [seconds(lambda: free_run(model, part, steps)) for _ in range(table.repeats)]
    each = [t / (len(part) * steps) * 1e6 for t in taken]
    table.row("predict 100,000 squares, us a step", [], taken, each, "<= 1")


def saving(table: BenchTable, work: Work, folder: Path) -> None:
    """Measure work B with checkpoints in the background, as `seqattn train` writes them, and with
    bare writes of as many bytes."""
    from tests.training_session import trained

    config = resolve(None, [f"model.hidden_dim={work.hidden}", f"training.epochs={work.epochs}"])
    spec = DataSpec.of(load_data(Squares(n_train=8)).train)
    last, previous = folder / "last.safetensors", folder / "previous.safetensors"
    steps_of_epoch = math.ceil(len(work.data) / work.batch_size)
    steps = written = 0

    def write(state: RunState) -> None:
        nonlocal written
        written += 1
        save_state(last, state, config.config, spec, backup_path=previous)

    def count_step() -> bool:
        nonlocal steps
        steps += 1
        return False

    def clock() -> float:
        return steps / steps_of_epoch

    def train_saving(every: int, save: Callable[[RunState], None]) -> None:
        settings = Training(epochs=work.epochs, batch_size=work.batch_size, learning_rate=0.01,
                            checkpoint_seconds=every)  # fmt: skip
        model = build_model(Recurrent(hidden_dim=work.hidden), 2, 1)
        with mock.patch("time.monotonic", new=clock):  # the clock that decides when to save
            run = TrainingRun(model, work.data, work.validation, settings, 1)
            trained([run], stop=count_step, save=save)

    def in_background(write: Callable[[RunState], None]) -> Callable[[], None]:
        def run() -> None:
            with BackgroundWriter() as pool:
                train_saving(1, lambda state: pool.submit(lambda: write(state)))

        return run

    def bare(_: RunState) -> None:
        descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(descriptor, raw)
        os.fsync(descriptor)
        os.close(descriptor)

    def without() -> None:
        train_saving(86_400, lambda state: None)

    name = "saving: B with a checkpoint each epoch, of none"
    table.pair(name, without, in_background(write), "<= 1.05", times=False)
    print(f"    ({written / (table.repeats + 1):g} checkpoints for {work.epochs} epochs)")
    raw = last.read_bytes()
    name = "saving: B with bare writes of as many bytes"
    table.pair(name, without, in_background(bare), "", times=False)


def bench_cells(table: BenchTable, works: list[Work]) -> None:
    """Measure the manual backward pass of LSTMs, of simple recurrent networks, and of two heads."""
    options: dict[str, dict[str, Any]] = {
        "lstm": {"cell": "lstm"}, "rnn": {"cell": "rnn"}, "two heads": {"heads": 2},
    }  # fmt: skip
    for name, option in options.items():
        for work in works:
            table.pair(f"cells: {work.name} with {name}, autograd / manual",
                       lambda: seqattn_loop(work, manual_backward=False, **option),  # noqa: B023
                       lambda: seqattn_loop(work, **option), "")  # noqa: B023  # fmt: skip


def bench_recording(table: BenchTable, work: Work, name: str, frames: int) -> None:
    """Measure a training that records attention every `frames` epochs."""

    def trained(every: int | None) -> None:
        settings = Training(epochs=100, batch_size=work.batch_size, record_attention=every)
        model = build_model(Recurrent(hidden_dim=work.hidden), 2, 1)
        train_models([TrainingRun(model, work.data, work.validation, settings, 1)])

    table.pair(f"film: {name} with one, of without", lambda: trained(None), lambda: trained(frames),
               "<= 1.03", times=False)  # fmt: skip


def bench_report(table: BenchTable, folder: Path) -> None:
    """Measure `seqattn report` for a run of configs/squares.yaml, without the imports."""
    from seqattn.report import report

    config = resolve(ROOT / "configs" / "squares.yaml").config
    made, _ = experiments.train_one(config, folder)
    for name, is_live, must in (
        ("with the model", True, ""),
        ("without the model", False, "<= 3 s"),
    ):
        report(made.path, live=is_live)
        found = [seconds(lambda: report(made.path, live=is_live)) for _ in range(table.repeats)]  # noqa: B023
        table.row(f"report: of squares.yaml, {name}", found, found, found, must)


def bench_busy_process(table: BenchTable, folder: Path) -> None:
    """Measure work A as a process, alone and while another process keeps a core busy.

    The number of threads is not set, so seqattn measures which number is fastest.
    """
    words = ["train", ROOT / "configs/notebook.yaml", "--overwrite", "--quiet", "--plots", "none"]
    train_a = command(SEQATTN, *words, "--output-dir", folder / "busy")
    train_a()
    alone, concurrent = [], []
    for _ in range(table.repeats):
        alone.append(seconds(train_a))
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            concurrent.append(seconds(train_a))
            busy.kill()
    ratios = [b / a for a, b in zip(alone, concurrent, strict=True)]
    table.row("busy: beside a busy process, of alone", alone, concurrent, ratios, "<= 1.5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="number of timed runs (default 5)")
    parser.add_argument("--only", help="names of rows, separated by commas")
    parser.add_argument("--peers", action="store_true",
                        help="also measure practised torch, Lightning and JAX")  # fmt: skip
    parser.add_argument("--json", type=Path, default=ROOT / "outputs/bench.json",
                        help="file for the figures; the picture is beside it")  # fmt: skip
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    selected = set(arguments.only.split(",")) if arguments.only else None

    def is_selected(name: str) -> bool:
        return selected is None or name in selected

    conditions = describe_conditions() | {"repeats": arguments.repeats}
    print(f"{conditions_text(conditions)}\n{arguments.repeats} repeats, median [least, most]\n")
    table = BenchTable(arguments.repeats)
    goals = {"A": (8, 2.2), "B": (3.5, 1.9), "C": (2.5, 1.3)}
    by_name = {work.name: work for work in workloads()}
    for name, work in by_name.items():
        if is_selected(name):
            for manual, goal in zip((True, False), goals[name], strict=True):
                backend = "manual" if manual else "autograd"
                table.pair(f"{name}, {backend}", lambda: notebook_loop(work),  # noqa: B023
                           lambda: seqattn_loop(work, manual_backward=manual), f">= {goal}")  # noqa: B023  # fmt: skip
    first = by_name["A"]
    if is_selected("seeds"):
        for seeds, manual, must in (
            (64, True, "<= 0.5"),
            (64, False, "<= 1"),
            (256, True, ""),
        ):
            backend = "manual" if manual else "autograd"
            name = f"seeds: {seeds} of A, {backend}, of one notebook"
            table.pair(name, lambda: notebook_loop(first),
                       lambda: seqattn_loop(first, manual_backward=manual, seeds=seeds),  # noqa: B023
                       must, times=False)  # fmt: skip
    if is_selected("plain"):
        for name, work in by_name.items():
            table.pair(f"plain: {name} in plain torch", lambda: notebook_loop(work),  # noqa: B023
                       lambda: plain_loop(work), "")  # noqa: B023  # fmt: skip
        table.pair("plain: 64 of A in plain torch, of one notebook", lambda: notebook_loop(first),
                   lambda: plain_loop(first, 64), "", times=False)  # fmt: skip
    if is_selected("cells"):
        bench_cells(table, [*by_name.values()])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if is_selected("folders"):

            def written() -> None:
                shutil.rmtree(folder / "many", ignore_errors=True)
                with_folders(folder)

            table.pair("folders: 64 of A written, of one notebook", lambda: notebook_loop(first),
                       written, "<= 1", times=False)  # fmt: skip
        if is_selected("process"):
            ours = command(SEQATTN, "train", ROOT / "configs/notebook.yaml", "--overwrite",
                           "--quiet", "--output-dir", folder / "whole")  # fmt: skip
            theirs = command(sys.executable, ROOT / "scripts/notebook.py", folder / "notebook")
            table.pair("process: all outputs, of the notebook's", theirs, ours, "<= 0.6",
                       times=False)  # fmt: skip
        if is_selected("help"):
            table.pair("help: of importing typer", command(sys.executable, "-c", "import typer"),
                       command(SEQATTN, "--help"), "<= 2.5", times=False)  # fmt: skip
        if is_selected("predict"):
            predictions(table)
        if is_selected("words"):
            bench_training(table)
        if is_selected("decode"):
            bench_decoding(table)
        if is_selected("start"):
            bench_start(table, folder, command, SEQATTN)
        if is_selected("film"):
            bench_recording(table, first, "A", 20)
            bench_recording(
                table, Work("squares", 16, 64, 100, *squares_of(1024)), "squares.yaml", 10
            )
        if is_selected("report"):
            bench_report(table, folder)
        if selected and "page" in selected:
            from bench_page import bench_pages

            bench_pages(folder, arguments.repeats, table.row)
        if is_selected("saving"):
            saving(table, by_name["B"], folder)
        if is_selected("busy"):
            bench_busy_process(table, folder)
    if is_selected("transformer"):
        bench_transformer(table)
    if arguments.peers:
        bench_peers(table, [work for name, work in by_name.items() if is_selected(name)])
    content = {"conditions": conditions, "rows": table.rows}
    arguments.json.write_text(json.dumps(content, indent=2) + "\n")
    title = f"{conditions['processor']}, torch {conditions['packages']['torch']}, one thread"
    picture = arguments.json.with_suffix(".png")
    picture.write_bytes(as_bytes(ratio_figure(table.rows, title)))
    print(f"\nwritten: {arguments.json}, {picture}")


if __name__ == "__main__":
    main()
