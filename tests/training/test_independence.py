"""A training does not depend on other threads, on the default type of the session, or on random
numbers of torch."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from seqattn.config import Recurrent, Training, Transformer
from seqattn.errors import PluginError
from seqattn.models import build_model
from seqattn.models.layers import Linear, init_parameters
from seqattn.rng import rng_for, rngs_for
from seqattn.training.learner import StepRNG
from seqattn.training.optimization import Optimizer


def test_threads_draw_the_numbers_of_one_thread() -> None:
    together = threading.Barrier(2, timeout=60)
    next(rngs_for([(0, 0)], "shuffle"))  # a generator that threads shared would exist from here on

    def draw(seed: int) -> list[float]:
        found = list[float]()
        for generator in rngs_for(((seed, k) for k in range(200)), "shuffle"):
            if len(found) % 20 == 0:
                together.wait()  # the other thread also has a generator
            found.append(generator.random_sample())
        return found

    with ThreadPoolExecutor(2) as pool:
        drawn = [*pool.map(draw, [1, 2])]
    for seed, found in zip([1, 2], drawn, strict=True):
        assert found == [rng_for(seed, "shuffle", k).random_sample() for k in range(200)]


@pytest.mark.parametrize("config", [Recurrent(hidden_dim=3), Transformer()])
def test_models_have_float32_parameters_in_every_session(config: Recurrent | Transformer) -> None:
    expected = build_model(config, 2, 5).state_dict()
    torch.set_default_dtype(torch.float64)
    try:
        found = build_model(config, 2, 5).state_dict()
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert {value.dtype for value in found.values()} == {torch.float32}


def test_dropout_of_torch_is_refused() -> None:
    model = nn.Sequential(Linear(2, 2), nn.Dropout(0.5))
    with pytest.raises(PluginError, match=r"1: the random numbers of torch's Dropout"):
        init_parameters(model, 1)


def test_too_many_draws_in_a_step_are_an_error() -> None:
    rng = StepRNG([1], 0, 0, torch.zeros(1))
    for _ in range(1024):
        rng.uniform("dropout", 1)
    with pytest.raises(PluginError, match="more than 1,024 times in a step"):
        rng.uniform("dropout", 1)
    rng.uniform("sampling", 1)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_of_a_group_keeps_updates_that_are_small_beside_the_weights(momentum: float) -> None:
    rates = [100.0, 50.0, 0.01]

    def train(used: list[float], gradient: float, steps: int) -> torch.Tensor:
        weights = torch.full((len(used), 3), 0.5)
        config = Training(optimizer="sgd", momentum=momentum, weight_decay=1e-9)
        optimizer = Optimizer(config, weights, torch.full_like(weights, gradient))
        for _ in range(steps):
            optimizer.step(used)
        return weights

    for gradient in (1e-8, 1e-3):
        together = train(rates, gradient, 100)
        alone = torch.cat([train([rate], gradient, 100) for rate in rates])
        np.testing.assert_allclose(together - 0.5, alone - 0.5, rtol=1e-4, atol=1e-7)
        assert (together[:2] != 0.5).all()
