"""The attention weights that `seqattn plot-attention` draws: a run's, or those of your own file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqattn.errors import UsageError


def read_weights(
    run: Path,
    input_file: Path | None,
    examples: int,
    steps: int | None,
    *,
    every_sequence: bool,
    overrides: list[str] | None = None,
) -> tuple[Mapping[str, Any], list[str], list[str], Path]:
    """Arrays of weights, a title a sequence, words for a file's name, and the folder for it.

    Args:
        every_sequence: read a large file whole, not only the examples.
    """
    from seqattn.plots import run_pictures
    from seqattn.runs import find_run

    folder, checkpoint = find_run(run)
    if input_file is None and checkpoint.resolve() == folder.best.resolve():
        if not folder.attention.exists() and not folder.read_results()["model"].get(
            "attention", True
        ):
            raise UsageError(f"{run}: its model has no attention (model.attention: null).")
        most = None if every_sequence else examples
        weights = folder.read_attention(most)
        titles = run_pictures.sequence_titles(folder.read_predictions(most))
        return weights, titles, ["attention"], folder.path
    from seqattn.analysis.evaluation import free_run
    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.cli import inputs
    from seqattn.data.files.writing import forecast_arrays

    _, trained = open_run(run)
    if not trained.has_attention:
        raise UsageError(f"{run}: its model has no attention (model.attention: null).")
    own = input_file is not None
    if input_file is not None:
        parts, count = [], 0
        for _, some, _ in inputs.own_input(trained, overrides).read_sources(input_file):
            parts.append(some)
            count += len(some)
            if count >= examples:
                break
        part = inputs.join_sources(parts)
    else:
        part = load_splits(trained).test
    part = part.select(slice(0, examples))
    result = free_run(
        trained.model, part, steps or trained.spec.target_length, scaling=trained.spec.scaling
    )
    weights = result.attention_arrays(part, steps_real=not own)
    described = forecast_arrays(part, result.values, with_target=False)
    titles = run_pictures.sequence_titles(described, "sequence" if own else "test")
    home = folder.path if folder.is_run else checkpoint.parent
    return weights, titles, ["attention", "input" if own else checkpoint.stem], home
