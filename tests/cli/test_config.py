"""`seqattn config`: check, show and schema."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.config import resolve
from tests.cli.small import small_config
from tests.conftest import Ended, fresh_process

Command = Callable[..., Ended]


def test_config_check(seqattn: Command, tmp_path: Path) -> None:
    done = seqattn("config", "check", small_config(tmp_path, "seed: 3\nmodel: {hidden_dim: 4}\n"))
    assert done.code == 0
    assert "valid. It sets 2 of " in done.out
    done = seqattn("config", "check", small_config(tmp_path, "sed: 3\nmodel: {hidden_dim: a}\n"))
    assert done.code == 2
    assert "2 mistakes" in done.err
    assert "Did you mean seed?" in done.err


@pytest.mark.parametrize("text", ["seed: 3\n", "compare: {vary: {model.hidden_dim: [2, 3]}}\n"])
def test_a_config_is_read_from_standard_input_and_from_a_pipe(text: str, tmp_path: Path) -> None:
    checked = fresh_process(["config", "check", "-"], tmp_path, input=text)
    assert (checked.returncode, checked.stdout[:9]) == (0, "-: valid.")
    command = f"{sys.executable} -m seqattn config check <(printf '{text}')"
    piped = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert piped.returncode == 0, piped.stderr
    assert ": valid. It " in piped.stdout


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
