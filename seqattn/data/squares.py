"""Generator of noisy squares. A sequence contains two to four successive corners of a square. The
sequence starts at any corner and goes in either direction.

The random draws and their order must not change, so that a seed gives the same points in all
versions. The draws come from NumPy's legacy generator (`RandomState(seed)`). The generator draws
all starting corners, then all lengths if the lengths vary, then all directions, and then the noise
of each sequence.
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
    """Draw whole sequences, which are not yet cut into source and target.

    Args:
        n: number of sequences.
        seed: seed from 0 to 2**32 - 1.
        noise: standard deviation of the normal noise in each coordinate.
        variable_length: whether sequences have 2, 3 or 4 corners instead of always 4.

    Returns:
        points: n arrays (L, 2) of noisy points.
        corners: n arrays (L, 2), the points without noise.
        directions: array (n,), 1 for clockwise and 0 for counter-clockwise.
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
    """Generate squares with the first `source_length` corners as source and the rest as target.

    The last corner of a short sequence is always in the target, so that source and target have at
    least one corner each.
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
        source=source, source_lengths=source_lengths, target=target, target_lengths=target_lengths,
        features=FEATURES, ids=tuple(map(str, range(n))),
        labels=tuple(DIRECTIONS[direction] for direction in directions), ideal=ideal,
    )  # fmt: skip


def opposite_corner(source: Floats, source_lengths: Integers, steps: int) -> Floats:
    """Forecast each corner of a square as the negative of the corner two steps earlier.

    After a single source corner, the next corner may be either neighbor. The forecast is then the
    mean of both neighbors, which is 0.

    Args:
        source: (N, S, 2) corners.
        source_lengths: (N,) number of valid corners.
        steps: T, the target length.

    Returns:
        the forecast (N, T, 2).
    """
    N, S, F = source.shape
    walk = np.zeros((N, S + steps, F))
    walk[:, :S] = source
    rows = np.arange(N)
    for step in range(steps):
        at = source_lengths + step
        known = (at >= 2)[:, None]
        walk[rows, at] = np.where(known, -walk[rows, at - 2], 0.0)
    return np.stack([walk[rows, source_lengths + step] for step in range(steps)], axis=1)


def _ideal_target(corners: Floats, cut: int) -> Floats:
    """Return the best forecast of the corners from index `cut` on, given the true corners before
    index `cut`.

    Two corners determine the direction, and thus all other corners. If only one corner is known,
    its two neighbors may follow in either order. The mean of the two neighbors, which is the center
    of the square, has the lowest expected error.
    """
    rest = corners[cut:].copy()
    if cut == 1:
        rest[::2] = 0.0
    return rest


def _corners(base: int, direction: int) -> Floats:
    """Return four corners in clockwise order, starting from corner `base`. If `direction` is 0,
    reverse the order."""
    clockwise = CORNERS[(base + np.arange(4)) % 4]
    return clockwise if direction else clockwise[::-1]
