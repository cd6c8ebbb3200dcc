"""Compare the noise floors of generated tasks with the errors of the best possible forecasts.

    python scripts/noise_floors.py

The noise floor is the error of a forecast that knows the sequences without noise. A model sees only
the noisy source, so its best possible forecast is the mean of the target given this source (the
posterior mean). For the tasks `squares`, `polygons` and `recall` with their default keys, the
script computes both errors on 1,000,000 sequences. The last number of a line is the standard error
of the best possible error.
"""

from __future__ import annotations

import numpy as np
from scipy.special import i0e, i1e

from seqattn.config import Polygons, Recall, Squares
from seqattn.data import squares, tasks
from seqattn.data.baselines import forecast_mse
from seqattn.data.sequences import Floats, Sequences

SEEDS, SEQUENCES, SIZES = 40, 25_000, 101


def main() -> None:
    for name, task, forecast in (
        ("squares", Squares(), squares_mean),
        ("polygons", Polygons(), polygons_mean),
        ("recall", Recall(), recall_mean),
    ):
        floors, best = [], []
        for seed in range(SEEDS):
            part = tasks.generate(task, SEQUENCES, seed)
            assert part.ideal is not None
            floors.append(forecast_mse(part.ideal, part))
            best.append(forecast_mse(forecast(task, part), part))
        error = np.std(best, ddof=1) / np.sqrt(SEEDS)
        print(
            f"{name}: noise floor {np.mean(floors):.4f}, best possible error {np.mean(best):.4f}"
            f" (standard error {error:.5f})"
        )


def squares_mean(task: Squares, part: Sequences) -> Floats:
    """Return the mean target over the eight walks around a square, given two noisy corners."""
    walks = np.stack([
        squares.CORNERS[(start + step * np.arange(4)) % 4] for start in range(4) for step in (1, -1)
    ])  # fmt: skip
    cut = task.source_length
    distances = np.square(part.source[:, None] - walks[:, :cut]).sum(axis=(-2, -1))
    return np.einsum("nw,wtf->ntf", weights_of(-distances / (2 * task.noise**2)), walks[:, cut:])


def polygons_mean(task: Polygons, part: Sequences) -> Floats:
    """Return the mean target over all rotations, sizes and directions, given the noisy corners.

    Corner k is s exp(i (a + d k 2 pi / C)) as a complex number, with the size s, the rotation a and
    the direction d = 1 or -1. For known s and d, the rotation has a von Mises distribution around
    the angle of w, where w is the sum of the source corners, each turned back by d k 2 pi / C. The
    sizes are summed over a grid.
    """
    corners = part.source[..., 0] + 1j * part.source[..., 1]
    cut, variance = task.source_length, task.noise**2
    sizes = np.linspace(tasks.MIN_RADIUS, tasks.MAX_RADIUS, SIZES)
    logs, means = [], []
    for direction in (1, -1):
        turns = np.exp(1j * direction * 2 * np.pi / task.corners * np.arange(task.corners))
        w = (corners * turns[:cut].conj()).sum(axis=1)
        peak = np.abs(w)[:, None] * sizes / variance
        logs.append(np.log(i0e(peak)) + peak - cut * sizes**2 / (2 * variance))
        first = sizes * i1e(peak) / i0e(peak) * (w / np.abs(w))[:, None]
        means.append(first[:, :, None] * turns[cut:])
    weights = weights_of(np.concatenate(logs, axis=1))
    mean = np.einsum("ns,nst->nt", weights, np.concatenate(means, axis=1))
    return np.stack([mean.real, mean.imag], axis=-1)


def recall_mean(task: Recall, part: Sequences) -> Floats:
    """Return the mean value, with the weight exp(-d^2 / (2 noise^2)) for a key at the distance d
    from the noisy key."""
    keys, values, query = part.source[:, :-1:2], part.source[:, 1::2], part.source[:, -1:]
    distances = np.square(keys - query).sum(axis=-1)
    weights = weights_of(-distances / (2 * task.noise**2))
    return np.einsum("np,npf->nf", weights, values)[:, None]


def weights_of(logs: Floats) -> Floats:
    """Return weights (n, k) that are proportional to exp(logs), and sum to 1."""
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    main()
