"""A cell in one file: the minimal gated unit, a GRU with a single gate.

seqattn check-plugin examples/plugins/minimal_gated.py
seqattn train examples/plugins/minimal_gated.yaml
"""

import torch
from torch import Tensor

import seqattn
from seqattn.models.cells import Kernel, axis_of_features, recurrent_term


@seqattn.register_cell("minimal_gated")
class MinimalGated(seqattn.Cell):
    """The minimal gated unit (Zhou et al. 2016, "Minimal Gated Unit for Recurrent Neural
    Networks"), with the recurrent term of the candidate inside the gate, as in torch's GRU:

        f = sigmoid(W_f x_t + b_f + U_f h + c_f)
        n = tanh(W_n x_t + b_n + f * (U_n h + c_n))
        h' = (1 - f) * h + f * n
    """

    num_gates = 2  # the weights have the rows of f and n
    exportable = True  # `seqattn check-plugin` compares the ONNX graphs with the model

    @staticmethod
    def eager_step() -> Kernel:
        return minimal_gated_step


def minimal_gated_step(
    projected: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor
) -> Tensor:
    """Compute one step. `projected` is W x + b for f and n, and `weight` is U (..., 2H, H).

    With many narrow runs, the axis of features is not the last axis, so `axis_of_features` finds
    it. A state of None means zeros.
    """
    features = axis_of_features(weight)
    recurrent = recurrent_term(state, weight, bias)
    gate_x, new_x = projected.chunk(2, dim=features)
    gate_h, new_h = recurrent.chunk(2, dim=features)
    forget = (gate_x + gate_h).sigmoid()
    new = (new_x + forget * new_h).tanh()
    return forget * new if state is None else torch.lerp(state, new, forget)
