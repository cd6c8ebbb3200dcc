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

    `Run.open`, `Seeds.open` and `Comparison.open` open one kind of folder only, so that a type
    checker knows the result.

    Args:
        path: a checkpoint file, a run folder, the folder of several seeds, or the folder of a
            comparison. Of a run folder, the best checkpoint is opened.
        epoch: number of an epoch of a run that `training.record_attention` recorded, or 0 for the
            model before training. None means the epoch of the checkpoint.

    Raises:
        CheckpointError: if there is no checkpoint, or if a file is damaged.
        UsageError: if the epoch was not recorded, or if the folder is not a run folder.
    """
    from seqattn.analysis.comparison import is_comparison

    folder = RunFolder(Path(path))
    if not folder.path.is_dir() or folder.is_run or not is_comparison(folder.path):
        return Run.open(path, epoch=epoch)
    if epoch is not None:
        raise UsageError(f"epoch {epoch}: {path} is not a run folder. Open one of its runs.")
    has_manifest = (folder.path / COMPARISON).is_file()
    return Comparison.open(path) if has_manifest else Seeds.open(path)
