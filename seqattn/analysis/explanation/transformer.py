"""The arithmetic of the cross-attention of one query in a Transformer."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from seqattn.analysis.explanation.record import Explanation, check_index
from seqattn.models import TransformerModel
from seqattn.models.attention.arithmetic import as_printed
from seqattn.models.attention.normalizers import explain_softmax
from seqattn.models.attention.scores import explain_scaled_products


def explain_transformer(
    record: Explanation, model: TransformerModel, source: Tensor, step: int, layer: int, head: int
) -> None:
    """Explain the cross-attention of one head of one decoder layer at one step of a forecast.

    Args:
        record: the explanation to which the stages are added.
        model: the model.
        source: (1, S, F), the source.
        step: the step of the forecast to explain, counted from 1.
        layer, head: the index of the layer and the index of the head, counted from 0.
    """
    check_index("--layer", layer, len(model.decoder))
    trace = model.trace_cross_attention(source, step, layer)
    check_index("--head", head, trace.keys.shape[1])
    formula = f"layer {layer + 1}, head {head + 1}: q = W_q x + b_q of the decoder's state"
    q = record.add_from_model("Query", formula, trace.queries[0, head, -1:], ["q"])[0]
    formula = "k = W_k s + b_k of the encoder's output"
    keys = record.add_from_model("Keys", formula, trace.keys[0, head])
    _, _, scores = explain_scaled_products(record, q, keys)
    weights = explain_softmax(record, "Weights", scores, np.ones(len(keys), dtype=bool))
    formula = "v = W_v s + b_v of the encoder's output"
    values = record.add_from_model("Values", formula, trace.values[0, head])
    context = record.add_context(weights, values)
    contexts = record.add_head_contexts(trace.context[0, :, -1], head, context)
    weight, bias = as_printed(trace.out.weight), as_printed(trace.out.bias)
    formula = (
        "W_o [contexts] + b_o, W_o and b_o are in the checkpoint file of the run; the rest of the"
        " decoder follows"
    )
    record.add_from_model(
        "Cross-attention output", formula, (weight @ contexts + bias)[None], ["+"]
    )
    record.vectors = {"query": q, "keys": keys, "values": values, "context": context,
                    "weights": weights}  # fmt: skip
