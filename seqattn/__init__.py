"""A Python package and command-line tool for attention in sequence-to-sequence models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqattn.config import AttentionKnobs as ScoreConfig
    from seqattn.config import load_plugin as load_plugin
    from seqattn.experiments.api import DataNote as DataNote
    from seqattn.experiments.api import Run as Run
    from seqattn.experiments.api import load as load
    from seqattn.experiments.api import train as train
    from seqattn.models.attention import Score as Score
    from seqattn.models.registration import register_score as register_score

    __version__: str

_ADDRESSES = {
    "DataNote": ("seqattn.experiments.api", "DataNote"),
    "Run": ("seqattn.experiments.api", "Run"),
    "Score": ("seqattn.models.attention", "Score"),
    "ScoreConfig": ("seqattn.config", "AttentionKnobs"),
    "load": ("seqattn.experiments.api", "load"),
    "load_plugin": ("seqattn.config", "load_plugin"),
    "register_score": ("seqattn.models.registration", "register_score"),
    "train": ("seqattn.experiments.api", "train"),
}
"""The module and the name of each public object."""

__all__ = [
    "DataNote", "Run", "Score", "ScoreConfig", "__version__", "load", "load_plugin",
    "register_score", "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name of the Python API on first use, so that `import seqattn` does not import
    torch."""
    if name in _ADDRESSES:
        module, attribute = _ADDRESSES[name]
        return getattr(import_module(module), attribute)
    if name != "__version__":
        raise AttributeError(f"module 'seqattn' has no attribute {name!r}")
    from importlib.metadata import version

    return version("seqattn")
