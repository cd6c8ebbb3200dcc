"""Free-running and teacher-forced forecasts of a trained model, in chunks of sequences.

The letters in shapes are N (sequences), n (sequences in a chunk), T (steps), F (features), A
(heads) and S (source length).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.analysis.evaluation.forced_weights import (
    ForecastOverride,
    fit_override,
    meaning_with,
)
from seqattn.data import Sequences
from seqattn.data.measures import scores_of
from seqattn.data.sequences import Floats, Integers
from seqattn.errors import UsageError
from seqattn.models import AttentionKind, AttentionMap, Seq2SeqModel, WeightSemantics
from seqattn.models.decoding import GREEDY, Decoding, decode, force
from seqattn.runs import attention_arrays
from seqattn.training.batches import batch_of, chunk_slices

MAX_CHUNK_SEQUENCES = 2048
MAX_CHUNK_PAIRS = 2**22  # pairs of points, which bound the size of the attention weights


@dataclass(frozen=True)
class FreeRunningForecast:
    """Forecasts that the model computed from the sources alone.

    Attributes:
        values: (N, T, F), the forecasts in the units of the data.
        maps: the weights of each kind of attention, such as "cross" with the shape
            (N, layers, A, T, S); empty if the model has no attention, or if the weights were not
            requested. See `AttentionMap`.
        meaning: the meaning of the weights; see `AttentionMap.meaning`.
    """

    values: NDArray[np.float64]
    maps: dict[AttentionKind, NDArray[np.float32]]
    meaning: WeightSemantics = "distribution"

    @classmethod
    def from_chunks(cls, chunks: Sequence[ForecastChunk]) -> FreeRunningForecast:
        """Concatenate the forecasts of several chunks."""
        maps = {kind: torch.cat([chunk.maps[kind] for chunk in chunks]).numpy()
                for kind in chunks[0].maps}  # fmt: skip
        return cls(np.concatenate([chunk.values for chunk in chunks]), maps, chunks[0].meaning)

    def first_steps(self, T: int) -> FreeRunningForecast:
        """Return the first T steps of the forecasts and of their attention weights."""
        rows = {"cross": np.s_[..., :T, :], "decoder_self": np.s_[..., :T, :T]}
        maps = {kind: weights[rows.get(kind, ...)] for kind, weights in self.maps.items()}
        return FreeRunningForecast(self.values[:, :T], maps, self.meaning)

    def attention_arrays(self, part: Sequences, *, steps_real: bool) -> dict[str, NDArray[Any]]:
        """Return the arrays of an attention file.

        Args:
            part: the sequences of the forecast.
            steps_real: True if the steps after the end of a target are padding; False if all T
                steps are valid.

        Raises:
            ValueError: if `maps` is empty.
        """
        if not self.maps:
            raise ValueError("a model without attention has no weights")
        N, T, _ = self.values.shape
        wanted = part.target_lengths if steps_real else np.full(N, T)
        return attention_arrays(
            self.maps["cross"],
            ids=part.ids,
            source_lengths=part.source_lengths,
            target_lengths=part.target_space.forecast_lengths(self.values, wanted),
            meaning=self.meaning,
            alignment=part.alignment if steps_real and part.links is None else None,
            links=part.links if steps_real else None,
            encoder_self=self.maps.get("encoder_self"),
            decoder_self=self.maps.get("decoder_self"),
        )


Maps = Mapping[AttentionKind, NDArray[np.float32]]
AttentionCallback = Callable[[WeightSemantics, Maps, slice, Integers], None]
"""A function that receives the attention weights of n sequences. The first argument is the meaning
of the weights. The second argument contains an array (n, layers, A, rows, columns) for each kind of
attention. The third argument is the slice of the part that contains the n sequences, and the last
one is the number of valid decoder steps of each sequence, (n,)."""


def free_run(
    model: Seq2SeqModel,
    part: Sequences,
    steps: int,
    override: ForecastOverride | None = None,
    *,
    with_attention: bool = True,
    on_attention: AttentionCallback | None = None,
    decoding: Decoding = GREEDY,
) -> FreeRunningForecast:
    """Forecast `steps` points of every sequence, in chunks of sequences.

    Args:
        model: the model.
        part: the sequences.
        steps: the number of points to forecast.
        override: the replacement of the attention weights; None for the model's own weights.
        with_attention: whether the result contains the attention weights. The weights of long
            sequences need more memory than everything else in the result.
        on_attention: a function that is called with the attention weights of each chunk, even if
            `with_attention` is False.
        decoding: how outputs of symbols are found. The forecast is the best result, and the
            attention is that of a decoder that reads this result.

    Raises:
        DataError: if the model's linear skip connection has no weights for a source length.
        UsageError: if the override does not fit the model or a sequence, or if the linear skip
            connection has no weights for `steps` steps.
    """
    values = np.empty((len(part), steps, len(part.target_features)))
    maps = dict[AttentionKind, list[Tensor]]()
    meaning: WeightSemantics = "distribution"
    chunks = forecast_chunks(
        model, part, steps, override, with_attention=with_attention or on_attention is not None,
        decoding=decoding,
    )  # fmt: skip
    for chunk in chunks:
        values[chunk.places], meaning = chunk.values, chunk.meaning
        if with_attention:
            for kind, weights in chunk.maps.items():
                maps.setdefault(kind, []).append(weights)
        chunk.emit_attention(on_attention)
    joined = {kind: torch.cat(pieces).numpy() for kind, pieces in maps.items()}
    return FreeRunningForecast(values, joined, meaning)


class ForecastChunk(NamedTuple):
    """Free-running forecasts of n sequences.

    Attributes:
        places: the slice of the part that contains the sequences.
        values: (n, T, F), the forecasts in the units of the data.
        maps: the weights of each kind of attention, (n, layers, A, rows, columns); empty if the
            model has no attention, or if the weights were not requested.
        meaning: the meaning of the weights; see `AttentionMap.meaning`.
        lengths: (n,) number of steps of each forecast.
    """

    places: slice
    values: NDArray[np.float64]
    maps: dict[AttentionKind, Tensor]
    meaning: WeightSemantics
    lengths: Integers

    def emit_attention(self, on_attention: AttentionCallback | None) -> None:
        """Call `on_attention` with the weights, if there are any."""
        if on_attention is not None and self.maps:
            maps = {kind: one.numpy() for kind, one in self.maps.items()}
            on_attention(self.meaning, maps, self.places, self.lengths)


def forecast_chunks(
    model: Seq2SeqModel,
    part: Sequences,
    steps: int,
    override: ForecastOverride | None = None,
    *,
    with_attention: bool,
    decoding: Decoding = GREEDY,
) -> Iterator[ForecastChunk]:
    """Forecast `steps` points of every sequence, and yield the chunks in order; see `free_run`.

    Raises:
        DataError: see `free_run`.
        UsageError: see `free_run`.
    """
    if override is not None and not decoding.is_greedy:
        raise UsageError(
            "Attention is replaced while the outputs are computed, which is only possible for"
            " greedy decoding; leave out --beam and --temperature."
        )
    if model.skip is not None:  # this check, unlike a check in the model, can name the sequence ids
        model.skip.check_steps(steps)
        model.skip.check_sources(part.source_lengths, part.ids)
    of_chunk = None if override is None else fit_override(override, model, part, steps)
    # Without attention, `decode` finds the same symbols in less time.
    is_plain_forecast = decoding.is_greedy and (
        with_attention or override is not None or not model.features.target_symbols
    )
    batch = batch_of(part, *_device_and_type(model), keep_tensors=False)
    for places in chunk_slices(len(batch), sequences_per_chunk(batch.source_steps + steps)):
        chunk = batch.take(places)
        with torch.inference_mode():
            attention: tuple[AttentionMap, ...] = ()
            if is_plain_forecast:
                forecast = model.forecast(
                    chunk.source, steps, source_lengths=chunk.source_lengths,
                    override=None if of_chunk is None else of_chunk(places, chunk.source.shape[-2]),
                    with_attention=with_attention,
                )  # fmt: skip
                steps_read, attention = (
                    model.target_modality.read(forecast.values), forecast.attention
                )  # fmt: skip
            else:
                found = decode(
                    model, chunk.source, chunk.source_lengths, steps, decoding, places.start
                )
                steps_read = found.symbols[:, 0].unsqueeze(-1)
                if with_attention:
                    attention = force(
                        model, chunk.source, chunk.source_lengths, steps_read
                    ).attention
            meaning, layers = _stack_layers(attention)
            if override is not None:
                meaning = meaning_with(override, meaning)
            missing = steps - steps_read.shape[-2]  # all sequences ended before the last step
            steps_read = torch.nn.functional.pad(steps_read, (0, 0, 0, missing))
            maps = {kind: _pad_map(kind, weights, missing) for kind, weights in layers.items()}
        values = part.target_space.trim(_to_user_units(steps_read, part, places))
        lengths = part.target_space.forecast_lengths(values, np.full(len(values), steps))
        yield ForecastChunk(places, values, maps, meaning, lengths)


def _stack_layers(
    attention: Sequence[AttentionMap],
) -> tuple[WeightSemantics, dict[AttentionKind, Tensor]]:
    """Return the meaning of the weights of all layers, and the weights (N, layers, A, rows,
    columns) of each kind of attention on the CPU."""
    layers, meaning = dict[AttentionKind, list[Tensor]](), attention[0].meaning if attention else (
        "distribution")  # fmt: skip
    for layer in attention:
        layers.setdefault(layer.kind, []).append(layer.weights)
    return meaning, {
        kind: torch.stack(weights, dim=-4).float().cpu() for kind, weights in layers.items()
    }


def _pad_map(kind: AttentionKind, weights: Tensor, missing: int) -> Tensor:
    """Add weights of 0 for `missing` target steps to weights (..., rows, columns)."""
    if not missing or kind == "encoder_self":
        return weights
    columns = missing if kind == "decoder_self" else 0
    return torch.nn.functional.pad(weights, (0, columns, 0, missing))


def free_running_error(result: FreeRunningForecast, part: Sequences) -> float | None:
    """Return the error of forecasts: the mean squared error, or the symbol error rate.

    The result is None if the number of forecast steps differs from the length of the longest
    target, or if the part contains no observed target.
    """
    if result.values.shape[1] != part.target_steps or not part.target_cells.any():
        return None
    scores = scores_of(part.target_space, part)
    for places, chunk in part.chunks():
        scores.add_free_running(places, chunk, result.values[places])
    return scores.errors[0]


def teacher_forced_chunks(
    model: Seq2SeqModel, part: Sequences, on_attention: AttentionCallback | None = None
) -> Iterator[tuple[slice, Floats]]:
    """Compute the teacher-forced forecasts of all sequences of a part.

    Args:
        model: the model.
        part: the sequences.
        on_attention: a function that is called with the attention weights of each chunk.

    Yields:
        The slice of a chunk of n sequences in the part, and what `Modality.observe` keeps of their
        outputs, (n, T, K). For vectors, these are the forecasts in the units of the data.
    """
    batch = batch_of(part, *_device_and_type(model), keep_tensors=False)
    for places in chunk_slices(
        len(batch), sequences_per_chunk(batch.source_steps + batch.target_steps)
    ):
        chunk = batch.take(places)
        with torch.inference_mode():
            forecast = force(
                model, chunk.source, chunk.source_lengths, chunk.target,
                with_attention=on_attention is not None,
            )  # fmt: skip
        if on_attention is not None and forecast.attention:
            meaning, maps = _stack_layers(forecast.attention)
            numbers = {kind: one.numpy() for kind, one in maps.items()}
            on_attention(meaning, numbers, places, part.target_lengths[places])
        kept = model.target_modality.observe(forecast.values, chunk.target)
        yield places, _to_user_units(kept, part, places)


def pair_with_targets(
    part: Sequences, forecasts: Iterable[tuple[slice, Floats]]
) -> Iterator[tuple[slice, Sequences, Floats]]:
    """Yield the chunks of a part, each chunk together with the forecasts of its sequences.

    Args:
        part: the sequences.
        forecasts: the forecasts of all sequences in order, in chunks of any size. Each of these
            chunks is a pair: a slice of the part, and the forecasts, (n, T, F), for this slice.

    Yields:
        The slice of a chunk in the part, the sequences of the chunk, and the forecasts of these
        sequences, (n, T, F).
    """
    incoming = iter(forecasts)
    remaining = np.empty((0, part.target_steps, 0))
    for places, some in part.chunks():
        values, filled = np.empty(0), 0
        while filled < len(some):
            if not len(remaining):
                _, remaining = next(incoming)
            if not filled:
                values = np.empty((len(some), *remaining.shape[1:]))
            count = min(len(remaining), len(values) - filled)
            values[filled : filled + count] = remaining[:count]
            filled, remaining = filled + count, remaining[count:]
        yield places, some, values


def _to_user_units(values: Tensor, part: Sequences, places: slice) -> NDArray[np.float64]:
    """Convert the forecasts of some sequences of a part to the units of the data."""
    values_in_units: NDArray[np.float64] = values.double().cpu().numpy()
    if part.is_identity:
        return values_in_units
    return part.select(places).decode(values_in_units)


def sequences_per_chunk(steps: int) -> int:
    """Return the number of sequences that are forecast together.

    Args:
        steps: the length of the longest source plus the number of forecast steps.
    """
    return max(1, min(MAX_CHUNK_SEQUENCES, MAX_CHUNK_PAIRS // steps**2))


def _device_and_type(model: Seq2SeqModel) -> tuple[torch.device, torch.dtype]:
    first = next(model.parameters())
    return first.device, first.dtype
