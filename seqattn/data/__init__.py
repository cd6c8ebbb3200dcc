"""Sequences in NumPy: what a config's `data` section stands for."""

from __future__ import annotations

from dataclasses import dataclass

from seqattn.config import Data, Squares
from seqattn.data import squares, tasks
from seqattn.data.baselines import Rule
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Sequences


@dataclass(frozen=True)
class Splits:
    """The three parts of a data set, and the rule of thumb that its task knows.

    Attributes:
        scaling: of the units that a model works in; the parts are in the user's.
        rule: name and forecast of the task's own parameter-free rule, or None.
    """

    train: Sequences
    validation: Sequences
    test: Sequences
    scaling: Scaling
    rule: tuple[str, Rule] | None = None


def load(config: Data) -> Splits:
    """Make or read the sequences of a config."""

    def part(n: int, seed: int) -> Sequences:
        if isinstance(config, Squares):
            return squares.generate(
                n,
                seed,
                noise=config.noise,
                source_length=config.source_length,
                variable_length=config.variable_length,
            )
        return tasks.generate(config, n, seed)

    train = part(config.n_train, config.train_seed)
    return Splits(
        train=train,
        validation=part(config.n_validation, config.validation_seed),
        test=part(config.n_test, config.test_seed),
        scaling=Scaling.identity(train),
        rule=("minus the source corner", squares.opposite_corner)
        if isinstance(config, Squares)
        else tasks.rule_of(config),
    )


__all__ = ["Rule", "Scaling", "Sequences", "Splits", "load"]
