"""The notebooks in examples/notebooks run from their first cell to the last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import jupytext
import nbclient
import nbformat
import pytest

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.py"))
WORDS = {
    "attention_in_ten_minutes": ("with attention: test loss", "equal weights: mean squared error"),
    "compare_two_mechanisms": ("scaled_dot is better than uniform", r"\begin{tabular}"),
    "own_data": ("forecast", "best baseline"),
    "translate_words": ("own weights: exact match 99%", "equal weights: exact match 0%"),
}
"""Texts that each notebook shows."""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """The outputs of each notebook. One kernel runs all, and forgets all names between two of them;
    a kernel for each takes a third longer."""
    home = tmp_path_factory.mktemp("notebooks")
    cells, names = list[Any](), list[str]()
    for path in NOTEBOOKS:
        reset = nbformat.v4.new_code_cell("%reset -f")
        own = [reset, *jupytext.read(path).cells]
        cells += own
        names += [path.stem] * len(own)
    joined = nbformat.v4.new_notebook(cells=cells)
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        patch.setenv("PYTHONPATH", path)
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        nbclient.NotebookClient(
            joined, timeout=120, kernel_name="python3", allow_errors=True,
            resources={"metadata": {"path": str(home)}},
        ).execute()  # fmt: skip
    found: dict[str, list[Any]] = {}
    for name, cell in zip(names, joined.cells, strict=True):
        found.setdefault(name, []).extend(cell.get("outputs", []))
    return found


def test_the_notebooks_are_those_of_the_documents() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(WORDS)
    page = (ROOT / "docs/notebooks.md").read_text()
    assert all(f"`{path.stem}.py`" in page for path in NOTEBOOKS)


@pytest.mark.parametrize("name", WORDS)
def test_a_notebook_runs(name: str, executed: dict[str, list[Any]]) -> None:
    assert list(problems(executed[name])) == []
    text = str(executed[name])
    for words in WORDS[name]:
        assert words.replace("\\", "\\\\") in text, words
    kinds = {kind for output in executed[name] for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds
    assert "data:image/png;base64," in text


def problems(outputs: list[Any]) -> Iterator[str]:
    """Errors and warnings among the outputs of a notebook."""
    for output in outputs:
        if output.output_type == "error":
            yield f"{output.ename}: {output.evalue}"
        elif output.output_type == "stream" and "Warning" in output.text:
            yield output.text
