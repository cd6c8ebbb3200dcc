"""Options in groups: a command takes dataclasses, typer reads one flat signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from seqattn.cli import app
from seqattn.cli.configs import config_app
from seqattn.cli.data import data_app
from seqattn.cli.options import grouped_options

COMMANDS = [
    command.callback
    for each in (app, config_app, data_app)
    for command in each.registered_commands
    if command.callback is not None
]
Color = Annotated[str, typer.Option("--color", help="Of the line.")]


@dataclass(frozen=True)
class Line:
    width: Annotated[int, typer.Option("--width", min=1, help="In points.")]
    color: Color = "black"


def flat_command(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    width: Annotated[int, typer.Option("--width", min=1, help="In points.")],
    color: Color = "black",
    fast: Annotated[bool, typer.Option("--fast")] = False,
) -> None:
    """Draw a line."""
    typer.echo(f"{file} {width} {color} {fast}")


def grouped_command(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    line: Line,
    fast: Annotated[bool, typer.Option("--fast")] = False,
) -> None:
    """Draw a line."""
    typer.echo(f"{file} {line.width} {line.color} {fast}")


def run(command: Callable[..., None], *words: str) -> tuple[int, str]:
    one = typer.Typer(rich_markup_mode=None)
    one.command("draw")(command)
    done = CliRunner().invoke(one, words)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["a.svg", "--width", "7"],
        ["a.svg", "--fast", "--color", "red", "--width", "7"],
        ["a.svg"],  # --width is required
        ["--width", "7"],
        ["a.svg", "--width", "0"],
        ["a.svg", "--width", "7", "--colour", "red"],
    ],
)
def test_a_group_is_its_options_in_its_place(words: list[str]) -> None:
    assert run(grouped_options(grouped_command), *words) == run(flat_command, *words)


def test_a_group_that_is_filled_is_the_dataclass() -> None:
    received: list[Any] = []

    def command(line: Line, fast: bool = False) -> None:
        received.append((line, fast))

    grouped_options(command)(width=7, color="red", fast=True)
    assert received == [(Line(7, "red"), True)]


def test_two_options_of_one_name_are_refused() -> None:
    def command(line: Line, color: Color = "black") -> None:
        pass

    with pytest.raises(ValueError, match="color"):
        grouped_options(command)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_a_command_takes_eight_parameters_at_most(command: Callable[..., None]) -> None:
    assert len(inspect.signature(inspect.unwrap(command)).parameters) <= 8


def declared(flag: str) -> Iterator[Any]:
    """typer's declaration of a flag in every command that has it."""
    for command in COMMANDS:
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            (option,) = parameter.annotation.__metadata__
            if flag in (option.default, *(getattr(option, "param_decls", None) or ())):
                yield option


@pytest.mark.parametrize(
    ("flag", "commands"),
    [("--device", 4), ("--threads", 3), ("--name", 3), ("--output-dir", 3), ("--plots", 2),
     ("--quiet", 6), ("--input", 3)],
)  # fmt: skip
def test_an_option_of_several_commands_is_declared_once(flag: str, commands: int) -> None:
    found = list(declared(flag))
    assert len(found) == commands
    assert len({id(option) for option in found}) == 1
