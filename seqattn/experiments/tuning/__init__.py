"""Hyperparameter search with Optuna."""

from seqattn.experiments.tuning.search import tune

__all__ = ["tune"]
