"""Shipped configs by name, `seqattn config list` and `seqattn init`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from seqattn.config import Config, Generated, resolve, shipped_configs
from seqattn.config.comparing import plan_comparison
from seqattn.data.text import SHIPPED
from tests.conftest import ROOT, SMALL, Ended, tree

Command = Callable[..., Ended]
NAMES = list(shipped_configs.shipped_configs())


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as a wheel installs it, with the shipped configs inside."""
    package = tmp_path / "site-packages/seqattn/config"
    package.mkdir(parents=True)
    (package / "shipped").symlink_to(ROOT / "configs")
    monkeypatch.setattr(shipped_configs, "__file__", str(package / "shipped_configs.py"))
    return package / "shipped"


def sets(*overrides: str) -> list[str]:
    return [word for each in (*SMALL, *overrides) for word in ("--set", each)]


def test_configs_whose_data_only_a_clone_can_make_are_not_shipped() -> None:
    assert {"squares", "own_data", "compare/scores", "mechanisms/lstm"} <= set(NAMES)
    assert (ROOT / "configs/real/co2.yaml").exists()
    assert not [name for name in NAMES if name.startswith("real/")]


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_config_has_a_description_and_works_anywhere(
    name: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = shipped_configs.find_config(Path(name))
    assert 20 < len(shipped_configs.config_description(file.read_text())) < 110
    data = plan(file).data
    assert isinstance(data, Generated) or data.path in SHIPPED or Path(data.path).is_file()


def test_a_data_file_in_the_current_folder_has_priority(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = "configs/data/mauna_loa_co2.csv"
    found = resolve(shipped_configs.find_config(Path("own_data"))).config.data
    assert Path(found.path).samefile(wheel / "data/mauna_loa_co2.csv")  # type: ignore[union-attr]
    Path("configs/data").mkdir(parents=True)
    shutil.copy(ROOT / given, given)
    found = resolve(shipped_configs.find_config(Path("own_data"))).config.data
    assert found.path == given  # type: ignore[union-attr]
    shutil.rmtree("configs")
    shutil.copy(ROOT / "configs/own_data.yaml", "own.yaml")  # the user's own file is not changed
    assert resolve(Path("own.yaml")).config.data.path == given  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("typed", "here", "found"),
    [
        ("squares", [], "SHIPPED/squares.yaml"),
        ("configs/squares.yaml", [], "SHIPPED/squares.yaml"),
        ("configs/squares.yaml", ["configs/mine.yaml"], "configs/squares.yaml"),
        ("squares.yaml", [], "squares.yaml"),
        ("squares", ["squares"], "squares"),
        ("squares", ["squares.yaml"], "squares.yaml"),
        ("compare/scores", ["compare/scores.yml"], "compare/scores.yml"),
        ("squars", [], "squars"),
    ],
)
def test_files_have_priority_over_shipped_configs(
    typed: str, here: list[str], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in here:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("name: mine\n")
    expected = Path(found.replace("SHIPPED", str(ROOT / "configs")))
    assert shipped_configs.find_config(Path(typed)) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "squares", "--resume", "--overwrite"], "--resume and --overwrite exclude"),
        (["compare", "squares", "--seeds", "2"], "squares.yaml: a comparison needs two variants"),
        (["tune", "squares", "--search", "seed=1"], "squares.yaml: 1 mistake"),
        (["verify-resume", "compare/scores"], "scores.yaml: describes a comparison"),
        (["config", "check", "squares"], "squares.yaml: valid."),
        (["data", "sample", "own_data", "--output", "x.csv"], "are in a file already"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("wheel")
def test_every_command_accepts_the_name_of_a_shipped_config(
    words: list[str], message: str, seqattn: Command
) -> None:
    done = seqattn(*words)
    assert message in done.out + done.err


def test_a_missing_path_is_answered_with_the_name_of_a_shipped_config(
    seqattn: Command, tmp_path: Path
) -> None:
    (tmp_path / "configs").mkdir()
    for typed, meant in (
        ("configs/squares.yaml", "squares"),
        ("squars", "squares"),
        ("wrong/normalizers.yaml", "compare/normalizers"),
    ):
        done = seqattn("train", typed)
        assert done.code == 2
        assert done.err == (
            f"seqattn: {typed}: no such file. Did you mean {meant} (the name of a shipped"
            " config)?\n"
        )


def test_config_list_has_every_config_with_its_command_and_description(seqattn: Command) -> None:
    lines = seqattn("config", "list").out.splitlines()
    assert lines[0] == f"Shipped configs (files: {ROOT}/configs/NAME.yaml):"
    rows = [re.split(r" {2,}", line) for line in lines[2:-3]]
    assert [name for name, _, _ in rows] == NAMES
    assert rows[NAMES.index("compare/scores")] == [
        "compare/scores", "compare",
        "A comparison on squares of all learned scores, uniform weights and no attention",
    ]  # fmt: skip
    assert lines[-2:] == [
        "Train a shipped config:  seqattn train NAME",
        "Write a copy to change:  seqattn init my --from NAME",
    ]


# --- seqattn init ---------------------------------------------------------------------------------


def test_init_writes_a_commented_config_that_trains_as_it_is(
    seqattn: Command, tmp_path: Path
) -> None:
    done = seqattn("init")
    assert (done.code, done.err, done.out) == (
        0, "Wrote my.yaml\n", "Next:\n  seqattn train my.yaml\n"
    )  # fmt: skip
    text = (tmp_path / "my.yaml").read_text()
    assert text.startswith("# Started from the shipped config squares.")
    assert "#   seqattn train my.yaml\n" in text
    assert yaml.safe_load(text) == {
        **yaml.safe_load((ROOT / "configs/squares.yaml").read_text()), "name": "my",
    }  # fmt: skip
    done = seqattn("train", "my", *sets("training.epochs=1"), "--plots", "none")
    assert done.code == 0, done.err
    assert (tmp_path / "outputs/my/summary.json").exists()


def plan(file: Path) -> Config:
    """The config of a file, or the first config of its comparison."""
    if shipped_configs.has_comparison(file.read_text()):
        return plan_comparison(file).variants[0].config
    return resolve(file).config


def test_the_starter_for_own_data_explains_the_columns_and_comes_with_its_data(
    seqattn: Command, tmp_path: Path
) -> None:
    done = seqattn("init", "co2.yaml", "--from", "own-data")
    assert done.err.splitlines() == [
        "Wrote mauna_loa_co2.csv", "Wrote mauna_loa_co2.md", "Wrote co2.yaml"
    ]  # fmt: skip
    text = (tmp_path / "co2.yaml").read_text()
    for words in ("seqattn data check FILE", "seqattn data check mauna_loa_co2.csv", "#   series",
                  "#   time", "#   features", "name: co2\n", "path: mauna_loa_co2.csv "):  # fmt: skip
        assert words in text, words
    assert "co2" in seqattn("data", "check", "mauna_loa_co2.csv").out
    done = seqattn("train", "co2", "--set", "training.epochs=1", "--set", "model.hidden_dim=2",
                   "--set", "data.window={source: 4, target: 2, stride: 20}", "--set", "data.season=null",
                   "--plots", "none")  # fmt: skip
    assert done.code == 0, done.err


def test_init_never_replaces_a_file_unless_it_is_asked_to(seqattn: Command, tmp_path: Path) -> None:
    (tmp_path / "mauna_loa_co2.csv").write_text("mine\n")
    before = tree(tmp_path)
    done = seqattn("init", "co2", "--from", "own-data")
    assert done.code == 2
    assert done.err == (
        "seqattn: mauna_loa_co2.csv: already exists and is not changed. Choose another NAME, or"
        " replace the file (--force).\n"
    )
    assert tree(tmp_path) == before
    assert seqattn("init", "co2", "--from", "own-data", "--force").code == 0
    assert seqattn("init", "more", "--from", "own-data").code == 0  # the data file is the same
    (tmp_path / "co2.yaml").write_text("name: mine\n")
    assert seqattn("init", "co2").code == 2
    assert (tmp_path / "co2.yaml").read_text() == "name: mine\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a/b"], "NAME a/b: may have up to 100 letters"),
        (["..", ""], "NAME"),
        (
            ["my", "--from", "squars"],
            "--from squars: no such shipped config. Did you mean squares?",
        ),
    ],
)
def test_init_says_what_is_wrong_with_its_arguments(
    words: list[str], message: str, seqattn: Command, tmp_path: Path
) -> None:
    done = seqattn("init", *[word for word in words if word])
    assert done.code == 2
    assert message in done.err
    assert tree(tmp_path) == {}
