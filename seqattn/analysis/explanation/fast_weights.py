"""The arithmetic of one read from a fast-weight memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from seqattn.analysis.explanation.record import Explanation, check_index
from seqattn.models import FastWeightsModel
from seqattn.models.attention.arithmetic import Array, as_printed, point_names
from seqattn.models.fast_weights import StateMemory
from seqattn.models.layers import LayerNorm


def explain_fast_weights(
    record: Explanation, model: FastWeightsModel, source: Tensor, forecast: Tensor, layer: int,
    head: int, features: Sequence[str],
) -> None:  # fmt: skip
    """Explain the last step of a forecast that a fast-weights model computed.

    See `explain_recurrent` for the arguments.
    """
    check_index("--layer", layer, 1)
    check_index("--head", head, 1)
    *_, step, _ = forecast.shape
    S = source.shape[1]
    memory, state, point = model.encode(source, None, use_matrix=False)
    modality = model.target_modality
    for before in modality.read(forecast[:, :-1]).unbind(-2):
        _, state, _, memory = model.step(model.decoder_input(modality.embed(point)), state, memory)
        point = before
    assert isinstance(memory, StateMemory)
    record.add_decoder_input(modality, point, features)
    preactivation = model.decoder_input(modality.embed(point)) + model.decoder_state(state)
    query = model.iterate_inner_loop(
        preactivation, memory, model.inner_steps - 1, model.decoder_norm
    )
    rows = [*(record.source_names or point_names(S)), *(f"step {t}" for t in range(1, step))]
    record.vector_names = rows if record.source_names else ()
    formula = "W h + C x, held through the inner loop"
    outside = record.add_from_model("Input to the inner loop", formula, preactivation, ["held"])[0]
    formula = f"after {model.inner_steps - 1} readings"
    h = record.add_from_model("Query state", formula, query, ["h"])[0]
    states = record.add_from_model("States in memory", "", memory.states[0], rows)
    factors, products = as_printed(memory.factors[0]), as_printed(states @ h)
    columns = {"h(tau) . h": products, "rate decay^age": factors, "strength": products * factors}
    formula = "strength = rate decay^age (h(tau) . h)"
    strengths = record.add_columns("Strengths", formula, columns, rows)
    parts = record.add("Weighted states", "strength times state", strengths[:, None] * states, rows)
    read = record.add_row("Read vector", "A h, the sum of the weighted states", "A h",
                        parts.sum(axis=0))  # fmt: skip
    z, name = as_printed(outside + read), "held + A h"
    if model.decoder_norm is not None:
        z, name = _normalized(record, model.decoder_norm, z)
    new = record.add_row("New state", f"tanh({name})", "h'", np.tanh(z))
    record.add_output(model, new, "h'", features, forecast[0, -1])
    record.has_strengths, record.weight_rows = True, rows
    record.vectors = {"query": h, "keys": states, "values": states, "context": read,
                    "weights": strengths}  # fmt: skip


def _normalized(record: Explanation, norm: LayerNorm, z: Array) -> tuple[Array, str]:
    """Explain the layer normalization of a vector, and return the normalized vector and its
    formula.

    Args:
        record: the explanation to which the stages are added.
        norm: the layer normalization.
        z: (H,), the vector.
    """
    gain, bias = as_printed(norm.gain.value), as_printed(norm.bias.value)
    table = np.stack([z, gain, bias])
    record.add("Layer norm's input, gain and bias", "held + A h", table, ["z", "gain", "bias"])
    moments = np.array([z.mean(), np.sqrt(z.var() + 1e-5)])
    mean, deviation = record.add_row("Mean and deviation of z", "", "z", moments,
                                   ["mean", "deviation"])  # fmt: skip
    normalized = as_printed((z - mean) / deviation * gain + bias)
    return normalized, "(z - mean) / deviation * gain + bias"
