"""Measure peak memory, speed and loss of a training on data larger than memory.

    python scripts/streaming.py --gigabytes 5 --into FOLDER

This command writes Parquet files with the noisy positions of rotating points (24 source points, 8
target points, two features, float64). It then runs three measurements, each in its own process:

- `first` loads the files for the first time, and reads an epoch without training.
- `again` does the same with the cache that `first` wrote.
- `train` trains an epoch from the cache.

`--only memory` trains an epoch from one file with all sequences, which is read into memory. The
validation part and the test part have 10,000 sequences each, which are the same for every size.

    python scripts/streaming.py --only windows --into FOLDER

This command writes one series of 147,000 rows as CSV. It trains a model on overlapping windows of
500 source and 100 target points, scores it, and writes the forecasts without pictures. A larger
`--stride` gives fewer windows. A short training on small windows runs first in the same process, so
that all libraries and the database are loaded. The measured memory is the increase after this first
training.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SOURCE_STEPS, TARGET_STEPS = 24, 8
AT_ONCE = 20_000  # sequences per row group
GROUPS = 5  # row groups per file
BYTES = (SOURCE_STEPS + TARGET_STEPS) * 2 * 8  # per sequence

PEAK = """
def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**20
"""
READ = (
    PEAK
    + """
import json, sys, time
from seqattn.config import resolve
from seqattn.data import load_data
from seqattn.training import batch_of
from seqattn.training.batches import DataLoader
import seqattn.experiments
process = peak()
config = resolve(None, sys.argv[1:]).config
began = time.perf_counter()
data = load_data(config.data)
loaded, after = time.perf_counter() - began, peak()
loader = DataLoader([batch_of(data.train)], config.training.batch_size, None)
began = time.perf_counter()
fetch = loader.shuffled([1], 0)
n = sum(len(fetch(step)) for step in range(len(loader.batches(0))))
took = time.perf_counter() - began
print(json.dumps({"process GiB": process, "load s": loaded, "load GiB": after,
                  "sequences/s": n / took, "GiB": peak()}))
"""
)
TRAIN = (
    PEAK
    + """
import json, sys, tempfile, time
from pathlib import Path
from seqattn import experiments
from seqattn.config import resolve
config = resolve(None, sys.argv[1:]).config
began = time.perf_counter()
with tempfile.TemporaryDirectory() as home:
    _, summary = experiments.train_one(config, Path(home), plots=False)
took = time.perf_counter() - began
print(json.dumps({"whole": took, "epoch": summary["seconds"], "GiB": peak(),
                  "test loss": summary["test_loss"]}))
"""
)
WINDOWS = (
    PEAK
    + """
import json, sys, tempfile, time
from pathlib import Path
from seqattn import experiments
from seqattn.config import resolve
few, many, *sets = sys.argv[1:]
shared = ["name=w", "data.kind=file", "training.epochs=1", "model.attention=null",
          "data.split.by=time"]
small = ["data.window.source=5", "data.window.target=3"]
large = ["data.window.source=500", "data.window.target=100", *sets]

def train(path, sets):
    config = resolve(None, [*shared, f"data.path={path}", *sets]).config
    with tempfile.TemporaryDirectory() as home:
        return experiments.train_one(config, Path(home), plots=False)[1]

imported = peak()
train(few, small)
before, began = peak(), time.perf_counter()
summary = train(many, large)
print(json.dumps({"imported GiB": imported, "before GiB": before, "above MB":
                  (peak() - before) * 2**30 / 1e6, "whole s": time.perf_counter() - began,
                  "test loss": summary["test_loss"]}))
"""
)
ROWS = 147_000


def series(path: Path, rows: int) -> None:
    """Write a noisy sine with a period of 24 steps as CSV."""
    steps = np.arange(rows)
    values = np.sin(2 * np.pi * steps / 24) + np.random.default_rng(0).normal(0, 0.1, rows)
    lines = (f"{step + 1},{value:.9f}\n" for step, value in zip(steps, values, strict=True))
    path.write_text("step,value\n" + "".join(lines))


def windows(home: Path, stride: int) -> None:
    """Measure a training on windows.

    The batches are small, so that their tensors hardly increase the measured memory.
    """
    home.mkdir(parents=True, exist_ok=True)
    few, many = home / "few.csv", home / "series.csv"
    series(few, 9000)
    series(many, ROWS)
    sets = [
        "data.split.validation=0.05", "data.split.test=0.213", f"data.window.stride={stride}",
        "training.batch_size=64", "model.hidden_dim=2",
    ]  # fmt: skip
    found = measure_process(WINDOWS, [str(few), str(many), *sets])
    if not isinstance(found, str):
        found = ", ".join(f"{key} {value:.5g}" for key, value in found.items())
    print(f"windows: {many.stat().st_size / 1e6:.1f} MB of CSV, {found}", flush=True)


def group_of(n: int, seed: int) -> pa.Table:
    """Generate noisy sequences of points that rotate by a random angle on a random radius."""
    numbers = np.random.default_rng(seed)
    start, turn = numbers.uniform(0, 2 * np.pi, (n, 1)), numbers.uniform(-0.6, 0.6, (n, 1))
    angle = start + turn * np.arange(SOURCE_STEPS + TARGET_STEPS)
    radius = numbers.uniform(0.5, 1.5, (n, 1))
    columns = {}
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    for t in range(SOURCE_STEPS + TARGET_STEPS):
        columns[f"x_{t + 1}"] = x[:, t] + numbers.normal(0, 0.05, n)
        columns[f"y_{t + 1}"] = y[:, t] + numbers.normal(0, 0.05, n)
    return pa.table(columns)


def make_files(home: Path, gigabytes: float) -> int:
    """Write the training files, a file with the rows of all of them, and the other two parts.

    Returns:
        The number of sequences.
    """
    (home / "train").mkdir(parents=True, exist_ok=True)
    groups = max(1, round(gigabytes * 1e9 / BYTES / AT_ONCE))
    whole = None
    for k in range(groups):
        table = group_of(AT_ONCE, k)
        if whole is None:
            whole = pq.ParquetWriter(home / "whole.parquet", table.schema)
        whole.write_table(table)
        if k % GROUPS == 0:
            part = pq.ParquetWriter(home / "train" / f"{k // GROUPS:05d}.parquet", table.schema)
        part.write_table(table)
        if (k + 1) % GROUPS == 0 or k + 1 == groups:
            part.close()
    assert whole is not None
    whole.close()
    for name, seed in (("validation", 10**6), ("test", 10**6 + 1)):
        pq.write_table(group_of(10_000, seed), home / f"{name}.parquet")
    return groups * AT_ONCE


def measure_process(code: str, sets: list[str]) -> dict[str, float] | str:
    done = subprocess.run(
        [sys.executable, "-c", code, *sets], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return (
            f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or ['killed'])[-1]}"
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=0.2)
    parser.add_argument("--into", type=Path, required=True, help="folder for the files")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds of each training")
    parser.add_argument("--only", default="first,again,train", help="measurements, with commas")
    parser.add_argument("--stride", type=int, default=1, help="stride of the windows, in steps")
    arguments = parser.parse_args()
    home = arguments.into
    if arguments.only == "windows":
        windows(home, arguments.stride)
        return
    if not (home / "test.parquet").exists():
        began = time.perf_counter()
        n = make_files(home, arguments.gigabytes)
        print(f"made {n:,} sequences in {time.perf_counter() - began:.0f} s", flush=True)
    size = sum(path.stat().st_size for path in (home / "train").iterdir())
    print(f"{len([*(home / 'train').iterdir()])} files, {size / 1e9:.2f} GB", flush=True)
    shared = [
        "name=large", f"data.validation_path={home / 'validation.parquet'}",
        f"data.test_path={home / 'test.parquet'}", f"data.source_length={SOURCE_STEPS}",
        "data.series=null", "data.time=null", "training.epochs=1", "training.batch_size=512",
    ]  # fmt: skip
    os.environ["SEQATTN_CACHE"] = str(home / "cache")
    cached = [*shared, "data.kind=file", f"data.path={home / 'train'}", "data.cache=always"]
    one = [*shared, "data.kind=file", f"data.path={home / 'whole.parquet'}", "data.cache=never"]
    works = {
        "first": (READ, cached), "again": (READ, cached), "train": (TRAIN, cached),
        "memory": (TRAIN, one),
    }  # fmt: skip
    if "first" in arguments.only.split(","):
        shutil.rmtree(home / "cache", ignore_errors=True)
    for name in arguments.only.split(","):
        for seed in range(1, 1 + (1 if works[name][0] is READ else arguments.seeds)):
            code, sets = works[name]
            found = measure_process(code, [*sets, f"seed={seed}"])
            if not isinstance(found, str):
                found = ", ".join(f"{key} {value:.5g}" for key, value in found.items())
            print(f"{name}, seed {seed}: {found}", flush=True)


if __name__ == "__main__":
    main()
