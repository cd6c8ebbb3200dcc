"""A Python package and command-line tool for attention in sequence-to-sequence models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqattn.experiments.api import Comparison as Comparison
    from seqattn.experiments.api import DataNote as DataNote
    from seqattn.experiments.api import LabelledArray as LabelledArray
    from seqattn.experiments.api import Run as Run
    from seqattn.experiments.api import Seeds as Seeds
    from seqattn.experiments.api import compare as compare
    from seqattn.experiments.api import load as load
    from seqattn.experiments.api import train as train
    from seqattn.experiments.api import train_seeds as train_seeds

    __version__: str

__all__ = [
    "Comparison", "DataNote", "LabelledArray", "Run", "Seeds", "__version__", "compare", "load",
    "train", "train_seeds",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name of the Python API on first use, so that `import seqattn` does not import
    torch."""
    if name in __all__ and name != "__version__":
        from seqattn.experiments import api

        return getattr(api, name)
    if name != "__version__":
        raise AttributeError(f"module 'seqattn' has no attribute {name!r}")
    from importlib.metadata import version

    return version("seqattn")
