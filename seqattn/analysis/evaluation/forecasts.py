"""Forecasts of a trained model, some sequences at a time: free running, and teacher-forced.

Letters: N sequences, n of them that are forecast together, T steps, F features, A heads, S source
length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqattn.data import Scaling, Sequences
from seqattn.data.baselines import forecast_mse
from seqattn.data.sequences import Floats
from seqattn.models import AttentionKind, Seq2SeqModel, WeightSemantics
from seqattn.models.attention import Override
from seqattn.runs import attention_arrays
from seqattn.training.batches import batch_in_order, chunk_slices

CHUNK = 2048
CHUNK_PAIRS = 2**22  # of points, so that long sequences are taken a few at a time


@dataclass(frozen=True)
class FreeRunningForecast:
    """Forecasts made from sources alone.

    Attributes:
        values: (N, T, F).
        maps: by kind, "cross" (N, layers, A, T, S) and whatever else the model looks at; empty for
            a model without attention. See `AttentionMap`.
        meaning: of their numbers.
    """

    values: NDArray[np.float64]
    maps: dict[AttentionKind, NDArray[np.float32]]
    meaning: WeightSemantics = "distribution"

    @classmethod
    def of_chunks(cls, chunks: Sequence[ForecastChunk]) -> FreeRunningForecast:
        """All chunks of a part as one."""
        maps = {kind: torch.cat([chunk.maps[kind] for chunk in chunks]).numpy()
                for kind in chunks[0].maps}  # fmt: skip
        return cls(np.concatenate([chunk.values for chunk in chunks]), maps, chunks[0].meaning)

    def attention_arrays(self, part: Sequences, *, steps_real: bool) -> dict[str, NDArray[Any]]:
        """The weights as a file holds them.

        Args:
            part: what was forecast.
            steps_real: steps beyond a known target's length are padding; else all T are real.
        """
        if not self.maps:
            raise ValueError("a model without attention has no weights")
        N, T, _ = self.values.shape
        return attention_arrays(
            self.maps["cross"],
            ids=part.ids,
            source_lengths=part.source_lengths,
            target_lengths=part.target_lengths if steps_real else np.full(N, T),
            meaning=self.meaning,
            alignment=part.alignment if steps_real else None,
            encoder_self=self.maps.get("encoder_self"),
            decoder_self=self.maps.get("decoder_self"),
        )


Maps = Mapping[AttentionKind, NDArray[np.float32]]
AttentionCallback = Callable[[WeightSemantics, Maps, slice], None]
"""(meaning, weights (n, layers, A, rows, columns) by kind, places of these n sequences)."""


def free_run(
    model: Seq2SeqModel,
    part: Sequences,
    steps: int,
    override: Override | None = None,
    *,
    with_attention: bool = True,
    scaling: Scaling | None = None,
    watch: AttentionCallback | None = None,
) -> FreeRunningForecast:
    """Forecast `steps` points of every sequence, in chunks, on the model's device.

    Args:
        override: looks elsewhere than the model would; None: the model looks for itself.
        with_attention: False keeps no maps, which for long sequences are most of the memory.
        scaling: to the model's units and back; None: they are the part's.
        watch: shown the weights of some sequences after the other, kept or not.

    Raises:
        DataError: a source of a length that the model's skip has no weights for.
        UsageError: an override that the model, or a sequence, has no place for; more steps than the
            skip has weights for.
    """
    values = np.empty((len(part), steps, len(part.target_features)))
    maps = dict[AttentionKind, list[Tensor]]()
    meaning: WeightSemantics = "distribution"
    found = forecast_chunks(
        model, part, steps, override, scaling=scaling,
        with_attention=with_attention or watch is not None,
    )  # fmt: skip
    for chunk in found:
        values[chunk.places], meaning = chunk.values, chunk.meaning
        if with_attention:
            for kind, weights in chunk.maps.items():
                maps.setdefault(kind, []).append(weights)
        chunk.show(watch)
    joined = {kind: torch.cat(pieces).numpy() for kind, pieces in maps.items()}
    return FreeRunningForecast(values, joined, meaning)


class ForecastChunk(NamedTuple):
    """Free-running forecasts of some sequences.

    Attributes:
        places: of the n sequences within their part.
        values: (n, T, F) in the part's units.
        maps: by kind, (n, layers, A, rows, columns); empty where none are asked for.
        meaning: of their numbers.
    """

    places: slice
    values: NDArray[np.float64]
    maps: dict[AttentionKind, Tensor]
    meaning: WeightSemantics

    def show(self, watch: AttentionCallback | None) -> None:
        """Show the weights, if there are any."""
        if watch is not None and self.maps:
            watch(self.meaning, {kind: one.numpy() for kind, one in self.maps.items()}, self.places)


def forecast_chunks(
    model: Seq2SeqModel,
    part: Sequences,
    steps: int,
    override: Override | None = None,
    *,
    with_attention: bool,
    scaling: Scaling | None = None,
) -> Iterator[ForecastChunk]:
    """Forecast `steps` points of every sequence, some sequences after the other in their order; see
    `free_run`.

    Raises:
        DataError, UsageError: likewise.
    """
    if model.skip is not None:  # here sequences have names
        model.skip.check_steps(steps)
        model.skip.check_sources(part.source_lengths, part.ids)
    if override is not None:
        override.check(int(part.source_lengths.min()))
    batch = batch_in_order(part, *_device_and_type(model), scaling=scaling)
    for places in chunk_slices(len(batch), sequences_per_chunk(batch.source_steps + steps)):
        chunk = batch.take(places)
        with torch.inference_mode():
            forecast = model.forecast(
                chunk.source, steps, source_lengths=chunk.source_lengths, override=override,
                with_attention=with_attention,
            )  # fmt: skip
            layers = dict[AttentionKind, list[Tensor]]()
            meaning: WeightSemantics = "distribution"
            for layer in forecast.attention:
                meaning = layer.meaning
                layers.setdefault(layer.kind, []).append(layer.weights)
            maps = {
                kind: torch.stack(weights, dim=-4).float().cpu() for kind, weights in layers.items()
            }
        yield ForecastChunk(
            places, _in_units(forecast.values, part, places, scaling), maps, meaning
        )


def loss_of(
    result: FreeRunningForecast, part: Sequences, scaling: Scaling | None = None
) -> float | None:
    """The mean squared error of forecasts, or None where the truth is not known to their end, or
    nothing of it was observed."""
    if result.values.shape[1] != part.target_steps or not part.target_cells.any():
        return None
    return forecast_mse(result.values, part, None if scaling is None else scaling.target.scale)


def teacher_forced_chunks(
    model: Seq2SeqModel, part: Sequences, scaling: Scaling | None = None
) -> Iterator[tuple[slice, Floats]]:
    """Forecasts with every step fed the truth, some sequences after the other: (places, (n, T, F)
    values in the part's units)."""
    batch = batch_in_order(part, *_device_and_type(model), scaling=scaling)
    truth = torch.ones(batch.target_steps, dtype=torch.bool)
    for places in chunk_slices(
        len(batch), sequences_per_chunk(batch.source_steps + batch.target_steps)
    ):
        chunk = batch.take(places)
        with torch.inference_mode():
            forecast = model(
                chunk.source, chunk.target, source_lengths=chunk.source_lengths,
                teacher_forcing=truth, with_attention=False,
            )  # fmt: skip
        yield places, _in_units(forecast.values, part, places, scaling)


def with_targets(
    part: Sequences, forecasts: Iterable[tuple[slice, Floats]]
) -> Iterator[tuple[slice, Sequences, Floats]]:
    """The chunks of a part with their forecasts: (places, sequences, (n, T, F) values).

    Args:
        forecasts: (places, values) of all sequences in their order, as many at a time as may be.
    """
    left, coming = np.empty((0, part.target_steps, len(part.target_features))), iter(forecasts)
    for places, some in part.chunks():
        values = np.empty((len(some), *left.shape[1:]))
        filled = 0
        while filled < len(values):
            if not len(left):
                _, left = next(coming)
            taken = min(len(left), len(values) - filled)
            values[filled : filled + taken] = left[:taken]
            filled, left = filled + taken, left[taken:]
        yield places, some, values


def _in_units(
    values: Tensor, part: Sequences, places: slice, scaling: Scaling | None
) -> NDArray[np.float64]:
    """Forecasts of some sequences of a part in the user's units."""
    said: NDArray[np.float64] = values.double().cpu().numpy()
    if scaling is None or scaling.is_identity:
        return said
    return scaling.inverse_transform(said, part.select(places))


def sequences_per_chunk(steps: int) -> int:
    """How many sequences are forecast together.

    Args:
        steps: lengths of the longest source and the longest target, added up.
    """
    return max(1, min(CHUNK, CHUNK_PAIRS // steps**2))


def _device_and_type(model: Seq2SeqModel) -> tuple[torch.device, torch.dtype]:
    first = next(model.parameters())
    return first.device, first.dtype
