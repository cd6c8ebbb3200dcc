"""The pictures of a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seqattn.analysis.comparison.result import ComparisonResult, VariantResult
from seqattn.data.baselines import TRAINING_MEAN
from seqattn.plots.comparison_pictures import _mean_baseline_losses


def variant(group: str, value: float, losses: dict[int, float]) -> VariantResult:
    summaries = {seed: {"baselines": {TRAINING_MEAN: loss}} for seed, loss in losses.items()}
    return VariantResult(f"{group}_{value}", {}, summaries, frozenset(), group, value)


def test_the_mean_baseline_of_a_sweep_is_the_median_over_the_seeds_of_all_variants() -> None:
    """The last variant has only one finished seed."""
    variants = (
        variant("dot", 2.0, {3: 0.5, 5: 0.6, 7: 1.1}), variant("dot", 1.0, {3: 0.2}),
        variant("none", 2.0, {7: 1.1}), variant("none", 1.0, {}),
    )  # fmt: skip
    result = ComparisonResult(
        Path("x"), "x", variants, (), same_data=False, same_data_in_pairs=True, same_units=True,
        same_training_units=True, data_of_seeds="new", sweep_key="data.noise",
    )  # fmt: skip
    losses = _mean_baseline_losses(result)
    assert losses == {1.0: 0.2, 2.0: 0.6}
    assert list(losses) == [1.0, 2.0]
    assert _mean_baseline_losses(replace(result, same_data_in_pairs=False)) == {}
    assert _mean_baseline_losses(replace(result, same_units=False)) == {}
