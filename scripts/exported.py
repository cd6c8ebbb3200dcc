"""Train and export each config under configs/mechanisms, and compare the graphs with the model.

    python scripts/exported.py

The script prints a table, which `make figures` puts into docs/export.md. The columns `forecast` and
`weights` contain the largest absolute differences between the model and its exported graphs. The
differences are taken over both ways to run the graphs (`free_running`, or `encoder` and `step`),
and over the test sequences and random sequences of `seqattn.export.check`. The column `int8`
contains the test loss with int8 weights, and the columns `kB` and `int8 kB` the file sizes of the
free-running graphs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from seqattn import experiments
from seqattn.config import resolve
from seqattn.export import export
from seqattn.runs import RunFolder

ROOT = Path(__file__).resolve().parents[1]
ALSO = ("plain", "variable_length", "own_data")


def row_of(path: Path, home: Path) -> str:
    """Train and export a config, and return its row of the table."""
    config = resolve(path, ["seed=1"]).config
    experiments.train_many([(config, RunFolder(home / "run"))], threads=1, plots=False)
    began = time.perf_counter()
    made = export(home / "run", home / "exported", int8=True)
    seconds = time.perf_counter() - began
    kinds = {kind for row in made.rows for kind in row.differences}
    largest = {kind: max(row.differences[kind] for row in made.rows) for kind in kinds}
    weights = max((largest[kind] for kind in kinds - {"forecast"}), default=None)
    cells = [
        f"[{path.stem}](../{path.relative_to(ROOT)})",
        f"{largest['forecast']:.1e}",
        "" if weights is None else f"{weights:.1e}",
        f"{made.losses['float32']:.4f}",
        f"{made.losses['int8']:.4f}",
        f"{made.files['free_running.onnx'] / 1024:.0f}",
        f"{made.files['free_running.int8.onnx'] / 1024:.0f}",
        f"{seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names of configs, separated by commas")
    arguments = parser.parse_args()
    paths = [*sorted((ROOT / "configs/mechanisms").glob("*.yaml")),
             *(ROOT / "configs" / f"{name}.yaml" for name in ALSO)]  # fmt: skip
    if arguments.only:
        paths = [path for path in paths if path.stem in arguments.only.split(",")]
    print("| config | forecast | weights | test loss | int8 | kB | int8 kB | export, s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            print(row_of(path, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
