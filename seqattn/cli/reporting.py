"""The command `seqattn report`, which writes the HTML report of a run, and the command `seqattn
doctor`, which diagnoses a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqattn.cli.argument_checks import protected_files
from seqattn.cli.completion import complete_run
from seqattn.cli.options import JsonFlag
from seqattn.cli.output import note, show
from seqattn.cli.stop_signals import end_on_closed_pipe
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.analysis.doctor import Finding
    from seqattn.runs import RunFolder

STATES = ("found", "fine", "unknown")
"""The states of a finding, in the order of the output."""


def report_command(
    runs: Annotated[list[Path], typer.Argument(
        metavar="RUN...", help="Run folder, folder of many seeds, or comparison folder; or two to"
        " four run folders to show side by side.", autocompletion=complete_run,
    )],
    output: Annotated[Path | None, typer.Option(
        "--output", metavar="FILE.html", help="File of the report; required for several runs.",
        show_default="report.html in the folder",
    )] = None,
    live: Annotated[bool, typer.Option(
        "--live/--no-live", help="Include the model in the report. You can then change its input.",
    )] = True,
) -> None:  # fmt: skip
    """Write an interactive HTML report.

    The report shows the losses, attention weights, errors, config and diagnosis of RUN. Unless
    you give --no-live, the report also contains the model: you can change the input or the
    attention weights and see the new forecast. The report is a single file that works offline.
    """
    from seqattn.report import report as write_report
    from seqattn.report import report_side_by_side
    from seqattn.runs.storage import check_outputs

    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--output {output}: is an HTML file. Give a name that ends in .html.")
    inputs = {name: file for run in runs for name, file in protected_files(run).items()}
    check_outputs({"--output": output}, inputs)
    if len(runs) == 1:
        note(f"Wrote {write_report(runs[0], output, live=live)}")
        return
    if output is None:
        raise UsageError(
            "seqattn report: several runs need --output FILE.html, the file of their common page."
        )
    if not live:
        raise UsageError("--no-live: a page of several runs shows their models, so it is live.")
    note(f"Wrote {report_side_by_side(runs, output)}")


def doctor(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="Run folder, or folder of many seeds.", autocompletion=complete_run
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Diagnose the attention and losses of a run.

    Each finding gives the measured values, or the reason why the check was not possible. If the
    doctor finds a problem, the finding also explains the problem and suggests a change.
    """
    from seqattn.analysis.comparison import is_comparison, require_seed_folders
    from seqattn.analysis.doctor import findings_as_plain, summarize
    from seqattn.errors import CheckpointError
    from seqattn.runs import COMPARISON, RunFolder

    end_on_closed_pipe()
    if run.is_dir() and is_comparison(run) and not RunFolder(run).is_run:
        if (run / COMPARISON).is_file():
            raise CheckpointError(
                f"{run}: is a comparison. Give one of its variants, such as"
                f" {next((p for p in sorted(run.iterdir()) if p.is_dir()), run / 'VARIANT')}."
            )
        _diagnose_seeds(run, require_seed_folders(run), as_json)
        return
    findings = _diagnose(run, ())
    if as_json:
        show(json.dumps(findings_as_plain(findings), indent=2))
        return
    show(f"{run}: {summarize(findings)}")
    width = max(len(finding.name) for finding in findings)
    for finding in sorted(findings, key=lambda each: STATES.index(each.state)):
        show(f"  {finding.state:<8}{finding.name:<{width}}  {finding.number}")
        if finding.state == "found":
            show(f"{'':<{width}}{'':<12}{finding.meaning}")
            show(f"{'':<{width}}{'':<12}try: {finding.change}")
    _note_missing_weights([finding.name for finding in findings])


def _note_missing_weights(names: Sequence[str]) -> None:
    """If no finding is about attention weights, print that the checks of weights do not apply."""
    from seqattn.analysis.doctor import WEIGHT_CHECK_NAMES

    if names and not set(names) & set(WEIGHT_CHECK_NAMES):
        show(
            f"The model has no attention, so {len(WEIGHT_CHECK_NAMES)} of the checks, which are"
            " about weights, do not apply."
        )


def _diagnose(run: Path, losses: tuple[float, ...]) -> list[Finding]:
    from seqattn.analysis import doctor as rules
    from seqattn.analysis.evaluation.load_run import load_splits, open_run

    folder, trained = open_run(run)
    others = losses or tuple(rules.sibling_losses(folder))
    history = rules.read_history(folder)
    return rules.examine(rules.collect_evidence(trained, load_splits(trained), others, history))


def _diagnose_seeds(folder: Path, seeds: Mapping[int, RunFolder], as_json: bool) -> None:
    """Diagnose every finished seed, and print the findings.

    The text output gives the number of seeds that have each problem.
    """
    from seqattn.analysis.comparison import VariantResult
    from seqattn.analysis.doctor import SEED_SPREAD, findings_as_plain

    variant = VariantResult.read(folder.name, seeds)
    losses = tuple(variant.losses.values())
    by_seed = {seed: _diagnose(seeds[seed].path, losses) for seed in variant.summaries}
    if as_json:
        show(
            json.dumps(
                {str(seed): findings_as_plain(each) for seed, each in by_seed.items()}, indent=2
            )
        )
        return
    diverged = f", {len(variant.diverged)} diverged" if variant.diverged else ""
    show(f"{folder}: {len(by_seed)} of {len(seeds)} seeds are finished and diagnosed{diverged}.")
    names = [finding.name for finding in next(iter(by_seed.values()), [])]
    for k, name in enumerate(names):
        states = [findings[k].state for findings in by_seed.values()]
        affected = [seed for seed, findings in by_seed.items() if findings[k].state == "found"]
        if not affected:
            word = "unknown" if all(state == "unknown" for state in states) else "fine"
            show(f"  {word:<8}{name}")
            continue
        first = by_seed[affected[0]][k]
        count = f"{len(affected)} of {len(states)} seeds, for example seed {affected[0]}: "
        is_joint = name == SEED_SPREAD  # the finding is about all seeds together
        show(f"  {'found':<8}{name}: {'' if is_joint else count}{first.number}")
        show(f"          {first.meaning}")
        show(f"          try: {first.change}")
    _note_missing_weights(names)
