"""The command `seqattn check-plugin`, which checks the mechanisms of a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seqattn.cli.options import JsonFlag, Overrides, Quiet
from seqattn.cli.output import note, show
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.errors import ContractError, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqattn.experiments.contract import MechanismReport


def check_plugin_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Python file or module with your own mechanisms.")
    ],
    overrides: Overrides = None,
    as_json: JsonFlag = False,
    quiet: Quiet = False,
) -> None:
    """Check your own mechanisms.

    The command imports FILE, and checks each score, normalizer, location, cell, model, task, metric
    and doctor check that FILE registers. It finds, for example, effects of padding or of other
    sequences in the batch, wrong gradients and stored state. The message about a failed check
    contains the measured numbers and the likely mistake, or the exception that the check raised.
    """
    import json

    from seqattn.experiments.contract import check_plugin

    end_on_closed_pipe()
    reports = check_plugin(
        file, overrides=overrides or [], progress=(lambda line: None) if quiet else note
    )
    if as_json:
        show(json.dumps({"plugin": file, "mechanisms": [r.as_plain() for r in reports]}, indent=2))
    else:
        for report in reports:
            _show_report(report)
    if failed := [report for report in reports if report.has_failed]:
        raise ContractError(f"{file}: {_summarize(failed)}.")


def _show_report(report: MechanismReport) -> None:
    """Print a row for each check of a mechanism, and the combinations that the config refuses."""
    combinations = counted(report.combinations, "combination")
    where = f", in {combinations} with other mechanisms" if report.combinations > 1 else ""
    show(f"{report.kind} {report.name}{where}")
    states = max(len(row.state) for row in report.rows)
    width = max(len(row.check) for row in report.rows)
    for row in report.rows:
        show(f"  {row.state:<{states}}  {row.check:<{width}}  {row.message}")
    for refused in report.refused:
        show(f"  The config refuses {refused}")


def _summarize(failed: Sequence[MechanismReport]) -> str:
    """Return the failed checks of each mechanism as text."""
    parts = []
    for report in failed:
        names = [row.check for row in report.rows if row.state == "failed"]
        checks = counted(len(names), "check")
        parts.append(f"{report.kind} {report.name} fails {checks}: {', '.join(names)}")
    return "; ".join(parts)
