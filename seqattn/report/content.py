"""What a page shows, as plain data: numbers in JSON, arrays of weights packed.

Letters: N sequences, L layers, A heads, T target steps, S source steps.
"""

from __future__ import annotations

import base64
import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn import doctor
from seqattn.comparison import ComparisonResult, sentences
from seqattn.comparison.tables import BRACKETS, reference_sentence, references, scope, table
from seqattn.config import Config, as_plain, leaves, read_stored
from seqattn.data.baselines import verdict
from seqattn.data.metrics import metrics_lines
from seqattn.data.sequences import share_a_plane
from seqattn.data.units import Units, with_unit
from seqattn.errors import CheckpointError, ConfigError, DataError, SeqattnError
from seqattn.experiment import data_of, open_run
from seqattn.runs import PAGE, EpochRecord, RunFolder, check_summary
from seqattn.wording import counted

Arrays = Mapping[str, NDArray[Any]]

MOST_EXAMPLES = 1000
MOST_CELLS = 2**22
"""Weights of one kind that a page holds; more sequences than that are sampled."""
FINE_CELLS = 2**20
"""Weights up to which a page holds them to five decimals, and not to two."""
MOST_CLASSES = 24
WORST = 10
MOST_SEEDS_SHOWN = 400
MOST_POINTS = 200
"""Points of the curve of a run that is chosen; below twice as many, every epoch is one."""
OTHER_UNIT = " (not scaled as the losses are)"
KINDS = {"cross": "weights", "encoder_self": "encoder_self", "decoder_self": "decoder_self"}


def of_run(folder: RunFolder, examine: bool = True) -> dict[str, Any]:
    """All of one run. What is not there, or cannot be read, is said in `notices`.

    Raises:
        CheckpointError: it is no run, or has not finished an epoch.
    """
    if not folder.is_run:
        raise CheckpointError(f"{folder.path}: is no folder of a run ({folder.lacks}).")
    notices = list[str]()
    config, rows = _config(folder, notices)
    history = folder.read_metrics() if folder.metrics.exists() else []
    diverged = folder.divergence()
    if not history:
        raise CheckpointError(
            f"{folder.path}: no epoch has ended there{' yet' if diverged is None else ''}, so there"
            f" is nothing to report. {diverged or ''}".rstrip()
        )
    summary: dict[str, Any] | None = None
    if diverged is not None:
        notices.append(f"The training diverged, so there are no forecasts. {diverged}")
    elif folder.summary.exists():
        summary = (folder.read_summary() if config is None
                   else check_summary(folder, as_plain(config.model), config.seed))  # fmt: skip
    else:
        notices.append(
            f"The training is not finished: {counted(len(history), 'epoch')} done. Go on with it"
            " (--resume) for forecasts, attention and what the doctor says."
        )
    environment = folder.read_environment()
    content: dict[str, Any] = {
        "kind": "run",
        "name": folder.path.name,
        "path": str(folder.path),
        "seed": None if summary is None else summary["seed"],
        "config": rows,
        "environment": _environment(environment),
        "command": environment.get("command")
        or f"seqattn train {folder.config} --name {folder.path.name}-again",
        "asked": "Trained by" if environment.get("command") else "Train it again",
        "curves": _curves(history, summary),
        "summary": None if summary is None else _verdict(summary),
        "notices": notices,
        "doctor": [],
        "told": "",
        "unit": "",
    }
    if summary is None:
        return content
    scale = _scale(folder, notices) if summary["scaled"] else 1.0
    content["unit"] = " (scaled)" if summary["scaled"] else ""
    content["unit_of_one"] = content["unit"] if scale is not None else OTHER_UNIT
    try:
        content |= _examples(folder, notices, scale, summary.get("units", {}))
    except CheckpointError as error:
        notices.append(f"Forecasts and weights cannot be shown: {_words(error)}")
    content["film"] = _film(folder, notices)
    content["by_step"] = summary["loss_by_step"]
    if examine:
        try:
            _, trained = open_run(folder.path)
            found = doctor.examine(
                doctor.evidence(
                    trained,
                    data_of(trained),
                    doctor.losses_beside(folder),
                    doctor.history_of(folder),
                )
            )
            content["doctor"] = doctor.as_plain(found)
            content["told"] = doctor.told(found)
        except (CheckpointError, DataError) as error:
            notices.append(f"The doctor could not look: {_words(error)}")
    return content


def _scale(folder: RunFolder, notices: list[str]) -> NDArray[np.float64] | None:
    """(F,) what the loss of a run divides each target feature by; None where it cannot be read."""
    try:
        _, trained = open_run(folder.path)
    except CheckpointError as error:
        notices.append(
            "Errors of single sequences are not in the scaled units of the losses, which only the"
            f" checkpoint knows: {error}"
        )
        return None
    return trained.spec.scaling.target.scale


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, SeqattnError) else repr(error)


def _config(folder: RunFolder, notices: list[str]) -> tuple[Config | None, list[list[str]]]:
    """The config, None where it cannot be read, and its rows: key, value, origin."""
    try:
        config = read_stored(folder.config)
    except ConfigError as error:
        notices.append(f"Its config cannot be read back: {error}")
        return None, []
    known = folder.read_environment().get("origins")
    rows = []
    for at, value in leaves(as_plain(config)):
        key = ".".join(at)
        origin = "" if known is None else str(known.get(key, "default"))
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        rows.append([key, said, origin])
    return config, rows


def _environment(found: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for key, value in found.items():
        if key in ("command", "origins"):
            continue
        said = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        rows.append([key.replace("_", " "), str(said)])
    return rows


def _verdict(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The losses beside what they are read by, and the sentence that says it."""
    loss, floor = summary["test_loss"], summary["noise_floor"]
    compared = verdict(loss, summary["baselines"], summary["fitted"])
    sentence = f"Free running, its mean squared error on the test sequences is {loss:.4g}: it"
    sentence += f" {compared}"
    if floor is not None:
        above = loss - floor
        sentence += f"; it stands {above:.2g} above the noise floor ({floor:.4g})"
    rows = [["this model, free running", loss, "own"]]
    rows += [["this model, teacher-forced", summary["test_loss_teacher_forced"], ""]]
    rows += [[name, value, ""] for name, value in summary["baselines"].items()]
    rows += [[name, value, ""] for name, value in summary["fitted"].items()]
    if floor is not None:
        rows += [["noise floor (irreducible error)", floor, "floor"]]
    return {
        "sentence": sentence + ".",
        "rows": sorted(rows, key=lambda row: row[1]),
        "attention": summary["attention"],
        "best_epoch": summary["best_epoch"],
        "epochs": summary["epochs"],
        "parameters": summary["parameters"],
        "seconds": summary["seconds"],
        "rmse": summary["rmse"].get("this model", []),
        "features": summary["features"],
        "units": summary.get("units", {}),
        "scaled": summary["scaled"],
        "metrics": summary.get("metrics"),
        "metrics_lines": metrics_lines(summary),
    }


def _curves(history: Sequence[EpochRecord], summary: Mapping[str, Any] | None) -> dict[str, Any]:
    curves: dict[str, Any] = {
        "epoch": [record.epoch for record in history],
        "training": [record.train_loss for record in history],
        "validation": [record.validation_loss for record in history],
        "teacher_forced": [record.validation_loss_teacher_forced for record in history],
    }
    if summary is not None:
        best = summary["best_baseline"]
        curves |= {
            "best_epoch": summary["best_epoch"],
            "floor": summary["validation_noise_floor"],
            "baseline": [best, summary["validation_baselines"][best]],
        }
    return curves


# --- sequences and where the model looked ---------------------------------------------------------


def _examples(
    folder: RunFolder,
    notices: list[str],
    scale: NDArray[np.float64] | float | None,
    units: Units,
) -> dict[str, Any]:
    said = folder.read_predictions()
    looked = folder.read_attention() if folder.attention.exists() else {}
    N = len(said["ids"])
    losses = errors(said, scale)
    worst = np.argsort(-losses, kind="stable")[:WORST]
    worst = worst[np.isfinite(losses[worst])]  # else nothing of its target was observed
    cells = max(
        (int(np.prod(looked[key].shape[1:])) for key in KINDS.values() if key in looked), default=1
    )
    most = min(MOST_EXAMPLES, max(1, MOST_CELLS // cells))
    chosen = np.arange(N)
    if most < N:
        # The worst are wanted in full, the others from the first on.
        first = [k for k in range(N) if k not in set(worst.tolist())]
        chosen = np.sort(np.concatenate([worst[:most], first[: max(0, most - len(worst))]])).astype(
            np.int64
        )
        notices.append(
            f"{len(chosen):,} of {N:,} test sequences are shown one by one: the"
            f" {min(len(worst), most)} with the largest errors and the first of the others. Errors"
            " by step and by class are of all."
        )
    place = {int(k): at for at, k in enumerate(chosen)}
    examples = {
        "ids": [str(name) for name in said["ids"][chosen]],
        "labels": [labels_of(said)[k] for k in chosen],
        "features": [str(name) for name in said["features"]],
        "said": [str(name) for name in said.get("said", said["features"])],
        "units": dict(units),
        "named": {name: with_unit(name, units) for name in units},
        "plane": _in_a_plane(said, units, chosen),
        "source": packed_points(said["source"][chosen]),
        "target": packed_points(said["target"][chosen]),
        "forecast": packed_points(said["forecast"][chosen]),
        "source_lengths": said["source_lengths"][chosen].tolist(),
        "target_lengths": said["target_lengths"][chosen].tolist(),
        "losses": [float(loss) if np.isfinite(loss) else None for loss in losses[chosen]],
        "total": N,
    }
    maps = {
        kind: packed_weights(looked[key][chosen])
        for kind, key in KINDS.items()
        if key in looked and looked[key].size
    }
    alignment = looked.get("alignment")
    return {
        "examples": examples,
        "maps": maps,
        "meaning": str(looked.get("meaning", "distribution")),
        "alignment": None if alignment is None else alignment[chosen].tolist(),
        "worst": [place[int(k)] for k in worst if int(k) in place],
        "classes": classes(said, losses, units),
    }


def labels_of(arrays: Arrays) -> list[str]:
    """What the task says of each sequence; nothing where it says nothing of any."""
    labels = [str(label) for label in arrays["labels"]]
    return labels or [""] * len(arrays["ids"])


def errors(said: Arrays, scale: NDArray[np.float64] | float | None = None) -> NDArray[np.float64]:
    """(N,) mean squared error of each forecast over what was observed; NaN where nothing was.

    Args:
        scale: (F,) what each feature is divided by first, as a run's loss does. None: each in units
            of its spread, so that those of different units can be added up; the plain numbers where
            all spread alike.
    """
    apart = np.asarray(said["forecast"], np.float64) - said["target"]
    if scale is None:
        target = np.ma.masked_invalid(np.asarray(said["target"], np.float64))
        spread = np.ma.filled(target.std(axis=(0, 1)), 0)
        spread = np.where(spread > 0, spread, 1.0)
        scale = 1.0 if spread.max() < 2 * spread.min() else spread
    real = np.isfinite(apart)
    squares = np.square(np.where(real, apart / scale, 0.0)).sum(axis=(1, 2))
    count = real.sum(axis=(1, 2))
    return np.where(count > 0, squares / np.maximum(count, 1), np.nan)


def _in_a_plane(
    said: Arrays, units: Units, chosen: NDArray[np.int64] | slice = slice(None)
) -> bool:
    points = [said[part][chosen] for part in ("source", "target", "forecast")]
    features = said["features"]
    return share_a_plane(list(features), list(said.get("said", features)), points, units)


def classes(
    said: Arrays, losses: NDArray[np.float64], units: Units | None = None
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

    by("what the task says of it", [label or "nothing" for label in labels_of(said)])
    by("source length", [str(int(length)) for length in said["source_lengths"]])
    by("target length", [str(int(length)) for length in said["target_lengths"]])
    first = said["source"][:, 0, :]
    if _in_a_plane(said, units or {}) and (first < 0).any() and (first > 0).any():
        by("where it starts", [f"{'upper' if y >= 0 else 'lower'} {'right' if x >= 0 else 'left'}"
                               for x, y in first])  # fmt: skip
    return found


def _film(folder: RunFolder, notices: list[str]) -> dict[str, Any] | None:
    if not folder.film.exists():
        return None
    try:
        film = folder.read_film()
        weights = film["weights"]
        frames = np.arange(len(weights))
        most = max(2, MOST_CELLS // max(1, int(np.prod(weights.shape[1:]))))
        if most < len(frames):
            frames = np.unique(np.linspace(0, len(weights) - 1, most).round().astype(np.int64))
            notices.append(f"The film shows {len(frames)} of its {len(weights)} frames.")
        return {
            "epochs": film["epochs"][frames].tolist(),
            "ids": [str(name) for name in film["ids"]],
            "labels": labels_of(film),
            "source_lengths": film["source_lengths"].tolist(),
            "target_lengths": film["target_lengths"].tolist(),
            "alignment": film["alignment"].tolist() if "alignment" in film else None,
            "meaning": str(film["meaning"]),
            "weights": packed_weights(weights[frames]),
        }
    except CheckpointError as error:
        notices.append(f"The film cannot be shown: {_words(error)}")
        return None


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


# --- many runs ------------------------------------------------------------------------------------


def of_outcome(outcome: ComparisonResult, home: Path | None = None) -> dict[str, Any]:
    """A comparison, or many seeds of one config; every seed with what is shown when it is chosen.

    Args:
        home: the folder of the page, from where its links go; None: that of the outcome.

    Raises:
        CheckpointError: no run in it has ended.
    """
    if not any(arm.summaries for arm in outcome.arms):
        more = " yet" if any(arm.unfinished for arm in outcome.arms) else ""
        raise CheckpointError(
            f"{outcome.path}: none of its runs has ended with a finite loss{more}."
        )
    notices = list[str]()
    arms, shown, start = [], 0, home or outcome.path
    total = sum(len(arm.folders) for arm in outcome.arms)
    for arm in outcome.arms:
        points, missing = [], []
        for seed, folder in arm.folders.items():
            summary = arm.summaries.get(seed)
            if summary is None:
                missing.append(seed)
                continue
            point: dict[str, Any] = {
                "seed": seed,
                "loss": summary["test_loss"],
                "forced": summary["test_loss_teacher_forced"],
                "best_epoch": summary["best_epoch"],
                "beats": summary["beats_best_baseline"],
                "path": folder.path.relative_to(outcome.path).as_posix(),
                "link": Path(os.path.relpath(folder.path.resolve(), start.resolve())).as_posix(),
                "page": (folder.path / PAGE).exists(),
            }
            if shown < MOST_SEEDS_SHOWN:
                point |= _glance(folder)
                shown += 1
            points.append(point)
        spread = arm.spread
        arms.append(
            {
                "name": arm.name,
                "points": points,
                "missing": missing,
                "diverged": len(arm.diverged),
                "median": None if spread is None else _finite(spread.median),
                "interval": None
                if spread is None or spread.median_interval is None
                else [_finite(bound) for bound in spread.median_interval],
            }
        )
    lost = sum(len(arm.diverged) for arm in outcome.arms)
    if lost:
        notices.append(
            f"{lost} of {total} runs diverged. They have no point; medians, intervals and tests"
            " count each as worse than any run that did not."
        )
    if unfinished := sum(arm.unfinished for arm in outcome.arms):
        notices.append(f"{unfinished} of {total} runs have not ended; they are in no number here.")
    if total > MOST_SEEDS_SHOWN:
        notices.append(
            f"Curves and weights are kept of the first {MOST_SEEDS_SHOWN} of {total} runs."
        )
    headings, rows = table(outcome.arms)
    seeds = tuple(float(loss) for arm in outcome.arms for loss in arm.losses.values())
    apart = doctor.seeds_apart(seeds) if len(outcome.arms) == 1 else None
    return {
        "kind": "comparison",
        "unit": " (scaled)" if any(summary.get("scaled") for arm in outcome.arms
                                   for summary in arm.summaries.values()) else "",
        "name": outcome.name,
        "path": str(outcome.path),
        "arms": arms,
        "sentences": sentences(outcome) if apart is None
        else [f"{apart.number}. {apart.meaning}".strip(), scope(outcome.data_of_seeds)],
        "references": references(outcome),
        "reference_sentence": reference_sentence(outcome),
        "brackets": BRACKETS,
        "headings": headings,
        "rows": rows,
        "notices": notices,
    }  # fmt: skip


def _finite(value: float) -> float | None:
    """A number as JSON has it: None where it is infinite."""
    return value if math.isfinite(value) else None


def _glance(folder: RunFolder) -> dict[str, Any]:
    """A run's curve and its first sequence, for when its point is chosen."""
    glance: dict[str, Any] = {}
    try:
        glance["curve"] = thinned(folder.read_metrics())
        if folder.attention.exists():
            looked = folder.read_attention(1)
            _, L, A, _, _ = looked["weights"].shape
            S, T = (int(looked[f"{side}_lengths"][0]) for side in ("source", "target"))
            weights = looked["weights"][0, 0, 0, :T, :S]
            if weights.size <= 64 * 64:
                glance["weights"] = [
                    [round(w, 3) if math.isfinite(w) else None for w in row]
                    for row in weights.tolist()
                ]
                glance["part"] = (", layer 0" if L > 1 else "") + (", head 0" if A > 1 else "")
                glance["signed"] = str(looked["meaning"]) == "strength"
    except CheckpointError:
        return glance
    return glance


def thinned(history: Sequence[EpochRecord]) -> list[list[float]]:
    """Epoch and validation loss of some hundreds of epochs; the first, best and last are kept."""
    if not history:
        return []
    best = min(range(len(history)), key=lambda k: history[k].validation_loss)
    every = max(1, len(history) // MOST_POINTS)
    kept = sorted({*range(0, len(history), every), best, len(history) - 1})
    return [[history[k].epoch, history[k].validation_loss] for k in kept]
