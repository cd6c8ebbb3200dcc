"""Mistyped paths and options, a run that diverged alone, and the site's page of commands."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Ended

Command = Callable[..., Ended]


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("configs/squars.yaml", "Did you mean configs/squares.yaml?"),
    ],
)
@pytest.mark.parametrize("command", ["config check"])
def test_a_path_without_a_file_is_answered_with_files_like_it(
    command: str, typed: str, hint: str, seqattn: Command, tmp_path: Path
) -> None:
    for name in ("squares.yaml", "compare/scores.yaml"):
        (tmp_path / "configs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "configs" / name, tmp_path / "configs" / name)
    done = seqattn(*command.split(), typed)
    assert done.code == 2
    assert done.err == f"seqattn: {typed}: no such file. {hint}\n"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (["--epochs", "5"], "--set training.epochs=5"),
        (["--hidden_dim"], "--set model.hidden_dim=VALUE"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        "train",
        "tune",
        "verify-resume",
    ],
)
def test_an_option_that_is_a_config_key_is_answered_with_set(
    command: str, typed: list[str], hint: str, seqattn: Command
) -> None:
    done = seqattn(*command.split(), "configs/squares.yaml", *typed)
    assert done.code == 2
    option = typed[0].partition("=")[0]
    assert done.err.splitlines()[-1] == (
        f"Error: No such option: {option}. To change a config key, use {hint}."
    )


def test_the_rows_of_the_site_s_page_are_those_of_the_help_pages() -> None:
    """`scripts/docs_hooks.py` writes them into docs/commands.md."""
    from typer.main import get_command

    from seqattn.cli import app

    found = dict[str, str]()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        if not hasattr(command, "commands"):
            context = command.make_context(name, [], resilient_parsing=True)
            for records in command.sections(context).values():
                found |= {f"{name} {option}": text for option, text in records}
    assert found["train --threads N"].endswith(
        "[default: 1 for small models, or the fastest in a measurement]"
    )
    assert found["train CONFIG"] == (
        "Config file in YAML, name of a shipped config (see seqattn config list), or - for standard"
        " input."
    )
    assert not [
        text for text in found.values() if "x<" in text or "x>" in text or "default: (" in text
    ]
