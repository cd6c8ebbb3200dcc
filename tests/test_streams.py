from __future__ import annotations

import numpy as np

from seqattn.streams import stream


def test_a_stream_is_a_function_of_seed_name_and_position() -> None:
    def draw(*key: object) -> list[float]:
        return list(stream(*key).random_sample(5))  # type: ignore[arg-type]

    assert draw(3, "coins", 2) == draw(3, "coins", 2)
    others = [draw(4, "coins", 2), draw(3, "shuffle", 2), draw(3, "coins", 3), draw(3, "init", "a")]
    assert draw(3, "coins", 2) not in others
    assert len({tuple(numbers) for numbers in others}) == 4


def test_the_numbers_are_frozen() -> None:
    # Written down once: a change of NumPy or of this file that moves them breaks every old run.
    assert stream(23, "shuffle", 0).permutation(7).tolist() == FROZEN_ORDER
    np.testing.assert_allclose(stream(23, "init", "output.weight").uniform(size=2), FROZEN_INIT)


FROZEN_ORDER = [0, 4, 5, 3, 6, 1, 2]
FROZEN_INIT = [0.8992222066443442, 0.8388670772138573]
