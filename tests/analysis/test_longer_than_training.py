"""Sources and forecasts that are longer than all training sequences: one line says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import seqattn as api
from seqattn.experiments.api import DataNote
from tests.conftest import Ended, train_small

Command = Callable[..., Ended]
SIDES = {
    "sources": "2 of 3 sources have more than 3 steps, up to 11",
    "forecasts": "3 of 3 forecasts have more than 5 steps, up to 17",
}
BEGIN = "Longer than all training sequences: "


def line(*sides: str) -> str:
    return f"{BEGIN}{', and '.join(SIDES[side] for side in sides)}."


@pytest.fixture(scope="module", params=["recurrent", "transformer"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources of 2 and 3 steps, targets of 5."""
    folder = tmp_path_factory.mktemp("longer")
    (folder / "own.csv").write_text(table([8, 7, 8, 7, 8, 8, 8, 8, 7, 8]))
    model = ["model={kind: transformer, model_dim: 8, heads: 2}",
             "training.teacher_forcing={schedule: constant, probability: 1}"]  # fmt: skip
    return train_small(
        folder, "run", "data=null", "data.kind=file", f"data.path={folder / 'own.csv'}",
        "data.target_length=5", "training.epochs=1",
        *model * (request.param == "transformer"),
    )  # fmt: skip


def table(lengths: list[int]) -> str:
    rows = [f"s{k},{t + 1},{np.sin(t + k)}" for k, n in enumerate(lengths) for t in range(n)]
    return "\n".join(["sequence,step,x", *rows, ""])


def noted(ended: Ended) -> list[str]:
    assert ended.code == 0, ended.err
    return [one for one in ended.err.splitlines() if one.startswith(BEGIN)]


def test_commands_print_one_line(
    run: Path, seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqattn.data.tables.long.CHUNK_ROWS", 10)  # several chunks
    (tmp_path / "short.csv").write_text(table([3, 2, 1]))
    (tmp_path / "long.csv").write_text(table([11, 3, 9]))
    (tmp_path / "cut.csv").write_text(table([16, 8, 14]))
    more = ("--steps", 17)
    for words in (("predict", run), ("predict", run, "--example", 0), ("evaluate", run),
                  ("predict", run, "--input", "short.csv")):  # fmt: skip
        assert noted(seqattn(*words)) == []
    assert noted(seqattn("predict", run, "--input", "long.csv")) == [line("sources")]
    assert noted(seqattn("predict", run, "--input", "short.csv", *more)) == [line("forecasts")]
    whole = [line("sources", "forecasts")]
    assert noted(seqattn("predict", run, "--input", "long.csv", *more)) == whole
    assert noted(seqattn("evaluate", run, "--input", "cut.csv")) == [line("sources")]
    picture = ("plot-attention", run, "--input", "long.csv", "--output", "a.png", "--examples", 3)
    assert noted(seqattn(*picture)) == [line("sources")]
    (test,) = noted(seqattn("predict", run, *more))
    assert test.endswith("forecasts have more than 5 steps, up to 17.") and "sources" not in test


def test_python_warns_once(run: Path) -> None:
    opened = api.Run.open(run)
    long = np.full((3, 11, 1), np.nan)
    for k, length in enumerate((11, 3, 9)):
        long[k, :length] = k
    frame = pd.DataFrame({"sequence": np.repeat(["a", "b", "c"], (11, 3, 9)),
                          "step": [*range(11), *range(3), *range(9)], "x": 1.0})  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened.predict(long[:, :3])
        opened.evaluate()
    for ask in (lambda: opened.predict(long, 17), lambda: opened.predict(frame, 17),
                lambda: opened.attention(long, 17), lambda: opened.predict_frame(frame, 17)):  # fmt: skip
        with pytest.warns(DataNote) as caught:
            ask()
        assert [str(one.message) for one in caught] == [line("sources", "forecasts")]


def test_an_export_says_so(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqattn import export
    from seqattn.export import onnx

    def stop(*_: object) -> None:
        raise RuntimeError("traced")

    monkeypatch.setattr(onnx, "trace_graphs", stop)
    for steps, expected in ((5, 0), (17, 1)):
        lines = list[str]()
        with pytest.raises(RuntimeError, match="traced"):
            export.export(run, tmp_path / "out", steps=steps, log=lines.append)
        assert len([one for one in lines if one.startswith(BEGIN)]) == expected
