"""Sequences in NumPy: what a config's `data` section stands for."""

from __future__ import annotations

from dataclasses import dataclass

from seqattn.config import Squares
from seqattn.data import squares
from seqattn.data.baselines import Rule
from seqattn.data.sequences import Sequences


@dataclass(frozen=True)
class Splits:
    """The three parts of a data set, and the rule of thumb that its task knows.

    Attributes:
        rule: name and forecast of the task's own parameter-free rule, or None.
    """

    train: Sequences
    validation: Sequences
    test: Sequences
    rule: tuple[str, Rule] | None = None


def load(config: Squares) -> Splits:
    """Make or read the sequences of a config."""

    def part(n: int, seed: int) -> Sequences:
        return squares.generate(
            n,
            seed,
            noise=config.noise,
            source_length=config.source_length,
            variable_length=config.variable_length,
        )

    return Splits(
        train=part(config.n_train, config.train_seed),
        validation=part(config.n_validation, config.validation_seed),
        test=part(config.n_test, config.test_seed),
        rule=("minus the source corner", squares.opposite_corner),
    )


__all__ = ["Rule", "Sequences", "Splits", "load"]
