"""Argument checks that several commands share."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from seqattn.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from seqattn.config import Model


def protected_files(run: Path, input_file: Path | None = None) -> dict[str, Path | None]:
    """Return the files that the outputs of a command must not replace, as a mapping from a
    description to a file.

    These files are the file given with `--input`, the checkpoint file given as `run`, the data
    files of the run, `comparison.json`, `tune.json`, and the files in `RunFolder.files` except
    pictures. The mapping contains None for a file that is not given.

    Args:
        run: a run folder, or a checkpoint file in a run folder.
        input_file: the file given with `--input`; None if the option is not given.
    """
    from seqattn.config import PATH_KEYS, FromFiles, read_stored
    from seqattn.runs import RunFolder

    folder = RunFolder(run if run.is_dir() else run.resolve().parent.parent)
    named = {"RUN": run, "--input": input_file} if run.is_file() else {"--input": input_file}
    of_run = [*folder.files, folder.path / "comparison.json", folder.path / "tune.json"]
    protected: dict[str, Path | None] = {
        f"{file.name} of RUN": file for file in of_run if file.suffix != ".png"
    }
    with contextlib.suppress(ConfigError):  # the command raises this error when it reads the run
        data = read_stored(folder.config).data
        if isinstance(data, FromFiles):
            for key in PATH_KEYS:
                path = getattr(data, key.removeprefix("data."))
                protected[key] = None if path is None else Path(path)
    return {**named, **protected}


def require_attention(run: Path, model: Model) -> None:
    """Check that the model of a run has attention.

    Args:
        run: the run, for the error message.
        model: the `model` section of the run.

    Raises:
        UsageError: if the model has no attention. If the model has the key `model.attention`, the
            message contains `model.attention: null`.
    """
    if not model.has_attention:
        removed = " (model.attention: null)" if hasattr(model, "attention") else ""
        raise UsageError(f"{run}: its model has no attention{removed}.")


def example_slice(k: int, n: int) -> slice:
    """Return the slice that selects test sequence `k` of `n` test sequences.

    Raises:
        UsageError: if `k` is not in the range 0 to n - 1.
    """
    if not 0 <= k < n:
        raise UsageError(f"--example {k}: the run has test sequences 0 to {n - 1}.")
    return slice(k, k + 1)
