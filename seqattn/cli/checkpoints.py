"""The command `seqattn inspect`, which prints the content of a checkpoint, and the command
`seqattn verify-resume`, which tests the resumption of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqattn.cli.completion import complete_run
from seqattn.cli.options import ConfigFile, Device, JsonFlag, Overrides, Quiet
from seqattn.cli.output import ignore_closed_pipe, note, plain_console, show
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.errors import CheckpointError, counted


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Checkpoint, or run folder for its best checkpoint.",
            autocompletion=complete_run,
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Verify a checkpoint and print its content.

    The content includes the version, epoch, step, config, features and tensors.
    """
    import json

    from seqattn.runs import find_run
    from seqattn.runs.checkpoint_file import describe_checkpoint

    end_on_closed_pipe()
    _, path = find_run(file)
    content = describe_checkpoint(path)
    if as_json:
        show(json.dumps(content, indent=2))
        return
    from rich.table import Table

    from seqattn.config import as_value, leaves
    from seqattn.data.spec import DataSpec
    from seqattn.data.units import with_unit

    tensors = content.pop("tensors")
    config = content.pop("config")
    spec = DataSpec.from_plain(content.pop("layout"))
    show(f"{path}: valid, {content.pop('bytes'):,} bytes")
    for key, value in content.items():
        show(f"  {key}: {value}")
    sides = [
        f"{', '.join(with_unit(name, space.units) for name in space.names)}"
        f" (at most {counted(length, 'step')})"
        for space, length in ((spec.source, spec.source_length), (spec.target, spec.target_length))
    ]
    show(f"  trained on: {' -> '.join(sides)}")
    show("\nconfig:")
    for key_path, value in leaves(config):
        show(f"  {'.'.join(key_path)}: {as_value(value)}")
    show()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tensor", no_wrap=True)
    for heading in ("shape", "type", "smallest", "largest"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in tensors:
        shape = " x ".join(map(str, row["shape"])) or "1"
        low, high = (f"{row[key]:.4g}" for key in ("min", "max"))
        table.add_row(row["name"], shape, row["type"], low, high)
    plain_console(width=60 + max(len(row["name"]) for row in tensors)).print(table)
    numbers = sum(row["numbers"] for row in tensors)
    show(f"{counted(numbers, 'number')} in {counted(len(tensors), 'tensor')}")


def verify_resume_command(
    config: ConfigFile,
    overrides: Overrides = None,
    stops: Annotated[
        int, typer.Option("--stops", metavar="N", min=1, max=1000, help="Number of stops.")
    ] = 5,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Test that a resumed run equals an uninterrupted run.

    The command trains CONFIG twice in a temporary folder. The first run is not interrupted. The
    second run stops at random steps and is resumed from a checkpoint after each stop. If the
    results of the two runs differ in any bit, the command reports the first difference as an error.
    """
    import tempfile

    from seqattn.config import resolve
    from seqattn.experiments.verify_resume import verify_resume

    resolved = resolve(config, overrides or []).config
    with tempfile.TemporaryDirectory(prefix="seqattn-") as folder:
        result = verify_resume(
            resolved, Path(folder), stops=stops, device=device,
            message=(lambda line: None) if quiet else note,
        )  # fmt: skip
    steps = f"{', '.join(map(str, result.stops))} of {result.steps}"
    if result.difference is not None:
        raise CheckpointError(
            f"{config}: the training that was stopped after steps {steps} and resumed differs from"
            f" the uninterrupted one: {result.difference}."
        )
    with ignore_closed_pipe():
        show(
            f"Stopped after steps {steps} and resumed, the training ends bit for bit as without"
            f" stops: all {result.compared:,} tensors, numbers and files are equal."
        )
