"""Small comparisons: their configs, their tables, and runs in them that diverged."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import yaml

from seqattn.config.comparing import plan_comparison
from seqattn.experiments.compare import run_comparison
from seqattn.runs import RunFolder


def write_config(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def train_comparison(folder: Path, text: str) -> Path:
    """The folder of a finished comparison."""
    return run_comparison(plan_comparison(write_config(folder, text)), folder, threads=1).path


def read_table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def write_divergence(folder: RunFolder, epochs: int, words: str, **more: object) -> None:
    """The summary of a run whose loss is not finite."""
    config = yaml.safe_load(folder.config.read_text())
    summary = {"name": config["name"], "seed": config["seed"], "epochs": epochs,
               "test_loss": None, "diverged": words, **more}  # fmt: skip
    folder.write_summary(summary)
