"""The house: who may import whom, and where the heavy libraries live."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Low floors first; a file imports from lower floors only. A folder, or a file of this list, is one
# room; a room inside another is named with a dot, and the outer one is then the rest of it.
FLOORS = [
    ["errors"],
    ["rng"],
    ["config"],
    ["runs.storage"],
    ["runs"],
    ["data"],
    ["runs.checkpoint_file"],
    ["models.functions"],
    ["models.layers"],
    ["models.cells"],
    ["models.attention"],
    ["models"],
    ["training"],
    ["analysis.attention_flow", "analysis.attention_metrics"],
    ["analysis.alignment"],
    ["analysis.evaluation"],
    ["analysis.explanation", "analysis.doctor", "analysis.comparison", "analysis.attribution"],
    ["analysis.attributed_run"],
    ["analysis"],
    ["plots.style"],
    ["plots"],
    ["plots.run_pictures", "plots.comparison_pictures"],
    ["export"],
    ["report"],
    ["experiments"],
    ["experiments.ray_cluster", "experiments.verify_resume", "experiments.tuning"],
    ["experiments.compare"],
    ["experiments.contract"],
    ["experiments.api"],
    ["cli"],
    ["__main__"],
]
# Where a library that takes long to import, or of which little is used, may be imported.
ADDRESSES = {
    "torch": [
        "models", "training", "analysis.evaluation", "analysis.explanation",
        "analysis.attribution", "analysis.attributed_run", "export", "experiments",
    ],
    "safetensors": ["runs"],
    "matplotlib": ["plots", "experiments.api"],
    "pandas": ["experiments.api"],
    "polars": ["experiments.api"],
    "xarray": ["experiments.api"],
    "yaml": ["config"],
    "pydantic": ["config", "runs"],
    "pydantic_core": ["config", "runs"],
    "scipy": ["analysis.attention_flow", "analysis.comparison"],
    "pyarrow": ["data"],
    "duckdb": ["data"],
    "sentencepiece": ["data"],
    "sacrebleu": ["data"],
    "filelock": ["runs.storage"],
    "jinja2": ["report"],
    "optuna": ["experiments.tuning"],
    "sqlalchemy": ["experiments.tuning"],
    "ray": ["experiments.ray_cluster"],
    "mlflow": ["experiments"],
    "wandb": ["experiments"],
    "onnx": ["export"],
    "onnxruntime": ["export"],
    "typer": ["cli"],
    "rich": ["cli"],
    "tqdm": ["cli", "experiments.api"],  # the API shows its own bar, since the cli is above it
}  # fmt: skip
TOP = {
    "errors", "rng", "config", "data", "models", "training", "runs", "analysis", "plots",
    "experiments", "report", "export", "cli", "__init__", "__main__",
}  # fmt: skip
FLOOR_OF = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(
    path for path in (ROOT / "seqattn").rglob("*.py") if "node_modules" not in path.parts
)


def room_of(name: str) -> str:
    """The room of a module or of a name in it, given with dots from below `seqattn`."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in FLOOR_OF:
            return ".".join(parts[:length])
    return "__init__"


def room(path: Path) -> str:
    relative = path.relative_to(ROOT / "seqattn").with_suffix("")
    return room_of(".".join(relative.parts))


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
    assert {room(path) for path in FILES} - {"__init__"} == set(FLOOR_OF)


def test_the_top_level_has_at_most_fifteen_entries() -> None:
    entries = {path.relative_to(ROOT / "seqattn").parts[0].removesuffix(".py") for path in FILES}
    assert entries == TOP
    assert len(entries) <= 15


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_from_lower_floors_only(path: Path) -> None:
    here = room(path)
    for name in imports(path):
        if not name.startswith("seqattn.") or here == "__init__":
            continue
        there = room_of(name.removeprefix("seqattn."))
        if there in ("__init__", here):
            continue
        assert FLOOR_OF[there] < FLOOR_OF[here], f"{here} imports {there} from above"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_libraries_stay_at_their_address(path: Path) -> None:
    here = f"{room(path)}."
    for name in imports(path):
        library = name.split(".")[0]
        if library in ADDRESSES:
            allowed = any(here.startswith(f"{room}.") for room in ADDRESSES[library])
            assert allowed, f"{library} does not live in {room(path)}"


def test_no_file_is_named_after_nothing() -> None:
    names = {part for path in FILES for part in path.relative_to(ROOT).with_suffix("").parts}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_no_files_import_each_other() -> None:
    """Imports in functions count, and imports for annotations. The names that `seqattn/__init__.py`
    declares are imported when they are asked for, so this file is not a part of any cycle."""
    path_of = {name_of(path): path for path in FILES if path != ROOT / "seqattn/__init__.py"}
    below = {
        name: {module for found in imports(path) if (module := module_of(found, path_of))}
        for name, path in path_of.items()
    }
    assert cycles(below) == [], "these files import each other"


def test_a_cycle_is_noticed() -> None:
    below = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": {"c"}, "e": {"e", "a"}, "f": {"e"}}
    assert cycles(below) == [{"a", "b", "c", "d"}, {"e"}]


def name_of(path: Path) -> str:
    """The dotted name of a file below `seqattn`; a package is its `__init__.py`."""
    return ".".join(path.relative_to(ROOT / "seqattn").with_suffix("").parts).removesuffix(
        ".__init__"
    )


def module_of(name: str, files: dict[str, Path]) -> str | None:
    """The file that an import loads: the module itself or the one that has the name."""
    if not name.startswith("seqattn."):
        return None
    below = name.removeprefix("seqattn.")
    return next((part for part in (below, below.rpartition(".")[0]) if part in files), None)


def cycles(below: dict[str, set[str]]) -> list[set[str]]:
    """The largest sets of files each of which imports, through others, all of its set."""
    reached = {name: set[str]() for name in below}
    for name, seen in reached.items():
        left = list(below[name])
        while left:
            if (there := left.pop()) not in seen:
                seen.add(there)
                left += below[there]
    found = list[set[str]]()
    for name, seen in reached.items():
        if name in seen and not any(name in cycle for cycle in found):
            found.append({other for other in seen if name in reached[other]})
    return found


@pytest.mark.parametrize(
    ("statement", "unloaded"),
    [
        ("import seqattn.cli", ["torch", "matplotlib", "numpy", "scipy", "pydantic", "yaml", "rich",
                                "duckdb", "pyarrow"]),
        ("import seqattn.config", ["torch", "matplotlib", "numpy"]),
        ("import seqattn.data, seqattn.runs", ["torch", "matplotlib", "duckdb", "pyarrow"]),
        ("import seqattn.plots.run_pictures", ["torch"]),
        ("import sys; sys.argv = ['seqattn', '--help']\ntry:\n    from seqattn.cli import main;"
         " main()\nexcept SystemExit: pass", ["torch", "matplotlib"]),
        ("import os, sys; sys.argv = ['seqattn']; os.environ |= {'_SEQATTN_COMPLETE':"
         " 'complete_zsh', '_TYPER_COMPLETE_ARGS': 'seqattn train s --set model.'}\n"
         "try:\n    from seqattn.cli import main; main()\nexcept SystemExit: pass",
         ["torch", "matplotlib", "numpy", "duckdb"]),
        # torch itself would import sympy to be given a gradient; it takes a quarter of a second
        ("import tempfile; from pathlib import Path; from seqattn import experiments\n"
         "from seqattn.config import resolve\n"
         "config = resolve(None, ['training.epochs=1', 'data.n_train=4']).config\n"
         "with tempfile.TemporaryDirectory() as folder:\n"
         "    experiments.train_many(experiments.seeds_of(config, Path(folder), 2), threads=1)",
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


def test_what_a_package_lists_exists() -> None:
    missing = {}
    for path in sorted((ROOT / "seqattn").rglob("__init__.py")):
        module = importlib.import_module(".".join(path.relative_to(ROOT).parent.parts))
        missing[module.__name__] = [
            name for name in getattr(module, "__all__", []) if not hasattr(module, name)
        ]
    assert not [*filter(None, missing.values())], missing


def test_the_map_in_contributing_follows_the_layers() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("one row per part -->")[2]
    rows = [line.split("|") for line in text.partition("<!-- end of map -->")[0].split("\n")[3:-1]]
    parts = [re.findall(r"`(\w+)", cells[1]) for cells in rows]
    assert {name for names in parts for name in names} == TOP - {"__main__"}
    lowest = [min(FLOOR_OF.get(name, len(FLOORS)) for name in names) for names in parts]
    assert lowest == sorted(lowest)
    part_of = {name: k for k, names in enumerate(parts) for name in names}
    listed = [set(re.findall(r"\w+", cells[3])) for cells in rows]
    minor = {"numpy", "pydantic_core", "sqlalchemy", "onnxruntime"}
    expected = [set[str]() for _ in rows]
    for library, rooms in ADDRESSES.items():
        for name in rooms:
            expected[part_of[name.partition(".")[0]]].add(library)
    assert [names - minor for names in listed] == [names - minor for names in expected]
