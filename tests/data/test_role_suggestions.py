"""What is typed about the columns of an input is obeyed, and what a refusal suggests can work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from seqattn import load
from seqattn.errors import DataError
from tests.conftest import Ended

SECTION = "window: {source: 3, target: 2}"
MODEL = "model: {hidden_dim: 2}\ntraining: {epochs: 1}\n"


def table(header: str, series: Sequence[str], steps: int = 12) -> str:
    rows = [f"{name}{t},{(7 * t + len(name)) % 5}" for name in series for t in range(steps)]
    return "\n".join([header, *rows]) + "\n"


def trained(seqattn: Callable[..., Ended], data: str) -> None:
    Path("c.yaml").write_text(f"name: c\ndata: {{kind: file, {data}, {SECTION}}}\n{MODEL}")
    done = seqattn("train", "c.yaml", "--quiet", "--plots", "none")
    assert done.code == 0, done.err


def test_a_column_that_was_constant_in_training_can_be_ignored(
    seqattn: Callable[..., Ended],
) -> None:
    Path("k.csv").write_text(table("c,time,x", ["1,"], 40))
    trained(seqattn, "path: k.csv, split: {by: time}")
    Path("new.csv").write_text(table("c,time,x", ["a,", "b,"]))
    done = seqattn("predict", "outputs/c", "--input", "new.csv")
    assert [line.split(",")[0] for line in done.out.splitlines()[1:]] == ["a", "a", "b", "b"]
    done = seqattn("predict", "outputs/c", "--input", "new.csv", "--set", "data.ignore=[c]")
    assert (
        done.code == 3 and "are both of" in done.err
    )  # the times repeat, and nothing else says why


def test_a_column_called_as_in_training_but_for_case_is_suggested(
    seqattn: Callable[..., Ended],
) -> None:
    Path("t.csv").write_text(table("shop,day,x", [f"s{k}," for k in range(9)]))
    trained(seqattn, "path: t.csv")
    Path("new.csv").write_text(table("other,Shop,Day,x", ["z,s1,", "z,s2,"]))
    words = ["predict", "outputs/c", "--input", "new.csv"]
    for column in ("series=Shop", "time=Day"):
        done = seqattn(*words)
        assert f"--set data.{column};" in done.err, done.err
        words += ["--set", f"data.{column}"]
    done = seqattn(*words)
    assert done.code == 0 and len(done.out.splitlines()) == 5, done.err


def test_a_validation_file_gets_the_hint_to_rename_its_column(
    seqattn: Callable[..., Ended],
) -> None:
    for name, header in (("t", "shop"), ("v", "shop"), ("w", "store")):
        series = [f"{name}{k}," for k in range(4)]
        Path(f"{name}.csv").write_text(table(f"{header},day,x", series))
    Path("c.yaml").write_text(
        f"name: c\ndata: {{kind: file, path: t.csv, validation_path: v.csv, test_path: w.csv,"
        f" {SECTION}}}\n{MODEL}"
    )
    done = seqattn("train", "c.yaml")
    assert done.code == 3 and "Rename the column in the file." in done.err
    assert "--set" not in done.err


def test_a_dataframe_gets_the_hint_to_rename_a_column(seqattn: Callable[..., Ended]) -> None:
    Path("t.csv").write_text(table("shop,day,x", [f"s{k}," for k in range(9)]))
    trained(seqattn, "path: t.csv")
    frame = pd.DataFrame({"shop": ["s1"] * 4, "x": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(DataError, match="no column 'day'") as refused:
        load("outputs/c").predict(frame)
    assert str(refused.value).endswith("Rename a column of the DataFrame, or its index.")
    assert load("outputs/c").predict(frame.rename_axis("day")).shape == (1, 2, 1)
