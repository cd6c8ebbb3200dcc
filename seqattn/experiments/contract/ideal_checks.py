"""Checks of the ideal forecast of a task, whose error is the noise floor."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Config
from seqattn.data import Sequences
from seqattn.data.plugin_tasks import PLUGIN_TASKS
from seqattn.experiments.contract.result import CheckFailedError, NotApplicableError
from seqattn.experiments.contract.task_checks import FEWER, SAMPLE_COUNT, sequences_of

MAX_DRAWS = 60
"""Largest number of calls of random generators that are repeated one by one."""
MAX_FALSE_ALARM = 1e-6
"""Bound of the probability that the check of the noise fails by chance."""
MIN_SEQUENCES = 200
"""Smallest number of sequences from which a product of noise and source is averaged."""
ROUNDING = 1e-9


def check_ideal(config: Config) -> str:
    """Check that the ideal forecast is the best forecast without knowledge of the noise.

    The noise is the target minus the ideal forecast. Its mean must be 0, and it must not be
    correlated with the ideal forecast or with the source. The random numbers that leave the source
    unchanged must not change the ideal forecast. If the task has a key `noise`, the ideal forecast
    must equal the target at noise 0.

    Raises:
        CheckFailedError: if the ideal forecast is not finite, or if it lacks one of these
            properties.
        NotApplicableError: if the task has no ideal forecast.
    """
    part = sequences_of(config)
    if part.ideal is None:
        raise NotApplicableError("the task gives no ideal forecast.")
    if not np.isfinite(part.ideal[part.target_keep]).all():
        raise CheckFailedError("`ideal` contains values that are not finite.")
    noise = getattr(config.data, "noise", None)
    if not isinstance(noise, bool) and isinstance(noise, int | float):
        quiet = config.data.model_copy(update={"noise": type(noise)(0)})
        _check_without_noise(sequences_of(config.model_copy(update={"data": quiet})))
    hidden = _check_draws(config)
    return f"{_check_noise(sequences_of(config, SAMPLE_COUNT))}; {hidden}"


def _check_without_noise(part: Sequences) -> None:
    """Check that the ideal forecast equals the target of a task at noise 0."""
    if part.ideal is None:
        raise CheckFailedError(
            "With noise: 0, the task returns no `ideal`. Return `ideal`, the target without noise,"
            " for every value of `noise`."
        )
    difference = np.abs(np.where(part.target_keep[..., None], part.ideal - part.target, 0.0))
    if difference.max() > 1e-12:
        n, t, _ = np.unravel_index(int(difference.argmax()), difference.shape)
        raise CheckFailedError(
            f"Without noise, `ideal` differs from the target by up to {difference.max():.3g}"
            f" (sequence {n + 1}, step {t + 1}). `ideal` is the best forecast without knowledge of"
            " the noise."
        )


# --- random numbers that the source does not show -------------------------------------------------


class _GeneratorCalls:
    """The calls of the random generators that a task creates.

    Args:
        redrawn: the number of the call that returns other numbers, counted from 0; -1 for no call.

    Attributes:
        count: the number of calls.
    """

    def __init__(self, redrawn: int) -> None:
        self.redrawn, self.count = redrawn, 0

    @contextlib.contextmanager
    def replace(self, config: Config) -> Iterator[None]:
        """Replace NumPy's functions that create generators, in NumPy and in the module of a
        plugin."""
        creators = (np.random.default_rng, np.random.RandomState)
        namespaces = [vars(np.random)]
        if (task := PLUGIN_TASKS.get(type(config.data))) is not None:
            namespaces.append(task.generate.__globals__)
        places = [
            (namespace, name, value) for namespace in namespaces
            for name, value in namespace.items() if any(value is each for each in creators)
        ]  # fmt: skip
        for namespace, name, create in places:

            def replacement(*a: Any, create: Any = create, **k: Any) -> _Generator:
                return _Generator(create(*a, **k), self)

            if isinstance(create, type):  # NumPy itself uses the class in isinstance
                new = staticmethod(lambda cls, *a, f=replacement, **k: f(*a, **k))
                namespace[name] = type(name, (create,), {"__new__": new})
            else:
                namespace[name] = replacement
        try:
            yield
        finally:
            self.redrawn = -1  # a task may have stored a generator
            for namespace, name, create in places:
                namespace[name] = create


class _Generator:
    """A generator of NumPy that counts its calls, and returns other numbers in one of them. Later
    calls return the same numbers as without the change."""

    def __init__(self, generator: Any, calls: _GeneratorCalls) -> None:
        self._generator, self._calls = generator, calls

    def __getattr__(self, name: str) -> Any:
        generator, calls = self._generator, self._calls
        found = getattr(generator, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            calls.count += 1
            if calls.count - 1 != calls.redrawn:
                return found(*arguments, **options)
            other = copy.deepcopy(generator)
            for method in (found, getattr(other, name)):
                method(*arguments, **options)
            return getattr(other, name)(*arguments, **options)

        return call


def _check_draws(config: Config) -> str:
    """Replace the numbers of each call of a random generator. If the source stays the same, the
    numbers are noise, so the ideal forecast must also stay the same.

    The check sees generators that the task creates with `np.random.default_rng` or
    `np.random.RandomState`, and separates only numbers from different calls.
    """
    calls = _GeneratorCalls(-1)
    try:
        with calls.replace(config):
            before = sequences_of(config, FEWER)
    except CheckFailedError:  # the task does not accept the replaced generators
        calls.count = 0
    if not calls.count:
        return "the check found no random generator of NumPy"
    noisy, count = 0, min(calls.count, MAX_DRAWS)
    for k in range(count):
        with _GeneratorCalls(k).replace(config):
            after = sequences_of(config, FEWER)
        if not (
            np.array_equal(after.source, before.source)
            and np.array_equal(after.source_lengths, before.source_lengths)
            and after.target.shape == before.target.shape
        ):
            continue
        noisy += 1
        assert before.ideal is not None and after.ideal is not None
        both = (before.target_keep & after.target_keep)[..., None]
        change = np.abs(np.where(both, after.ideal - before.ideal, 0.0))
        if change.max() > ROUNDING:
            n, t, _ = np.unravel_index(int(change.argmax()), change.shape)
            raise CheckFailedError(
                f"If call {k + 1} of a random generator returns other numbers, the source stays the"
                f" same, and `ideal` changes by up to {change.max():.3g} (sequence {n + 1}, step"
                f" {t + 1}): `ideal` contains noise. No forecast from the source can know these"
                " numbers."
            )
    return f"independent of {noisy} of {count} draws, which leave the source unchanged"


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
