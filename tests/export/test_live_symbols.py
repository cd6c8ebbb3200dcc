"""The live graphs of models of symbols against the models: logits, weights, and given symbols."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter
from torch import Tensor

from seqattn.config import Config, Model
from seqattn.data import DataSpec, Space
from seqattn.data.tokens import BEGIN, END, UNKNOWN, Tokens
from seqattn.export.check import build_session
from seqattn.export.live import LiveGraph, attention_shape, flatten_parameters, trace_live
from seqattn.models import FeatureSpec, Seq2SeqModel, build_model
from seqattn.models.decoding import force
from seqattn.training import LoadedModel

LETTERS, DIGITS = Tokens.of_symbols("abcdefg", "character"), Tokens.of_symbols("0f2", "character")
SHIFT = {"kind": "location_shift", "shift_range": 3}
TRANSFORMER = {
    "kind": "transformer", "model_dim": 10, "heads": 2, "layers": 1, "feedforward_dim": 13,
}  # fmt: skip
LEARNED = {**TRANSFORMER, "positions": "learned", "longest": 9}
# Each mechanism once at least, together with others. test_symbol_export.py has `LEARNED`.
MECHANISMS: dict[str, dict[str, Any]] = {
    "additive two-way deep": {
        "bidirectional": True, "layers": 2, "attention": {"score": "additive"},
    },
    "dot tied": {"embedding": {"dim": 6, "tied": True}, "attention": {"score": "dot"}},
    "scaled_dot heads shift": {
        "hidden_dim": 22,
        "attention": {"score": "scaled_dot", "heads": 2, "location": SHIFT, "project_values": True},
    },
    "general input_feeding lstm": {
        "cell": "lstm", "input_feeding": True, "attention": {"score": "general"},
    },
    "copying coverage": {"copying": True, "attention": {"score": "coverage"}},
    "copying local input_feeding": {
        "copying": True, "input_feeding": True,
        "attention": {"score": "dot", "location": {"kind": "local", "window": 2}},
    },
    "plain": {"attention": None},
    "fast_weights": {"kind": "fast_weights"},
    "transformer": {**TRANSFORMER, "embedding": {"dim": 6}},
}  # fmt: skip


def model_of(model: dict[str, Any], source: Space = LETTERS, target: Space = DIGITS) -> LoadedModel:
    """A model that has learned nothing, but has weights."""
    described = {"kind": "recurrent", "hidden_dim": 11} | model
    if described["kind"] == "transformer":
        del described["hidden_dim"]
    config = TypeAdapter[Any](Model).validate_python(described)
    spec = DataSpec(source, target, 7, 5)
    made = build_model(config, FeatureSpec.of(spec), 1).eval()
    training = {"teacher_forcing": {"probability": 1}}
    return LoadedModel(
        made, Config.model_validate({"model": config, "training": training}), spec, 1
    )


class Sources(NamedTuple):
    """Symbols (N, S, 1) and their lengths (N,)."""

    source: Tensor
    source_lengths: Tensor


def random_symbols(*shape: int, below: int, seed: int = 0) -> Tensor:
    numbers = torch.Generator().manual_seed(seed)
    return torch.randint(UNKNOWN, below, (*shape, 1), generator=numbers)


SOURCES = Sources(random_symbols(2, 6, below=11), torch.tensor([6, 4]))


def run_live(
    live: LiveGraph, trained: LoadedModel, sources: Sources, given: Tensor
) -> dict[str, NDArray[Any]]:
    """Return the outputs of a live graph for given symbols (N, T, 1)."""
    session = build_session(live.graph)
    (N, S, _), T = sources.source.shape, given.shape[1]
    parameters = flatten_parameters(dict(trained.model.named_parameters()), live.shapes)
    inputs = {
        **{name: array.numpy() for name, array in sources._asdict().items()},
        "parameters": parameters.numpy(), "steps": np.array(T),
        "given": np.ascontiguousarray(given.numpy().swapaxes(0, 1)),
        "force": np.full((T, N, *attention_shape(trained), S), np.nan, np.float32),
    }  # fmt: skip
    taken = {one.name: inputs[one.name] for one in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, taken), strict=True))


def steps_before_the_end(forecast: NDArray[np.int64]) -> int:
    """How many steps the model computes, which stops when all sequences have ended."""
    ended = (forecast == END).cumsum(axis=1).all(axis=(0, 2))
    return int(np.argmax(ended)) + 1 if ended.any() else forecast.shape[1]


@torch.no_grad()
def assert_same_steps(
    found: dict[str, NDArray[Any]], model: Seq2SeqModel, sources: Sources, written: Tensor
) -> None:
    """Compare logits and weights with a pass of the model in which it reads `written` (N, T, 1)."""
    expected = force(model, *sources, written)
    assert found["logits"].shape == expected.values.shape
    assert np.abs(found["logits"] - expected.values.numpy()).max() <= 1e-5
    cross = [one.weights for one in expected.attention if one.kind == "cross"]
    assert len(cross) == ("weights" in found and found["weights"].shape[1])
    for layer, weights in enumerate(cross):
        assert found["weights"][:, layer].shape == weights.shape
        assert np.abs(found["weights"][:, layer] - weights.numpy()).max() <= 1e-5


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_live_graph_of_symbols_equals_the_model(name: str) -> None:
    trained, T = model_of(MECHANISMS[name]), 5
    live, model = trace_live(trained), trained.model

    # The model's own symbols.
    own = run_live(live, trained, SOURCES, torch.full((2, T, 1), -1))
    with torch.no_grad():
        forecast = model.forecast(SOURCES.source, T, source_lengths=SOURCES.source_lengths)
    valid = steps_before_the_end(own["forecast"])
    assert forecast.values.shape[1] == valid
    assert own["forecast"].dtype == np.int64
    assert (own["forecast"][:, :valid] == model.target_modality.read(forecast.values).numpy()).all()
    assert_same_steps(own, model, SOURCES, torch.from_numpy(own["forecast"]))

    # Given symbols, also such as the model would never write, and other lengths.
    short = Sources(random_symbols(3, 3, below=11, seed=1), torch.tensor([1, 3, 2]))
    given = random_symbols(3, 7, below=7, seed=2)
    given[0, 2] = BEGIN
    found = run_live(live, trained, short, given)
    assert (found["forecast"] == given.numpy()).all()
    assert_same_steps(found, model, short, given)

    # A given prefix: the model goes on from it.
    prefix = torch.full((2, T, 1), -1)
    prefix[:, 0, 0] = torch.from_numpy(own["logits"])[:, 0, END:].argmin(dim=-1) + END
    found = run_live(live, trained, SOURCES, prefix)
    assert (found["forecast"][:, 0] == prefix[:, 0].numpy()).all()
    assert (
        found["forecast"][:, 1:] == found["logits"][:, 1:, END:].argmax(-1)[..., None] + 2
    ).all()
    assert (found["logits"][:, 0] == own["logits"][:, 0]).all()
    assert (found["logits"][:, 1] != own["logits"][:, 1]).any()
    assert_same_steps(found, model, SOURCES, torch.from_numpy(found["forecast"]))

    # The learned vectors of the symbols.
    source = torch.where(
        torch.arange(6) < SOURCES.source_lengths[:, None], SOURCES.source[..., 0], 0
    )
    read = np.concatenate([np.full((2, 1, 1), BEGIN), found["forecast"][:, :-1]], axis=1)
    tables = {name.partition("_")[0]: value.detach().numpy()
              for name, value in model.named_parameters() if "embedding" in name}  # fmt: skip
    assert (found["trace/embedded_source"] == tables["source"][source.numpy()]).all()
    assert (found["trace/embedded_input"] == tables["target"][read[..., 0]]).all()
