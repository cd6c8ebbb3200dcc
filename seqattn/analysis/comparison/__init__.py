"""Results of several variants and seeds: statistics, significance tests and tables."""

from seqattn.analysis.comparison.reading import (
    collect_result,
    collect_seeds,
    find_seed_folders,
    is_comparison,
    read_comparison,
    read_results,
    require_seed_folders,
)
from seqattn.analysis.comparison.result import ComparisonResult, VariantResult
from seqattn.analysis.comparison.tables import describe_result

__all__ = [
    "ComparisonResult",
    "VariantResult",
    "collect_result",
    "collect_seeds",
    "describe_result",
    "find_seed_folders",
    "is_comparison",
    "read_comparison",
    "read_results",
    "require_seed_folders",
]
