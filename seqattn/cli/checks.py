"""What commands check of their arguments, before they begin."""

from __future__ import annotations

import contextlib
from pathlib import Path

from seqattn.errors import ConfigError, UsageError


def files_read(run: Path, input_file: Path | None = None) -> dict[str, Path | None]:
    """What each file is that a command reads for RUN, and that no output may replace: those of the
    folder but for pictures and pages, its own sequences, and --input."""
    from seqattn.config import OwnFile, resolve
    from seqattn.runs import RunFolder

    folder = RunFolder(run if run.is_dir() else run.resolve().parent.parent)
    named = {"RUN": run, "--input": input_file} if run.is_file() else {"--input": input_file}
    of_run = [*folder.files, folder.path / "comparison.json", folder.path / "tune.json"]
    kept: dict[str, Path | None] = {
        f"{file.name} of RUN": file for file in of_run if file.suffix != ".png"
    }
    with contextlib.suppress(ConfigError):  # who reads the run says what is wrong with it
        data = resolve(folder.config).config.data
        if isinstance(data, OwnFile):
            for key in ("path", "validation_path", "test_path"):
                path = getattr(data, key)
                kept[f"data.{key}"] = None if path is None else Path(path)
    return {**named, **kept}


def refuse_overrides_alone(overrides: list[str] | None, input_file: Path | None) -> None:
    """
    Raises:
        UsageError: there is --set and no --input.
    """
    if overrides and input_file is None:
        raise UsageError(
            f"--set {overrides[0]}: says how --input is read, and there is none. What the model was"
            " trained on stays as it was."
        )


def checked_example(k: int, n: int) -> slice:
    """Test sequence k of n.

    Raises:
        UsageError: there is none.
    """
    if not 0 <= k < n:
        raise UsageError(f"--example {k}: the run has test sequences 0 to {n - 1}.")
    return slice(k, k + 1)
