"""Measure the sensitivity of the doctor: train runs with and without a defect, and diagnose them.

    python scripts/doctor_cases.py     # takes a few minutes

The script prints a table of the findings for twenty seeds of each case. `make figures` puts this
table into docs/doctor.md. `tests/analysis/test_doctor.py` runs the same cases with fewer seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from seqattn import experiments
from seqattn.analysis import doctor
from seqattn.analysis.doctor import CHECK_NAMES, Evidence
from seqattn.analysis.evaluation import load_run
from seqattn.config import resolve

ROOT = Path(__file__).resolve().parents[1]
COPY = ("data.kind=copy", "data.length=16", "data.n_train=1024", "model.hidden_dim=32",
        "training.batch_size=64", "training.epochs=30")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Runs of one config, and the finding that the doctor must report.

    Attributes:
        name: a description of the case.
        finding: the finding that the doctor must report for every seed; "" if it must not report
            any.
        sets: overrides of the config.
        config: the config file in configs/; "" for the default config.
        plant: a function that modifies the evidence, for a defect that no training produces.
    """

    name: str
    finding: str
    sets: tuple[str, ...]
    config: str = ""
    plant: Callable[[Evidence], Evidence] = lambda evidence: evidence


def shift_by_one(evidence: Evidence) -> Evidence:
    assert evidence.weights is not None
    return dataclasses.replace(evidence, weights=np.roll(evidence.weights, 1, axis=-1))


def one_dead(evidence: Evidence) -> Evidence:
    assert evidence.weights is not None
    weights = evidence.weights.copy()
    weights[:, :, 0] = np.where(np.isfinite(weights[:, :, 0]), 1 / weights.shape[-1], np.nan)
    return dataclasses.replace(evidence, weights=weights)


def on_padding(evidence: Evidence) -> Evidence:
    return dataclasses.replace(evidence, padding_mass=0.03)


CASES = (
    Case("squares.yaml", "", (), "squares.yaml"),
    Case("variable_length.yaml", "", (), "variable_length.yaml"),
    Case("copying a path of 16 points", "", COPY),
    Case("mechanisms/multi_head.yaml", "", (), "mechanisms/multi_head.yaml"),
    Case("mechanisms/sparsemax.yaml", "", (), "mechanisms/sparsemax.yaml"),
    Case("variable_length.yaml, 3% of the weight on padding (planted)", CHECK_NAMES[0], (),
         "variable_length.yaml", on_padding),
    Case("squares.yaml, stopped after one epoch", CHECK_NAMES[1],
         ("training.epochs=1", "training.learning_rate=0.001"), "squares.yaml"),
    Case("score: uniform", CHECK_NAMES[2], ("model.attention.score=uniform",), "squares.yaml"),
    Case("a target that repeats the first source point", CHECK_NAMES[3],
         ("data.kind=file", "data.path=first.jsonl", "model.hidden_dim=3", "training.epochs=60",
          "training.batch_size=32")),
    Case("copying, weights shifted by one step (planted)", CHECK_NAMES[4], COPY, "", shift_by_one),
    Case("score: general, learning rate 0.3", CHECK_NAMES[5],
         ("data.n_train=512", "model.hidden_dim=64", "model.attention.score=general",
          "training.learning_rate=0.3", "training.epochs=20")),
    Case("multi_head.yaml, one head uniform (planted)", CHECK_NAMES[6], (),
         "mechanisms/multi_head.yaml", one_dead),
    Case("four heads, almost untrained", CHECK_NAMES[7],
         ("data.n_train=64", "model.attention.heads=4", "training.learning_rate=1e-6",
          "training.epochs=1")),
    Case("score: uniform", CHECK_NAMES[8], ("model.attention.score=uniform",), "squares.yaml"),
    Case("polygons of 12 corners, always teacher-forced", CHECK_NAMES[9],
         ("data.kind=polygons", "data.corners=12", "training.teacher_forcing.probability=1",
          "training.epochs=40")),
    Case("notebook.yaml, a state of two numbers", CHECK_NAMES[10], (), "notebook.yaml"),
    Case("squares.yaml, 24 training squares, 64 units, 200 epochs", CHECK_NAMES[11],
         ("data.n_train=24", "model.hidden_dim=64", "training.epochs=200"), "squares.yaml"),
)  # fmt: skip


def write_first(folder: Path) -> None:
    """Write sequences whose target repeats the first source point four times."""
    numbers = np.random.RandomState(0)
    with (folder / "first.jsonl").open("w") as file:
        for k in range(600):
            source = numbers.randn(8, 3).round(3).tolist()
            file.write(
                json.dumps({"id": str(k), "source": source, "target": source[:1] * 4}) + "\n"
            )


def examine_seeds(case: Case, seeds: int, folder: Path) -> list[list[doctor.Finding]]:
    """Return the findings of the doctor for each seed of a case."""
    sets = tuple(text.replace("first.jsonl", str(folder / "first.jsonl")) for text in case.sets)
    return [
        doctor.examine(case.plant(evidence))
        for evidence in collect_seeds_evidence(case.config, sets, seeds)
    ]


@functools.lru_cache(maxsize=8)
def collect_seeds_evidence(name: str, sets: tuple[str, ...], seeds: int) -> list[Evidence]:
    """Train several seeds of a config, and collect the evidence of each seed.

    The result is cached, because several cases use the same runs.
    """
    path = ROOT / "configs" / name if name else None
    config = resolve(path, [*sets, "seed=1", "name=case"]).config
    with tempfile.TemporaryDirectory() as place:
        jobs = experiments.train_many(experiments.seeds_of(config, Path(place), seeds), threads=1)
        losses = [job.summary["test_loss"] for job in jobs if job.summary is not None]
        found = []
        for job in jobs:
            _, run = load_run.open_run(job.folder.path)
            found.append(
                doctor.collect_evidence(
                    run, load_run.load_splits(run), losses, job.folder.read_metrics()
                )
            )
        return found


def found_names(findings: Sequence[doctor.Finding]) -> list[str]:
    return [finding.name for finding in findings if finding.state == "found"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| case | defect | found in | additional findings |")
    print("| --- | --- | ---: | --- |", flush=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_first(folder)
        for case in CASES:
            every = examine_seeds(case, arguments.seeds, folder)
            counts = Counter(name for findings in every for name in found_names(findings))
            hits = counts.pop(case.finding, 0)
            others = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
            hit = f"{hits} of {len(every)}" if case.finding else "-"
            print(f"| {case.name} | {case.finding or 'none'} | {hit} | {others or '-'} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
