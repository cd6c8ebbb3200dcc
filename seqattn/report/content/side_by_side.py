"""The content of a page that shows several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqattn.analysis import doctor
from seqattn.analysis.evaluation.load_run import load_splits
from seqattn.errors import CheckpointError, DataError, UsageError
from seqattn.report.content.live import LiveModels, tour_content
from seqattn.report.content.live_differences import PageRun
from seqattn.report.content.task import describe_outside, describe_task_of
from seqattn.report.content.verdict import (
    Need,
    command_for_history,
    describe_need,
    describe_runs,
    read_result,
)
from seqattn.runs import RunFolder

LOWEST = "epoch of the lowest validation loss"
HEADINGS = ["model", "attention", "test loss{}", "teacher-forced{}", LOWEST, "parameters"]
"""The headings of the table. The braces stand for the unit of the losses."""


def runs_content(folders: Sequence[RunFolder]) -> dict[str, Any]:
    """Return the content of a page that shows the forecasts of several runs for one input.

    Args:
        folders: the run folders.

    Raises:
        CheckpointError: if a folder is not a finished run, or if no test sequence can be read.
        UsageError: if no source fits all models, if the features or units of the runs differ, or if
            the page cannot contain one of the models.
    """
    models, notices = LiveModels(), list[str]()
    paths = [folder.path for folder in folders]
    names = [path.name if [p.name for p in paths].count(path.name) == 1 else str(path)
             for path in paths]  # fmt: skip
    for folder, name in zip(folders, names, strict=True):
        if not folder.summary.exists():
            raise CheckpointError(
                f"{folder.path}: is not a finished run (no {folder.summary.name})."
            )
        if not models.add(folder, name):
            raise UsageError(models.reasons[-1])
    source_run, sequences = models.start_sequences(folders, names, notices)
    if source_run is None:
        raise CheckpointError(notices[-1])
    live = models.content(notices, source_run) or {}
    results = [read_result(*pair) for pair in zip(models.runs, folders, strict=True)]
    sentences, commands = describe_runs(results)
    unit = " (scaled)" if any(result.is_scaled for result in results) else ""
    tour = tour_content(
        sequences["start"], _find_need(models.runs), sentences, commands,
        command_for_history(folders[0], models.runs[0].trained.config),
        describe_outside(models.runs[0].trained.config),
    )  # fmt: skip
    return {
        "kind": "runs",
        "name": ", ".join(names),
        "unit": unit,
        "task": _describe_tasks(models.runs, folders),
        "notices": notices,
        "live": live | sequences | {"side_by_side": True, "tour": tour},
        "sentences": sentences,
        "commands": commands,
        "headings": [heading.format(unit) for heading in HEADINGS],
        "rows": [_row(*pair) for pair in zip(models.runs, folders, strict=True)],
    }


def _row(run: PageRun, folder: RunFolder) -> list[str]:
    summary = folder.read_summary()
    return [
        run.name,
        "with" if run.trained.has_attention else "without",
        f"{summary['test_loss']:.4g}",
        f"{summary['test_loss_teacher_forced']:.4g}",
        str(summary["best_epoch"]),
        f"{summary['parameters']:,}",
    ]


def _describe_tasks(runs: Sequence[PageRun], folders: Sequence[RunFolder]) -> str:
    """Return the task of the runs, or each task with the names of its runs if the tasks differ."""
    tasks = dict[str, list[str]]()
    for run, folder in zip(runs, folders, strict=True):
        task = describe_task_of(folder, run.trained.config)
        tasks.setdefault(task, []).append(run.name)
    if len(tasks) == 1:
        return next(iter(tasks))
    return " ".join(f"{', '.join(names)}: {task}" for task, names in tasks.items() if task)


def _find_need(runs: Sequence[PageRun]) -> Need | None:
    """Return sentences about whether the first model with attention needs its weights; None if no
    model has attention, or if the losses with replaced weights are unknown."""
    for run in runs:
        if not run.trained.has_attention:
            continue
        try:
            own, overridden, count = doctor.measure_overrides(run.trained, load_splits(run.trained))
        except (CheckpointError, DataError):
            return None
        return describe_need(own, overridden, count, run.name) if overridden else None
    return None
