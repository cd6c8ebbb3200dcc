"""`seqattn report` and `seqattn doctor`: a run as a page, and what its weights and losses show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqattn.cli.checks import files_read
from seqattn.cli.output import leave_with_the_reader, note, show
from seqattn.errors import UsageError

if TYPE_CHECKING:
    from seqattn.analysis.doctor import Finding
    from seqattn.runs import RunFolder

STATES = ("found", "fine", "unknown")
"""Of a finding, in the order of printing."""


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, of many seeds, or a comparison's.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE.html", help="Where to; the folder without."),
    ] = None,
) -> None:
    """Write one page with everything about RUN: losses, attention to explore, errors, what the
    doctor says. It works offline, from a double-click."""
    from seqattn.report import report as write_report
    from seqattn.runs.output_files import check_outputs

    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--output {output}: a page's name ends in .html.")
    check_outputs({"--output": output}, files_read(run))
    note(f"Wrote {write_report(run, output)}")


def doctor(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or one with many seeds.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say in words what the weights and losses of RUN show: each finding with its number, what it
    means and what to change."""
    from seqattn.analysis.comparison import is_comparison, require_seed_folders
    from seqattn.analysis.doctor import WEIGHT_CHECK_NAMES, findings_as_plain, summarize
    from seqattn.errors import CheckpointError
    from seqattn.runs import COMPARISON, RunFolder

    leave_with_the_reader()
    if run.is_dir() and is_comparison(run) and not RunFolder(run).is_run:
        if (run / COMPARISON).is_file():
            raise CheckpointError(
                f"{run}: is a comparison; give the doctor one of its variants, such as"
                f" {next((p for p in sorted(run.iterdir()) if p.is_dir()), run / 'VARIANT')}."
            )
        _of_seeds(run, require_seed_folders(run), as_json)
        return
    findings = _findings(run, ())
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
    if not any(finding.name in WEIGHT_CHECK_NAMES for finding in findings):
        show("The model has no attention, so there are no weights to look at.")


def _findings(run: Path, losses: tuple[float, ...]) -> list[Finding]:
    from seqattn.analysis import doctor as rules
    from seqattn.analysis.evaluation.load_run import load_splits, open_run

    folder, trained = open_run(run)
    beside = losses or tuple(rules.sibling_losses(folder))
    history = rules.read_history(folder)
    return rules.examine(rules.collect_evidence(trained, load_splits(trained), beside, history))


def _of_seeds(home: Path, seeds: Mapping[int, RunFolder], as_json: bool) -> None:
    """Every seed examined, and how many show what."""
    from seqattn.analysis.comparison import VariantResult
    from seqattn.analysis.doctor import SEED_SPREAD, findings_as_plain

    arm = VariantResult.read(home.name, seeds)
    losses = tuple(arm.losses.values())
    found = {seed: _findings(seeds[seed].path, losses) for seed in arm.summaries}
    if as_json:
        show(
            json.dumps(
                {str(seed): findings_as_plain(each) for seed, each in found.items()}, indent=2
            )
        )
        return
    lost = f", {len(arm.diverged)} diverged" if arm.diverged else ""
    show(f"{home}: {len(found)} of {len(seeds)} seeds have ended and were examined{lost}.")
    names = [finding.name for finding in next(iter(found.values()), [])]
    for place, name in enumerate(names):
        states = [each[place].state for each in found.values()]
        sick = [seed for seed, each in found.items() if each[place].state == "found"]
        if not sick:
            word = "unknown" if all(state == "unknown" for state in states) else "fine"
            show(f"  {word:<8}{name}")
            continue
        first = found[sick[0]][place]
        seeds_found = f"{len(sick)} of {len(states)} seeds, as in seed {sick[0]}: "
        together = name == SEED_SPREAD  # a finding of all seeds, not of each
        show(f"  {'found':<8}{name}: {'' if together else seeds_found}{first.number}")
        show(f"          {first.meaning}")
        show(f"          try: {first.change}")
