"""One attention step of a trained model as arithmetic that a pocket calculator can follow.

Every stage is worked out from the *printed* numbers of the stages above it
(`seqattn.models.attention.arithmetic`). The result therefore differs from the model's own by some
rounding, and both are shown. Scores, normalizers and locations explain themselves; here is what
stands around them in each kind of model.

Letters: S source length, F features, H width of the state, K width in which queries meet keys,
V width of values, A heads.
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
    features: Sequence[str], said: Sequence[str] = (), title: str,
) -> Explanation:  # fmt: skip
    """One step of free running, taken apart.

    Args:
        source: (S, F), without padding.
        step: of the forecast, counted from 1.
        layer, head: which to show where there are several, counted from 0.
        features: F names, of the source.
        said: those of the target; without, the same.
        title: which sequence this is.

    Raises:
        UsageError: a layer or head that the model does not have, or a model without attention.
    """
    record = Explanation(f"{title}, forecast step {step}")
    record.add("Source points", "", source, columns=features)
    with torch.inference_mode():
        like, features = next(model.parameters()), said or features
        tensor = torch.as_tensor(source, dtype=like.dtype, device=like.device).unsqueeze(0)
        forecast = model.forecast(tensor, step).values
        if isinstance(model, RecurrentModel):
            explain_recurrent(record, model, tensor, forecast, layer, head, features)
        elif isinstance(model, FastWeightsModel):
            explain_fast_weights(record, model, tensor, forecast, layer, head, features)
        elif isinstance(model, TransformerModel):
            explain_transformer(record, model, tensor, step, layer, head)
        if model.skip is not None:
            explain_skip(record, model.skip, tensor, forecast, features)
    record.model_says = as_printed(forecast[0, -1]).tolist()
    return record


__all__ = ["DECIMALS", "MAX_PRINTED_SIDE", "Array", "Explanation", "Stage", "explain"]
