"""Variants and seeds of trained runs: their results, statistics and tables."""

from seqattn.analysis.comparison.reading import (
    checked_seeds,
    collect_result,
    is_comparison,
    of_seeds,
    read_comparison,
    seed_folders,
)
from seqattn.analysis.comparison.result import ComparisonResult, Variant
from seqattn.analysis.comparison.tables import sentences

__all__ = [
    "ComparisonResult",
    "Variant",
    "checked_seeds",
    "collect_result",
    "is_comparison",
    "of_seeds",
    "read_comparison",
    "seed_folders",
    "sentences",
]
