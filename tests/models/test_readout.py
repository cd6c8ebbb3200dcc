"""From context and state to the point: model.readout."""

from __future__ import annotations

import pytest
import torch

from seqattn.config import Recurrent
from seqattn.models import RecurrentModel, build_model
from seqattn.models.manual_backward import supports
from tests.conftest import F, H, N, S, T


def model_of(**section: object) -> RecurrentModel:
    model = build_model(Recurrent.model_validate({"hidden_dim": H, **section}), F, 1).double()
    assert isinstance(model, RecurrentModel)
    return model


@pytest.mark.parametrize("readout", ["linear", "tanh"])
def test_the_readout_is_the_equation(readout: str) -> None:
    """Luong et al. 2015, eq. 5, and an affine map of the attentional vector; or of [c; h] itself."""
    model = model_of(readout=readout)
    source = torch.randn(N, S, F, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    memory, state, point = model.encode(source, None)
    output, attended, state = model.step(point, state, memory)
    assert attended is not None
    joined = torch.cat([attended.context[:, 0], model.top_layer_output(state.cells)], dim=-1)
    if model.combine is not None:
        joined = torch.tanh(joined @ model.combine.weight.T + model.combine.bias)
    expected = joined @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(output[:, 0], expected)
    torch.testing.assert_close(model.forecast(source, T).values[:, 0], expected)
    assert (model.combine is None) == (readout == "linear")


def test_the_default_is_what_it_was() -> None:
    default, linear, tanh = model_of(), model_of(readout="linear"), model_of(readout="tanh")
    assert default.output.weight.shape == (F, 2 * H)
    weights = default.state_dict()
    assert all(torch.equal(weights[name], x) for name, x in linear.state_dict().items())
    other = tanh.state_dict()
    assert set(other) - set(weights) == {"combine.weight", "combine.bias"}
    assert [name for name in weights if weights[name].shape != other[name].shape] == [
        "output.weight"
    ]
    assert supports(default)
    assert not supports(tanh)
