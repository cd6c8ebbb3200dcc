"""The test sequences of a run: their forecasts, errors and attention weights."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.data.sequences import can_share_axes
from seqattn.data.units import Units, with_unit
from seqattn.errors import CheckpointError
from seqattn.plots.run_pictures import WEIGHT_KEYS
from seqattn.runs import RunFolder

Arrays = Mapping[str, NDArray[Any]]

MOST_EXAMPLES = 1000
MOST_CELLS = 2**22
"""Weights of one kind that a page holds; more sequences than that are sampled."""
FINE_CELLS = 2**20
"""Weights up to which a page holds them to five decimals, and not to two."""
MOST_CLASSES = 24
WORST = 10


def examples(
    folder: RunFolder,
    notices: list[str],
    scale: NDArray[np.float64] | float | None,
    units: Units,
) -> dict[str, Any]:
    """The sequences that are shown one by one, and the errors of all.

    Args:
        scale: see `errors`.
        units: of the features that have one.

    Raises:
        CheckpointError: a file of the run cannot be read.
    """
    predictions = folder.read_predictions()
    attention = folder.read_attention() if folder.attention.exists() else {}
    losses = errors(predictions, scale)
    worst = np.argsort(-losses, kind="stable")[:WORST]
    worst = worst[np.isfinite(losses[worst])]  # else nothing of its target was observed
    weights = {kind: attention[key] for kind, key in WEIGHT_KEYS.items() if key in attention}
    cells = max((int(np.prod(found.shape[1:])) for found in weights.values()), default=1)
    chosen, most = np.arange(len(losses)), min(MOST_EXAMPLES, max(1, MOST_CELLS // cells))
    if most < len(losses):
        others = np.setdiff1d(chosen, worst)[: max(0, most - len(worst))]
        chosen = np.sort(np.concatenate([worst[:most], others]))
        notices.append(
            f"{len(chosen):,} of {len(losses):,} test sequences are shown one by one: the"
            f" {min(len(worst), most)} with the largest errors and the first of the others. Errors"
            " by step and by class are of all."
        )
    place = {int(k): at for at, k in enumerate(chosen)}
    alignment = attention.get("alignment")
    return {
        "examples": _sequences(predictions, losses, chosen, units),
        "maps": {kind: packed_weights(found[chosen]) for kind, found in weights.items()
                 if found.size},
        "meaning": str(attention.get("meaning", "distribution")),
        "alignment": None if alignment is None else alignment[chosen].tolist(),
        "worst": [place[int(k)] for k in worst if int(k) in place],
        "classes": classes(predictions, losses, units),
    }  # fmt: skip


def _sequences(
    predictions: Arrays, losses: NDArray[np.float64], chosen: NDArray[np.int64], units: Units
) -> dict[str, Any]:
    labels = labels_of(predictions)
    return {
        "ids": [str(name) for name in predictions["ids"][chosen]],
        "labels": [labels[k] for k in chosen],
        "features": [str(name) for name in predictions["features"]],
        "said": [str(name) for name in predictions.get("said", predictions["features"])],
        "units": dict(units),
        "named": {name: with_unit(name, units) for name in units},
        "plane": _in_a_plane(predictions, units, chosen),
        "source": packed_points(predictions["source"][chosen]),
        "target": packed_points(predictions["target"][chosen]),
        "forecast": packed_points(predictions["forecast"][chosen]),
        "source_lengths": predictions["source_lengths"][chosen].tolist(),
        "target_lengths": predictions["target_lengths"][chosen].tolist(),
        "losses": [float(loss) if np.isfinite(loss) else None for loss in losses[chosen]],
        "total": len(losses),
    }  # fmt: skip


def labels_of(arrays: Arrays) -> list[str]:
    """What the task says of each sequence; nothing where it says nothing of any."""
    labels = [str(label) for label in arrays["labels"]]
    return labels or [""] * len(arrays["ids"])


def errors(
    predictions: Arrays, scale: NDArray[np.float64] | float | None = None
) -> NDArray[np.float64]:
    """(N,) mean squared error of each forecast over what was observed; NaN where nothing was.

    Args:
        scale: (F,) what each feature is divided by first, as a run's loss does. None: each in units
            of its spread, so that those of different units can be added up; the plain numbers where
            all spread alike.
    """
    gaps = np.asarray(predictions["forecast"], np.float64) - predictions["target"]
    if scale is None:
        target = np.ma.masked_invalid(np.asarray(predictions["target"], np.float64))
        spread = np.ma.filled(target.std(axis=(0, 1)), 0)
        spread = np.where(spread > 0, spread, 1.0)
        scale = 1.0 if spread.max() < 2 * spread.min() else spread
    real = np.isfinite(gaps)
    squares = np.square(np.where(real, gaps / scale, 0.0)).sum(axis=(1, 2))
    count = real.sum(axis=(1, 2))
    return np.where(count > 0, squares / np.maximum(count, 1), np.nan)


def _in_a_plane(
    predictions: Arrays, units: Units, chosen: NDArray[np.int64] | slice = slice(None)
) -> bool:
    points = [predictions[part][chosen] for part in ("source", "target", "forecast")]
    features = predictions["features"]
    return can_share_axes(list(features), list(predictions.get("said", features)), points, units)


def classes(
    predictions: Arrays, losses: NDArray[np.float64], units: Units | None = None
) -> list[dict[str, Any]]:
    """Mean error by what the task says of a sequence, by length, and by where it starts."""
    found = list[dict[str, Any]]()

    def by(name: str, groups: Sequence[str]) -> None:
        names = sorted(set(groups), key=lambda group: (len(group), group))
        if not 1 < len(names) <= MOST_CLASSES:
            return
        at = np.array(groups)
        scored = np.isfinite(losses)
        rows = [[group, int((at == group).sum()), float(losses[scored & (at == group)].mean())]
                for group in names if (scored & (at == group)).any()]  # fmt: skip
        found.append({"name": name, "rows": rows})

    by("what the task says of it", [label or "nothing" for label in labels_of(predictions)])
    by("source length", [str(int(length)) for length in predictions["source_lengths"]])
    by("target length", [str(int(length)) for length in predictions["target_lengths"]])
    first = predictions["source"][:, 0, :]
    if _in_a_plane(predictions, units or {}) and (first < 0).any() and (first > 0).any():
        by("where it starts", [f"{'upper' if y >= 0 else 'lower'} {'right' if x >= 0 else 'left'}"
                               for x, y in first])  # fmt: skip
    return found


def film(folder: RunFolder, notices: list[str]) -> dict[str, Any] | None:
    """The weights while training; None where they were not recorded, or cannot be read."""
    if not folder.film.exists():
        return None
    try:
        arrays = folder.read_film()
    except CheckpointError as error:
        notices.append(f"The film cannot be shown: {error}")
        return None
    weights = arrays["weights"]
    frames = np.arange(len(weights))
    most = max(2, MOST_CELLS // max(1, int(np.prod(weights.shape[1:]))))
    if most < len(frames):
        frames = np.unique(np.linspace(0, len(weights) - 1, most).round().astype(np.int64))
        notices.append(f"The film shows {len(frames)} of its {len(weights)} frames.")
    return {
        "epochs": arrays["epochs"][frames].tolist(),
        "ids": [str(name) for name in arrays["ids"]],
        "labels": labels_of(arrays),
        "source_lengths": arrays["source_lengths"].tolist(),
        "target_lengths": arrays["target_lengths"].tolist(),
        "alignment": arrays["alignment"].tolist() if "alignment" in arrays else None,
        "meaning": str(arrays["meaning"]),
        "weights": packed_weights(weights[frames]),
    }


def packed_weights(weights: NDArray[np.floating]) -> dict[str, Any]:
    """An array as text: whole numbers from the lowest weight to the highest, NaN the one above,
    deflated. `decimals` says what is kept."""
    real = weights[np.isfinite(weights)]
    low = min(0.0, float(real.min())) if real.size else 0.0
    high = max(1.0, float(real.max())) if real.size else 1.0
    fine = weights.size <= FINE_CELLS
    most = 65_534 if fine else 254
    steps = np.round((weights - low) / (high - low) * most)
    whole = np.where(np.isfinite(steps), steps, most + 1).astype("<u2" if fine else "u1")
    return {
        "shape": list(weights.shape),
        "bits": 16 if fine else 8,
        "low": low,
        "high": high,
        "decimals": 4 if fine else 2,
        "data": base64.b64encode(zlib.compress(whole.tobytes(), 6)).decode(),
    }


def packed_points(points: NDArray[np.floating]) -> dict[str, Any]:
    """Coordinates as text: float32, deflated."""
    raw = np.ascontiguousarray(points, dtype="<f4").tobytes()
    data = base64.b64encode(zlib.compress(raw, 6)).decode()
    return {"shape": list(points.shape), "bits": 32, "data": data}
