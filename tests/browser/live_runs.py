"""Runs with a live page, each trained and written once for all test processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from seqattn import experiments
from seqattn.config import resolve
from seqattn.report import report

SMALL = ["training.epochs=3", "data.n_train=64", "data.n_validation=16", "data.n_test=24",
         "training.record_attention=1"]  # fmt: skip
OWN = "sequence,step,<b>speed</b>\n" + "".join(
    f"{k},{t},{10 + k % 3 + t * (1 + k % 2)}\n" for k in range(30) for t in range(8)
)
NAMES = ["load, MW", 'the "second"', "<b>third</b>"]
FILE = ["data.kind=file", "data.source_length=5", "training.epochs=2", "training.batch_size=8"]
TABLES = {
    "own": ["data.scaling=standard"],
    "relative": ["data.relative=true", "data.delimiter=';'", "data.decimal=','"],
    "dates": ["data.normalize=instance", "data.time=when"],
}
"""Runs of a table of three features with awkward names."""
LIVE_RUNS = {
    "squares": SMALL,
    "copy": [*SMALL, "data.kind=copy", "data.length=16", "model.bidirectional=true"],
    "variable": [*SMALL, "data.variable_length=true"],
    "heads": [*SMALL, "model.hidden_dim=8", "model.attention.heads=2",
              "model.attention.project_values=true"],
    "lstm": [*SMALL, "model.cell=lstm", "model.layers=2", "model.context=input"],
    "fast_weights": [*SMALL, "model.kind=fast_weights"],
    "transformer": [*SMALL, "model.kind=transformer", "model.model_dim=8", "model.heads=2",
                    "model.layers=2", "training.teacher_forcing.probability=1"],
    "sparsemax": [*SMALL, "model.attention.normalizer=sparsemax"],
    "hard": [*SMALL, "model.attention.normalizer=hard",
             "model.attention.estimator=straight_through"],
    "plain": [*SMALL, "model.attention=null"],
    "one_feature": [*FILE, "data.scaling=standard", "data.relative=true"],
    **{name: [*FILE, *sets] for name, sets in TABLES.items()},
}  # fmt: skip


def page_content(page: Path) -> dict[str, Any]:
    """Return the content that is embedded in a page."""
    text = page.read_text().partition('id="data">')[2].partition("</script>")[0]
    content: dict[str, Any] = json.loads(text)
    return content


def own_table(name: str) -> str:
    """Return a long table of three features; "relative" has decimal commas."""
    decimal, delimiter = (",", ";") if name == "relative" else (".", ",")
    quoted = ['"' + feature.replace('"', '""') + '"' for feature in NAMES]
    lines = [delimiter.join(["unit", "when", *quoted])]
    for k in range(24):
        for t in range(8):
            when = f"2024-02-{t + 1:02}" if name == "dates" else str(3 * t)
            values = [f"{1000 + 10 * k + t * t}", f"{np.sin(k + t):.4f}", f"{k % 5 - t / 8}"]
            lines.append(
                delimiter.join([f"u{k}", when, *(v.replace(".", decimal) for v in values)])
            )
    return "\n".join(lines) + "\n"


class LiveRuns(dict[str, Path]):
    """Name -> folder of a run with its live page, which is made when it is first used.

    Args:
        home: a folder that all test processes share.
        configs: name -> overrides of the default config.
    """

    def __init__(self, home: Path, configs: Mapping[str, list[str]]) -> None:
        super().__init__()
        self.home, self.configs = home, configs

    def __missing__(self, name: str) -> Path:
        path, done = self.home / name, self.home / f"{name}.done"
        with FileLock(self.home / f"{name}.lock"):
            if not done.exists():
                torch.set_num_threads(1)
                sets = self.configs[name]
                if "data.kind=file" in sets:
                    sets = [*sets, f"data.path={self.write_table(name)}"]
                config = resolve(None, [*sets, f"name={name}"]).config
                experiments.train_one(config, self.home, plots=False)
                content = page_content(report(path))
                assert content["live"], content["notices"]
                done.touch()
        self[name] = path
        return path

    def write_table(self, name: str) -> Path:
        """Write the CSV file of a run with `data.kind: file`, and return its path."""
        file = self.home / f"{name}.csv"
        file.write_text(OWN if name == "one_feature" else own_table(name))
        return file
