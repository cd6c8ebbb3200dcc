"""The house: who may import whom, and where the heavy libraries live."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Low floors first; a file imports from lower floors only. A folder is one room.
FLOORS = [
    ["errors", "wording"],
    ["rng"],
    ["reference"],
    ["attention_metrics"],
    ["config"],
    ["storage"],
    ["user_files"],
    ["runs"],
    ["data"],
    ["figures"],
    ["pictures"],
    ["layers"],
    ["cells"],
    ["attention"],
    ["models"],
    ["training"],
    ["evaluation"],
    ["explanation"],
    ["experiment"],
    ["cluster"],
    ["comparison", "verify_resume", "doctor", "tuning", "export"],
    ["report"],
    ["api"],
    ["cli"],
    ["__main__"],
]
ADDRESSES = {
    "torch": {
        "layers",
        "cells",
        "attention",
        "models",
        "training",
        "evaluation",
        "explanation",
        "experiment",
        "verify_resume",
        "export",
    },
    "safetensors": {"training"},
    "matplotlib": {"figures", "pictures", "api"},
    "yaml": {"config"},
    "pydantic": {"config", "runs"},
    "pydantic_core": {"config", "runs"},
    "scipy": {"comparison"},
    "pyarrow": {"data"},
    "duckdb": {"data"},
    "filelock": {"storage"},
    "jinja2": {"report"},
    "optuna": {"tuning"},
    "sqlalchemy": {"tuning"},
    "plotly": {"report"},
    "ray": {"cluster"},
    "onnx": {"export"},
    "onnxruntime": {"export"},
    "typer": {"cli"},
    "rich": {"cli"},
    "tqdm": {"cli"},
}
FLOOR_OF = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted((ROOT / "seqattn").rglob("*.py"))


def room(path: Path) -> str:
    relative = path.relative_to(ROOT / "seqattn")
    return relative.parts[0].removesuffix(".py")


@functools.cache
def imports(path: Path) -> list[str]:
    """Dotted names of everything a file imports, inside functions too."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            assert node.module is not None
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def test_every_file_has_a_floor() -> None:
    assert len(FILES) >= 25
    rooms = {room(path) for path in FILES} - {"__init__"}
    assert rooms == set(FLOOR_OF)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_from_lower_floors_only(path: Path) -> None:
    here = room(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "seqattn" or here == "__init__":
            continue
        there = parts[1] if parts[1] in FLOOR_OF else "__init__"
        if there in ("__init__", here):
            continue
        assert FLOOR_OF[there] < FLOOR_OF[here], f"{here} imports {there} from above"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_stay_at_their_address(path: Path) -> None:
    for name in imports(path):
        library = name.split(".")[0]
        if library in ADDRESSES:
            assert room(path) in ADDRESSES[library], f"{library} does not live in {room(path)}"


def test_no_room_refuses_nothing() -> None:
    names = {part for path in FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


@pytest.mark.parametrize(
    ("statement", "unloaded"),
    [
        ("import seqattn.cli", ["torch", "matplotlib", "numpy", "scipy", "pydantic", "yaml", "rich",
                                "duckdb", "pyarrow"]),
        ("import seqattn.config", ["torch", "matplotlib", "numpy"]),
        ("import seqattn.data, seqattn.runs", ["torch", "matplotlib", "duckdb", "pyarrow"]),
        ("import seqattn.pictures", ["torch"]),
        ("import sys; sys.argv = ['seqattn', '--help']\ntry:\n    from seqattn.cli import main;"
         " main()\nexcept SystemExit: pass", ["torch", "matplotlib"]),
        # torch itself would import sympy to be given a gradient; it takes a quarter of a second
        ("import tempfile; from pathlib import Path; from seqattn import experiment\n"
         "from seqattn.config import resolve\n"
         "config = resolve(None, ['training.epochs=1', 'data.n_train=4']).config\n"
         "with tempfile.TemporaryDirectory() as folder:\n"
         "    experiment.train_many(experiment.seeds_of(config, Path(folder), 2), threads=1)",
         ["matplotlib", "scipy", "sympy"]),
    ],
)  # fmt: skip
def test_an_import_loads_only_what_it_needs(statement: str, unloaded: list[str]) -> None:
    code = f"{statement}\nimport sys\nprint('LOADED', *sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert "seqattn" in loaded
    assert not loaded & set(unloaded)
