"""The arithmetic of an output that is generated or copied; see `seqattn.models.copying`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from seqattn.analysis.explanation.record import Explanation
from seqattn.data.tokens import BEGIN, PAD
from seqattn.models import RecurrentModel
from seqattn.models.attention.arithmetic import Array, as_printed


def explain_copying(
    record: Explanation, model: RecurrentModel, vector: Array, name: str, gated: Array,
    symbols: Tensor, output: Tensor,
) -> None:  # fmt: skip
    """Add the stages after the attention of a model that copies: the probability of the most
    probable symbols in the vocabulary, the gate, the copied weights, and their mixture.

    Args:
        record: the explanation, with the weights of the step.
        model: the model.
        vector, name: the printed input of the output layer, and its name in formulas.
        gated: the printed context, decoder state and embedded decoder input.
        symbols: (S,), the target symbols for which the source steps stand.
        output: (V,), the output of the model, log-probabilities.
    """
    assert model.copier is not None
    best_logits = record.add_symbol_logits(model.output, vector, name, output)
    best = [record.target_symbols.index(symbol) for symbol in record.symbols]
    every = model.output(torch.as_tensor(vector, dtype=output.dtype, device=output.device))
    formula = f"log Z = the logarithm of the sum of exp(logit) over all {len(every)} symbols"
    log_z = as_printed(every.logsumexp(-1)[None])
    record.add_from_model(
        "Normalization of the vocabulary", formula, log_z[None], ["all symbols"], ["log Z"]
    )
    columns = {"logit": best_logits, "log Z": log_z, "generated": np.exp(best_logits - log_z)}
    formula = "generated = exp(logit - log Z)"
    generated = record.add_columns("Generated", formula, columns, record.symbols)

    gate, state = model.copier.gate, "h'" if model.context_is_input else "h"
    of_model = gate(torch.as_tensor(gated, dtype=output.dtype, device=output.device))
    formula = f"z = w [context; {state}; decoder input] + b"
    z = record.add_map(
        "Gate", formula, gate, gated[None], as_printed(of_model[None]), slice(0, 1), ["z"]
    )[0]
    columns = {"z": z, "g": 1 / (1 + np.exp(-z))}
    g = record.add_columns("Probability of generating", "g = sigmoid(z)", columns, ["g"])

    weights, numbers = record.vectors["weights"], symbols.cpu().numpy()
    sums = np.array([weights[numbers == k].sum() for k in best])
    total_weight = weights.sum()
    columns = {"weights": sums, "all weights": total_weight, "copied": sums / (total_weight or 1)}
    formula = "copied = the sum of the weights at source steps with this symbol / all weights"
    formula += "" if total_weight else "; 0 because all weights are 0"
    copied = record.add_columns("Copied", formula, columns, record.symbols)

    columns = {"generated": generated, "copied": copied, "g": g}
    columns["mixture"] = g * generated + (1 - g) * copied
    formula = "mixture = g generated + (1 - g) copied"
    mixture = record.add_columns("Mixture", formula, columns, record.symbols)
    possible = [k for k in range(len(output)) if k not in (PAD, BEGIN)]
    total = as_printed(output[possible].exp().sum()[None])
    formula = f"Z = the sum over the {len(possible)} symbols that can be written"
    record.add_from_model("Normalization", formula, total[None], ["all symbols"], ["Z"])
    columns = {"mixture": mixture, "Z": total, "probability": mixture / total}
    formula = "probability = mixture / Z"
    record.prediction = record.add_columns(
        "Probabilities", formula, columns, record.symbols
    ).tolist()
