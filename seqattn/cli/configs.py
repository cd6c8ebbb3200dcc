"""`seqattn config`: check a config, show where its values come from, print what keys there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqattn.cli.options import ConfigFile, Overrides
from seqattn.cli.output import leave_with_the_reader, show, text_output, write_data
from seqattn.errors import counted

config_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Write a YAML config: check, show, schema."
)


@config_app.command(
    "check",
    short_help="Say everything that is wrong with a config.",
    epilog="Example: seqattn config check my.yaml",
)
def config_check(config: ConfigFile, overrides: Overrides = None) -> None:
    """Say whether a config is right, and if not, everything that is wrong with it."""
    from seqattn.config import DEFAULT, Draft, resolve

    leave_with_the_reader()
    if "compare" in Draft.read(config, overrides or []).content:
        from seqattn.config.comparing import plan_comparison

        planned = plan_comparison(config, overrides or [])
        names = ", ".join(variant.name for variant in planned.variants)
        data = ", each seed with data of its own" if planned.resample_data else ""
        seeds = counted(len(planned.seeds), "seed")
        show(f"{config}: right. It compares {names}, with {seeds} each{data}.")
        return
    resolved = resolve(config, overrides or [])
    given = sum(origin != DEFAULT for origin in resolved.origins.values())
    show(f"{config}: right. {given} of {len(resolved.origins)} values given, the rest default.")


@config_app.command(
    "show",
    short_help="Print every value and where it came from.",
    epilog="Example: seqattn config show my.yaml --set seed=1",
)
def config_show(
    config: Annotated[
        Path | None, typer.Argument(metavar="[CONFIG]", help="A YAML file; defaults without.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Print the whole config as YAML, with where each value came from."""
    from seqattn.config import resolve, to_yaml

    leave_with_the_reader()
    resolved = resolve(config, overrides or [])
    write_data(to_yaml(resolved.config, resolved.origins))


@config_app.command(
    "schema",
    short_help="Print the JSON Schema for editors.",
    epilog="Example: seqattn config schema --output my.schema.json",
)
def config_schema(
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Standard output without.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Every key as a page to read, instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of a config, with which editors complete and check as you type."""
    import json

    from seqattn.config import json_schema
    from seqattn.config.manual import render_manual

    if output is None:
        leave_with_the_reader()
    schema = json_schema()
    with text_output(output) as file:
        file.write(render_manual(schema) if markdown else json.dumps(schema, indent=2) + "\n")
