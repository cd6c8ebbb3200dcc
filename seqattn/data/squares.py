"""Noisy squares: a walk round the corners of a square, from any corner, either way.

The draws and their order are fixed for good, so a seed names the same points everywhere.
They come from NumPy's legacy stream (`RandomState(seed)`), one of its own: every base, then
(only if lengths vary) every length, then every direction, then the noise of each sequence
in turn.
"""

from __future__ import annotations

import numpy as np

from seqattn.data.sequences import Floats, Integers, Sequences, pad_sequences

CORNERS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
FEATURES = ("x", "y")
DIRECTIONS = ("counter-clockwise", "clockwise")


def draw_walks(
    n: int, seed: int, *, noise: float = 0.1, variable_length: bool = False
) -> tuple[list[Floats], list[Floats], Integers]:
    """Whole walks, before they are cut into source and target.

    Args:
        n: how many.
        seed: 0 to 2**32 - 1.
        noise: standard deviation of each coordinate's normal noise.
        variable_length: 2, 3 or 4 corners instead of always 4.

    Returns:
        points: n arrays (L, 2); corners: n arrays (L, 2), the same without noise;
        directions: (n,), 1 for clockwise.
    """
    stream = np.random.RandomState(seed)
    bases = stream.randint(4, size=n)
    lengths = stream.randint(3, size=n) + 2 if variable_length else np.full(n, 4)
    directions = stream.randint(2, size=n)
    corners = [
        _corners(base, direction)[:length]
        for base, direction, length in zip(bases, directions, lengths, strict=True)
    ]
    points = [walk + stream.randn(len(walk), 2) * noise for walk in corners]
    return points, corners, directions.astype(np.int64)


def generate_squares(
    n: int, seed: int, *, noise: float, source_length: int, variable_length: bool
) -> Sequences:
    """Walks cut in two: the first `source_length` corners in, the rest out.

    A walk too short for that keeps its last corner as the target, so that every sequence has
    at least one corner of each.
    """
    points, corners, directions = draw_walks(n, seed, noise=noise, variable_length=variable_length)
    cuts = [min(source_length, len(walk) - 1) for walk in points]
    source, source_lengths = pad_sequences(
        [walk[:cut] for walk, cut in zip(points, cuts, strict=True)], len(FEATURES)
    )
    target, target_lengths = pad_sequences(
        [walk[cut:] for walk, cut in zip(points, cuts, strict=True)], len(FEATURES)
    )
    ideal, _ = pad_sequences(
        [_ideal_target(walk, cut) for walk, cut in zip(corners, cuts, strict=True)], len(FEATURES)
    )
    return Sequences(
        source=source,
        source_lengths=source_lengths,
        target=target,
        target_lengths=target_lengths,
        features=FEATURES,
        ids=tuple(map(str, range(n))),
        labels=tuple(DIRECTIONS[direction] for direction in directions),
        ideal=ideal,
    )


def opposite_corner(source: Floats, source_lengths: Integers, steps: int) -> Floats:
    """The task's own rule, with nothing learned: a corner is minus the one two steps before.

    With one source corner the next may lie to either side, and the best guess is their mean, 0.

    Args:
        source: (N, S, 2) given corners.
        source_lengths: (N,).
        steps: T, how many corners to say.

    Returns:
        (N, T, 2).
    """
    N, S, F = source.shape
    walk = np.zeros((N, S + steps, F))
    walk[:, :S] = source
    rows = np.arange(N)
    for step in range(steps):
        here = source_lengths + step
        known = (here >= 2)[:, None]
        walk[rows, here] = np.where(known, -walk[rows, here - 2], 0.0)
    return np.stack([walk[rows, source_lengths + step] for step in range(steps)], axis=1)


def _ideal_target(corners: Floats, cut: int) -> Floats:
    """What one would say of the corners from `cut` on who knows those before it, without noise.

    Two corners tell the direction and so everything. One does not: the corners beside it may come
    in either order, and the mean of the two, the middle of the square, is the least wrong.
    """
    rest = corners[cut:].copy()
    if cut == 1:
        rest[::2] = 0.0
    return rest


def _corners(base: int, direction: int) -> Floats:
    """Four corners from `base` on; the way back is the same list reversed."""
    clockwise = CORNERS[(base + np.arange(4)) % 4]
    return clockwise if direction else clockwise[::-1]
