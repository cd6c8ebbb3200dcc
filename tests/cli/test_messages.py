"""What a new user mistypes is answered with what to type instead."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.data.baselines import describe_standing
from tests.cli.small import small_config
from tests.conftest import SMALL, Ended, train_small, tree

Command = Callable[..., Ended]


def sets(*overrides: str) -> list[str]:
    return [word for each in (*SMALL, *overrides) for word in ("--set", each)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: t\nmodel:\n\tkind: recurrent\n", 3),
    ],
)
def test_a_tab_is_named_with_its_line(
    text: str, line: int, seqattn: Command, tmp_path: Path
) -> None:
    (tmp_path / "t.yaml").write_text(text)
    assert seqattn("train", "t.yaml").err == (
        f"seqattn: t.yaml:{line}: is indented with a tab, which YAML does not allow. Use spaces.\n"
    )


def test_resume_of_a_run_that_is_not_there_stops(seqattn: Command, tmp_path: Path) -> None:
    (tmp_path / "outputs/nosuck").mkdir(parents=True)
    words = ["train", "squares", *sets("training.epochs=1"), "--name", "nosuch"]
    for more in ([], ["--seeds", "2"]):
        before = tree(tmp_path)
        done = seqattn(*words, *more, "--resume")
        assert done.code == 4
        assert done.err.splitlines()[-1] == (
            "seqattn: outputs/nosuch: no such run, so there is nothing to continue. Leave out"
            " --resume to start a new run. Did you mean --name nosuck?"
        )
        assert tree(tmp_path) == before
        assert not (tmp_path / "outputs/nosuch").exists()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison, a folder of seeds without attention and a search, each of tiny runs."""
    home = tmp_path_factory.mktemp("parents")
    tiny = ("training.epochs=1", "model.attention=null")
    for name in ("cmp/gru/seed-1", "many/seed-1", "many/seed-2", "rates/trial-0"):
        path = home / name
        train_small(path.parent, path.name, *tiny, f"seed={path.name[-1]}")
    return home


@pytest.mark.parametrize("command", ["evaluate", "predict", "explain", "inspect"])
def test_a_folder_of_runs_is_answered_with_one_of_its_runs(
    command: str, folders: Path, seqattn: Command
) -> None:
    for name, what, runs, first in (
        ("cmp", "comparison", "1 run", "gru/seed-1"),
        ("many", "folder of many seeds", "2 runs", "seed-1"),
        ("rates", "search folder", "1 run", "trial-0"),
    ):
        path = folders / name
        done = seqattn(command, path)
        assert done.code == 4
        more = "" if name == "rates" else f" `seqattn report {path}` describes all."
        assert done.err == (
            f"seqattn: {path}: is a {what}, and this command needs one run. Give one of its {runs},"
            f" such as {path / first}.{more}\n"
        )


def test_the_baselines_to_which_a_model_loses_are_named() -> None:
    baselines, fitted = {"rule": 0.03, "mean": 1.0}, {"linear": 0.02}
    assert describe_standing(0.5, baselines, fitted) == (
        "The model loses to 2 of 3 baselines: linear (0.02), rule (0.03)."
    )
    assert describe_standing(0.01, baselines, fitted) == (
        "The model beats every baseline; the best baseline is linear (0.02)."
    )
    assert describe_standing(0.03, {"rule": 0.03}, {}) == (
        "The model loses to 1 of 1 baseline: rule (0.03)."
    )
    assert describe_standing(float("nan"), {"rule": 0.03}, {}).startswith("The model loses")


# --- data files -----------------------------------------------------------------------------------

WINDOW = ("data.kind=file", "data.path=d.csv", "data.window={source: 2, target: 1}",
          "data.split={validation: 0.2, test: 0.2, by: time}")  # fmt: skip


def train_on(seqattn: Command, text: str, *more: str) -> str:
    Path("d.csv").write_text(text)
    Path("c.yaml").write_text("name: own\ndata: {kind: file, path: d.csv}\n")
    words = [word for each in (*WINDOW, *more) for word in ("--set", each)]
    done = seqattn("train", "c.yaml", *words)
    assert done.code == 3
    return done.err


@pytest.mark.parametrize(
    ("text", "keys", "options"),
    [
        ("date,temp\n2020-01-01,1\n2020-01-01,2\n2020-01-02,3\n",
         "name the series: data.series: COLUMN, or take the rows in order: data.time: null and"
         " data.ignore: ['date'].",
         "name the series: --series COLUMN, or take the rows in order: --time none and"
         " --ignore date."),
        ("year,month,x\n2020,1,1\n2020,2,2\n2021,1,3\n2021,2,4\n",
         "data.time: ['year', 'month']; a series for each year: data.series: ['year'] and"
         " data.time: month;",
         "--time year,month; a series for each year: --series year and --time month;"),
        ('date,x\n2020-01-01,"1,234"\n2020-01-02,"2,345"\n',
         'Set data.thousands: "," or data.decimal: ",".', "Set --thousands , or --decimal ,."),
    ],
)  # fmt: skip
def test_data_check_names_its_options_and_train_names_keys(
    text: str, keys: str, options: str, seqattn: Command
) -> None:
    of_train = train_on(seqattn, text)
    assert keys in of_train, of_train
    assert " --" not in of_train
    of_check = seqattn("data", "check", "d.csv").err
    assert options in of_check, of_check
    assert "data." not in of_check


@pytest.mark.parametrize("words", [["--name", "one"], ["--name", "two", "--seeds", "2"]])
def test_a_printed_command_can_be_pasted_though_its_path_has_spaces(
    words: list[str], seqattn: Command, tmp_path: Path
) -> None:
    config = small_config(tmp_path)
    done = seqattn("train", config, *sets(), "--output-dir", "my runs", "--plots", "none", *words)
    assert done.code == 0, done.err
    lines = [line for line in done.out.splitlines() if line.startswith("  seqattn ")]
    assert lines
    for line in lines:
        done = seqattn(*shlex.split(line)[1:])
        assert done.code == 0, done.err
