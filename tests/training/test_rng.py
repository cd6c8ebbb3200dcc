from __future__ import annotations

import numpy as np

from seqattn.rng import rng_for, rngs_for


def test_a_stream_is_a_function_of_seed_name_and_position() -> None:
    def draw(*key: object) -> list[float]:
        return list(rng_for(*key).random_sample(5))  # type: ignore[arg-type]

    assert draw(3, "coins", 2) == draw(3, "coins", 2)
    others = [draw(4, "coins", 2), draw(3, "shuffle", 2), draw(3, "coins", 3), draw(3, "init", "a")]
    assert draw(3, "coins", 2) not in others
    assert len({tuple(numbers) for numbers in others}) == 4


def test_one_after_the_other_they_are_the_same() -> None:
    places: list[tuple[int, int | str]] = [(3, 0), (3, 1), (2**40, 1), (3, "output.weight"), (3, 0)]
    moved = [numbers.permutation(7).tolist() for numbers in rngs_for(places, "shuffle")]
    assert moved == [rng_for(seed, "shuffle", at).permutation(7).tolist() for seed, at in places]


def test_the_numbers_are_frozen() -> None:
    # Written down once: a change of NumPy or of this file that moves them breaks every old run.
    assert rng_for(23, "shuffle", 0).permutation(7).tolist() == FROZEN_ORDER
    np.testing.assert_allclose(rng_for(23, "init", "output.weight").uniform(size=2), FROZEN_INIT)


FROZEN_ORDER = [0, 4, 5, 3, 6, 1, 2]
FROZEN_INIT = [0.11900226798456826, 0.824786748210078]
