"""seqattn: learn, teach and research attention in sequence-to-sequence models."""

from __future__ import annotations

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'seqattn' has no attribute {name!r}")
    from importlib.metadata import version  # too slow to import for those who never ask

    return version("seqattn")
