"""What the page of a comparison, or of many seeds of one config, shows."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
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
from seqattn.errors import CheckpointError
from seqattn.runs import PAGE, EpochRecord, RunFolder

MOST_SEEDS_SHOWN = 400
MOST_CELLS = 64 * 64
"""Weights of the sequence that is shown of a chosen seed."""
MOST_POINTS = 200
"""Points of the curve of a run that is chosen; below twice as many, every epoch is one."""


def comparison_content(result: ComparisonResult, home: Path | None = None) -> dict[str, Any]:
    """A comparison, or many seeds of one config; every seed with what is shown when it is chosen.

    Args:
        home: the folder of the page, from where its links go; None: that of the outcome.

    Raises:
        CheckpointError: no run in it has ended.
    """
    if not any(variant.summaries for variant in result.variants):
        more = " yet" if any(variant.unfinished for variant in result.variants) else ""
        raise CheckpointError(
            f"{result.path}: none of its runs has ended with a finite loss{more}."
        )
    headings, rows = variant_table(result.variants)
    summaries = [summary for variant in result.variants for summary in variant.summaries.values()]
    return {
        "kind": "comparison",
        "unit": " (scaled)" if any(summary.get("scaled") for summary in summaries) else "",
        "name": result.name,
        "path": str(result.path),
        "arms": _variants(result, (home or result.path).resolve()),
        "sentences": describe_result(result)
        if len(result.variants) > 1
        else _of_one_variant(result),
        "references": reference_losses(result),
        "reference_sentence": describe_references(result),
        "brackets": BRACKETS,
        "headings": headings,
        "rows": rows,
        "notices": _notices(result),
    }


def _of_one_variant(result: ComparisonResult) -> list[str]:
    """What many seeds of one config show."""
    (variant,) = result.variants
    apart = doctor.seeds_apart([float(loss) for loss in variant.losses.values()])
    return [f"{apart.number}. {apart.meaning}".strip(), describe_scope(result.data_of_seeds)]


def _variants(result: ComparisonResult, start: Path) -> list[dict[str, Any]]:
    """A row of the picture each: the points of its seeds, their median and its interval.

    Args:
        start: folder of the page.
    """
    variants, previewed = [], 0
    for variant in result.variants:
        points, missing = [], []
        for seed, folder in variant.folders.items():
            if seed not in variant.summaries:
                missing.append(seed)
                continue
            points.append(_point(variant, seed, result.path, start))
            if previewed < MOST_SEEDS_SHOWN:
                points[-1] |= _preview(folder)
                previewed += 1
        spread = variant.seed_summary
        interval = None if spread is None else spread.median_interval
        variants.append(
            {
                "name": variant.name,
                "points": points,
                "missing": missing,
                "diverged": len(variant.diverged),
                "median": None if spread is None else _finite(spread.median),
                "interval": None if interval is None else [_finite(bound) for bound in interval],
            }
        )
    return variants


def _point(variant: VariantResult, seed: int, path: Path, start: Path) -> dict[str, Any]:
    """A seed that has ended; its paths from the folder of the comparison, and from `start`."""
    summary, folder = variant.summaries[seed], variant.folders[seed].path
    return {
        "seed": seed,
        "loss": summary["test_loss"],
        "forced": summary["test_loss_teacher_forced"],
        "best_epoch": summary["best_epoch"],
        "beats": summary["beats_best_baseline"],
        "path": folder.relative_to(path).as_posix(),
        "link": Path(os.path.relpath(folder.resolve(), start)).as_posix(),
        "page": (folder / PAGE).exists(),
    }


def _notices(result: ComparisonResult) -> list[str]:
    """What is missing from the page."""
    notices = []
    total = sum(len(variant.folders) for variant in result.variants)
    if diverged := sum(len(variant.diverged) for variant in result.variants):
        notices.append(
            f"{diverged} of {total} runs diverged. They have no point; medians, intervals and tests"
            " count each as worse than any run that did not."
        )
    if unfinished := sum(variant.unfinished for variant in result.variants):
        notices.append(f"{unfinished} of {total} runs have not ended; they are in no number here.")
    if total > MOST_SEEDS_SHOWN:
        notices.append(
            f"Curves and weights are kept of the first {MOST_SEEDS_SHOWN} of {total} runs."
        )
    return notices


def _finite(value: float) -> float | None:
    """A number as JSON has it: None where it is infinite."""
    return value if math.isfinite(value) else None


def _preview(folder: RunFolder) -> dict[str, Any]:
    """A run's curve and the weights of its first sequence, for when its point is chosen; without
    what cannot be read."""
    preview: dict[str, Any] = {}
    try:
        preview["curve"] = thinned(folder.read_metrics())
        if folder.attention.exists():
            attention = folder.read_attention(1)
            _, L, A, _, _ = attention["weights"].shape
            S, T = (int(attention[f"{side}_lengths"][0]) for side in ("source", "target"))
            weights = attention["weights"][0, 0, 0, :T, :S]
            if weights.size <= MOST_CELLS:
                preview["weights"] = [
                    [round(w, 3) if math.isfinite(w) else None for w in row]
                    for row in weights.tolist()
                ]
                preview["part"] = (", layer 0" if L > 1 else "") + (", head 0" if A > 1 else "")
                preview["signed"] = str(attention["meaning"]) == "strength"
    except CheckpointError:
        return preview
    return preview


def thinned(history: Sequence[EpochRecord]) -> list[list[float]]:
    """Epoch and validation loss of some hundreds of epochs; the first, best and last are kept."""
    if not history:
        return []
    best = min(range(len(history)), key=lambda k: history[k].validation_loss)
    every = max(1, len(history) // MOST_POINTS)
    kept = sorted({*range(0, len(history), every), best, len(history) - 1})
    return [[history[k].epoch, history[k].validation_loss] for k in kept]
