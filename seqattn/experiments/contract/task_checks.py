"""Checks of generated tasks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from seqattn.config import Config
from seqattn.data import Sequences
from seqattn.data.sequences import valid_mask
from seqattn.data.tasks import generate
from seqattn.errors import SeqattnError
from seqattn.experiments.contract.result import (
    CheckFailedError,
    CheckWarningError,
    NotApplicableError,
)

COUNT, FEWER, SAMPLE_COUNT, SEED, OTHER_SEED = 37, 11, 2000, 5, 6
MAX_SIZE = 100.0
"""Largest absolute value of sources and targets. With larger values, networks learn slowly."""
MAX_RATIO, MIN_CELLS = 0.8, 200
"""Largest ratio of the squared errors of two alignments at which one of them is clearly better, and
the smallest number of target steps from which the errors are computed."""


def sequences_of(config: Config, n: int = COUNT, seed: int = SEED) -> Sequences:
    """Generate sequences of the task that a config selects.

    Raises:
        CheckFailedError: if the task does not return n valid sequences.
    """
    try:
        return generate(config.data, n, seed)  # type: ignore[arg-type]
    except (SeqattnError, ValueError) as error:
        raise CheckFailedError(
            f"generate(task, {n}, {seed}) does not return {n} valid sequences: {error}", blocks=True
        ) from error


def _arrays(part: Sequences) -> Mapping[str, NDArray[np.generic]]:
    names = ("source", "source_lengths", "target", "target_lengths", "ideal", "alignment")
    return {name: np.asarray(array) for name in names if (array := getattr(part, name)) is not None}


def check_task_shapes(config: Config) -> str:
    """Check the shapes, the lengths and the padding of the arrays.

    Raises:
        CheckFailedError: if an array is not as documented.
    """
    part = sequences_of(config)
    for name, keep in (("source", part.source_keep), ("target", part.target_keep)):
        padding = np.abs(getattr(part, name)[~keep])
        if padding.size and padding.max() > 0:
            raise CheckFailedError(
                f"The padding of {name} contains {padding.max():.3g} instead of 0: with padding,"
                " set the values after the last valid step to 0 (np.where(keep, values, 0)).",
                blocks=True,
            )
    if (part.target_lengths < 1).any():
        n = int(np.argmin(part.target_lengths))
        raise CheckFailedError(
            f"Sequence {n + 1} has {part.target_lengths[n]} target steps. A target needs at least"
            " 1 step.",
            blocks=True,
        )
    if part.ideal is not None and part.ideal.shape != part.target.shape:
        raise CheckFailedError(
            f"`ideal` has the shape {part.ideal.shape}, and the target {part.target.shape}. Return"
            " the target without noise, in the same shape.",
            blocks=True,
        )
    S, T = part.source_steps, part.target_steps
    return f"up to {S} source steps and {T} target steps"


def check_determinism(config: Config) -> str:
    """Check that the sequences depend only on the seed, and that generating them changes no global
    random state.

    Raises:
        CheckFailedError: if equal seeds give different sequences, if different seeds give equal
            sources, or if the task changes the global random state.
    """
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
    """Check that the first sequences do not depend on the number of sequences.

    Raises:
        CheckWarningError: if the first sequences depend on this number.
    """
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
                " Give each purpose its own generator, such as"
                " np.random.default_rng([seed, purpose])."
            )
    return f"the first {FEWER} of {COUNT} sequences are equal to {FEWER} sequences"


def check_task_values(config: Config) -> str:
    """Check that no absolute value is above `MAX_SIZE`, and that the targets are not constant.

    Raises:
        CheckFailedError: if all target values are equal.
        CheckWarningError: if an absolute value is above `MAX_SIZE`.
    """
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
    how well the source steps of the alignment and their neighbours explain the targets.

    Raises:
        CheckFailedError: if the alignment contains another number.
        CheckWarningError: if the previous or the next source steps explain the targets better.
        NotApplicableError: if the task has no alignment.
    """
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
