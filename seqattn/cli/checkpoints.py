"""`seqattn inspect` and `seqattn verify-resume`: what is in a checkpoint, and whether it is all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqattn.cli.options import AsJson, ConfigFile, Overrides, Quiet
from seqattn.cli.output import after_the_work, leave_with_the_reader, note, plain_console, show
from seqattn.errors import CheckpointError, counted


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A checkpoint, or a run folder: its best.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show what a checkpoint holds, after it was found to be whole: version, position, config,
    what it was trained on, and its tensors. No model is built."""
    import json

    from seqattn.runs import find_run
    from seqattn.training.checkpoints import describe_checkpoint

    leave_with_the_reader()
    _, path = find_run(file)
    described = describe_checkpoint(path)
    if as_json:
        show(json.dumps(described, indent=2))
        return
    from rich.table import Table

    from seqattn.config import as_value, leaves
    from seqattn.data.units import with_unit

    tensors = described.pop("tensors")
    config = described.pop("config")
    layout = described.pop("layout")
    show(f"{path}: whole, {described.pop('bytes'):,} bytes")
    for key, value in described.items():
        show(f"  {key}: {value}")
    sides = [
        f"{', '.join(with_unit(name, layout.get('units', {})) for name in layout[names])}"
        f" ({layout[length]} points at most)"
        for names, length in (("features", "source_length"), ("said", "target_length"))
    ]
    show(f"  trained on: {' -> '.join(sides)}")
    show("\nconfig:")
    for at, value in leaves(config):
        show(f"  {'.'.join(at)}: {as_value(value)}")
    show()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tensor", no_wrap=True)
    for head in ("shape", "type", "smallest", "largest"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in tensors:
        shape = " x ".join(map(str, row["shape"])) or "1"
        low, high = (f"{row[key]:.4g}" for key in ("min", "max"))
        table.add_row(row["name"], shape, row["type"], low, high)
    plain_console(width=60 + max(len(row["name"]) for row in tensors)).print(table)
    numbers = sum(row["numbers"] for row in tensors)
    show(f"{counted(numbers, 'number')} in {counted(len(tensors), 'tensor')}")


def verify_resume(
    config: ConfigFile,
    overrides: Overrides = None,
    stops: Annotated[
        int, typer.Option("--stops", min=1, max=1000, help="How often to stop it.")
    ] = 5,
    quiet: Quiet = False,
) -> None:
    """Train CONFIG at once, and again with stops after random steps, each resumed from the disk;
    then name the first tensor that differs, if any does. Both go to a temporary folder."""
    import tempfile

    from seqattn.config import resolve
    from seqattn.experiments.verify_resume import verify_resume as verify

    resolved = resolve(config, overrides or []).config
    with tempfile.TemporaryDirectory(prefix="seqattn-") as home:
        found = verify(
            resolved, Path(home), stops=stops, message=(lambda line: None) if quiet else note
        )
    where = ", ".join(map(str, found.stops))
    if found.difference is not None:
        raise CheckpointError(
            f"{config}: stopped after steps {where} of {found.steps} and resumed, it ends"
            f" elsewhere: {found.difference}."
        )
    with after_the_work():
        show(
            f"Stopped after steps {where} of {found.steps} and resumed, it ends bit for bit where"
            f" it ends at once: all {found.compared:,} tensors, numbers and files are the same."
        )
