"""The attention weights that `seqattn plot-attention` draws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqattn.cli.argument_checks import require_attention
from seqattn.cli.output import note

if TYPE_CHECKING:
    from seqattn.data import Sequences


def read_weights(
    run: Path,
    input_file: Path | None,
    examples: int,
    steps: int | None,
    *,
    every_sequence: bool,
    overrides: list[str] | None = None,
) -> tuple[Mapping[str, Any], list[str], list[str], Path]:
    """Read the attention weights of a run from its folder, or compute them.

    The folder contains only the weights of the best checkpoint for the test sequences. The function
    computes the weights of other checkpoints and the weights for the user's own sequences.

    Args:
        run: a run folder or a checkpoint.
        input_file: the file of the user's own sequences; None for the test sequences of the run.
        examples: the maximum number of sequences.
        steps: the number of steps to forecast; None for the target length of the training data.
        every_sequence: whether to read the weights of all test sequences instead of the first
            `examples` sequences. This argument has no effect if the function computes the weights:
            it then uses the first `examples` sequences.
        overrides: the values of `--set`; None if the option is not given.

    Returns:
        The arrays of an attention file and of the forecasts, the title of each sequence, the parts
        of the default name of a picture, and the default folder of the picture.
    """
    from seqattn.config import read_stored
    from seqattn.runs import find_run
    from seqattn.runs.array_files import sequence_titles

    folder, checkpoint = find_run(run)
    if input_file is None and checkpoint.resolve() == folder.best.resolve():
        if not folder.attention.exists():
            require_attention(run, read_stored(folder.config).model)
        max_rows = None if every_sequence else examples
        predictions = folder.read_predictions(max_rows)
        weights = {**predictions, **folder.read_attention(max_rows)}
        return weights, sequence_titles(predictions), ["attention"], folder.path
    from seqattn.analysis.evaluation import free_run
    from seqattn.analysis.evaluation.load_run import load_splits, open_run
    from seqattn.cli import inputs
    from seqattn.data.writing import forecast_arrays

    _, trained = open_run(run)
    require_attention(run, trained.config.model)
    is_own = input_file is not None
    if input_file is None:
        part = load_splits(trained).test
    elif trained.spec.source.symbols:
        part = inputs.first_lines(trained, input_file, examples, overrides)
    else:
        parts: list[Sequences] = []
        for _, sequences, _ in inputs.input_reader(trained, overrides).read_sources(input_file):
            parts.append(sequences)
            if sum(map(len, parts)) >= examples:
                break
        part = inputs.join_sources(parts)
    part = part.select(slice(0, examples))
    steps = steps or (trained.spec.target_length if is_own else part.target_steps)
    trained.spec.note_lengths(part.source_lengths, steps, note)
    result = free_run(trained.model, part, steps)
    arrays = forecast_arrays(part, result.values, with_target=not is_own)
    weights = {**arrays, **result.attention_arrays(part, steps_real=not is_own)}
    titles = sequence_titles(arrays, "sequence" if is_own else "test")
    output_folder = folder.path if folder.is_run else checkpoint.parent
    return weights, titles, ["attention", "input" if is_own else checkpoint.stem], output_folder
