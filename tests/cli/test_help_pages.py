"""Help pages: one sentence for each command, headings, defaults, and an example that works."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from seqattn.cli import app
from tests.conftest import ROOT, Ended

Command = Callable[..., Ended]
SHORT = {  # so that the examples end soon
    "train": ["--set", "training.epochs=2"],
    "compare": ["--set", "training.epochs=2", "--seeds", "2"],
    "tune": ["--set", "training.epochs=2"],
    "verify-resume": ["--set", "training.epochs=2", "--stops", "1"],
}


def commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield (*names, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))
every_command = pytest.mark.parametrize("names", COMMANDS, ids=" ".join)


@every_command
def test_the_summary_is_one_short_sentence(names: tuple[str, ...]) -> None:
    summary = COMMANDS[names].help.partition("\n")[0]
    assert re.fullmatch(r"[A-Z][^.]+\.", summary)
    assert len(summary) <= 60, "it is cut in a list of commands that is 80 wide"


def test_no_summary_is_cut(seqattn: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for group in ([], ["config"], ["data"]):
        listed = seqattn(*group, "--help").out
        assert "..." not in listed.partition("\n\n")[2]
    for (name, *_), command in COMMANDS.items():
        assert name in ("config", "data") or command.help.partition("\n")[0] in seqattn("-h").out


@every_command
@pytest.mark.parametrize("width", [80, 120])
def test_a_page_fits_the_terminal(
    names: tuple[str, ...], width: int, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    page = seqattn(*names, "--help")
    assert page.code == 0
    assert max(map(len, page.out.splitlines())) <= width
    assert "<=x" not in page.out
    assert "default: (" not in page.out


@every_command
def test_the_example_is_a_line_of_the_page(names: tuple[str, ...], seqattn: Command) -> None:
    example = f"{COMMANDS[names].epilog}"
    assert shlex.split(example)[: 1 + len(names)] == ["seqattn", *names]
    assert f"Example:\n  {example}\n" in seqattn(*names, "--help").out


@every_command
def test_a_page_shows_every_default(names: tuple[str, ...], seqattn: Command) -> None:
    page = " ".join(seqattn(*names, "--help").out.split())
    for option in COMMANDS[names].params:
        if option.param_type_name == "option" and not option.is_flag and option.default is not None:
            default = option.default
            assert f"[default: {default}]" in page, option.name


def test_options_stand_under_headings(seqattn: Command) -> None:
    page = seqattn("train", "--help").out
    headings = re.findall(r"^(\S.*):$", page, re.MULTILINE)
    assert headings == ["Arguments", "Run options", "Compute options", "Options", "Example"]
    runs, compute = page.index("Run options"), page.index("Compute options")
    assert runs < page.index("--overwrite") < compute < page.index("--threads")
    assert page.startswith("Usage: seqattn train [OPTIONS] CONFIG\n")
    assert seqattn("config", "show", "-h").out.startswith(
        "Usage: seqattn config show [OPTIONS] [CONFIG]\n"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the examples run one after the other."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(ROOT / "configs", folder / "configs")
    return folder


def in_order() -> list[tuple[str, ...]]:
    """The commands, those first that write what others read.

    tests/export has `export`. tests/plugins has `check-plugin`, which registers names in the process.
    """
    first, elsewhere = [("train",), ("data", "sample")], [("export",), ("check-plugin",)]
    return [*first, *(names for names in COMMANDS if names not in (*first, *elsewhere))]


@pytest.mark.usefixtures("untraced_graphs")
@pytest.mark.parametrize("names", in_order(), ids=" ".join)
def test_the_example_works(
    names: tuple[str, ...], folder: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may read what an earlier one writes, so earlier ones that have not run are run."""
    monkeypatch.chdir(folder)
    order = in_order()
    for each in order[: order.index(names) + 1]:
        mark = folder / f"{' '.join(each)}.done"
        if not mark.exists():
            _, *words = shlex.split(COMMANDS[each].epilog)
            done = seqattn(*words, *SHORT.get(each[0], []))
            assert done.code == 0, done.err
            mark.touch()
