"""Names from files are printed as they are, and steer no terminal."""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.cli.output import escape_controls, plain_console, set_encoding, show, write_data
from tests.conftest import ROOT, Ended

Command = Callable[..., Ended]
NAMES = ["[bold]", "flow [/s]", "[link=http://x]y[/link]", "\x1b[31mred", "100%", "{}", ":smile: 🙂", "ש‮rtl"]  # fmt: skip
SHOWN = [escape_controls(name) for name in NAMES]


@pytest.mark.parametrize("path", sorted((ROOT / "seqattn/cli").glob("*.py")), ids=lambda p: p.name)
def test_all_text_goes_through_one_module(path: Path) -> None:
    """Elsewhere print and Rich's Console would read markup, or pass control characters on."""
    for node in ast.walk(ast.parse(path.read_text())):
        name = node.id if isinstance(node, ast.Name) else ""
        if isinstance(node, ast.ImportFrom):
            name = " ".join(alias.name for alias in node.names)
        if path.name != "output.py":
            assert name not in ("print", "Console"), path


def test_a_console_reads_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table(title="[/s]:smile:", caption="[bold]")
    table.add_column("[/b]\x1b[31m")
    table.add_row("[link=x]")
    plain_console(width=60).print(table)
    out = capsys.readouterr().out
    for name in ("[/s]:smile:", "[bold]", "[/b]\\x1b[31m", "[link=x]"):
        assert name in out


def test_an_encoding_that_lacks_a_character(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, written in ((True, b"caf\\xe9\n"), (False, "café\n".encode())):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="ascii")
        monkeypatch.setattr(stream, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr(sys, "stdout", stream)
        set_encoding()
        show("café")
        write_data("café\n")
        stream.flush()
        assert raw.getvalue() == 2 * written


@pytest.mark.parametrize("terminal", [False, True])
def test_data_keep_their_control_characters_but_on_a_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    write_data("a\tb\n\x1b[31m\x9b1m\u202e\n")
    written = capsys.readouterr().out
    assert written == ("a\tb\n\\x1b[31m\\x9b1m\\u202e\n" if terminal
                       else "a\tb\n\x1b[31m\x9b1m\u202e\n")  # fmt: skip


def test_a_config_from_a_path_with_a_line_break_loads_again(
    seqattn: Command, tmp_path: Path
) -> None:
    odd = tmp_path / "a\nb: 1\x1b[31m.yaml"
    odd.write_text("seed: 5\n")
    shown = seqattn("config", "show", odd)
    assert shown.code == 0
    assert "a\\nb: 1\\x1b[31m.yaml:1" in shown.out
    (tmp_path / "again.yaml").write_text(shown.out)
    assert "seed: 5" in seqattn("config", "show", "again.yaml").out
