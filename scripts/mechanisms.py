"""Train ten seeds of each config under configs/mechanisms, and print a table of their test losses.

    python scripts/mechanisms.py

`make figures` puts the table into docs/mechanisms.md. The ten seeds of a config are trained
together on one thread. The losses are free-running mean squared errors on the test sequences.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from seqattn import experiments
from seqattn.config import resolve

ROOT = Path(__file__).resolve().parents[1]
SEEDS = 10


def measure_config(path: Path, home: Path) -> dict[str, float]:
    """Train ten seeds of a config, and return statistics of their test losses."""
    config = resolve(path, ["seed=1"]).config
    jobs = experiments.train_many(experiments.seeds_of(config, home / "many", SEEDS), threads=1)
    summaries = [job.summary for job in jobs if job.summary is not None]
    assert len(summaries) == SEEDS, f"{path}: a seed did not end"
    losses = [summary["test_loss"] for summary in summaries]
    first = summaries[0]
    return {
        "median": statistics.median(losses),
        "min": min(losses),
        "max": max(losses),
        "parameters": first["parameters"],
        "floor": first["noise_floor"],
        "baseline": first["baselines"][first["best_baseline"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--only", help="names of configs, separated by commas")
    arguments = parser.parse_args()
    paths = sorted((ROOT / "configs/mechanisms").glob("*.yaml"))
    if arguments.only:
        paths = [path for path in paths if path.stem in arguments.only.split(",")]
    found = dict[str, dict[str, float]]()
    print("| mechanism | median | min | max | parameters |")
    print("| --- | ---: | ---: | ---: | ---: |", flush=True)
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            row = found[path.stem] = measure_config(path, Path(folder))
        losses = " | ".join(f"{row[key]:.4f}" for key in ("median", "min", "max"))
        print(
            f"| [{path.stem}](../configs/mechanisms/{path.name}) | {losses}"
            f" | {row['parameters']:,} |",
            flush=True,
        )
    row = next(iter(found.values()))
    print(f"\nThe noise floor is {row['floor']:.4f}. The best parameter-free baseline, \"minus the"
          f" source corner\", has an error of {row['baseline']:.4f}.")  # fmt: skip
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
