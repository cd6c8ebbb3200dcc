"""Tables of a comparison at full precision: one row for each variant, pair of variants or seed.

The CSV files of a comparison, the output of `seqattn table --format csv` and the DataFrames of the
Python API contain these rows.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqattn.analysis.comparison.measures import RATES
from seqattn.analysis.comparison.result import ComparisonResult, VariantResult
from seqattn.config import ComparedMeasure

VARIANT_COLUMNS = (
    "variant", "seeds", "failed", "median", "median_low", "median_high", "mean", "best",
    "best_seed", "worst", "worst_seed", "beats_baseline", "median_teacher_forced",
    "median_above_floor", "lowest_alignment_accuracy", "parameters", "seconds", "unfinished",
    *(f"{name}{end}" for name in RATES for end in ("", "_low", "_high")),
)  # fmt: skip
PAIR_COLUMNS = (
    "first", "second", "seeds", "hodges_lehmann", "low", "high", "first_better", "p", "p_holm",
    "effect", "decided", "alike", "first_failed", "second_failed", "measure", "margin", "p_equal",
    "seeds_needed",
)  # fmt: skip
SEED_COLUMNS = (
    "variant", "seed", "test_loss", "test_loss_teacher_forced", "validation_loss", "best_epoch",
    "epochs", "beats_best_baseline", "alignment_accuracy", "seconds", *RATES,
)  # fmt: skip


@dataclass(frozen=True)
class ResultTable:
    """A table of results at full precision.

    Attributes:
        columns: the names of the columns.
        rows: the rows. A cell is a string, a number, a bool, or None if the value is unknown. The
            loss of a diverged seed counts as infinite.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the cells of each column, by column name."""
        return {name: [row[k] for row in self.rows] for k, name in enumerate(self.columns)}

    def csv(self) -> str:
        """Return the table as CSV text. Numbers are not rounded, and an unknown value is an empty
        cell."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()


def variant_results(result: ComparisonResult) -> ResultTable:
    """Return a row for each variant: the content of `variants.csv`."""
    return ResultTable(VARIANT_COLUMNS, tuple(map(_variant_row, result.variants)))


def pair_results(result: ComparisonResult) -> ResultTable:
    """Return a row for each tested pair of variants: the content of `pairs.csv`.

    The cells `low` and `high` of a pair are None if the pair has too few seeds for an interval.
    """
    return ResultTable(PAIR_COLUMNS, tuple(
        (pair.first, pair.second, pair.seeds, pair.estimate, *(pair.interval or (None, None)),
         pair.first_wins, pair.p, pair.p_holm, pair.effect, pair.is_decided, pair.ties,
         *pair.diverged, pair.measure, pair.margin, None if pair.margin is None else pair.p_equal,
         pair.seeds_needed)
        for pair in result.pairs
    ))  # fmt: skip


def seed_results(result: ComparisonResult) -> ResultTable:
    """Return a row for each seed of each variant: the content of `seeds.csv`."""
    return ResultTable(SEED_COLUMNS, tuple(
        (variant.name, seed,
         *(_seed_value(_seed_summary(variant, seed), key) for key in SEED_COLUMNS[2:-len(RATES)]),
         *(variant.values_of(measure).get(seed) for measure in RATES))
        for variant in result.variants
        for seed in variant.folders
    ))  # fmt: skip


def _seed_summary(variant: VariantResult, seed: int) -> Mapping[str, Any]:
    """Return the summary of a seed for `seeds.csv`.

    The summary of a diverged seed contains only the test loss, inf. The summary of an unfinished
    seed is empty.
    """
    return variant.summaries.get(seed, {"test_loss": math.inf} if seed in variant.diverged else {})


def _seed_value(summary: Mapping[str, Any], key: str) -> Any:
    if key == "alignment_accuracy":
        return (summary.get("attention") or {}).get(key)
    return summary.get(key)


def alignment_accuracies(variant: VariantResult) -> list[float]:
    """Return the alignment accuracy of each finished seed for which the accuracy is known."""
    found = [_seed_value(summary, "alignment_accuracy") for summary in variant.summaries.values()]
    return [accuracy for accuracy in found if accuracy is not None]


def _variant_row(variant: VariantResult) -> tuple[Any, ...]:
    summary, diverged = variant.seed_summary, len(variant.diverged)
    if summary is None:
        row = dict.fromkeys(VARIANT_COLUMNS, None)
        row |= {"variant": variant.name, "seeds": 0, "failed": 0, "unfinished": variant.unfinished}
        return tuple(row.values())
    known = variant.any_summary if variant.summaries else {}
    return (
        variant.name, len(variant.losses), diverged,
        summary.median, *(summary.median_interval or (None, None)), summary.mean,
        summary.best, summary.best_seed, summary.worst, summary.worst_seed,
        count_wins(variant) / len(variant.losses),
        _median_value(variant, "test_loss_teacher_forced"),
        _median_value(variant, "above_floor") if variant.summaries else None,
        min(alignment_accuracies(variant), default=None),
        known.get("parameters"), median_seconds(variant), variant.unfinished,
        *itertools.chain.from_iterable(_rate_cells(variant, measure) for measure in RATES),
    )  # fmt: skip


def _rate_cells(variant: VariantResult, measure: ComparedMeasure) -> tuple[float | None, ...]:
    """Return the median of a measure over the seeds, and the bounds of its 95% interval."""
    summary = variant.summary_of(measure)
    if summary is None:
        return (None, None, None)
    return (summary.median, *(summary.median_interval or (None, None)))


def _median_value(variant: VariantResult, key: str) -> float | None:
    """Return the median of a loss over the seeds of a variant.

    The loss of a diverged seed counts as infinite. The result is None if the loss of a finished
    seed is unknown.

    Args:
        variant: the results of the variant.
        key: the key of the loss in `summary.json`.
    """
    found = [summary[key] for summary in variant.summaries.values()]
    if any(value is None for value in found):
        return None
    return float(np.median(found + [math.inf] * len(variant.diverged)))


def median_seconds(variant: VariantResult) -> float | None:
    """Return the median training time, in seconds, of the seeds that finished with a finite loss;
    None if there is no such seed."""
    found = [summary["seconds"] for summary in variant.summaries.values()]
    return float(np.median(found)) if found else None


def count_wins(variant: VariantResult) -> int:
    """Return the number of seeds with a lower test loss than the best parameter-free baseline."""
    return sum(bool(summary["beats_best_baseline"]) for summary in variant.summaries.values())
