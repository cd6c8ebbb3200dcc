"""The function that opens a run, several seeds or a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from seqattn.errors import UsageError
from seqattn.experiments.api.comparison import Comparison
from seqattn.experiments.api.run import Run
from seqattn.experiments.api.seeds import Seeds
from seqattn.runs import COMPARISON, RunFolder


@overload
def load(path: str | Path, *, epoch: int) -> Run: ...
@overload
def load(path: str | Path, *, epoch: None = None) -> Run | Seeds | Comparison: ...
def load(path: str | Path, *, epoch: int | None = None) -> Run | Seeds | Comparison:
    """Open a trained run, several seeds or a comparison.

    `Run.open`, `Seeds.open` and `Comparison.open` each open only one kind of folder, so a type
    checker knows the type of the result.

    Args:
        path: a checkpoint file, a run folder, the folder of several seeds, or the folder of a
            comparison. For a run folder, the best checkpoint is opened.
        epoch: number of a recorded epoch of a run (see `training.record_attention`), where 0 is the
            model before training; None for the epoch of the checkpoint.

    Raises:
        CheckpointError: if there is no checkpoint, or if a file is damaged.
        UsageError: if `epoch` was not recorded, or was given for a path that is not a run folder.
    """
    from seqattn.analysis.comparison import is_comparison

    folder = RunFolder(Path(path))
    if not folder.path.is_dir() or folder.is_run or not is_comparison(folder.path):
        return Run.open(path, epoch=epoch)
    if epoch is not None:
        raise UsageError(f"epoch {epoch}: {path} is not a run folder. Open one of its runs.")
    has_manifest = (folder.path / COMPARISON).is_file()
    return Comparison.open(path) if has_manifest else Seeds.open(path)
