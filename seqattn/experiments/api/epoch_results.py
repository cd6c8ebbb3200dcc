"""The forecasts and attention weights of the test sequences at the epoch at which a run was opened.

The run folder contains the forecasts and weights of the best epoch. For other epochs, and for a
checkpoint outside a run folder, the functions compute them with the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqattn.errors import UsageError
from seqattn.experiments.api.arguments import as_integer
from seqattn.runs.array_files import PER_SEQUENCE, sequence_titles

if TYPE_CHECKING:
    from seqattn.data import Sequences
    from seqattn.experiments.api.run import Run

Arrays = dict[str, NDArray[Any]]


def has_stored_results(run: Run) -> bool:
    """Return whether the result files in the run folder describe the epoch of the opened run.

    Raises:
        CheckpointError: if the run has no results yet, or if it diverged.
    """
    if not run.folder.is_run:  # a checkpoint outside a run folder
        return False
    return bool(run.trained.epoch == run.folder.read_results()["best_epoch"])


def attention_of(run: Run) -> Arrays:
    """Return the arrays of an attention file for all test sequences."""
    if has_stored_results(run):
        return run.folder.read_attention()
    return compute_attention(run, run.data.test)


def predictions_of(run: Run, max_rows: int | None = None) -> Arrays:
    """Return the arrays of `predictions.npz` for the first `max_rows` test sequences; None for all
    test sequences."""
    if has_stored_results(run):
        return run.folder.read_predictions(max_rows)
    return compute_predictions(run, max_rows)


def attention_of_examples(run: Run, example: int | Sequence[int]) -> tuple[Arrays, list[str]]:
    """Return the arrays of an attention file, and the titles, for chosen test sequences.

    Args:
        run: the run.
        example: index of a test sequence, or several indices.

    Raises:
        UsageError: if a sequence does not exist, or if `example` is empty.
        CheckpointError: if the files of the run cannot be read.
    """
    if not has_stored_results(run):
        part = run.data.test
        titles = sequence_titles({"ids": np.array(part.ids), "labels": np.array(part.labels)})
        indices = _as_indices(example, len(titles))
        weights = compute_attention(run, part.select(np.array(indices)))
        return weights, [titles[k] for k in indices]
    stored = run.folder.read_attention()
    titles = sequence_titles(run.folder.read_predictions())
    indices = _as_indices(example, len(titles))
    chosen = {
        name: array[indices] if name in PER_SEQUENCE else array for name, array in stored.items()
    }
    return chosen, [titles[k] for k in indices]


def compute_attention(run: Run, part: Sequences) -> Arrays:
    """Compute the arrays of an attention file with the model.

    Args:
        run: the run.
        part: sequences with targets.
    """
    from seqattn.analysis.evaluation import free_run

    spec = run.trained.spec
    result = free_run(run.trained.model, part, part.target_steps, scaling=spec.scaling)
    return result.attention_arrays(part, steps_real=True)


def compute_predictions(run: Run, max_rows: int | None = None) -> Arrays:
    """Compute the arrays of `predictions.npz` with the model; see `predictions_of`."""
    from seqattn.analysis.evaluation import free_run
    from seqattn.data.files.writing import forecast_arrays

    test, rows = run.data.test, slice(0, max_rows)
    part, times = test.select(rows), test.times(slice(0, len(range(len(test))[rows])))
    result = free_run(
        run.trained.model, part, part.target_steps, with_attention=False,
        scaling=run.trained.spec.scaling,
    )  # fmt: skip
    arrays: Arrays = {**forecast_arrays(part, result.values, with_target=True)}
    if times is not None:
        arrays["source_times"], arrays["target_times"] = times
    if part.alignment is not None:
        arrays["alignment"] = part.alignment
    return arrays


def _as_indices(example: int | Sequence[int], count: int) -> list[int]:
    """Check the indices of test sequences, and return them as a list.

    Args:
        example: index of a test sequence, or several indices.
        count: the number of test sequences.
    """
    indices = [as_integer(k, "example") for k in np.atleast_1d(np.asarray(example, dtype=object))]
    if not indices:
        raise UsageError("example: expected a test sequence, counted from 0, or several.")
    if unknown := [k for k in indices if not 0 <= k < count]:
        text = f"there are {count} test sequences, counted from 0."
        raise UsageError(f"example {unknown[0]}: {text}")
    return indices
