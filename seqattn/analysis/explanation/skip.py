"""The arithmetic of a forecast that is the sum of the network's output and the output of a linear
skip connection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from seqattn.analysis.explanation.record import Explanation
from seqattn.models import LinearSkip
from seqattn.models.attention.arithmetic import (
    IN_CHECKPOINT,
    MAX_PRINTED_SIDE,
    as_printed,
    column_numbers,
)


def explain_skip(
    record: Explanation, skip: LinearSkip, source: Tensor, forecast: Tensor, features: Sequence[str]
) -> None:
    """Add the output of the network, the output of the linear skip connection, and their sum.

    Args:
        record: the explanation to which the stages are added.
        skip: the linear skip connection.
        source: (1, S, F), the source.
        forecast: (1, T, F), the forecast up to the explained step.
        features: the names of the target features.
    """
    *_, step, _ = forecast.shape
    share = skip(source, None, step)[:, -1]
    network = np.array(record.prediction)
    if not record.prediction:  # the printed layers do not determine the network's output
        rest = forecast[:, -1] - share
        network = record.add_from_model("Network's share", "from the layers that follow", rest,
                                      ["network"], features)[0]  # fmt: skip
    weight, bias = as_printed(skip.weight[step - 1].flatten(-2)), as_printed(skip.bias[step - 1])
    formula = f"W x + b of this step; x = all {source.shape[1]} source points, one after the other"
    if max(weight.shape) > MAX_PRINTED_SIDE:
        formula = f"{formula}; {IN_CHECKPOINT}"
        linear = record.add_from_model("Skip's share", formula, share, ["skip"], features)[0]
    else:
        x = record.add_row("Source points in one row", "", "x", as_printed(source[0]).reshape(-1))
        columns = [*column_numbers(weight.shape[1]), "bias"]
        record.add("Skip: the map", "", np.column_stack([weight, bias]), features, columns)
        linear = record.add_row("Skip's share", formula, "skip", weight @ x + bias, features)
    table = np.stack([network, linear, network + linear])
    parts = record.add("Parts of the forecast", "forecast = network + skip", table,
                     ["network", "skip", "forecast"], features)  # fmt: skip
    record.prediction = parts[2].tolist()
