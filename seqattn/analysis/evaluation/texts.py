"""The outputs of a model of symbols for lines of text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.data import Sequences
from seqattn.data.tokens import END, PAD, SPECIAL, UNKNOWN, Tokens
from seqattn.errors import DataError, counted
from seqattn.models import AttentionMap
from seqattn.models.decoding import GREEDY, Decoding, Results, decode, force, log_probabilities
from seqattn.training import LoadedModel
from seqattn.training.batches import to_tensors

LINES_AT_ONCE = 2048
"""Number of lines that are read together, so that lines of similar lengths share a batch."""
LONGEST_OUTPUT = 2
"""How many times longer than all training targets an output may be."""
MAX_UNKNOWN = 1 / 3
"""The share of unknown symbols above which a source has little in common with the training."""


@dataclass(frozen=True)
class TextOutput:
    """One output of a model for one line.

    In shapes, S is the number of source symbols and T the number of target symbols, with the end.

    Attributes:
        line: number of the line, from 1.
        text: the output.
        score: the score by which the outputs of a line are ordered; see
            `seqattn.models.decoding.Results`.
        source, target: the symbols of both sides, of the target with the end if it has one.
        weights: (T, S) attention of the decoder that reads this output, the mean over layers and
            heads; None if it was not requested or the model has none.
    """

    line: int
    text: str
    score: float
    source: list[str]
    target: list[str]
    weights: NDArray[np.float32] | None = None

    @property
    def pharaoh(self) -> str:
        """The source symbol with the largest weight for each target symbol but the end, as pairs
        `source-target` from 0. A target symbol whose weights are all 0 has no pair."""
        if self.weights is None:
            return ""
        symbols = len(self.target) - (self.target[-1:] == [SPECIAL[END]])
        rows = self.weights[:symbols]
        pairs = enumerate(rows.argmax(axis=-1).tolist())
        return " ".join(f"{s}-{t}" for t, s in pairs if rows[t].any())


def translate(
    trained: LoadedModel, lines: Iterable[str], steps: int | None,
    note: Callable[[str], None], *, decoding: Decoding = GREEDY,
    forced: Iterable[str] | None = None, with_attention: bool = False,
    name: str = "standard input", at_once: int = LINES_AT_ONCE,
) -> Iterator[TextOutput]:  # fmt: skip
    """Yield the outputs of a model for each line, in order: one, or `decoding.n_best` with the best
    first. The outputs of some lines are computed together, and do not depend on each other.

    Args:
        trained: the model, whose source and target are symbols.
        lines: the sources.
        steps: the maximum number of symbols of an output; None for twice the longest target of the
            training, or the number of positions that the model has learned.
        note: a function that receives messages for the user.
        decoding: how outputs are found.
        forced: the output of each line, which the decoder then reads; None to find the outputs.
        with_attention: whether the outputs have weights.
        name: the name of the source of the lines in messages.
        at_once: how many lines are read before their outputs are computed.

    Raises:
        DataError: if a line has no symbol, or if there are not as many forced outputs as lines.
        UsageError: if the source or the target of the model is not made of symbols.
    """
    spec = trained.spec
    source, target = spec.tokens
    steps = steps or longest_output(trained)
    rest, first, unknown, strange = iter(lines), 1, Counter[str](), 0
    lengths = list[NDArray[np.int64]]()
    targets = None if forced is None else iter(forced)
    while chunk := list(islice(rest, at_once)):
        sources = _split_lines(source, chunk, name, first)
        unknown.update(_unknown_symbols(source, sources))
        strange += _count_strange(source, sources)
        given = None
        if targets is not None:
            given = [target.split(line.rstrip("\r\n")) for line in islice(targets, len(chunk))]
            _check_count(name, first - 1 + len(chunk), first - 1 + len(given))
            unknown.update(_unknown_symbols(target, given))
        part = _part_of(sources, given, source, target, first)
        lengths.append(part.source_lengths)
        yield from _outputs(trained, part, sources, steps, decoding, given is not None,
                            with_attention=with_attention, first=first)  # fmt: skip
        first += len(chunk)
    if targets is not None:
        _check_count(name, first - 1, first - 1 + len(list(targets)))
    if lengths:
        spec.note_lengths(np.concatenate(lengths), spec.target_length, note)
    _note_unknown(unknown, strange, name, note)


def longest_output(trained: LoadedModel) -> int:
    """Return the maximum number of symbols of an output: twice the length of the longest target of
    the training, or the number of positions that the model has learned."""
    longest = LONGEST_OUTPUT * trained.spec.target_length
    return min(longest, trained.model.max_length or longest)


def read_sources(
    trained: LoadedModel, lines: Iterable[str], name: str, note: Callable[[str], None]
) -> Sequences:
    """Return lines of text as sources without targets.

    Args:
        trained: the model, whose source and target are symbols.
        lines: the sources.
        name: the name of the source of the lines in messages.
        note: a function that receives messages for the user.

    Raises:
        DataError: if there is no line, or if a line has no symbol.
    """
    source, target = trained.spec.tokens
    sources = _split_lines(source, lines, name, 1)
    if not sources:
        raise DataError(f"{name}: has no lines.")
    unknown = Counter(_unknown_symbols(source, sources))
    _note_unknown(unknown, _count_strange(source, sources), name, note)
    return _part_of(sources, None, source, target, 1)


def _split_lines(space: Tokens, lines: Iterable[str], name: str, first: int) -> list[list[str]]:
    """Return the symbols of lines, of which the first has the number `first`.

    Raises:
        DataError: if a line has no symbol.
    """
    found = [space.split(line.rstrip("\r\n")) for line in lines]
    if [] in found:
        empty = first + found.index([])
        raise DataError(f"{name}, line {empty}: is empty. Leave empty lines out.")
    return found


def _count_strange(space: Tokens, sources: list[list[str]]) -> int:
    """Return the number of sources with a larger share of unknown symbols than `MAX_UNKNOWN`."""
    return sum(
        sum(1 for _ in _unknown_symbols(space, [one])) > MAX_UNKNOWN * len(one) for one in sources
    )


def _note_unknown(
    unknown: Counter[str], strange: int, name: str, note: Callable[[str], None]
) -> None:
    if unknown:
        shown = ", ".join(map(repr, list(unknown)[:5])) + (", ..." if len(unknown) > 5 else "")
        note(f"{name}: {counted(unknown.total(), 'symbol')} unknown to the model: {shown}.")
    if strange:
        note(
            f"{name}: {counted(strange, 'line')} with more than a third of unknown symbols. The"
            " training says nothing about the output for such a line."
        )


def _unknown_symbols(space: Tokens, lines: list[list[str]]) -> Iterator[str]:
    numbers = space.number_of
    return (one for line in lines for one in line if numbers.get(one, UNKNOWN) <= UNKNOWN)


def _check_count(name: str, lines: int, forced: int) -> None:
    if lines != forced:
        raise DataError(
            f"{name} has {counted(lines, 'line')}, but there are"
            f" {counted(forced, 'forced output')}. Give one for each line."
        )


@torch.inference_mode()
def _outputs(
    trained: LoadedModel, part: Sequences, sources: list[list[str]], steps: int,
    decoding: Decoding, is_forced: bool, *, with_attention: bool, first: int,
) -> list[TextOutput]:  # fmt: skip
    """Return the outputs for the lines of a part. The first line has the number `first`."""
    model, (_, target) = trained.model, trained.spec.tokens
    parameter = next(model.parameters())
    batch = to_tensors(part, parameter.device, parameter.dtype)
    if is_forced:
        outputs = force(model, batch.source, batch.source_lengths, batch.target,
                        with_attention=False).values  # fmt: skip
        gained = log_probabilities(outputs).gather(-1, batch.target)
        if batch.target_keep is not None:
            gained = gained.masked_fill(~batch.target_keep.unsqueeze(-1), 0)
        log_probs = gained.sum(dim=(-2, -1)).unsqueeze(-1)
        found = Results(batch.target.mT, log_probs, log_probs)
    else:
        found = decode(model, batch.source, batch.source_lengths, steps, decoding, first - 1)
    N, M, T = found.symbols.shape
    maps: tuple[AttentionMap, ...] = ()
    if with_attention:
        repeated = [None if x is None else x.repeat_interleave(M, 0)
                    for x in (batch.source, batch.source_lengths)]  # fmt: skip
        assert repeated[0] is not None
        read = found.symbols.reshape(N * M, T, 1)
        maps = force(model, repeated[0], repeated[1], read).attention
    weights = _mean_weights(maps)
    scores, symbols = found.scores.flatten().tolist(), found.symbols.flatten(0, 1).cpu().numpy()
    lengths = (symbols != PAD).sum(axis=-1).tolist()
    results = list[TextOutput]()
    for k, (score, numbers, length) in enumerate(zip(scores, symbols, lengths, strict=True)):
        if math.isinf(score):
            continue
        n = k // M
        shown = [target.symbols[number] for number in numbers[:length].tolist()]
        own = None if weights is None else weights[k, :length, : len(sources[n])]
        text = target.text(numbers)
        results.append(TextOutput(first + n, text, score, sources[n], shown, own))
    return results


def _mean_weights(maps: tuple[AttentionMap, ...]) -> NDArray[np.float32] | None:
    """Return the mean weights (N, T, S) over the layers and heads of the cross-attention, or None
    without it."""
    cross: list[Tensor] = [one.weights.mean(dim=-3) for one in maps if one.kind == "cross"]
    if not cross:
        return None
    mean: NDArray[np.float32] = torch.stack(cross).mean(dim=0).float().cpu().numpy()
    return mean


def _part_of(
    sources: list[list[str]], targets: list[list[str]] | None, source: Tokens, target: Tokens,
    first: int,
) -> Sequences:  # fmt: skip
    numbers, lengths = source.pad(sources, ends=False)
    n = len(sources)
    outputs, output_lengths = np.zeros((n, 0, 1), dtype=np.int64), np.zeros(n, dtype=np.int64)
    if targets is not None:
        outputs, output_lengths = target.pad(targets, ends=True)
    return Sequences(
        numbers, lengths, outputs, output_lengths, source.names,
        tuple(str(first + k) for k in range(n)),
        target_features=target.names, source_space=source, target_space=target,
    )  # fmt: skip
