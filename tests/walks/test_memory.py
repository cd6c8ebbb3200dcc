"""The estimate of a training's memory against the measured growth of a process, where sequences,
attention, parameters or a Transformer's step are most of it. What a step of the other models keeps
is estimated on the safe side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# VmHWM, not ru_maxrss: a child of a large process starts with its parent's ru_maxrss.
PEAK = """
import json, os, re, sys
from pathlib import Path

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])

def each(measured):
    # Every case in a copy of this process, which has imported everything and run nothing.
    for name, case in json.loads(sys.argv[1]).items():
        os.makedirs(name)
        child = os.fork()
        if child == 0:
            os.chdir(name)
            print(json.dumps([name, *measured(case)]), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, name
"""

CHILD = (
    PEAK
    + """
from seqattn.config import resolve
from seqattn.data import fixed_shape
from seqattn.experiments import train_one
from seqattn.experiments.memory_estimate import estimate_training_memory, generated_counts

def measured(sets):
    tiny = ["data.n_train=4", "data.n_validation=2", "data.n_test=2", "training.epochs=1", "name=tiny"]
    train_one(resolve(None, tiny).config, Path("outputs"), plots=False)
    before = peak()
    config = resolve(None, [*sets, "name=large", "training.epochs=1"]).config
    train_one(config, Path("outputs"), plots=False)
    estimate = sum(estimate_training_memory(config, *fixed_shape(config.data), generated_counts(config.data)).values())
    return peak() - before, estimate

each(measured)
"""
)
FEW = ["data.n_train=64", "data.n_validation=4", "data.n_test=4", "training.batch_size=64"]


NEAR = {
    "attention": ["data.kind=copy", "data.length=100", "data.n_train=16", "data.n_validation=4",
                  "data.n_test=4000"],
    "sequences": ["data.n_train=100000", "training.batch_size=10000", "data.n_test=50000",
                  "model.hidden_dim=4"],
    "parameters": [*FEW, "data.kind=copy", "data.length=8", "model.hidden_dim=800"],
    "transformer": [*FEW, "data.kind=copy", "data.length=128", "model.kind=transformer",
                    "model.model_dim=64", "training.teacher_forcing.probability=1"],
    "transformer-attention": ["data.kind=copy", "data.length=128", "data.n_train=4",
                              "data.n_validation=2", "data.n_test=48", "model.kind=transformer",
                              "training.teacher_forcing.probability=1"],
}  # fmt: skip


def test_the_estimate_is_near_the_measured_growth(tmp_path: Path) -> None:
    check(CHILD, NEAR, tmp_path, 0.7, 2)


STEP = (
    PEAK
    + """
import torch
from seqattn.config import resolve
from seqattn.models import build_model
from seqattn.training.batches import Batch
from seqattn.models import activations_per_sequence
from seqattn.training.objective import build_loss


def step(R, N, S, T, *sets):
    sets = ["model.kind=transformer", "training.teacher_forcing.probability=1", *sets]
    model = resolve(None, sets).config.model
    stack, objective = build_loss([build_model(model, 2, seed) for seed in range(R)])
    runs = () if R == 1 else (R,)
    batch = Batch(torch.randn(*runs, N, S, 2), torch.randn(*runs, N, T, 2))
    for _ in range(2):
        objective.value_and_grad(batch, torch.ones(T, dtype=torch.bool))
    return 4 * R * N * activations_per_sequence(model, S, T, alone=R == 1)

def measured(case):
    R, N, S, T, *sets = case
    step(R, 2, 8, 8, "model.model_dim=8")
    before = peak()
    estimate = step(R, N, S, T, *sets)
    return peak() - before, estimate

each(measured)
"""
)


KEPT = {
    "narrow": [1, 64, 64, 64, "model.model_dim=32"],
    "long": [1, 16, 256, 256, "model.model_dim=128"],
    "four runs": [4, 16, 64, 64, "model.model_dim=32"],
}
"""Runs, sequences of a batch, source and target length, and the model."""


def test_a_step_of_a_transformer_keeps_what_is_estimated(tmp_path: Path) -> None:
    check(STEP, KEPT, tmp_path, 0.7, 2)


GROUP = (
    PEAK
    + """
from seqattn.config import resolve
from seqattn.data import load_data
from seqattn.experiments import grouping, train_many
from seqattn.experiments.job import Job
from seqattn.experiments.memory_estimate import estimate_run_memory
from seqattn.runs import RunFolder

RUNS = 16
grouping.memory_budget = lambda: 2**40  # all in one group

def trained(name, runs, *sets):
    wanted = [
        (resolve(None, [*sets, f"name={name}", f"seed={seed}", "training.epochs=1"]).config,
         RunFolder(Path(name) / f"seed-{seed}"))
        for seed in range(runs)
    ]
    train_many(wanted, threads=1)
    return wanted[0]

def measured(sets):
    trained("tiny", 2, "data.n_train=4", "data.n_validation=2", "data.n_test=2")
    before = peak()
    config, folder = trained("large", RUNS, *sets)
    estimate = estimate_run_memory(Job(config, folder, load_data(config.data)))
    return (peak() - before) // RUNS, estimate

each(measured)
"""
)
LITTLE = ["data.n_train=64", "data.n_test=4", "training.batch_size=16", "data.n_validation=512"]


SIDE_BY_SIDE = {
    "validation": [*LITTLE, "model.hidden_dim=64"],
    "long validation": [*LITTLE, "data.kind=copy", "data.length=32", "model.hidden_dim=32"],
    "step": [*LITTLE, "training.batch_size=64", "data.kind=copy", "data.length=16"],
}


def test_a_run_side_by_side_takes_what_is_estimated(tmp_path: Path) -> None:
    """Scoring validation sequences keeps less than a training step does of as many."""
    check(GROUP, SIDE_BY_SIDE, tmp_path, 0.9, 2.5)


PREDICT = (
    PEAK
    + """
import numpy as np
from seqattn.cli import inputs
from seqattn.config import resolve
from seqattn.analysis.evaluation.load_run import open_run
from seqattn.experiments import train_one

sets = ["name=r", "data.kind=copy", "data.length=24", "data.n_train=8", "data.n_validation=4",
        "data.n_test=4", "training.epochs=1", "model.attention.heads=4"]
train_one(resolve(None, sets).config, Path("outputs"), plots=False)
numbers = np.random.default_rng(0)
for name, count in (("few", 20), ("many", 20_000)):
    lengths = numbers.integers(20, 25, count).tolist()
    with open(f"{name}.csv", "w") as file:
        file.write("sequence,step,x,y\\n")
        for k, length in enumerate(lengths):
            file.writelines(f"{k},{s},{s % 7},{k % 5}\\n" for s in range(length))
_, trained = open_run(Path("outputs/r"))

def predict(name, attention):
    path = None if attention is None else Path(attention)
    inputs.predict_file(inputs.input_reader(trained), Path(f"{name}.csv"), Path("o.csv"), "csv", 24, None, path)

predict("few", "w.npz")
predict("many", None)
before = peak()
predict("many", "w.npz")
print(json.dumps([peak() - before, 4 * 20_000 * 4 * 24 * 24]))
"""
)


def test_weights_of_20_000_sequences_are_not_held_in_memory(tmp_path: Path) -> None:
    """They take 176 MiB, three times that where they are kept and joined; 64 wait in memory."""
    ((grown, weights),) = figures_of(PREDICT, [], tmp_path)
    assert grown < 1.3 * weights, (grown, weights)


def check(
    child: str, cases: Mapping[str, Sequence[object]], folder: Path, least: float, most: float
) -> None:
    """A process measures each case: the estimate, in parts of the growth, lies between two bounds."""
    found = {str(name): (estimate / grown, estimate, grown)
             for name, grown, estimate in figures_of(child, cases, folder)}  # fmt: skip
    assert found.keys() == cases.keys()
    wrong = {name: figures for name, figures in found.items() if not least < figures[0] < most}
    assert not wrong


def figures_of(child: str, given: object, folder: Path) -> list[Any]:
    """What a process of its own measured, an item for each line that it printed."""
    done = subprocess.run(
        [sys.executable, "-c", child, json.dumps(given)], cwd=folder, capture_output=True,
        text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
