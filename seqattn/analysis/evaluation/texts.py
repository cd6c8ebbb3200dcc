"""The outputs of a model of symbols for lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np

from seqattn.analysis.evaluation.forecasts import free_run
from seqattn.data import Sequences
from seqattn.data.tokens import UNKNOWN, Tokens
from seqattn.errors import DataError, UsageError, counted
from seqattn.training import LoadedModel

LINES_AT_ONCE = 256
LONGEST_OUTPUT = 2
"""How many times longer than all training targets an output may be."""


def translate(
    trained: LoadedModel, lines: Iterable[str], steps: int | None,
    note: Callable[[str], None], *, name: str = "standard input",
    at_once: int = LINES_AT_ONCE,
) -> Iterator[str]:  # fmt: skip
    """Yield the output of a model for each line, in order. The outputs of some lines are computed
    together, and do not depend on each other.

    Args:
        trained: the model, whose source and target are symbols.
        lines: the sources.
        steps: the maximum number of symbols of an output; None for twice the longest target of the
            training.
        note: a function that receives messages for the user.
        name: the name of the source of the lines in messages.
        at_once: how many lines are read before their outputs are computed.

    Raises:
        DataError: if a line has no symbol.
        UsageError: if the source or the target of the model is not made of symbols.
    """
    spec = trained.spec
    source, target = spec.source, spec.target
    if not (isinstance(source, Tokens) and isinstance(target, Tokens)):
        raise UsageError("the model was not trained on symbols, so it cannot read lines of text.")
    steps = steps or LONGEST_OUTPUT * spec.target_length
    rest, first = iter(lines), 1
    unknown, symbols = dict[str, None](), 0
    while chunk := list(islice(rest, at_once)):
        sources = [source.split(line.rstrip("\r\n")) for line in chunk]
        for k, each in enumerate(sources):
            if not each:
                raise DataError(f"{name}, line {first + k}: is empty. Leave empty lines out.")
            symbols += sum(number == UNKNOWN for number in source.numbers(each, ends=False))
            unknown |= {symbol: None for symbol in each if symbol not in source.number_of}
        part = _sources(sources, source, target, first)
        spec.note_lengths(part.source_lengths, spec.target_length, note)
        result = free_run(trained.model, part, steps, with_attention=False)
        yield from (target.text(row) for row in result.values)
        first += len(chunk)
    if unknown:
        shown = ", ".join(map(repr, list(unknown)[:5])) + (", ..." if len(unknown) > 5 else "")
        note(f"{name}: {counted(symbols, 'symbol')} unknown to the model: {shown}.")


def _sources(sources: list[list[str]], source: Tokens, target: Tokens, first: int) -> Sequences:
    numbers, lengths = source.pad(sources, ends=False)
    n = len(sources)
    return Sequences(
        numbers, lengths, np.zeros((n, 0, 1), dtype=np.int64), np.zeros(n, dtype=np.int64),
        source.names, tuple(str(first + k) for k in range(n)), target_features=target.names,
        source_space=source, target_space=target,
    )  # fmt: skip
