"""What several test files stand on."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.sampling import leave_out

if TYPE_CHECKING:
    from tests.faults.nursery import Nursery

ROOT = Path(__file__).resolve().parents[1]

# Every size is another prime, so that a transposed axis cannot pass. Two features where CSV is read.
N, S, T, F, H, K = 7, 11, 13, 3, 5, 17


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes the user's cache folder."""
    os.environ["SEQATTN_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True, scope="session")
def commands_train_in_their_own_process() -> None:
    """Many tests run at the same time, so each command trains in one process unless it is given
    --jobs, as in test_worker_processes.py."""
    os.environ["SEQATTN_JOBS"] = "1"


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    """What this process writes need not outlast a power cut. Commands in processes of their own sync
    as ever. That there is a sync is held by tests that make it fail: test_storage.py,
    test_runs.py, and outputs.failing of `tests/faults`."""
    real = os.fsync, os.sync
    os.fsync, os.sync = lambda file: None, lambda: None
    yield
    os.fsync, os.sync = real


@pytest.fixture(scope="session")
def unsynced_databases() -> None:
    """The same for SQLite, of which a search commits dozens of times."""
    from sqlalchemy import Engine, event

    event.listen(Engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous=OFF"))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def libraries_are_not_collected() -> Iterator[None]:
    """Modules and tests stay to the end: a collection that goes through all of them takes half a
    second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()  # or DuckDB's binding finds its own objects left over, and says so


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Runs commands in copies of a process that has imported everything."""
    from tests.faults.nursery import Nursery

    with Nursery() as found:
        yield found


@pytest.fixture
def in_float64() -> Iterator[None]:
    """Everything made meanwhile is: what float32 rounds off differs from processor to processor."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def golden() -> dict[str, dict[str, Any]]:
    """Cases of the notebook by id."""
    cases = json.loads((ROOT / "tests/fixtures/squares-notebook.json").read_text())
    return {case["id"]: case for case in cases}


@pytest.fixture(autouse=True)
def _python_s_own_sigpipe() -> None:
    """Commands that only print let SIGPIPE end the process: this one, where they run in it."""
    if hasattr(signal, "SIGPIPE"):  # Windows has none
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _draw_nothing(folder: object) -> Generator[Path]:
    yield from ()


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings draw none at their end, for tests of something else: three take a second."""
    monkeypatch.setattr("seqattn.plots.run_pictures.draw_run", _draw_nothing)


@pytest.fixture
def untraced_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages contain empty graphs instead of traced models, for tests of other parts of a page. To
    trace a model takes five seconds; tests/export and tests/browser do so."""
    import onnx

    from seqattn.export import live
    from seqattn.training import LoadedModel

    def graph_without_nodes(trained: LoadedModel) -> live.LiveGraph:
        shapes = {name: tuple(value.shape) for name, value in trained.model.named_parameters()}
        return live.LiveGraph(onnx.ModelProto(), shapes)

    monkeypatch.setattr(live, "trace_live", graph_without_nodes)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def seqattn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., Ended]]:
    """Run the command line in this process, in an empty folder."""
    from seqattn.cli import main

    monkeypatch.chdir(tmp_path)
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGPIPE", None))
        if number is not None
    }

    def run(*words: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["seqattn", *map(str, words)])
        capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as left:
            code = left.code
        output = capsys.readouterr()
        return Ended(int(code or 0), output.out, output.err)

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


def fresh_process(
    words: Sequence[str | Path], folder: Path, **options: Any
) -> subprocess.CompletedProcess[str]:
    """`python -m seqattn` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "seqattn", *map(str, words)],
        cwd=folder, capture_output=True, text=True, timeout=120,
        env={**os.environ, "COLUMNS": "100"}, check=False, **options,
    )  # fmt: skip


SMALL = [
    "data.n_train=48", "data.n_validation=24", "data.n_test=12", "training.epochs=3",
    "training.checkpoint_seconds=0", "model.hidden_dim=5",
]  # fmt: skip


def train_small(output_dir: Path, name: str, *overrides: str, plots: bool = False) -> Path:
    """A run folder made in a tenth of a second, or in a second with its pictures."""
    from seqattn import experiments
    from seqattn.config import resolve

    config = resolve(None, [*SMALL, f"name={name}", *overrides]).config
    folder, _ = experiments.train_one(config, output_dir, plots=plots)
    return folder.path


@pytest.fixture(scope="session")
def attention_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_small(tmp_path_factory.mktemp("runs"), "attention", plots=True)


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("runs")
    return train_small(home, "plain", "model.attention=null", plots=True)


@pytest.fixture(scope="session")
def ragged_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_small(tmp_path_factory.mktemp("runs"), "ragged", "data.variable_length=true")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content: what 'nothing changed' is held against."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def in_spaces_of(part: Any, other: Any) -> Any:
    """A part in the spaces of other sequences, of a data set's training part or of a spec."""
    if hasattr(other, "source_space"):
        return part.with_spaces(other.source_space, other.target_space)
    return part.with_spaces(other.source, other.target)


def fitted_parts(section: dict[str, Any], train: Any, *others: Any) -> Any:
    """A training part, and other parts, in the spaces that a data section fits to it."""
    from seqattn.config import OwnFile
    from seqattn.data.fitting import fit_spaces

    spaces, _ = fit_spaces(OwnFile.model_validate({"path": "-", **section}), train)
    parts = [part.with_spaces(*spaces) for part in (train, *others)]
    return parts if others else parts[0]


def whole(forecast: Any) -> Any:
    """All of a forecast that is made where it is asked for."""
    return None if forecast is None else forecast[:]
