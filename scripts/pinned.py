"""Digests of short trainings, which show that a change of the code does not change any result.

    python scripts/pinned.py --write outputs/pinned.json    # with the old code
    python scripts/pinned.py --check outputs/pinned.json    # with the new code

Each training runs on its own, with one thread per process. The digests cover the tensors in
best.safetensors, metrics.csv without its seconds, and predictions.npz. Digests can be compared only
on the same machine and with the same version of torch, because kernels differ between processors.
For comparisons between machines, there is another command:

    python scripts/pinned.py --figures tests/fixtures/core_figures.json --package DIR

This command trains with the code in the folder DIR and writes the losses of each epoch.
tests/walks/test_core_figures.py compares the current code with the file in tests/fixtures, which
was written by the last commit before a redesign of the training core.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parents[1]
SHORT = ["training.epochs=2", "training.checkpoint_seconds=86400"]
SMALL = [*SHORT, "data.n_train=128", "data.n_validation=64", "data.n_test=64"]
OWN = [*SHORT, f"data.path={ROOT / 'configs/data/mauna_loa_co2.csv'}"]
TWO = ["--standalone", "--nproc-per-node", "2", "-m", "seqattn"]


def trainings() -> dict[str, list[str]]:
    """Return the arguments after `python -m` of each training, by name."""

    def train(config: str, sets: list[str], *more: str) -> list[str]:
        values = [word for one in sets for word in ("--set", one)]
        always = ["--name", "run", "--threads", "1", "--plots", "none"]
        return ["seqattn", "train", str(ROOT / "configs" / config), *always, *values, *more]

    found = {
        "squares": train("squares.yaml", SMALL),
        "notebook": train("notebook.yaml", SHORT),
        "variable length": train("variable_length.yaml", SMALL),
        "own data": train("own_data.yaml", OWN),
        "own data, mapped": train("own_data.yaml", [*OWN, "data.cache=always"]),
        "seeds, stopped early": train(
            "squares.yaml",
            [*SMALL, "training.epochs=12", "training.early_stopping={patience: 2}",
             "training.learning_rate=0.03"],
            "--seeds", "5",
        ),
        "comparison": ["seqattn", "compare", str(ROOT / "configs/compare/scores.yaml"), "--name",
                       "run", "--seeds", "2", "--plots", "none",
                       *(word for one in SMALL for word in ("--set", one))],
        "two processes": ["torch.distributed.run", *TWO, *train("squares.yaml", SMALL)[1:]],
    }  # fmt: skip
    for path in sorted((ROOT / "configs/mechanisms").glob("*.yaml")):
        found[f"mechanism {path.stem}"] = train(f"mechanisms/{path.name}", SMALL)
    return found


def digests_of(folder: Path) -> dict[str, str]:
    """Return SHA-256 digests of the weights, predictions and metrics of all runs in a folder."""
    found = {}
    for best in sorted(folder.rglob("best.safetensors")):
        run = best.parents[1]
        held = {
            "weights": load_file(best),
            "predictions": dict(np.load(run / "predictions.npz")),
        }
        for what, arrays in held.items():
            content = hashlib.sha256()
            for name, array in sorted(arrays.items()):
                content.update(f"{name} {array.dtype} {array.shape} ".encode())
                content.update(np.ascontiguousarray(array).tobytes())
            found[f"{run.relative_to(folder)} {what}"] = content.hexdigest()
        rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in metrics_of(run)]
        found[f"{run.relative_to(folder)} metrics"] = hashlib.sha256(
            json.dumps(rows).encode()
        ).hexdigest()
    return found


def metrics_of(run: Path) -> list[dict[str, str]]:
    """Return the rows of metrics.csv."""
    with (run / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def losses_of(folder: Path) -> dict[str, list[list[float]]]:
    """Return the training loss and both validation losses of each epoch of all runs in a folder."""
    names = ("train_loss", "validation_loss", "validation_loss_teacher_forced")
    return {
        str(metrics.parent.relative_to(folder)): [
            [float(f"{float(row[name]):.7g}") for name in names]
            for row in metrics_of(metrics.parent)
        ]
        for metrics in sorted(folder.rglob("metrics.csv"))
    }


def run_training(
    words: list[str], package: Path = ROOT, read: Callable[[Path], Any] = digests_of
) -> dict[str, Any]:
    """Run a training, and return what `read` returns for the folder of its outputs.

    Args:
        words: the arguments after `python -m`.
        package: the folder that contains the code.
        read: the function that reads the outputs.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(package),
                       "SEQATTN_CACHE": f"{folder}/cache"}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        found: dict[str, Any] = read(Path(folder) / "outputs")
        if done.returncode or not found:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", type=Path, help="write digests to this file")
    parser.add_argument("--check", type=Path, help="compare with the digests in this file")
    parser.add_argument("--only", help="run only the trainings with this text in their names")
    parser.add_argument("--figures", type=Path, help="write the losses of each epoch to this file")
    parser.add_argument("--package", type=Path, default=ROOT, help="folder of the code that trains")
    chosen = parser.parse_args()
    if [chosen.write, chosen.check, chosen.figures].count(None) != 2:
        parser.error("give one of --write, --check and --figures")
    if chosen.figures:
        losses = {
            name: run_training(words, chosen.package, losses_of)
            for name, words in trainings().items()
            if name != "two processes"
        }
        chosen.figures.write_text(json.dumps(losses, indent=1) + "\n")
        return
    known = json.loads(chosen.check.read_text()) if chosen.check else {}
    found, others = {}, 0
    for name, words in trainings().items():
        if chosen.only and chosen.only not in name:
            continue
        found[name] = run_training(words, chosen.package)
        before = known.get(name, found[name])
        differ = sorted(key for key in before | found[name]
                        if before.get(key) != found[name].get(key))  # fmt: skip
        others += bool(differ) or bool(chosen.check and name not in known)
        print(f"{name}: {len(found[name])} digests", *[f"other: {key}" for key in differ])
    if chosen.write:
        chosen.write.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(bool(others))


if __name__ == "__main__":
    main()
