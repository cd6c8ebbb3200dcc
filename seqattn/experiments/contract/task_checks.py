"""Checks of tasks, of their ideal forecasts, whose error is the noise floor, and of the functions
that a plugin registers: metrics and doctor checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from seqattn.analysis.doctor import PLUGIN_CHECKS, collect_evidence
from seqattn.analysis.doctor.check import State as FindingState
from seqattn.analysis.evaluation.plugin_metrics import PLUGIN_METRICS
from seqattn.config import Config, resolve
from seqattn.data import DataSpec, Sequences, load_data
from seqattn.data.sequences import valid_mask
from seqattn.data.tasks import generate
from seqattn.errors import SeqattnError
from seqattn.experiments.contract.case import (
    TARGET_DIM,
    CheckFailedError,
    CheckWarningError,
    N,
    NotApplicableError,
    T,
)
from seqattn.models import FeatureSpec, build_model
from seqattn.training import LoadedModel

COUNT, FEWER, SAMPLE_COUNT, SEED, OTHER_SEED = 37, 11, 2000, 5, 6
MAX_SIZE = 100.0
"""Largest absolute value of sources and targets. With larger values, networks learn slowly."""
MAX_RATIO, MIN_CELLS = 0.8, 200
"""Largest ratio of the squared errors of two alignments at which one of them is clearly better, and
the smallest number of target steps from which the errors are computed."""


def sequences_of(config: Config, n: int = COUNT, seed: int = SEED) -> Sequences:
    """Generate sequences of the task that a config selects."""
    try:
        return generate(config.data, n, seed)  # type: ignore[arg-type]
    except (SeqattnError, ValueError) as error:
        raise CheckFailedError(
            f"generate(task, {n}, {seed}) does not return {n} valid sequences: {error}"
        ) from error


def _arrays(part: Sequences) -> Mapping[str, NDArray[np.generic]]:
    names = ("source", "source_lengths", "target", "target_lengths", "ideal", "alignment")
    return {name: np.asarray(array) for name in names if (array := getattr(part, name)) is not None}


def check_task_shapes(config: Config) -> str:
    """Check the shapes, the lengths and the padding of the arrays."""
    part = sequences_of(config)
    for name, keep in (("source", part.source_keep), ("target", part.target_keep)):
        padding = np.abs(getattr(part, name)[~keep])
        if padding.size and padding.max() > 0:
            raise CheckFailedError(
                f"The padding of {name} contains {padding.max():.3g} instead of 0:"
                " return np.where(keep, values, 0)."
            )
    if (part.target_lengths < 1).any():
        n = int(np.argmin(part.target_lengths))
        raise CheckFailedError(
            f"Sequence {n + 1} has {part.target_lengths[n]} target steps. A target needs at least"
            " 1 step."
        )
    S, T = part.source_steps, part.target_steps
    return f"up to {S} source steps and {T} target steps"


def check_determinism(config: Config) -> str:
    """Check that the sequences depend only on the seed, and that generating them changes no global
    random state."""
    np.random.seed(1)  # a task must not read or change the global state
    before = np.random.get_state()
    first = _arrays(sequences_of(config))
    after = np.random.get_state()
    np.random.seed(2)
    second = _arrays(sequences_of(config))
    for name, array in first.items():
        if not np.array_equal(array, second[name]):
            difference = np.abs(array.astype(float) - second[name].astype(float)).max()
            raise CheckFailedError(
                f"`{name}` differs by up to {difference:.3g} between two calls with the same seed:"
                " the task draws from a global random generator, or keeps state. Draw from"
                " np.random.default_rng(seed)."
            )
    if not np.array_equal(before[1], after[1]) or before[2] != after[2]:  # type: ignore[index]
        raise CheckFailedError(
            "The task changes the global random state of NumPy. Draw from"
            " np.random.default_rng(seed)."
        )
    other = _arrays(sequences_of(config, seed=OTHER_SEED))
    if np.array_equal(first["source"], other["source"]):
        raise CheckFailedError(
            f"The seeds {SEED} and {OTHER_SEED} give the same {COUNT} sources: the task ignores the"
            " seed, so training and test data are equal."
        )
    return "equal for equal seeds, different for different seeds"


def check_prefix(config: Config) -> str:
    """Check that the first sequences do not depend on the number of sequences."""
    many, few = _arrays(sequences_of(config)), _arrays(sequences_of(config, FEWER))
    for name, array in few.items():
        first = many[name][:FEWER]
        if array.ndim > 1:  # the number of sequences may change the longest length
            steps = min(array.shape[1], first.shape[1])
            array, first = array[:, :steps], first[:, :steps]
        if not np.array_equal(array, first):
            raise CheckWarningError(
                f"The first {FEWER} of {COUNT} sequences are not the {FEWER} sequences of the same"
                f" seed (`{name}` differs), so a change of data.n_train changes every sequence."
                " Draw each purpose from np.random.default_rng([seed, purpose])."
            )
    return f"the first {FEWER} of {COUNT} sequences are equal to {FEWER} sequences"


def check_task_values(config: Config) -> str:
    """Check that no absolute value is above `MAX_SIZE`, and that the targets are not constant."""
    part = sequences_of(config)
    size = max(float(np.abs(part.source).max()), float(np.abs(part.target).max()))
    spread = float(part.target[part.target_keep].std())
    if spread == 0:
        raise CheckFailedError(
            f"All target values are {part.target.flat[0]:g}, so there is nothing to forecast."
        )
    if size > MAX_SIZE:
        raise CheckWarningError(
            f"The largest value is {size:.3g}. Generated data are not scaled, so networks learn"
            " slowly. Generate values of about 1."
        )
    return f"largest value {size:.3g}"


def check_alignment(config: Config) -> str:
    """Check that the alignment contains valid source steps or -1, and only -1 at padding. Compare
    how well the source steps of the alignment and their neighbours explain the targets."""
    part = sequences_of(config)
    if part.alignment is None:
        raise NotApplicableError("the task has no alignment.")
    alignment = part.alignment
    keep = valid_mask(part.target_lengths, part.target_steps)
    inside = (alignment >= -1) & (alignment < part.source_lengths[:, None])
    wrong = np.argwhere(np.where(keep, ~inside, alignment != -1))
    if len(wrong):
        n, t = map(int, wrong[0])
        expected = (
            f"-1 or 0 to {part.source_lengths[n] - 1}"
            if keep[n, t]
            else "-1, because it is padding"
        )
        raise CheckFailedError(
            f"The alignment of sequence {n + 1}, target step {t + 1} is {alignment[n, t]} instead"
            f" of {expected}. Count source steps from 0."
        )
    _compare_with_neighbours(sequences_of(config, SAMPLE_COUNT))
    share = float((alignment[keep] >= 0).mean())
    return f"{share:.0%} of the target steps have a source step"


def _compare_with_neighbours(part: Sequences) -> None:
    """Compute the squared error of a linear regression of the targets on the source steps of the
    alignment, and on the previous and the next source steps. Only target steps whose source step
    has both neighbours count."""
    assert part.alignment is not None
    alignment, lengths = part.alignment, part.source_lengths[:, None]
    n, t = np.nonzero(part.target_keep & (alignment > 0) & (alignment + 1 < lengths))
    if part.target_observed is not None:
        observed = part.target_observed[n, t].all(axis=-1)
        n, t = n[observed], t[observed]
    if len(n) < MIN_CELLS:
        return
    errors = {}
    for shift in (-1, 0, 1):
        points = part.source[n, alignment[n, t] + shift]
        inputs = np.concatenate([np.ones((len(n), 1)), points], axis=1)
        fitted = inputs @ np.linalg.lstsq(inputs, part.target[n, t], rcond=None)[0]
        errors[shift] = float(((part.target[n, t] - fitted) ** 2).mean())
    best = min(errors, key=lambda shift: errors[shift])
    if errors[best] < MAX_RATIO * errors[0]:
        raise CheckWarningError(
            f"A linear regression of the targets on the source steps of the alignment {best:+d} has"
            f" the mean squared error {errors[best]:.3g}, and {errors[0]:.3g} on the source steps"
            f" of the alignment itself ({len(n)} target steps). The alignment may be off by one."
            " Count source steps from 0."
        )


# --- the ideal forecast ---------------------------------------------------------------------------


MAX_FALSE_ALARM = 1e-6
"""Bound of the probability that the check of the noise fails by chance."""
MIN_SEQUENCES = 200
"""Smallest number of sequences from which a product of noise and source is averaged."""
ROUNDING = 1e-9


def check_ideal(config: Config) -> str:
    """Check that the ideal forecast is the best forecast without knowledge of the noise.

    The noise is the target minus the ideal forecast. Its mean must be 0, and it must not be
    correlated with the ideal forecast or with the source. If the task has a key `noise`, the ideal
    forecast must equal the target at noise 0.
    """
    part = sequences_of(config)
    if part.ideal is None:
        raise NotApplicableError("the task gives no ideal forecast.")
    if not np.isfinite(part.ideal[part.target_keep]).all():
        raise CheckFailedError("`ideal` contains values that are not finite.")
    noise = getattr(config.data, "noise", None)
    if not isinstance(noise, bool) and isinstance(noise, int | float):
        quiet = config.data.model_copy(update={"noise": type(noise)(0)})
        part = sequences_of(config.model_copy(update={"data": quiet}))
        if part.ideal is None:
            raise CheckFailedError(
                "With noise: 0, the task returns no `ideal`. Return `ideal`, the target without"
                " noise, for every value of `noise`."
            )
        difference = np.abs(np.where(part.target_keep[..., None], part.ideal - part.target, 0.0))
        if difference.max() > 1e-12:
            n, t, _ = np.unravel_index(int(difference.argmax()), difference.shape)
            raise CheckFailedError(
                f"Without noise, `ideal` differs from the target by up to {difference.max():.3g}"
                f" (sequence {n + 1}, step {t + 1}). `ideal` is the best forecast without knowledge"
                " of the noise."
            )
    return _check_noise(sequences_of(config, SAMPLE_COUNT))


# --- the distribution of the noise ----------------------------------------------------------------


def _check_noise(part: Sequences) -> str:
    """Check that the noise has mean 0, and that it is not correlated with `ideal` and the source.

    Sequences must be independent. Let r be the noise and x a number that the source determines. If
    `ideal` is the conditional mean of the target, the sum of r x over all sequences has mean 0. If
    the noise is also symmetric, |sum of r x| exceeds b sqrt(sum of (r x)^2) with a probability of
    at most 2 exp(-b^2 / 2) (Hoeffding 1963; Efron 1969, "Student's t-test under symmetry
    conditions"). The bound b takes into account that many products are tested. A product is only
    tested if it is not 0 in at least `MIN_SEQUENCES` sequences, because the bound holds only
    approximately for noise that is not symmetric.
    """
    assert part.ideal is not None
    N, T, G = part.target.shape
    cells = np.broadcast_to(part.target_cells, part.target.shape)
    ideal = np.where(cells, part.ideal, 0.0)
    noise = np.where(cells, part.target - part.ideal, 0.0)
    scale = max(1.0, float(np.abs(ideal).max()))
    if np.abs(noise).max() <= ROUNDING * scale:
        return "equal to the target"
    centred = np.where(cells, ideal - ideal.sum() / cells.sum(), 0.0)
    spread = float((centred**2).sum())
    S, F = part.source.shape[1:]
    known = np.concatenate([part.source.reshape(N, -1), ideal.reshape(N, -1)], axis=1)
    flat = noise.reshape(N, -1)
    bound = math.sqrt(2 * math.log(2 * (flat.shape[1] * known.shape[1] + 2) / MAX_FALSE_ALARM))

    def average(per_sequence: NDArray[np.float64], total: float) -> tuple[float, float]:
        return float(per_sequence.sum()) / total, bound * math.sqrt((per_sequence**2).sum()) / total

    mean, mean_bound = average(noise.sum(axis=(1, 2)), float(cells.sum()))
    slope, slope_bound = average((noise * centred).sum(axis=(1, 2)), spread or 1.0)
    risk = f"The probability of this by chance is below {MAX_FALSE_ALARM:g}."
    if abs(mean) > mean_bound:
        raise CheckFailedError(
            f"The targets minus `ideal` have the mean {mean:.3g} in {N} sequences instead of 0,"
            f" within {mean_bound:.2g}. {risk} `ideal` must be the mean of the targets of a"
            " source."
        )
    if abs(slope) > slope_bound:
        raise CheckFailedError(
            f"A regression of the targets on `ideal` has the slope {1 + slope:.4g} in {N} sequences"
            f" instead of 1, within {slope_bound:.2g}. {risk} `ideal` is scaled, or contains"
            " noise."
        )
    norms = np.sqrt((flat**2).T @ known**2)
    often = (flat != 0).astype(float).T @ (known != 0) >= MIN_SEQUENCES
    ratios = np.abs(flat.T @ known) / np.where(often & (norms > 0), norms, np.inf)
    if ratios.max() > bound:
        row, column = np.unravel_index(int(ratios.argmax()), ratios.shape)
        t, g = np.unravel_index(int(row), (T, G))
        place, sizes = (column, (S, F)) if column < S * F else (column - S * F, (T, G))
        step, feature = np.unravel_index(int(place), sizes)
        other = "the source" if column < S * F else "`ideal`"
        raise CheckFailedError(
            f"The target minus `ideal` at step {t + 1}, feature {g + 1}, is correlated with {other}"
            f" at step {step + 1}, feature {feature + 1}: the mean of the product is"
            f" {ratios.max():.1f} standard errors from 0 in {N} sequences, and the bound is"
            f" {bound:.1f}. {risk} `ideal` leaves out a part of the target that the source"
            " determines."
        )
    return f"slope of the targets {1 + slope:.4f} (bound {slope_bound:.2g}), mean {mean:.1g}"


# --- metrics and doctor checks --------------------------------------------------------------------


TARGET_LENGTHS = np.array([5, 2, 3])
VERDICT_LENGTHS = {"fine": 2, "unknown": 2, "found": 4}
"""The number of fields of a verdict for each state."""


def check_metric(name: str) -> str:
    """Check that a metric returns a finite and reproducible number, ignores padding, and does not
    change its arguments."""
    metric, _ = PLUGIN_METRICS[name]
    rng = np.random.RandomState(1)
    forecast, target = rng.standard_normal((2, N, T, TARGET_DIM))
    padding = np.arange(T) >= TARGET_LENGTHS[:, None]
    forecast[padding] = target[padding] = math.nan
    arguments = forecast.copy(), target.copy()
    value = metric(*arguments)
    if not isinstance(value, float | int | np.floating | np.integer):
        raise CheckFailedError(
            f"The metric returns {type(value).__name__} instead of a number. Reduce the result over"
            " all axes."
        )
    if not math.isfinite(value):
        raise CheckFailedError(
            f"The metric is {value:g} for forecasts and targets with NaN in the padding: it reads"
            " padding. Use np.nanmean and np.nansum, or a mask ~np.isnan(target)."
        )
    for argument, before in zip(arguments, (forecast, target), strict=True):
        if not np.array_equal(argument, before, equal_nan=True):
            raise CheckFailedError("The metric changes its arguments. Copy an array first.")
    if (again := metric(forecast.copy(), target.copy())) != value:
        raise CheckFailedError(
            f"The metric is {value:.6g} and then {again:.6g} for the same arguments."
        )
    more = ((0, 0), (0, T), (0, 0))
    padded = metric(*(np.pad(each, more, constant_values=math.nan) for each in (forecast, target)))
    if not math.isclose(padded, value, rel_tol=1e-9, abs_tol=1e-12):
        raise CheckFailedError(
            f"The metric is {value:.6g}, and {padded:.6g} with {T} more steps of padding: it counts"
            " padding, for example as an error of 0. Leave out the cells in which the target is"
            " NaN."
        )
    return f"{float(value):.4g} for random forecasts"


def check_doctor_check(name: str) -> str:
    """Check that a doctor check returns a valid verdict for a model with attention and, unless the
    check needs attention weights, for a model without attention."""
    (check,) = [each for each in PLUGIN_CHECKS if each.name == name]
    states = []
    for attention in ("{score: scaled_dot}", "null"):
        if attention == "null" and check.needs_weights:
            continue
        small = ["data.n_train=16", "data.n_validation=8", "data.n_test=8"]
        config = resolve(None, [*small, f"model.attention={attention}"]).config
        data = load_data(config.data)
        spec = DataSpec.of_splits(data)
        model = build_model(config.model, FeatureSpec.of(spec), 1)
        verdict = check.judge(collect_evidence(LoadedModel(model, config, spec, 1), data))
        if (
            not isinstance(verdict, tuple)
            or not verdict
            or verdict[0] not in get_args(FindingState)
        ):
            raise CheckFailedError(
                f"The check returns {verdict!r} instead of a tuple that starts with"
                f" {', '.join(map(repr, VERDICT_LENGTHS))}."
            )
        count = VERDICT_LENGTHS[verdict[0]]
        if len(verdict) != count or not all(isinstance(text, str) for text in verdict):
            raise CheckFailedError(
                f"The check returns {len(verdict)} fields with {verdict[0]!r} instead of {count}"
                " texts: ('fine', number), ('unknown', reason) or ('found', number, meaning,"
                " change)."
            )
        states.append(verdict[0])
    return f"{' and '.join(states)} for an untrained model"
