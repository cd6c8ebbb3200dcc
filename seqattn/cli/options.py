"""Options that several commands share.

Each option is declared once, as a type or as a field of a dataclass. A command may take dataclasses
as parameters. typer, however, requires a flat signature, so `grouped_options` replaces each
dataclass with its fields.
"""

from __future__ import annotations

import functools
import inspect
import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

import typer

from seqattn.cli.completion import (
    complete_config,
    complete_override,
    complete_reading,
    complete_run,
)
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.models.decoding import Decoding

RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="Run folder, or a checkpoint file in one.", autocompletion=complete_run
    ),
]


def _find_config(given: Path | None) -> Path | None:
    """Return the path of the config for the argument CONFIG, which may be the name of a shipped
    config."""
    if given is None:
        return None
    from seqattn.config.shipped_configs import find_config

    return find_config(given)


ConfigFile = Annotated[Path, typer.Argument(
    metavar="CONFIG", callback=_find_config, autocompletion=complete_config,
    help="Config file in YAML, name of a shipped config (see seqattn config list), or - for"
    " standard input.",
)]  # fmt: skip
OptionalConfig = Annotated[Path | None, typer.Argument(
    metavar="[CONFIG]", callback=_find_config, autocompletion=complete_config,
    help="Config file, or name of a shipped config; without it, all defaults.",
)]  # fmt: skip
Overrides = Annotated[list[str] | None, typer.Option(
    "--set", metavar="PATH=VALUE", autocompletion=complete_override,
    help="Override a config key, such as seed=1; repeatable. The last value of a key is used.",
)]  # fmt: skip
StepCount = Annotated[int | None, typer.Option(
    "--steps", metavar="N", min=1, max=100_000, help="Number of steps to forecast.",
    show_default="target length of the training data",
)]  # fmt: skip


@dataclass(frozen=True)
class DecodingOptions:
    """The options that say how outputs of symbols are found."""

    heading: ClassVar = "Options for symbols"

    beam: Annotated[int, typer.Option(
        "--beam", metavar="B", min=1, max=1000,
        help="Beam search that keeps the B most probable beginnings; 1: greedy.",
    )] = 1  # fmt: skip
    length_penalty: Annotated[float, typer.Option(
        "--length-penalty", metavar="A", min=0, max=10,
        help="With --beam, divide the log-probability by ((5 + length) / 6)^A.",
    )] = 0.6  # fmt: skip
    temperature: Annotated[float | None, typer.Option(
        "--temperature", metavar="T", min=1e-3, max=1e3, show_default="no sampling",
        help="Sample from the probabilities of the logits divided by T.",
    )] = None  # fmt: skip
    sampling_seed: Annotated[int, typer.Option(
        "--sampling-seed", metavar="S", min=0, help="Seed of the samples."
    )] = 0  # fmt: skip

    def decoding(self, n_best: int = 1) -> Decoding:
        """Return the values of the options.

        Raises:
            UsageError: if they contradict each other.
        """
        from seqattn.models.decoding import Decoding

        if self.beam == 1 and self.length_penalty != DecodingOptions.length_penalty:
            raise UsageError("--length-penalty needs --beam 2 or more.")
        if self.temperature is None and self.sampling_seed != DecodingOptions.sampling_seed:
            raise UsageError("--sampling-seed needs --temperature.")
        return Decoding(
            self.beam, self.length_penalty, n_best, self.temperature, self.sampling_seed
        )


JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _silence_libraries(quiet: bool) -> bool:
    """If `--quiet` is given, silence matplotlib's messages about its cache in this process and in
    the processes that it starts, which import this module before matplotlib."""
    if quiet:
        os.environ[QUIET_VARIABLE] = "1"
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
    return quiet


QUIET_VARIABLE = "SEQATTN_QUIET"
_silence_libraries(QUIET_VARIABLE in os.environ)
Quiet = Annotated[bool, typer.Option(
    "--quiet", "-q", callback=_silence_libraries, help="Print errors only."
)]  # fmt: skip
Plots = Annotated[Literal["each", "none"] | None, typer.Option(
    "--plots", help="Draw the pictures of each run, or none.",
    show_default="each for a single run, none for many",
)]  # fmt: skip


def with_option(overrides: Sequence[str], option: str, value: Any) -> list[str]:
    """Return overrides together with the value of an option that has the name of a config key.

    Args:
        overrides: the values of the option `--set`.
        option: the name of the option, such as `--seed`.
        value: the value of the option; None if the option is not given.

    Raises:
        UsageError: if both the option and `--set` give the value of the key.
    """
    key = option.removeprefix("--")
    if value is None:
        return list(overrides)
    for each in overrides:
        if each.partition("=")[0].strip() == key:
            raise UsageError(
                f"--set {each}: has no effect, because {option} {value} sets the same key. Give"
                " only one of the two."
            )
    return [*overrides, f"{key}={json.dumps(value)}"]


@dataclass(frozen=True)
class RunOptions:
    """The options that override config keys, and set the name and the parent of the output
    folder."""

    heading: ClassVar = "Run options"

    overrides: Overrides = None
    name: Annotated[str | None, typer.Option(
        "--name", metavar="NAME", help="Name of the folder.", show_default="name in CONFIG"
    )] = None  # fmt: skip
    output_dir: Annotated[Path, typer.Option(
        "--output-dir", metavar="DIR", help="Parent of the folder."
    )] = Path("outputs")  # fmt: skip

    @property
    def changes(self) -> list[str]:
        """All overrides of the config, each in the form `PATH=VALUE`."""
        return with_option(self.overrides or [], "--name", self.name)


Device = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(
    "--device", help="Device; auto uses a GPU if there is one."
)]  # fmt: skip


@dataclass(frozen=True)
class ComputeOptions:
    """The options for the device and the number of threads."""

    heading: ClassVar = "Compute options"

    device: Device = "auto"
    threads: Annotated[int | None, typer.Option(
        "--threads", metavar="N", min=1, max=1024, help="CPU threads.",
        show_default="1 for small models, or the fastest in a measurement",
    )] = None  # fmt: skip


@dataclass(frozen=True)
class WorkerOptions:
    """The option for the number of worker processes."""

    heading: ClassVar = "Compute options"

    jobs: Annotated[int | None, typer.Option(
        "--jobs", metavar="N", min=1, max=1024, envvar="SEQATTN_JOBS", show_envvar=False,
        help="Worker processes that train on the CPU.",
        show_default="all cores, if this saves time",
    )] = None  # fmt: skip


@dataclass(frozen=True)
class InputOptions:
    """The options for the user's own sequences, which replace the test sequences of the run."""

    heading: ClassVar = "Input options"

    input_file: Annotated[Path | None, typer.Option(
        "--input", metavar="FILE",
        help="Your own sequences: CSV, TSV, JSON lines, NPZ, NPY, Parquet or Arrow; - reads CSV"
        " from standard input.",
        show_default="test sequences of the run",
    )] = None  # fmt: skip
    reading: Annotated[list[str] | None, typer.Option(
        "--set", metavar="PATH=VALUE", autocompletion=complete_reading,
        help="Override how --input is read, such as data.series=station; repeatable.",
    )] = None  # fmt: skip

    def check(self) -> None:
        """Check that `--set` is given only together with `--input`.

        Raises:
            UsageError: if `--set` is given without `--input`.
        """
        if self.reading and self.input_file is None:
            raise UsageError(
                f"--set {self.reading[0]}: applies to --input only, which is not given. The data of"
                " the run cannot be changed."
            )


def grouped_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each dataclass parameter of a command with the fields of the dataclass.

    The returned function has the attribute `headings`. This attribute contains the heading of each
    option from a dataclass, by parameter name.

    Raises:
        ValueError: if two parameters of the command have the same name.
    """
    groups, parameters, headings = dict[str, Any](), list[Parameter](), dict[str, str]()
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if is_dataclass(group):
            groups[parameter.name] = group
            options = _options_of(groups[parameter.name])
            parameters += options
            if heading := getattr(group, "heading", ""):
                headings |= dict.fromkeys((option.name for option in options), heading)
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
    flat.headings = headings  # type: ignore[attr-defined]
    return flat


@functools.cache
def _options_of(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name, Parameter.KEYWORD_ONLY, annotation=hints[field.name],
            default=Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(group)
    ]  # fmt: skip
