"""The part of a page that shows the test sequences of a run: forecasts, errors, attention weights
and attention history."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.units import Units, can_share_axes, with_unit
from seqattn.errors import CheckpointError
from seqattn.plots.run_pictures import WEIGHT_KEYS
from seqattn.runs import RunFolder

Arrays = Mapping[str, NDArray[Any]]

MAX_EXAMPLES = 1000
MAX_CELLS = 2**22
"""Maximum number of attention weights of one kind in a page. If a run has more weights, the page
shows fewer sequences or fewer recorded epochs."""
MAX_FINE_CELLS = 2**20
"""Maximum number of weights in an array that is stored with 16 bits per weight. A larger array is
stored with 8 bits per weight."""
MAX_GROUPS = 24
NUM_WORST = 10


def examples_content(
    folder: RunFolder,
    notices: list[str],
    scale: NDArray[np.float64] | float | None,
    units: Units,
    max_examples: int = MAX_EXAMPLES,
    attended: RunFolder | None = None,
) -> dict[str, Any]:
    """Return the test sequences that the page shows, and the mean errors of groups of sequences.

    Args:
        folder: the run folder.
        notices: a list to which sentences about omitted content are appended.
        scale: the divisor of the errors of each feature; see `sequence_losses`.
        units: the unit of each feature, by feature name. A feature without a unit has no entry.
        max_examples: the maximum number of sequences that the page shows.
        attended: a run with the same test sequences, whose weights determine where the tour of the
            page starts; None to use the weights of `folder`.

    Raises:
        CheckpointError: if a file of the run cannot be read.
    """
    predictions = folder.read_predictions()
    attention = folder.read_attention() if folder.attention.exists() else {}
    losses = sequence_losses(predictions, scale)
    worst = np.argsort(-losses, kind="stable")[:NUM_WORST]
    worst = worst[np.isfinite(losses[worst])]  # the loss is NaN if no target was observed
    weights = {kind: attention[key] for kind, key in WEIGHT_KEYS.items() if key in attention}
    cells = max((int(np.prod(found.shape[1:])) for found in weights.values()), default=1)
    selected, limit = np.arange(len(losses)), min(max_examples, max(1, MAX_CELLS // cells))
    if limit < len(losses):
        others = np.setdiff1d(selected, worst)[: max(0, limit - len(worst))]
        selected = np.sort(np.concatenate([worst[:limit], others]))
        notices.append(
            f"{len(selected):,} of {len(losses):,} test sequences are in the explorer: the"
            f" {min(len(worst), limit)} with the largest errors and the first of the others. Errors"
            " by step and by group are over all sequences."
        )
    position_of = {int(k): position for position, k in enumerate(selected)}
    alignment = attention.get("alignment")
    return {
        "examples": _example_arrays(predictions, losses, selected, units),
        "maps": {kind: pack_weights(found[selected]) for kind, found in weights.items()
                 if found.size},
        "meaning": str(attention.get("meaning", "distribution")),
        "alignment": None if alignment is None else alignment[selected].tolist(),
        "worst": [position_of[int(k)] for k in worst if int(k) in position_of],
        "classes": group_losses(predictions, losses, units),
        "start": _start(attended or folder, losses, selected),
    }  # fmt: skip


def _start(
    folder: RunFolder, losses: NDArray[np.float64], selected: NDArray[np.int64]
) -> dict[str, int] | None:
    """Return the sequence, layer and head with which the tour of the page starts; None if the run
    has no cross-attention weights."""
    attention = folder.read_attention() if folder.attention.exists() else {}
    weights = attention.get(WEIGHT_KEYS["cross"])
    if weights is None or not weights.size:
        return None
    return choose_start(weights[selected], losses[selected])


def choose_start(weights: NDArray[np.floating], losses: NDArray[np.float64]) -> dict[str, int]:
    """Return the sequence, layer and head whose weights best show what attention is.

    The weights are best if each target step puts all its weight on one source step, and if the
    target steps put their weight on different source steps. If any errors are known, only sequences
    with a known error that does not exceed the median error are considered.

    Args:
        weights: (N, L, A, T, S), with NaN at padding.
        losses: (N,), the error of each sequence.

    Returns:
        The indices, with the keys "example", "layer" and "head".
    """
    N, L, A, *_ = weights.shape
    real = np.isfinite(weights).any(axis=-1)
    filled = np.where(np.isfinite(weights), np.abs(weights), -1.0)
    largest = np.where(real, filled.max(axis=-1), 0.0)
    positions = np.sort(np.where(real, filled.argmax(axis=-1), -1), axis=-1)
    is_new = np.diff(positions, axis=-1, prepend=-1) > 0
    is_new[..., 0] = positions[..., 0] >= 0
    steps = np.maximum(real.sum(axis=-1), 1)
    score = is_new.sum(axis=-1) / steps + 0.5 * largest.sum(axis=-1) / steps
    known = np.isfinite(losses)
    good = known & (losses <= np.median(losses[known])) if known.any() else np.ones(N, dtype=bool)
    best = int(np.where(good[:, None, None], score, -1.0).argmax())
    example, layer, head = np.unravel_index(best, (N, L, A))
    return {"example": int(example), "layer": int(layer), "head": int(head)}


def _example_arrays(
    predictions: Arrays, losses: NDArray[np.float64], selected: NDArray[np.int64], units: Units
) -> dict[str, Any]:
    labels = read_labels(predictions)
    return {
        "ids": [str(name) for name in predictions["ids"][selected]],
        "labels": [labels[k] for k in selected],
        "features": [str(name) for name in predictions["features"]],
        "target_features": [str(name) for name in predictions["said"]],
        "units": dict(units),
        "named": {name: with_unit(name, units) for name in units},
        "plane": _is_plane(predictions, units, selected),
        "source": pack_points(predictions["source"][selected]),
        "target": pack_points(predictions["target"][selected]),
        "forecast": pack_points(predictions["forecast"][selected]),
        "times": _pack_times(predictions, selected),
        "source_lengths": predictions["source_lengths"][selected].tolist(),
        "target_lengths": predictions["target_lengths"][selected].tolist(),
        "losses": [float(loss) if np.isfinite(loss) else None for loss in losses[selected]],
        "total": len(losses),
    }  # fmt: skip


def _pack_times(predictions: Arrays, selected: NDArray[np.int64]) -> dict[str, Any] | None:
    """Return the times of the steps of the selected sequences, or None if they are unknown.

    Returns:
        `is_date`: whether the times are dates. `source` (N, S) and `target` (N, T): the times as
        numbers. A date is a number of milliseconds since 1970 in UTC.
    """
    if "source_times" not in predictions:
        return None
    is_date = predictions["source_times"].dtype.kind == "M"
    packed: dict[str, Any] = {"is_date": is_date}
    for side in ("source", "target"):
        times = predictions[f"{side}_times"][selected]
        if is_date:
            numbers = times.astype("datetime64[ms]").astype(np.float64)
            times = np.where(np.isnat(times), np.nan, numbers)
        packed[side] = pack_points(np.asarray(times, np.float64))
    return packed


def read_labels(arrays: Arrays) -> list[str]:
    """Return the label of each sequence, or "" for each sequence if the task defines no labels."""
    labels = [str(label) for label in arrays["labels"]]
    return labels or [""] * len(arrays["ids"])


def sequence_losses(
    predictions: Arrays, scale: NDArray[np.float64] | float | None = None
) -> NDArray[np.float64]:
    """Return the mean squared error of each forecast over its observed target cells, (N,).

    The error of a sequence without observed target cells is NaN.

    Args:
        predictions: the arrays of `predictions.npz`.
        scale: (F,), the divisor of the errors of each feature, as in the loss of the run, or one
            divisor for all features. If `scale` is None, the divisor of each feature is the
            standard deviation of its targets, so that errors in different units can be added. If
            these standard deviations differ by less than a factor of 2, all divisors are 1.
    """
    residuals = np.asarray(predictions["forecast"], np.float64) - predictions["target"]
    if scale is None:
        target = np.ma.masked_invalid(np.asarray(predictions["target"], np.float64))
        deviation = np.ma.filled(target.std(axis=(0, 1)), 0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        scale = 1.0 if deviation.max() < 2 * deviation.min() else deviation
    real = np.isfinite(residuals)
    squares = np.square(np.where(real, residuals / scale, 0.0)).sum(axis=(1, 2))
    count = real.sum(axis=(1, 2))
    return np.where(count > 0, squares / np.maximum(count, 1), np.nan)


def _is_plane(
    predictions: Arrays, units: Units, selected: NDArray[np.int64] | slice = slice(None)
) -> bool:
    points = [predictions[part][selected] for part in ("source", "target", "forecast")]
    features = predictions["features"]
    return can_share_axes(list(features), list(predictions["said"]), points, units)


def group_losses(
    predictions: Arrays, losses: NDArray[np.float64], units: Units | None = None
) -> list[dict[str, Any]]:
    """Return the mean loss of each group of sequences.

    The sequences are grouped by label, by source length, by target length, and by the quadrant of
    the first source point. A grouping into one group or into more than `MAX_GROUPS` groups is left
    out. The quadrant is used only if the features are the coordinates of points in a plane and if
    the coordinates of the first points have both signs.
    """
    found = list[dict[str, Any]]()

    def add_groups(title: str, groups: Sequence[str]) -> None:
        names = sorted(set(groups), key=lambda group: (len(group), group))
        if not 1 < len(names) <= MAX_GROUPS:
            return
        scored = np.isfinite(losses)
        members = {name: scored & (np.array(groups) == name) for name in names}
        rows = [[name, int(mask.sum()), float(losses[mask].mean())]
                for name, mask in members.items() if mask.any()]  # fmt: skip
        found.append({"name": title, "rows": rows})

    add_groups("label", [label or "none" for label in read_labels(predictions)])
    add_groups("source length", [str(int(length)) for length in predictions["source_lengths"]])
    add_groups("target length", [str(int(length)) for length in predictions["target_lengths"]])
    first = predictions["source"][:, 0, :]
    if _is_plane(predictions, units or {}) and (first < 0).any() and (first > 0).any():
        quadrants = [f"{'upper' if y >= 0 else 'lower'} {'right' if x >= 0 else 'left'}"
                     for x, y in first]  # fmt: skip
        add_groups("quadrant of the first point", quadrants)
    return found


def attention_history_content(folder: RunFolder, notices: list[str]) -> dict[str, Any] | None:
    """Return the attention history of a run, or None if the history is missing or unreadable."""
    if not folder.film.exists():
        return None
    try:
        arrays = folder.read_film()
    except CheckpointError as error:
        notices.append(f"The attention history cannot be shown: {error}")
        return None
    weights = arrays["weights"]
    frames = np.arange(len(weights))
    limit = max(2, MAX_CELLS // max(1, int(np.prod(weights.shape[1:]))))
    if limit < len(frames):
        frames = np.unique(np.linspace(0, len(weights) - 1, limit).round().astype(np.int64))
        notices.append(
            f"The attention history shows {len(frames)} of {len(weights)} recorded epochs."
        )
    return {
        "epochs": arrays["epochs"][frames].tolist(),
        "ids": [str(name) for name in arrays["ids"]],
        "labels": read_labels(arrays),
        "source_lengths": arrays["source_lengths"].tolist(),
        "target_lengths": arrays["target_lengths"].tolist(),
        "alignment": arrays["alignment"].tolist() if "alignment" in arrays else None,
        "meaning": str(arrays["meaning"]),
        "weights": pack_weights(weights[frames]),
    }


def pack_weights(weights: NDArray[np.floating]) -> dict[str, Any]:
    """Quantize an array to integers, compress the integers with zlib, and encode them in base64.

    The largest integer of the type represents NaN. The smaller integers represent the values from
    `low` to `high`. The entry `decimals` is the number of decimals that the quantization keeps, at
    most 4. It keeps at least 2 decimals if the values are within a range of 600.
    """
    real = weights[np.isfinite(weights)]
    low = min(0.0, float(real.min())) if real.size else 0.0
    high = max(1.0, float(real.max())) if real.size else 1.0
    is_fine = weights.size <= MAX_FINE_CELLS or (high - low) / 254 > 0.01
    limit = 65_534 if is_fine else 254
    decimals = min(4, max(0, math.floor(-math.log10((high - low) / limit))))
    steps = np.round((weights - low) / (high - low) * limit)
    codes = np.where(np.isfinite(steps), steps, limit + 1).astype("<u2" if is_fine else "u1")
    return {
        "shape": list(weights.shape),
        "bits": 16 if is_fine else 8,
        "low": low,
        "high": high,
        "decimals": decimals,
        "data": base64.b64encode(zlib.compress(codes.tobytes(), 6)).decode(),
    }


def pack_points(points: NDArray[np.floating]) -> dict[str, Any]:
    """Compress an array with zlib, and encode it in base64.

    The numbers keep their full precision, because a model in the page computes with them. The first
    bytes of all numbers come first, then all second bytes, and so on. The last bytes contain the
    exponents, which compress well only if they are not interleaved with the random low bits.
    """
    bits = 32 if points.dtype == np.float32 else 64
    raw = np.ascontiguousarray(points, dtype=f"<f{bits // 8}").reshape(-1).view(np.uint8)
    planes = raw.reshape(-1, bits // 8).T.tobytes()
    data = base64.b64encode(zlib.compress(planes, 6)).decode()
    return {"shape": list(points.shape), "bits": bits, "data": data}
