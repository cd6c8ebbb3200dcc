"""`seqattn evaluate`: tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import MY_CSV
from tests.conftest import Ended

Command = Callable[..., Ended]


def test_evaluate_prints_one_table(seqattn: Command, attention_run: Path) -> None:
    done = seqattn("evaluate", attention_run)
    assert done.code == 0
    for words in ("free running", "teacher-forced", "free running, target step 2", "noise floor",
                  "last source point", "mean of the training targets", "above the floor"):  # fmt: skip
        assert words in done.out


def test_evaluate_for_machines_agrees_with_the_summary(
    seqattn: Command, attention_run: Path
) -> None:
    found: dict[str, Any] = json.loads(seqattn("evaluate", attention_run, "--json").out)
    summary = json.loads((attention_run / "summary.json").read_text())
    assert found["loss"] == pytest.approx(summary["test_loss"], rel=1e-6)
    assert found["baselines"] == pytest.approx(summary["baselines"])
    assert found["above_floor"] == pytest.approx(found["loss"] - found["noise_floor"])


def test_evaluate_on_my_own(seqattn: Command, attention_run: Path, tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text(MY_CSV.rsplit("short", 1)[0] + "first2,1,0,0\nfirst2,2,0,0\n")
    found = json.loads(seqattn("evaluate", attention_run, "--input", "my.csv", "--json").out
                       or "{}")  # fmt: skip
    assert found["noise_floor"] is None
    # "longer" gives 2 points and has 1 to say; the others give 1 and have 1.
    assert found["baselines"]["last source point"] == pytest.approx((0 + 4 + 4 + 0 + 0 + 0) / 6)
    (tmp_path / "one.csv").write_text(MY_CSV)
    done = seqattn("evaluate", attention_run, "--input", "one.csv")
    assert done.code == 3
    assert "sequence 'short' has one point" in done.err


def test_evaluate_without_each_head(
    seqattn: Command, attention_run: Path, plain_run: Path, tmp_path: Path
) -> None:
    done = seqattn("evaluate", attention_run, "--knock-out-heads", "--json", "--figure", "cost.png")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    (head,) = found["knock_out"]["heads"]
    rmse = found["knock_out"]["measures"]["rmse"]
    assert rmse == pytest.approx(found["loss"] ** 0.5)
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
    table = seqattn("evaluate", attention_run, "--knock-out-heads").out
    assert "Without one attention head" in table
    row = next(line for line in table.splitlines() if line.startswith("│ cross"))
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "cross", "1", "1", f"{head['measures']['rmse']:.4g}", f"{head['differences']['rmse']:+.2g}",
        f"{head['worse']} / {head['better']}", f"{head['p_holm']:.2g}",
    ]  # fmt: skip
    for run, words, message in (
        (attention_run, ["--figure", "x.png"], "--figure draws what --knock-out-heads measures"),
        (attention_run, ["--knock-out-heads", "--figure", "x.gif"], "End the file name in .png"),
        (attention_run, ["--knock-out-heads", "--beam", "2"], "leave out --beam"),
        (plain_run, ["--knock-out-heads"], "has no attention (model.attention: null)"),
    ):
        done = seqattn("evaluate", run, *words)
        assert done.code == 2
        assert message in done.err


@pytest.mark.parametrize("length", [2, 3, 4, 5, 9])
def test_evaluate_on_sequences_of_any_length(
    seqattn: Command, attention_run: Path, tmp_path: Path, length: int
) -> None:
    rows_of = [f"a,{step},{step % 2},{step // 2}" for step in range(length)]
    (tmp_path / "my.csv").write_text("sequence,step,x,y\n" + "\n".join(rows_of) + "\n")
    done = seqattn("evaluate", attention_run, "--input", "my.csv", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["loss_by_step"]) == max(1, length - 2)
    assert bool(found["fitted"]) == (length == 4)  # the map fits the trained lengths only
