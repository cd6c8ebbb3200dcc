"""seqattn: learn, teach and research attention in sequence-to-sequence models."""

from importlib.metadata import version

__version__ = version("seqattn")
