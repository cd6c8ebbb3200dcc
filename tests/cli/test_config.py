"""`seqattn config`: check, show and schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from seqattn.config import resolve
from tests.cli.small import small_config
from tests.conftest import Ended

Command = Callable[..., Ended]


def test_config_check(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("config", "check", small_config(tmp_path, "seed: 3\nmodel: {hidden_dim: 4}\n"))
    assert done.code == 0
    assert "valid. It sets 2 of " in done.out
    done = seqattn("config", "check", small_config(tmp_path, "sed: 3\nmodel: {hidden_dim: a}\n"))
    assert done.code == 2
    assert "2 mistakes" in done.err
    assert "Did you mean seed?" in done.err


def test_config_show_loads_again(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("config", "show", small_config(tmp_path, "seed: 3\n"), "--set", "name=other")
    (tmp_path / "again.yaml").write_text(done.out)
    assert resolve(tmp_path / "again.yaml").config.seed == 3
    assert "my.yaml:1" in done.out
    assert "# --set name=other" in done.out
    assert "# default" in done.out
    assert seqattn("config", "show").code == 0


def test_config_schema(seqattn: Command, tmp_path: Path) -> None:
    shown = seqattn("config", "schema").out
    assert json.loads(shown)["properties"]["training"]
    assert seqattn("config", "schema", "--output", "s.json").code == 0
    assert (tmp_path / "s.json").read_text() == shown


def test_nothing_of_a_file_steers_the_terminal(seqattn: Command, tmp_path: Path) -> None:
    text = '"a\\e[31m": 1\nname: "x\\e]0;evil\\a [bold]"\n'
    done = seqattn("config", "check", small_config(tmp_path, text))
    assert done.code == 2
    assert "\x1b" not in done.err
    assert "\\x1b[31m" in done.err
