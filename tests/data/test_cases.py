"""Tables of tests/fixtures/cases in a run: the remedies of refusals, and the times of forecasts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.data.files import read_all
from seqattn.data.reading import Reading
from seqattn.errors import AmbiguousData
from tests.conftest import Ended

CASES = Path(__file__).resolve().parents[1] / "fixtures/cases"
Command = Callable[..., Ended]


def train(seqattn: Command, file: Path, *flags: str) -> None:
    """Train on a file with the section that `data check` prints."""
    checked = seqattn("data", "check", str(file), *flags)
    assert checked.code == 0, checked.err
    section = checked.out[checked.out.index("\ndata:") :]
    Path("c.yaml").write_text(
        f"name: c{section}\nmodel: {{hidden_dim: 2}}\ntraining: {{epochs: 1}}\n"
    )
    done = seqattn("train", "c.yaml", "--plots", "none", "--overwrite")
    assert done.code == 0, done.err


def column(table: str, name: str) -> list[str]:
    head, *rows = (line.split(",") for line in table.splitlines())
    return [row[head.index(name)] for row in rows]


@pytest.mark.parametrize(
    ("trained", "later", "time", "expected"),
    [
        ("k9.csv", "l_k1.csv", "week", ["202301", "202302"]),
        ("isoweek_rev.csv", "isoweek_rev.csv", "week", ["2022-W45", "2022-W46"]),
        ("qfirst_rev.csv", "qfirst_rev.csv", "period", ["Q1 2020", "Q2 2020"]),
    ],
)
def test_a_forecast_continues_weeks_and_quarters(
    trained: str, later: str, time: str, expected: list[str], seqattn: Command, tmp_path: Path
) -> None:
    train(seqattn, CASES / trained)
    done = seqattn("predict", "outputs/c", "--input", str(CASES / later))
    assert done.code == 0, done.err
    assert column(done.out, time)[:2] == expected


def test_uneven_times_are_counted_in_forecasts(seqattn: Command, tmp_path: Path) -> None:
    train(seqattn, CASES / "r_jit.csv")
    done = seqattn("predict", "outputs/c", "--input", str(CASES / "r_jit.csv"))
    assert done.code == 0, done.err
    assert all(step.isdecimal() for step in column(done.out, "step"))


def test_the_layout_of_a_new_file_is_a_remedy_that_works(seqattn: Command, tmp_path: Path) -> None:
    train(seqattn, CASES / "w1.csv")
    command = ["predict", "outputs/c", "--input", str(CASES / "l_w1_long.csv")]
    refused = seqattn(*command)
    assert refused.code == 3
    assert "--set data.layout=long" in refused.err
    done = seqattn(*command, "--set", "data.layout=long")
    assert done.code == 0, done.err
    assert set(column(done.out, "code")) == {f"{k:05d}" for k in range(60)}

    header, *rows = (CASES / "l_zeros_wide.csv").read_text().splitlines()
    days = header.split(",")[1:]
    cells = [row.split(",") for row in rows]
    lines = [
        f"{row[0]},{day},{cell}" for row in cells for day, cell in zip(days, row[1:], strict=True)
    ]
    Path("long.csv").write_text("\n".join(["fips,date,value", *lines]) + "\n")
    train(seqattn, Path("long.csv"), "--series", "fips")
    command = ["predict", "outputs/c", "--input", str(CASES / "l_zeros_wide.csv")]
    refused = seqattn(*command)
    assert refused.code == 3
    assert "--set data.layout=wide" in refused.err
    done = seqattn(*command, "--set", "data.layout=wide")
    assert done.code == 0, done.err
    assert set(column(done.out, "fips")) == {row[0] for row in cells}


def test_rows_in_another_order_than_an_unused_time_are_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ds,y\n" + "".join(f"2021-01-{30 - k:02d},{k}\n" for k in range(20)))
    with pytest.raises(AmbiguousData, match="dates in 'ds' are not in order") as caught:
        read_all(path, Reading(time=()))
    assert caught.value.choices == ({"time": "ds"}, {"ignore": "ds"})
    assert read_all(path, Reading(time=("ds",))).points.values[0, 0] == 19
    assert read_all(path, Reading(time=(), ignore=("ds",))).points.values[0, 0] == 0
