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
from seqattn.models import FastWeightsModel, RecurrentModel, Seq2SeqModel, TransformerModel
from seqattn.models.attention.arithmetic import DECIMALS, MAX_PRINTED_SIDE, Array, Stage, as_printed


def explain(
    model: Seq2SeqModel, source: Array, *, step: int, layer: int = 0, head: int = 0,
    features: Sequence[str], target_features: Sequence[str] = (), title: str,
) -> Explanation:  # fmt: skip
    """Explain one step of a free-running forecast.

    Args:
        model: the model.
        source: (S, F), the source in the units of the model, without padding.
        step: the step of the forecast to explain, counted from 1.
        layer, head: the index of the layer and the index of the head to show, counted from 0.
        features: the names of the F source features.
        target_features: the names of the target features; empty if the source and the target have
            the same features.
        title: the name of the sequence.

    Raises:
        UsageError: if the model has no attention, or if the layer or the head does not exist.
    """
    record = Explanation(f"{title}, forecast step {step}")
    record.add("Source points", "", source, columns=features)
    with torch.inference_mode():
        like, features = next(model.parameters()), target_features or features
        tensor = torch.as_tensor(source, dtype=like.dtype, device=like.device).unsqueeze(0)
        forecast = model.forecast(tensor, step).values
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
    record.model_prediction = as_printed(forecast[0, -1]).tolist()
    return record


__all__ = ["DECIMALS", "MAX_PRINTED_SIDE", "Array", "Explanation", "Stage", "explain"]
