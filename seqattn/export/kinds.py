"""What an export contains apart from graphs, for sequences of vectors and for sequences of symbols:
what its card says, which files lie beside it, and with which outputs of the model its graphs are
compared.

In shapes, N is the number of sequences, S the source length, T the number of steps, F the number of
source features, G the number of target features, and V the size of the target vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from seqattn.analysis.evaluation import FreeRunningForecast, free_run, free_running_error
from seqattn.analysis.evaluation.texts import longest_output
from seqattn.data import Sequences
from seqattn.data.baselines import forecast_mse
from seqattn.data.sequences import Integers, valid_mask
from seqattn.data.tokens import BEGIN, END, PAD, UNKNOWN
from seqattn.errors import UsageError
from seqattn.export.graphs import FORECAST, OBSERVED, SOURCE, WEIGHTS
from seqattn.export.units import LOGITS, is_instance
from seqattn.models import Seq2SeqModel
from seqattn.models.decoding import force
from seqattn.training import LoadedModel
from seqattn.training.batches import to_tensors

Arrays = dict[str, NDArray[Any]]
VECTOR_UNITS = "those of the data; scaling is part of the graphs"
INSTANCE_UNITS = (
    ", and so are mean and standard deviation of each source (data.normalize: instance)"
)
OBSERVED_UNITS = ", taken over the cells where source_observed is true"
SYMBOL_UNITS = "numbers of the symbols in the vocabularies"
LEVEL_SPREAD = 100  # standard deviation of the random levels of the sources, in scaled units


class ExportKind(ABC):
    """One of the two kinds of sequences, in the export of a model.

    Args:
        trained: the model.
    """

    runner: ClassVar[str]
    """The file of this package that becomes `run.py`."""
    error_name: ClassVar[str]
    """The name of the error of int8 graphs."""

    def __init__(self, trained: LoadedModel) -> None:
        self.trained = trained

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the part of the card that says how to read and write steps."""

    @abstractmethod
    def vocabularies(self) -> dict[str, dict[str, Any]]:
        """Return the content of the file of each vocabulary, by file name."""

    @abstractmethod
    def random_values(self, lengths: Integers) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Return random sources (N, S, F) with the given lengths (N,), and the mask of their
        observed cells, if the graphs have such a mask. The values in the padding are any."""

    @abstractmethod
    def outputs_of_model(self, model: Seq2SeqModel, part: Sequences, found: Arrays) -> Arrays:
        """Return the outputs with which those of a graph are compared.

        Args:
            model: the model.
            part: the sequences.
            found: the outputs of the graph.
        """

    @abstractmethod
    def outputs_of_graph(self, found: Arrays, expected: Arrays, part: Sequences) -> Arrays:
        """Return the outputs of a graph as they are compared with `outputs_of_model`."""

    @abstractmethod
    def example(self, part: Sequences, steps: int) -> Arrays:
        """Return the sources of a part, as `run.py` reads them, and the outputs of the model."""

    @abstractmethod
    def error(self, forecasts: NDArray[Any], part: Sequences) -> float | None:
        """Return the error of forecasts (N, T, G), or None if no target is known."""


class VectorKind(ExportKind):
    """Sequences of vectors. Differences between forecasts are in scaled units, so that all features
    have the same weight."""

    runner, error_name = "runner.py", "loss"

    def describe(self) -> dict[str, Any]:
        spec = self.trained.spec
        instance = is_instance(spec.source)
        return {
            "missing": "interpolate" if self.trained.fills_missing else None,
            "units": VECTOR_UNITS
            + INSTANCE_UNITS * instance
            + OBSERVED_UNITS * (instance and self.trained.fills_missing),
            "feature_units": dict(spec.units),
            "scaling": spec.scaling_as_plain(),
        }

    def vocabularies(self) -> dict[str, dict[str, Any]]:
        return {}

    def random_values(self, lengths: Integers) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Return standard normal values in scaled units. With `data.relative` or `data.normalize:
        instance`, each source has a random level. With `data.normalize: instance`, each source also
        has a random scale. If the graphs have a mask, some cells after the first step are not
        observed."""
        spec, rng, n = self.trained.spec, np.random.default_rng(0), len(lengths)
        scaling, F = spec.vectors[0].scaling, len(spec.source_features)
        S = int(lengths.max())
        points = scaling.inverse_transform(rng.standard_normal((n, S, F)))
        if scaling.relative:
            points[np.arange(n), lengths - 1] = 0
        if scaling.instance:
            points *= np.exp(rng.standard_normal((n, 1, F)))
        if scaling.relative or scaling.instance:
            points += rng.standard_normal((n, 1, F)) * LEVEL_SPREAD * scaling.scale
        observed = None
        if scaling.instance and self.trained.fills_missing:
            observed = valid_mask(lengths, S)[:, :, None] & (rng.random(points.shape) < 0.7)
            observed[:, 0] = True
        return points, observed

    def outputs_of_model(self, model: Seq2SeqModel, part: Sequences, found: Arrays) -> Arrays:
        run = free_run(model, part, found[FORECAST].shape[1])
        return {FORECAST: run.values / part.target_unit(), **_named_weights(run)}

    def outputs_of_graph(self, found: Arrays, expected: Arrays, part: Sequences) -> Arrays:
        return {**found, FORECAST: found[FORECAST] / part.target_unit()}

    def example(self, part: Sequences, steps: int) -> Arrays:
        """The sources are padded with NaN."""
        run = free_run(self.trained.model, part, steps)
        source = np.where(part.source_keep[:, :, None], part.source, np.nan)
        mask = {} if part.source_observed is None else {OBSERVED: part.source_observed}
        return {SOURCE: source, **mask, FORECAST: run.values, **_named_weights(run)}

    def error(self, forecasts: NDArray[Any], part: Sequences) -> float | None:
        return forecast_mse(forecasts, part, self.trained.spec.target.scale)


class SymbolKind(ExportKind):
    """Sequences of symbols.

    The model reads the symbols that the graph has written, so that all its steps can be compared,
    and two symbols that are equally probable but for rounding make no difference later. The
    difference of a forecast is that of the logit of its symbol from the largest logit.
    """

    runner, error_name = "text_runner.py", "symbol error rate"

    def describe(self) -> dict[str, Any]:
        return {
            "units": SYMBOL_UNITS,
            "vocabularies": list(self.vocabularies()),
            "reserved": {"padding": PAD, "begin": BEGIN, "end": END, "unknown": UNKNOWN},
            "longest_output": longest_output(self.trained),
        }

    def vocabularies(self) -> dict[str, dict[str, Any]]:
        """Return the symbols by number, and how a text is split into them; see `Tokens`."""
        source, target = self.trained.spec.tokens
        return {
            f"{side}_vocabulary.json": {
                "unit": space.unit, "lowercase": space.lowercase, "symbols": list(space.symbols),
            }
            for side, space in (("source", source), ("target", target))
        }  # fmt: skip

    def random_values(self, lengths: Integers) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        shape, V = (len(lengths), int(lengths.max()), 1), self.trained.spec.source.vocabulary_size
        return np.random.default_rng(0).integers(UNKNOWN, V, shape), None

    def outputs_of_model(self, model: Seq2SeqModel, part: Sequences, found: Arrays) -> Arrays:
        like = next(model.parameters())
        batch = to_tensors(part, like.device, like.dtype)
        with torch.inference_mode():
            written = torch.from_numpy(found[FORECAST]).to(like.device)
            output = force(model, batch.source, batch.source_lengths, written)
        layers = dict[str, list[NDArray[Any]]]()
        for layer in output.attention:
            layers.setdefault(WEIGHTS[layer.kind], []).append(layer.weights.cpu().numpy())
        logits = output.values.cpu().numpy()
        best = logits[..., END:].max(axis=-1, keepdims=True)
        maps = {name: np.stack(weights, axis=1) for name, weights in layers.items()}
        return {FORECAST: best, LOGITS: logits, **maps}

    def outputs_of_graph(self, found: Arrays, expected: Arrays, part: Sequences) -> Arrays:
        chosen = np.take_along_axis(expected[LOGITS], found[FORECAST], axis=-1)
        return {**found, FORECAST: chosen}

    def example(self, part: Sequences, steps: int) -> Arrays:
        """The sources are padded with `PAD`. The forecasts have `PAD` after their ends, and only
        the steps before it mean something."""
        forecast = free_run(self.trained.model, part, steps, with_attention=False).values
        written = {FORECAST: forecast.astype(np.int64)}
        source = np.where(part.source_keep[:, :, None], part.source, PAD)
        outputs = self.outputs_of_model(self.trained.model, part, written)
        return {SOURCE: source, **outputs, **written}

    def error(self, forecasts: NDArray[Any], part: Sequences) -> float | None:
        ended = part.target_space.trim(forecasts).astype(np.float64)
        return free_running_error(FreeRunningForecast(ended, {}), part)


def export_kind(trained: LoadedModel) -> ExportKind:
    """Return the kind of the sequences of a model.

    Raises:
        UsageError: if the source and the target are of different kinds.
    """
    spec = trained.spec
    match spec.source.vocabulary_size > 0, spec.target.vocabulary_size > 0:
        case True, True:
            return SymbolKind(trained)
        case False, False:
            return VectorKind(trained)
        case _:
            raise UsageError(
                "One side of this run is made of symbols and the other of vectors; seqattn export"
                " works only if both sides are of the same kind."
            )


def _named_weights(run: FreeRunningForecast) -> Arrays:
    return {WEIGHTS[kind]: weights for kind, weights in run.maps.items()}
