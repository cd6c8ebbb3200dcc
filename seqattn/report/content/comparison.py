"""The content of the report page of a comparison, or of several seeds of one config."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from seqattn.analysis import doctor
from seqattn.analysis.comparison import ComparisonResult, VariantResult, describe_result
from seqattn.analysis.comparison.tables import (
    BRACKETS,
    describe_references,
    describe_scope,
    reference_losses,
    variant_table,
)
from seqattn.config import read_stored
from seqattn.errors import CheckpointError, ConfigError, UsageError
from seqattn.report.content.live import LiveModels, tour_content
from seqattn.report.content.task import describe_task_of
from seqattn.report.content.verdict import shown_path
from seqattn.runs import PAGE, EpochRecord, RunFolder

MAX_PREVIEWS = 400
MAX_PREVIEW_CELLS = 64 * 64
"""Maximum number of attention weights in the preview of a run."""
MAX_CURVE_POINTS = 200
"""Approximate number of points to which the loss curve in the preview of a run is thinned. A curve
may have up to twice as many points."""


def comparison_content(
    result: ComparisonResult, page_folder: Path | None = None, live: bool = False
) -> dict[str, Any]:
    """Return the content of the report page of a comparison, or of several seeds of one config.

    The content includes previews of the runs.

    Args:
        result: the comparison.
        page_folder: the folder of the page, for relative links; None for the folder of the
            comparison.
        live: whether to include the models in the page.

    Raises:
        CheckpointError: if no run has finished with a finite loss.
    """
    if not any(variant.summaries for variant in result.variants):
        more = " yet" if any(variant.unfinished for variant in result.variants) else ""
        raise CheckpointError(
            f"{result.path}: none of its runs has finished with a finite loss{more}."
        )
    headings, rows = variant_table(result.variants)
    summaries = [summary for variant in result.variants for summary in variant.summaries.values()]
    notices = _notices(result)
    return {
        "kind": "comparison",
        "loss_name": summaries[0]["loss_name"],
        "unit": " (scaled)" if any(summary.get("scaled") for summary in summaries) else "",
        "name": result.name,
        "path": shown_path(result.path),
        "task": _describe_task(result),
        "variants": _variant_rows(result, (page_folder or result.path).resolve()),
        "sentences": describe_result(result)
        if len(result.variants) > 1
        else _describe_seeds(result),
        "references": reference_losses(result),
        "reference_sentence": describe_references(result),
        "brackets": BRACKETS,
        "headings": headings,
        "rows": rows,
        "notices": notices,
        "live": _live_models(result, notices) if live else None,
    }


def _live_models(result: ComparisonResult, notices: list[str]) -> dict[str, Any] | None:
    """Return the models of the finished seeds, and the first test sequences that can be read.

    The models with the lowest losses come first, because the page opens with the first one. The
    result is None if the page cannot contain any of the models. The reasons why models are missing
    are appended to `notices`.
    """
    models, folders, names = LiveModels(), list[RunFolder](), list[str]()
    finished = [variant for variant in result.variants if variant.summaries]
    for variant in sorted(finished, key=lambda each: median(each.losses.values())):
        for seed in sorted(variant.summaries, key=variant.losses.__getitem__):
            folder = variant.folders[seed]
            name = f"seed {seed}" if len(result.variants) == 1 else f"{variant.name}, seed {seed}"
            if models.add(folder, name, with_history=False):
                folders.append(folder)
                names.append(name)
    notices.extend(models.reasons)
    if not folders:
        return None
    try:
        source_run, sequences = models.start_sequences(folders, names, notices)
    except UsageError as error:
        notices.append(f"The page has no models. {error}")
        return None
    content = None if source_run is None else models.content(notices, source_run)
    if content is None:
        return None
    conclusion = describe_result(result) if len(result.variants) > 1 else _describe_seeds(result)
    tour = tour_content(sequences["start"], None, conclusion, [], [])
    return content | sequences | {"tour": tour}


def _describe_task(result: ComparisonResult) -> str:
    """Return the task of the finished runs; "" if their tasks differ or a config cannot be
    read."""
    folders = [folder for variant in result.variants for seed, folder in variant.folders.items()
               if seed in variant.summaries]  # fmt: skip
    tasks = set[str]()
    for folder in folders[:MAX_PREVIEWS]:
        try:
            tasks.add(describe_task_of(folder, read_stored(folder.config)))
        except (ConfigError, OSError):
            return ""
    return tasks.pop() if len(tasks) == 1 else ""


def _describe_seeds(result: ComparisonResult) -> list[str]:
    """Return sentences that describe the results of several seeds of one config."""
    (variant,) = result.variants
    finding = doctor.check_seed_spread([float(loss) for loss in variant.losses.values()])
    number = finding.number[:1].upper() + finding.number[1:]
    return [f"{number}. {finding.meaning}".strip(), describe_scope(result.data_of_seeds)]


def _variant_rows(result: ComparisonResult, page_folder: Path) -> list[dict[str, Any]]:
    """Return the data of each variant for the chart of the losses: a point for each finished seed,
    the median of the losses, and its interval.

    Args:
        result: the comparison.
        page_folder: the folder of the page, for relative links.
    """
    variants, previewed = [], 0
    for variant in result.variants:
        points, unfinished_seeds = [], []
        for seed, folder in variant.folders.items():
            if seed not in variant.summaries:
                unfinished_seeds.append(seed)
                continue
            points.append(_seed_point(variant, seed, result.path, page_folder))
            if previewed < MAX_PREVIEWS:
                points[-1] |= _preview(folder)
                previewed += 1
        summary = variant.seed_summary
        interval = None if summary is None else summary.median_interval
        variants.append(
            {
                "name": variant.name,
                "points": points,
                "missing": unfinished_seeds,
                "diverged": len(variant.diverged),
                "median": None if summary is None else _finite(summary.median),
                "interval": None if interval is None else [_finite(bound) for bound in interval],
            }
        )
    return variants


def _seed_point(variant: VariantResult, seed: int, path: Path, page_folder: Path) -> dict[str, Any]:
    """Return the point of a finished seed, with the path of the run folder in the comparison, and
    with the link from the page to the run folder."""
    summary, folder = variant.summaries[seed], variant.folders[seed].path
    return {
        "seed": seed,
        "loss": summary["test_loss"],
        "forced": summary["test_loss_teacher_forced"],
        "best_epoch": summary["best_epoch"],
        "beats": summary["beats_best_baseline"],
        "path": folder.relative_to(path).as_posix(),
        "link": Path(os.path.relpath(folder.resolve(), page_folder)).as_posix(),
        "page": (folder / PAGE).exists(),
    }


def _notices(result: ComparisonResult) -> list[str]:
    """Return sentences about content that is missing from the page."""
    notices = []
    total = sum(len(variant.folders) for variant in result.variants)
    if diverged := sum(len(variant.diverged) for variant in result.variants):
        notices.append(
            f"{diverged} of {total} runs diverged. A diverged run has no point; in medians,"
            " intervals and tests it ranks below every run that did not diverge."
        )
    if unfinished := sum(variant.unfinished for variant in result.variants):
        notices.append(
            f"{unfinished} of {total} runs are unfinished and not included in the results."
        )
    if total > MAX_PREVIEWS:
        notices.append(
            f"Only the first {MAX_PREVIEWS} of {total} runs have a preview with curve and weights."
        )
    return notices


def _finite(value: float) -> float | None:
    """Return a number, or None if the number is not finite. JSON has only finite numbers."""
    return value if math.isfinite(value) else None


def _preview(folder: RunFolder) -> dict[str, Any]:
    """Return the loss curve of a run, and the attention weights of the first test sequence.

    The weights are those of the first layer and head, and are left out if there are too many. If
    the metrics cannot be read, the curve and the weights are left out. If the attention file cannot
    be read, only the weights are left out.
    """
    preview: dict[str, Any] = {}
    try:
        preview["curve"] = thin_history(folder.read_metrics())
        if folder.attention.exists():
            attention = folder.read_attention(1)
            _, L, A, _, _ = attention["weights"].shape
            S, T = (int(attention[f"{side}_lengths"][0]) for side in ("source", "target"))
            weights = attention["weights"][0, 0, 0, :T, :S]
            if weights.size <= MAX_PREVIEW_CELLS:
                preview["weights"] = [
                    [round(w, 3) if math.isfinite(w) else None for w in row]
                    for row in weights.tolist()
                ]
                preview["part"] = (", layer 0" if L > 1 else "") + (", head 0" if A > 1 else "")
                preview["signed"] = str(attention["meaning"]) == "strength"
    except CheckpointError:
        return preview
    return preview


def thin_history(history: Sequence[EpochRecord]) -> list[list[float]]:
    """Return pairs of an epoch number and a validation loss for at most a few hundred epochs.

    The result includes the first epoch, the best epoch and the last epoch.
    """
    if not history:
        return []
    best = min(range(len(history)), key=lambda k: history[k].validation_loss)
    every = max(1, len(history) // MAX_CURVE_POINTS)
    kept = sorted({*range(0, len(history), every), best, len(history) - 1})
    return [[history[k].epoch, history[k].validation_loss] for k in kept]
