"""Absolute paths of opened results, so that they do not depend on the working directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seqattn.runs import RunFolder

if TYPE_CHECKING:
    from seqattn.analysis.comparison import ComparisonResult


def absolute_folder(folder: RunFolder) -> RunFolder:
    """Return a run folder with an absolute path."""
    return RunFolder(folder.path.absolute())


def absolute_result(result: ComparisonResult) -> ComparisonResult:
    """Return results in which the path and the paths of all run folders are absolute."""
    variants = tuple(
        replace(
            variant,
            folders={seed: absolute_folder(run) for seed, run in variant.folders.items()},
        )
        for variant in result.variants
    )
    return replace(result, path=result.path.absolute(), variants=variants)


def path_in_repr(path: Path) -> str:
    """Return an absolute path as a `repr` shows it: relative if it is below the working
    directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
