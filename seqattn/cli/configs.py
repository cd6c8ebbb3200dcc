"""The commands of `seqattn config`, which check, show and list configs and print their schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqattn.cli.help_pages import CommandIndex, CommandPage
from seqattn.cli.options import ConfigFile, OptionalConfig, Overrides
from seqattn.cli.output import open_text_output, show, write_data
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.errors import counted

config_app = typer.Typer(
    cls=CommandIndex, no_args_is_help=True, rich_markup_mode=None,
    help="Check and print configs.",
)  # fmt: skip


@config_app.command("check", cls=CommandPage, epilog="seqattn config check squares --set seed=1")
def config_check(config: ConfigFile, overrides: Overrides = None) -> None:
    """Check a config and report all mistakes."""
    from seqattn.config import DEFAULT, Draft, resolve

    end_on_closed_pipe()
    draft = Draft.read(config, overrides or [])
    if "compare" in draft.content:
        from seqattn.config.comparing import plan_comparison

        planned = plan_comparison(draft)
        names = ", ".join(variant.name for variant in planned.variants)
        data = ", and new data for each seed" if planned.resample_data else ""
        seeds = counted(len(planned.seeds), "seed")
        show(f"{config}: valid. It compares {names}, with {seeds} each{data}.")
        return
    resolved = resolve(draft)
    count = sum(origin != DEFAULT for origin in resolved.origins.values())
    show(f"{config}: valid. It sets {count} of {len(resolved.origins)} values; the others are"
         " defaults.")  # fmt: skip


@config_app.command("show", cls=CommandPage, epilog="seqattn config show squares --set seed=1")
def config_show(
    config: OptionalConfig = None,
    overrides: Overrides = None,
) -> None:
    """Print the resolved config with the origin of each value.

    The output is a config in YAML that defines the same run.
    """
    from seqattn.config import resolve, to_yaml

    end_on_closed_pipe()
    resolved = resolve(config, overrides or [])
    write_data(to_yaml(resolved.config, resolved.origins))


@config_app.command("list", cls=CommandPage, epilog="seqattn config list")
def config_list() -> None:
    """List the shipped configs.

    Each line contains the name, the command that trains the config, and the description. Every
    command with an argument CONFIG accepts the name of a shipped config.
    """
    from seqattn.config.shipped_configs import (
        config_description,
        has_comparison,
        shipped_configs,
        shipped_folder,
    )

    end_on_closed_pipe()
    configs = shipped_configs()
    width = max(map(len, configs))
    show(f"Shipped configs (files: {shipped_folder()}/NAME.yaml):\n")
    for name, file in configs.items():
        text = file.read_text(encoding="utf-8")
        command = "compare" if has_comparison(text) else "train"
        show(f"{name:<{width}}  {command:<7}  {config_description(text)}")
    show("\nTrain a shipped config:  seqattn train NAME")
    show("Write a copy to change:  seqattn init my --from NAME")


@config_app.command(
    "schema", cls=CommandPage, epilog="seqattn config schema --output seqattn.schema.json"
)
def config_schema(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="File of the schema.", show_default="standard output"
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a Markdown reference of all keys instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of configs.

    An editor can use the schema to complete and check a config while you type.
    """
    import json

    from seqattn.config import json_schema
    from seqattn.config.keys import render_manual

    if output is None:
        end_on_closed_pipe()
    schema = json_schema()
    with open_text_output(output) as file:
        file.write(render_manual(schema) if markdown else json.dumps(schema, indent=2) + "\n")
