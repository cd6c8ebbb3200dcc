"""Options that several commands take, each declared once, alone or as a field of a dataclass.

typer reads a flat signature; `grouped_options` makes it of a command that takes dataclasses.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, or a checkpoint file in one.")
]
ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file.")]
Overrides = Annotated[list[str] | None, typer.Option(
    "--set", metavar="PATH=VALUE", help="Override one key; may be repeated."
)]  # fmt: skip
InputFile = Annotated[Path | None, typer.Option(
    "--input", metavar="FILE",
    help="Your own sequences: CSV, TSV, JSON lines, NPZ, NPY, Parquet or Arrow; - reads CSV from"
    " standard input.",
)]  # fmt: skip
ReadingOverrides = Annotated[list[str] | None, typer.Option(
    "--set", metavar="PATH=VALUE",
    help="How --input is read, such as data.series=station; may be repeated.",
)]  # fmt: skip
StepCount = Annotated[int | None, typer.Option(
    "--steps", min=1, max=100_000, help="Points to forecast; as trained without."
)]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]


Plots = Annotated[Literal["each", "none"] | None, typer.Option(
    "--plots", help="each run's pictures, or none; with many seeds none without."
)]  # fmt: skip


@dataclass(frozen=True)
class RunOptions:
    """What changes the config, and where its folder goes."""

    overrides: Overrides = None
    name: Annotated[
        str | None, typer.Option("--name", help="The folder's name, instead of the config's.")
    ] = None
    output_dir: Annotated[
        Path, typer.Option("--output-dir", metavar="DIR", help="Where folders go.")
    ] = Path("outputs")

    @property
    def changes(self) -> list[str]:
        """All changes of the config, as `--set` takes them."""
        name = [f"name={json.dumps(self.name)}"] if self.name is not None else []
        return [*(self.overrides or []), *name]


@dataclass(frozen=True)
class Compute:
    """What computes."""

    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(
        "--device", help="auto takes a GPU if there is one."
    )] = "auto"  # fmt: skip
    threads: Annotated[int | None, typer.Option(
        "--threads", min=1, max=1024, help="CPU threads; found by trying a few steps without."
    )] = None  # fmt: skip


def grouped_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a dataclass replaced by the dataclass's fields.

    Raises:
        ValueError: two parameters of the command have one name.
    """
    groups, parameters = dict[str, Any](), list[Parameter]()
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _options_of(groups[parameter.name])
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        filled = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**filled, **values)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in parameters}
    return flat


@functools.cache
def _options_of(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    defaults = {
        each.name: Parameter.empty if each.default is MISSING else each.default
        for each in fields(group)
    }
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in defaults.items()
    ]
