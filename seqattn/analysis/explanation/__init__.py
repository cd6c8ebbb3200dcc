"""An attention step of a trained model as arithmetic that can be repeated on a pocket calculator.

If possible, the numbers of a stage are computed from the *printed* numbers of earlier stages (see
`seqattn.models.attention.arithmetic`). Otherwise, they come from the model. A forecast computed
from printed numbers may differ from the model's forecast by rounding errors, so the explanation
contains both forecasts. The methods `explain` of scores, normalizers and locations add the stages
of these parts. This package adds the other stages for each kind of model.

The letters in shapes are S (source length), F (features), H (width of the state), K (width of
queries and keys), V (width of values) and A (heads).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from seqattn.analysis.explanation.fast_weights import explain_fast_weights
from seqattn.analysis.explanation.record import Explanation
from seqattn.analysis.explanation.recurrent import explain_recurrent
from seqattn.analysis.explanation.skip import explain_skip
from seqattn.analysis.explanation.transformer import explain_transformer
from seqattn.errors import UsageError, counted
from seqattn.models import FastWeightsModel, RecurrentModel, Seq2SeqModel, TransformerModel
from seqattn.models.attention.arithmetic import (
    MAX_PRINTED_SIDE,
    Array,
    Stage,
    as_printed,
    format_printed,
)
from seqattn.models.decoding import log_probabilities


def explain(
    model: Seq2SeqModel, source: Array, *, step: int, layer: int = 0, head: int = 0,
    features: Sequence[str], target_features: Sequence[str] = (),
    symbols: tuple[Sequence[str], Sequence[str]] = ((), ()), title: str,
) -> Explanation:  # fmt: skip
    """Explain one step of a free-running forecast.

    Args:
        model: the model.
        source: (S, F), the source in the units of the model, or numbers of symbols, without
            padding.
        step: the step of the forecast to explain, counted from 1.
        layer, head: the index of the layer and the index of the head to show, counted from 0.
        features: the names of the F source features.
        target_features: the names of the target features; empty if the source and the target have
            the same features.
        symbols: the vocabularies of source and target by number; empty for vectors.
        title: the name of the sequence.

    Raises:
        UsageError: if the model has no attention, if the layer or the head does not exist, or if
            the output of the model ends before the step.
    """
    record = Explanation(f"{title}, output step {step}", symbols[1])
    with torch.inference_mode():
        like = next(model.parameters())
        dtype = torch.int64 if symbols[0] else like.dtype
        tensor = torch.as_tensor(source, dtype=dtype, device=like.device).unsqueeze(0)
        if symbols[0]:
            names = [symbols[0][number] for number in tensor[0, :, 0].tolist()]
            record.source_names = [f"{k} {name}" for k, name in enumerate(names, start=1)]
            record.vector_names = record.source_names
            embedded = model.source_modality.embed(tensor)[0]
            record.add("Source symbols", "their rows of the embedding matrix", embedded)
        else:
            record.add("Source points", "", source, columns=features)
        features = target_features or features
        forecast = model.forecast(tensor, step).values
        if forecast.shape[1] < step:
            length = counted(forecast.shape[1], "symbol")
            raise UsageError(f"--step {step}: the output has {length}, with its end.")
        if isinstance(model, RecurrentModel):
            explain_recurrent(record, model, tensor, forecast, layer, head, features)
        elif isinstance(model, FastWeightsModel):
            explain_fast_weights(record, model, tensor, forecast, layer, head, features)
        elif isinstance(model, TransformerModel):
            explain_transformer(record, model, tensor, step, layer, head)
        else:
            formula = f"by {type(model).__name__}, which does not explain its arithmetic"
            record.add_from_model("Predicted point", formula, forecast[:, -1], ["y"], features)
        if model.skip is not None:
            explain_skip(record, model.skip, tensor, forecast, features)
    output = forecast[0, -1]
    if record.target_symbols:
        if not record.symbols:  # the printed layers do not determine the output
            record.add_probabilities(output)
        best = [record.target_symbols.index(symbol) for symbol in record.symbols]
        output = log_probabilities(output).exp()[best]
    record.model_prediction = as_printed(output).tolist()
    return record


__all__ = ["MAX_PRINTED_SIDE", "Array", "Explanation", "Stage", "explain", "format_printed"]
