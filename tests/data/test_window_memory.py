"""What large data take of memory, measured by a process of its own: what a part is scored and
written with does not grow with its windows, and mapped files are let go of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# VmHWM, not ru_maxrss: a child of a large process starts with its parent's ru_maxrss.
PEAK = """
import json, re, sys
from pathlib import Path
import numpy as np

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""

CONCLUDE = (
    PEAK
    + """
from seqattn import experiments
from seqattn.config import resolve
from seqattn.experiments import group_training

def table(name, rows):
    numbers = np.random.default_rng(len(name)).normal(size=rows)
    lines = (f"{t + 1},{x:.6f}" for t, x in enumerate(numbers))
    Path(name).write_text("step,x\\n" + "\\n".join(lines) + "\\n")

for name, rows in (("train.csv", 1200), ("validation.csv", 300), ("few.csv", 2000),
                   ("many.csv", 6000)):
    table(name, rows)
began = []
inner = group_training.write_results

def write_results(*args):
    began.append(peak())
    return inner(*args)

group_training.write_results = write_results
sets = ["data.kind=file", "data.path=train.csv", "data.validation_path=validation.csv",
        "data.window.source=200", "data.window.target=60", "data.season=5", "training.epochs=1",
        "model.hidden_dim=2", "model.attention=null", "training.batch_size=256"]
grown = {}
for name in ("few", "many"):
    config = resolve(None, [*sets, f"data.test_path={name}.csv", f"name={name}"]).config
    experiments.train_one(config, Path("outputs"), plots=False)
    grown[name] = peak() - began[-1]
print(json.dumps(grown))
"""
)
"""The second training begins where the first, of a third of the windows, had taken all it needs."""


def test_a_part_is_scored_and_written_in_memory_that_does_not_grow(tmp_path: Path) -> None:
    """5,741 windows of 200 + 60 points become 6 MB of tensors. Arrays of all of them, in double
    precision, of forecasts, and of what is written took 50 MB more."""
    grown = figures_of(CONCLUDE, tmp_path)
    assert grown["many"] < 14 * 2**20, grown


MAPPED = (
    PEAK
    + """
from seqattn.data.windows import RowRanges

rows = 2**13  # of a series: 128 KiB
series = 1600
with open("values", "wb") as file:
    for k in range(0, series, 256):  # 32 MiB at a time, as a cache is written: in large folios
        own = np.arange(k, min(k + 256, series), dtype=float)
        file.write(np.repeat(own, 2 * rows).data)
values = np.memmap("values", dtype=np.float64, mode="r").reshape(-1, 2)
table = RowRanges(values, (0,), (), rows * np.arange(series), np.full(series, 50), np.arange(series))
before = peak()
for k in range(0, series, 16):  # 2 MiB from one to the next
    assert table[k][0, 0] == k
print(json.dumps({"grown": peak() - before}))
"""
)


def test_series_here_and_there_in_a_mapped_file_are_let_go_of(tmp_path: Path) -> None:
    """100 series of 800 bytes, 2 MiB apart: of a file that was just written the system may map the
    2 MiB around each, 170 MB in all (Linux 6.18, ext4)."""
    grown = figures_of(MAPPED, tmp_path)["grown"]
    assert grown < 100 * 2**20, grown


def figures_of(child: str, folder: Path) -> dict[str, int]:
    """What a process of its own measured."""
    done = subprocess.run(
        [sys.executable, "-c", child], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    figures: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return figures


if not Path("/proc/self/status").exists():
    pytest.skip("reads /proc/self/status", allow_module_level=True)
