"""Help pages with headings. The page of a command ends with an example."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

UsageError: Any = typer.BadParameter.__base__
"""The base class of typer's command-line errors. typer does not export this class."""


class CommandPage(TyperCommand):
    """A command whose help page has headings and an example.

    The help page lists options under the headings from `grouped_options`. Options without a heading
    are listed under "Options". The epilog is an example, which is never wrapped.

    Every command of this class has the option `--plugin`, which loads plugins before the command
    runs.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.append(_plugin_option())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        If an unknown option has the name of a config key, and the command has the option `--set`,
        the error message suggests `--set`.
        """
        arguments, names = list(args), {each.name for each in self.params}
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.message = str(error.message).replace("Value error, ", "")
            option = getattr(error, "option_name", None)
            if option and names & {"overrides", "reading"}:
                from seqattn.cli.option_hints import config_key_hint

                hint = config_key_hint(option, arguments, only_reading="reading" in names)
                if hint:
                    error.message += f". To change a config key, use {hint}."
                    error.possibilities = None
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = (each for each in self.get_params(ctx) if each.param_type_name == "argument")
        names = (str(each.metavar) for each in arguments)
        return [*([self.options_metavar] if self.options_metavar else []), *names]

    def sections(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return the names and the help texts of the arguments and options, by heading."""
        headings = getattr(self.callback, "headings", {})
        sections = defaultdict[str, list[tuple[str, str]]](list)
        for parameter in self.get_params(ctx):
            if parameter.param_type_name == "argument":
                text = getattr(parameter, "help", None) or ""
                sections["Arguments"].append((str(parameter.metavar), text))
            elif record := parameter.get_help_record(ctx):
                name, text = record
                heading = headings.get(parameter.name, "Options")
                sections[heading].append((name, _simplify(text)))
        sections["Options"] = sections.pop("Options")  # moves this section to the end
        return sections

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for heading, records in self.sections(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        formatter.write(f"\nExample:\n  {self.epilog}\n")


def _load_plugins(plugins: list[str] | None) -> None:
    """Load the plugins given with `--plugin`. Relative paths refer to the current folder."""
    if plugins:
        from seqattn.config import load_plugin

        for plugin in plugins:
            load_plugin(plugin)


@functools.cache
def _plugin_option() -> Any:
    """Return the option `--plugin`. typer builds options only from the signature of a command, so
    this function defines a command that has no other option."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(
        plugin: Annotated[list[str] | None, typer.Option(
            "--plugin", metavar="FILE", is_eager=True, expose_value=False, callback=_load_plugins,
            help="Python file or module with your own mechanisms, which the command imports;"
            " repeatable.",
        )] = None,
    ) -> None:  # fmt: skip
        pass

    (option,) = typer.main.get_command(app).params
    return option


def _simplify(text: str) -> str:
    """Remove the range of a number and the parentheses around a default from a help text.

    The help text does not need the range, because the error message for a number out of range
    states the range.
    """
    bounds = r"(; |\s*\[)([\d.]+<=)?x[<>]=[\d.]+\]$"
    text = re.sub(bounds, lambda match: "]" * (match[1] == "; "), text)
    return re.sub(r"\[default: \((.*)\)\]$", r"[default: \1]", text)


class CommandIndex(TyperGroup):
    """A group of commands. The help page of the group lists the commands under the headings of
    `rich_help_panel`."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        sections = defaultdict[str, list[tuple[str, str]]](list)
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None)
            summary = command.get_short_help_str(formatter.width)
            sections[heading or "Commands"].append((f"{name:<{width}}", summary))
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
