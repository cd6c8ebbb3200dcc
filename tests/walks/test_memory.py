"""The estimate of a training's memory against the measured growth of a process, where sequences,
attention or parameters are most of it. What a step keeps is estimated on the safe side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import json, resource, sys
from pathlib import Path
from seqattn.config import resolve
from seqattn.data import shape_of
from seqattn.experiment import run
from seqattn.training.memory import bytes_needed

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

tiny = ["data.n_train=4", "data.n_validation=2", "data.n_test=2", "training.epochs=1", "name=tiny"]
run(resolve(None, tiny).config, Path("outputs"), plots=False)
before = peak()
config = resolve(None, [*json.loads(sys.argv[1]), "name=large", "training.epochs=1"]).config
run(config, Path("outputs"), plots=False)
estimate = sum(bytes_needed(config, *shape_of(config.data)).values())
print(json.dumps([peak() - before, estimate]))
"""
FEW = ["data.n_train=64", "data.n_validation=4", "data.n_test=4", "training.batch_size=64"]


@pytest.mark.parametrize(
    "sets",
    [
        ["data.kind=copy", "data.length=100", "data.n_train=16", "data.n_validation=4",
         "data.n_test=4000"],
        ["data.n_train=100000", "training.batch_size=10000", "data.n_test=50000",
         "model.hidden_dim=4"],
        [*FEW, "data.kind=copy", "data.length=8", "model.hidden_dim=800"],
    ],
    ids=["attention", "sequences", "parameters"],
)  # fmt: skip
def test_the_estimate_is_near_the_measured_growth(sets: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(sets)], cwd=tmp_path, capture_output=True,
        text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    grown, estimate = json.loads(done.stdout.splitlines()[-1])
    assert 0.7 < estimate / grown < 2, (estimate, grown)
