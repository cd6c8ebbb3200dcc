"""Check that data have the fixed lengths that `model.skip: linear` needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqattn.config import Config
from seqattn.data import Splits
from seqattn.data.sequences import Integers
from seqattn.errors import DataError


def check_fixed_lengths(config: Config, data: Splits) -> None:
    """Check that sources have one length, and targets another, for a linear skip.

    Raises:
        DataError: if `model.skip` is `linear`, and sources or targets have several lengths.
    """
    if config.model.skip == "none":
        return
    parts = (data.train, data.validation, data.test)
    source = _range([part.source_lengths for part in parts], data.train.source_steps)
    target = _range([part.target_lengths for part in parts], data.train.target_steps)
    if source[0] == source[1] and target[0] == target[1]:
        return
    raise DataError(
        "model.skip: linear needs one length for all sources and one for all targets: its map has a"
        f" weight for each point. Here sources have {_words(*source)} points and targets"
        f" {_words(*target)}."
        " Cut all sequences alike (data.window of a file), make them alike"
        " (data.variable_length: false, no data.min_...), or set model.skip: none."
    )


def _range(lengths: Sequence[Integers], room: int) -> tuple[int, int]:
    """The shortest and the longest length.

    Args:
        room: length of the arrays, which a model is built for.
    """
    every = np.concatenate(lengths)
    shortest, longest = int(every.min()), int(every.max())
    return shortest, room if shortest == longest else longest


def _words(shortest: int, longest: int) -> str:
    return f"{shortest} to {longest}" if shortest < longest else str(longest)
