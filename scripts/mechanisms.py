"""Ten seeds of every config under configs/mechanisms, as a table.

    python scripts/mechanisms.py

`make figures` puts it into docs/mechanisms.md.

The ten seeds of a config are trained side by side on one thread. `one seed` is the first of them
trained alone. Losses are mean squared errors on the test sequences, free running.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from seqattn import experiment
from seqattn.config import resolve
from seqattn.runs import RunFolder

ROOT = Path(__file__).resolve().parents[1]
SEEDS = 10


def measured(path: Path, home: Path) -> dict[str, float]:
    """Losses over the seeds, and the seconds of one and of all."""
    config = resolve(path, ["seed=1"]).config
    began = time.perf_counter()
    experiment.run_all([(config, RunFolder(home / "one"))], threads=1)
    one = time.perf_counter() - began
    began = time.perf_counter()
    jobs = experiment.run_all(experiment.seeds_of(config, home / "many", SEEDS), threads=1)
    many = time.perf_counter() - began
    summaries = [job.summary for job in jobs if job.summary is not None]
    assert len(summaries) == SEEDS, f"{path}: a seed did not end"
    losses = [summary["test_loss"] for summary in summaries]
    first = summaries[0]
    return {
        "median": statistics.median(losses),
        "min": min(losses),
        "max": max(losses),
        "parameters": first["parameters"],
        "one": one,
        "many": many,
        "floor": first["noise_floor"],
        "baseline": first["baselines"][first["best_baseline"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    parser.add_argument("--only", help="names of configs, with commas between")
    arguments = parser.parse_args()
    paths = sorted((ROOT / "configs/mechanisms").glob("*.yaml"))
    if arguments.only:
        paths = [path for path in paths if path.stem in arguments.only.split(",")]
    found = dict[str, dict[str, float]]()
    print("| mechanism | median | min | max | parameters | one seed, s | ten seeds, s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            row = found[path.stem] = measured(path, Path(folder))
        losses = " | ".join(f"{row[key]:.4f}" for key in ("median", "min", "max"))
        print(
            f"| [{path.stem}](../configs/mechanisms/{path.name}) | {losses}"
            f" | {row['parameters']:,} | {row['one']:.1f} | {row['many']:.1f} |",
            flush=True,
        )
    row = next(iter(found.values()))
    print(f"\nNoise floor {row['floor']:.4f}; the best parameter-free baseline, \"minus the"
          f" source corner\", {row['baseline']:.4f}.")  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
