"""Every distribution of a random stream: the same numbers from `rngs_for` as from `rng_for`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqattn.rng import rng_for, rngs_for

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "beta": (2, 3), "binomial": (5, 0.3), "bytes": (3,), "chisquare": (2,), "choice": (5,),
    "dirichlet": ([1, 2],), "exponential": (), "f": (2, 3), "gamma": (2,), "geometric": (0.3,),
    "gumbel": (), "hypergeometric": (5, 5, 3), "laplace": (), "logistic": (), "lognormal": (),
    "logseries": (0.5,), "multinomial": (5, [0.5, 0.5]),
    "multivariate_normal": ([0.0, 0.0, 0.0], np.eye(3)), "negative_binomial": (5, 0.3),
    "noncentral_chisquare": (2, 1), "noncentral_f": (2, 3, 1), "normal": (), "pareto": (2,),
    "permutation": (7,), "poisson": (3,), "power": (2,), "rand": (3,), "randint": (9,),
    "randn": (), "random": (3,), "random_sample": (3,), "rayleigh": (), "standard_cauchy": (),
    "standard_exponential": (), "standard_gamma": (2,), "standard_normal": (3,),
    "standard_t": (3,), "tomaxint": (), "triangular": (0, 1, 2), "uniform": (),
    "vonmises": (0, 1), "wald": (1, 1), "weibull": (2,), "zipf": (2,),
}  # fmt: skip
NO_DRAW = {"get_state", "set_state", "seed"}
OTHERWISE = {"shuffle", "random_integers"}  # draws as permutation does; deprecated
PLACES: list[tuple[int, int | str]] = [(3, 0), (3, 1), (4, 1), (3, "output.weight"), (3, 0)]


def test_every_distribution_is_tested() -> None:
    public = {name for name in dir(np.random.RandomState) if not name.startswith("_")}
    assert public - NO_DRAW - OTHERWISE == set(ARGUMENTS)


@pytest.mark.parametrize("method", ARGUMENTS)
def test_a_stream_keeps_nothing_of_the_one_before(method: str) -> None:
    """An odd number of normal draws leaves a second one that belongs to that stream alone."""
    moved = [
        np.asarray(getattr(numbers, method)(*ARGUMENTS[method])).tolist()
        for numbers in rngs_for(PLACES, "data")
    ]
    fresh = [
        np.asarray(getattr(rng_for(seed, "data", at), method)(*ARGUMENTS[method])).tolist()
        for seed, at in PLACES
    ]
    assert moved == fresh
