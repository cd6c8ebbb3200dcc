"""Every example that `seqattn data formats` prints is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seqattn.cli.data import EXAMPLES
from seqattn.data.files import read_all
from seqattn.data.reading import Reading

VALUES = [[-1.02, -0.97], [-1.05, 1.01], [0.98, -1.10], [0.95, 0.92]]


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_is_read(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    form = title.split("(.")[1].rstrip(")").split(";")[0].split(",")[0]
    file, shape = Path(f"my.{form}"), {"npz": (9, 5), "npy": (9, 8), "jsonl": (2, None)}.get(form)
    if "import" in EXAMPLES[title]:
        Path("my.csv").write_text(next(iter(EXAMPLES.values())))
        exec(EXAMPLES[title], {})
    else:
        file.write_text(EXAMPLES[title])
    found = read_all(file, Reading())
    if shape is None:
        assert (found.ids, found.points.features) == (("a", "b"), ("x", "y"))
        np.testing.assert_allclose(found.points.values, VALUES, rtol=1e-6)
    else:
        n, length = shape
        assert len(found) == n
        assert length is None or set(found.points.lengths) == {length}


def test_json_records_may_be_lines(tmp_path: Path) -> None:
    (text,) = (text for title, text in EXAMPLES.items() if title.startswith("JSON records"))
    path = tmp_path / "my.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in json.loads(text)))
    np.testing.assert_allclose(read_all(path, Reading()).points.values, VALUES, rtol=1e-6)
