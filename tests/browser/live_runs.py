"""Runs and their live pages, each made once for all test processes."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from onnx import ModelProto

from seqattn import experiments
from seqattn.config import as_plain, resolve
from seqattn.export.live import LiveGraph
from seqattn.report import render_page
from seqattn.report.content import run_content, runs_content
from seqattn.runs import RunFolder
from seqattn.training import LoadedModel

Trace = Callable[[LoadedModel], LiveGraph]

SMALL = ["training.epochs=3", "data.n_train=64", "data.n_validation=16", "data.n_test=24",
         "training.record_attention=1"]  # fmt: skip
OWN = "sequence,step,<b>speed</b>\n" + "".join(
    f"{k},{t},{10 + k % 3 + t * (1 + k % 2)}\n" for k in range(30) for t in range(8)
)
FILLED = re.sub(",2,.*", ",2,", OWN)
"""The table OWN, in which each series lacks a value."""
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
NOT_LIVE = {
    "filled": [*FILE, "data.normalize=instance", "data.missing=interpolate"],
}
"""Runs that a page cannot evaluate."""


IN_FEW = {"squares", "plain", "transformer", "own", "dates"}
"""Of a page with several models, the models with SUITE=few. Each takes ten seconds to trace."""


def models_of_page(name: str, pages: Iterable[Sequence[str]], kept: Container[str]) -> list[str]:
    """Return the names of the models on the page of a model. With SUITE=few, a page has only the
    models in `kept`, and a model that is not kept has a page of its own."""
    names = [*next(names for names in pages if name in names)]
    if os.environ.get("SUITE") != "few":
        return names
    return [each for each in names if each in kept] if name in kept else [name]


def trace_once(folder: Path, trace: Trace) -> Trace:
    """Return a function like `trace_live` that traces models with the same graph only once. The
    pages put models into groups in the same way.

    Args:
        folder: a folder that all test processes share.
        trace: `trace_live`.
    """

    def trace_shared(trained: LoadedModel) -> LiveGraph:
        spec = {key: value for key, value in trained.spec.as_plain().items() if key != "digests"}
        text = json.dumps([as_plain(trained.config)["model"], spec], sort_keys=True, default=str)
        file = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.pickle"
        with FileLock(file.with_suffix(".lock")):
            if not file.exists():
                live = trace(trained)
                file.write_bytes(pickle.dumps((live.graph.SerializeToString(), live.shapes)))
        graph, shapes = pickle.loads(file.read_bytes())
        return LiveGraph(ModelProto.FromString(graph), shapes)

    return trace_shared


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
    """Name -> folder of a run, which is trained when it is first used.

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
                if {"data.kind=file", "data.kind=text"} & {*sets}:
                    sets = [*sets, f"data.path={self.write_table(name)}"]
                config = resolve(None, [*sets, f"name={name}"]).config
                experiments.train_one(config, self.home, plots=False)
                done.touch()
        self[name] = path
        return path

    def page(self, *names: str) -> Path:
        """Return the live page of a run, or of several runs with the same features."""
        page = self.home / f"{'-'.join(names)}.html"
        folders = [self[name] for name in names]
        with FileLock(page.with_suffix(".html.lock")):
            if not page.exists():
                if len(folders) == 1:
                    content = run_content(RunFolder(folders[0]), live=True)
                else:
                    content = runs_content([RunFolder(folder) for folder in folders])
                assert content["live"], content["notices"]
                page.write_text(render_page(content), encoding="utf-8")
        return page

    def write_table(self, name: str) -> Path:
        """Write the data file of a run, and return its path."""
        file = self.home / f"{name}.csv"
        tables = {"one_feature": OWN, "filled": FILLED}
        file.write_text(tables[name] if name in tables else own_table(name))
        return file
