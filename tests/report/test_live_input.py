"""A source, written in the form that a page has for its run, is what `predict` reads."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from seqattn import experiments
from seqattn.analysis.evaluation.inputs import InputReader, input_config
from seqattn.analysis.evaluation.load_run import open_run
from seqattn.cli import app
from seqattn.config import resolve
from seqattn.report.content.live_input import GENERATED_FORM, input_form
from seqattn.training import LoadedModel

QUICK = ["training.epochs=1", "training.batch_size=8"]


def long_table(
    names: Sequence[str], delimiter: str = ",", decimal: str = ".", dates: bool = False
) -> str:
    """Return a long table of 16 series with 8 rows each."""
    text = io.StringIO()
    table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    table.writerow(["unit", "when", *names])
    for k in range(16):
        for t in range(8):
            values = [f"{10.5 + k % 3 + t * (f + 1) / 4}" for f in range(len(names))]
            when = f"2024-01-{t + 1:02}" if dates else str(5 * t)
            table.writerow([f"u{k}", when, *(v.replace(".", decimal) for v in values)])
    return text.getvalue()


def trained_on(tmp_path: Path, text: str, *sets: str, name: str = "data.csv") -> LoadedModel:
    """Train a run for one epoch on a file."""
    torch.set_num_threads(1)
    file = tmp_path / name
    file.write_text(text)
    own = ["name=own", "data.kind=file", f"data.path={file}", *QUICK, *sets]
    folder, _ = experiments.train_one(resolve(None, own).config, tmp_path, plots=False)
    return open_run(folder.path)[1]


def written(
    form: dict[str, Any], features: Sequence[str], source: Sequence[Sequence[float]]
) -> str:
    """Write a source as live/csv.ts does, without columns of words."""
    text = io.StringIO()
    table = csv.writer(text, delimiter=form["delimiter"], lineterminator="\n")
    extra = [name for name in (form["series"], form["time"]) if name is not None]
    table.writerow([*extra, *features])
    for t, row in enumerate(source):
        cells = ["input"] if form["series"] is not None else []
        cells += [str((t + 1) * form["interval"])] if form["time"] is not None else []
        table.writerow([*cells, *(repr(value).replace(".", form["decimal"]) for value in row)])
    return text.getvalue()


def read_back(trained: LoadedModel, tmp_path: Path, source: list[list[float]]) -> Any:
    """Read a source in the form of the page, as `predict --input` does."""
    form = input_form(trained)
    file = tmp_path / "input.csv"
    file.write_text(written(form, trained.spec.source_features, source))
    reader = InputReader(trained, input_config(trained, form["settings"]), print)
    (found,) = reader.read_sources(file)
    return found[1].source[0, : found[1].source_lengths[0]]


SOURCE = [[10.125, 1 / 3], [1e-7, 2.0], [-3.5, 1e15], [4.0, 0.1], [12.75, 7.0]]


@pytest.mark.parametrize(
    ("table", "sets", "settings"),
    [
        ({}, [], []),
        ({"dates": True}, [], ["data.time=null"]),
        ({"delimiter": ";", "decimal": ","}, [], []),
        ({"delimiter": ";", "decimal": ","}, ["data.decimal=','", "data.delimiter=';'"], []),
        ({}, ["data.series=[unit]", "data.time=[when]", "data.header=true"], []),
        ({}, ["data.format=csv", "data.encoding=latin-1"], ["data.encoding=utf-8"]),
    ],
)
def test_a_long_table_is_read_back(
    table: dict[str, Any], sets: list[str], settings: list[str], tmp_path: Path
) -> None:
    trained = trained_on(tmp_path, long_table(["a, b", 'say "x"'], **table),
                         "data.source_length=5", *sets)  # fmt: skip
    form = input_form(trained)
    assert form["series"] == "unit"
    assert form["settings"] == settings
    assert form["time"] == (None if settings == ["data.time=null"] else "when")
    assert form["interval"] == (5 if form["time"] else 1)
    np.testing.assert_array_equal(read_back(trained, tmp_path, SOURCE), SOURCE)


def test_a_wide_table_is_read_back_as_a_long_one(tmp_path: Path) -> None:
    rows = [",".join(str(10 + k % 3 + t / 4) for t in range(8)) for k in range(16)]
    header = ",".join(f"x_{t + 1}" for t in range(8))
    trained = trained_on(tmp_path, "\n".join([header, *rows]) + "\n", "data.source_length=5")
    assert input_form(trained)["settings"][0] == "data.layout=long"
    source = [row[:1] for row in SOURCE]
    np.testing.assert_array_equal(read_back(trained, tmp_path, source), source)


def test_json_lines_are_read_back_as_a_table(tmp_path: Path) -> None:
    lines = [f'{{"source": [[{k}.5, 1], [2, {k}]], "target": [[3, 4], [4, {k}]]}}\n'
             for k in range(16)]  # fmt: skip
    trained = trained_on(tmp_path, "".join(lines), name="data.jsonl")
    np.testing.assert_array_equal(read_back(trained, tmp_path, SOURCE), SOURCE)


def test_one_long_series_is_read_back_up_to_its_window(tmp_path: Path) -> None:
    rows = [f"2024-{1 + d // 28:02}-{1 + d % 28:02},{d % 7 + d / 100}" for d in range(140)]
    trained = trained_on(tmp_path, "\n".join(["date,load", *rows]) + "\n", "data.series=null",
                         "data.time=date", "data.missing=interpolate", "data.split.by=time",
                         "data.window={source: 5, target: 2, stride: 3}")  # fmt: skip
    form = input_form(trained)
    assert (form["series"], form["time"], form["window"]) == (None, None, 5)
    source = [row[:1] for row in SOURCE]
    np.testing.assert_array_equal(read_back(trained, tmp_path, source), source)
    np.testing.assert_array_equal(
        read_back(trained, tmp_path, [[7.0], *source]), source
    )  # the page says so


def test_generated_sequences_have_the_form_of_the_documentation(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    sets = [*QUICK, "data.n_train=16", "data.n_validation=8", "data.n_test=8"]
    folder, _ = experiments.train_one(resolve(None, sets).config, tmp_path, plots=False)
    trained = open_run(folder.path)[1]
    assert input_form(trained) == GENERATED_FORM
    source = [[10.125, 1 / 3], [1e-7, 2.0]]
    np.testing.assert_array_equal(read_back(trained, tmp_path, source), source)
    assert CliRunner().invoke(app, ["predict", str(folder.path), "--input", str(tmp_path / "input.csv")]).exit_code == 0  # fmt: skip
