"""Plugins change the config schema of the whole process. Each test starts and ends without them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seqattn.analysis import doctor
from seqattn.analysis.evaluation import plugin_metrics
from seqattn.config import plugins
from seqattn.config.data import TASK
from seqattn.config.model import CELL, LOCATION, MODEL, NORMALIZER, SCORE
from seqattn.data import plugin_tasks
from seqattn.experiments import grouping
from seqattn.models import cells, registration
from seqattn.models.attention import location_based, normalizers, scores
from tests.conftest import train_small
from tests.plugins.sources import BILINEAR_TANH

KINDS = (SCORE, NORMALIZER, LOCATION, CELL, TASK, MODEL)
TABLES: tuple[Any, ...] = (
    plugins.REGISTERED, plugins.SOURCES, plugins.OWNERS, plugins._contents, plugins._warned,
    scores.SCORES, normalizers.PLUGIN_NORMALIZERS, location_based.LOCATIONS, cells.PLUGIN_CELLS,
    registration.PLUGIN_MODELS, plugin_tasks.PLUGIN_TASKS, plugin_metrics.PLUGIN_METRICS,
    doctor.PLUGIN_CHECKS, grouping._known, *(kind.sections for kind in KINDS),
)  # fmt: skip
BASE = [table.copy() for table in TABLES]


def forget_plugins() -> None:
    """Bring the process back to the state in which no plugin was loaded."""
    if not plugins.SOURCES and not plugins._warned:
        return
    for table, base in zip(TABLES, BASE, strict=True):
        table.clear()
        (table.extend if isinstance(table, list) else table.update)(base)
    for name in [name for name in sys.modules if name.startswith("seqattn_plugin_")]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _no_plugins() -> Iterator[None]:
    forget_plugins()
    yield
    forget_plugins()


@pytest.fixture(scope="session")
def plugin_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugins") / "my_attention.py"
    path.write_text(BILINEAR_TANH)
    return path


@pytest.fixture(scope="session")
def bilinear_run(plugin_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the plugin's score, whose plugin is not loaded."""
    run = train_small(
        tmp_path_factory.mktemp("runs"), "bilinear", f"plugins=[{plugin_file}]",
        "model.attention={score: bilinear_tanh, width: 4}", "data.variable_length=true",
        "training.record_attention=1", plots=True,
    )  # fmt: skip
    forget_plugins()
    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a plugin into the folder of the test."""

    def write(name: str, content: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    return write
