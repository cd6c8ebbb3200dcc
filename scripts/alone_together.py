"""Train twenty seeds of a config one by one and together, and print a table of their test errors.

    python scripts/alone_together.py configs/own_data.yaml

`make figures` puts the table into docs/compare.md. A seed has the same initial weights, batch order
and random draws in both cases, so only rounding differs. The errors are root mean squared errors of
the first feature on the test sequences, in the unit of the data.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from seqattn import experiments
from seqattn.config import resolve


def errors_of_seeds(config_path: Path, folder: Path, first: int, count: int) -> list[float]:
    """Train `count` seeds together on one thread, and return the test error of each."""
    config = resolve(config_path, [f"seed={first}"]).config
    jobs = experiments.train_many(experiments.seeds_of(config, folder, count), threads=1)
    summaries = [job.summary for job in jobs if job.summary is not None]
    assert len(summaries) == count, f"{config_path}: a seed did not end"
    return [summary["rmse"]["this model"][0] for summary in summaries]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds, from seed 1")
    parser.add_argument("--json", type=Path, help="also write the errors to this file")
    arguments = parser.parse_args()
    seeds = range(1, arguments.seeds + 1)
    with tempfile.TemporaryDirectory() as home:
        together = errors_of_seeds(arguments.config, Path(home) / "together", 1, len(seeds))
        alone = [errors_of_seeds(arguments.config, Path(home) / f"alone-{seed}", seed, 1)[0]
                 for seed in seeds]  # fmt: skip
    differences = [abs(one - other) for one, other in zip(alone, together, strict=True)]
    print("| | min | median | max |")
    print("| --- | ---: | ---: | ---: |")
    for name, values in (
        ("error of a seed alone", alone),
        ("error of a seed together with the others", together),
        ("difference between the two errors of a seed", differences),
    ):
        cells = (min(values), statistics.median(values), max(values))
        print(f"| {name} | " + " | ".join(f"{value:.4f}" for value in cells) + " |")
    if arguments.json:
        arguments.json.write_text(json.dumps({
            "alone": alone,
            "together": together,
            "alone_median": statistics.median(alone),
            "together_median": statistics.median(together),
            "largest_difference": max(differences),
        }))  # fmt: skip


if __name__ == "__main__":
    main()
