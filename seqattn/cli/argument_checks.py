"""Argument checks that several commands share."""

from __future__ import annotations

import contextlib
from pathlib import Path

from seqattn.errors import ConfigError, UsageError


def protected_files(run: Path, input_file: Path | None = None) -> dict[str, Path | None]:
    """Return the input files of a command. The key of a file describes the file.

    The outputs of the command must not replace its input files. The input files are the file given
    with `--input`, the data files of the run, and the files in the run folder. A command may
    replace pictures and reports in the run folder.

    Args:
        run: a run folder, or a checkpoint file in a run folder.
        input_file: the file given with `--input`; None if the option is not given.
    """
    from seqattn.config import PATH_KEYS, OwnFile, read_stored
    from seqattn.runs import RunFolder

    folder = RunFolder(run if run.is_dir() else run.resolve().parent.parent)
    named = {"RUN": run, "--input": input_file} if run.is_file() else {"--input": input_file}
    of_run = [*folder.files, folder.path / "comparison.json", folder.path / "tune.json"]
    protected: dict[str, Path | None] = {
        f"{file.name} of RUN": file for file in of_run if file.suffix != ".png"
    }
    with contextlib.suppress(ConfigError):  # the command raises this error when it reads the run
        data = read_stored(folder.config).data
        if isinstance(data, OwnFile):
            for key in PATH_KEYS:
                path = getattr(data, key.removeprefix("data."))
                protected[key] = None if path is None else Path(path)
    return {**named, **protected}


def example_slice(k: int, n: int) -> slice:
    """Return the slice that selects test sequence `k` of `n` test sequences.

    Raises:
        UsageError: if `k` is not in the range 0 to n - 1.
    """
    if not 0 <= k < n:
        raise UsageError(f"--example {k}: the run has test sequences 0 to {n - 1}.")
    return slice(k, k + 1)
