"""The models that plugins register."""

from __future__ import annotations

from collections.abc import Callable

from seqattn.config import Section
from seqattn.models.base import Seq2SeqModel

PLUGIN_MODELS: dict[type[Section], Callable[..., Seq2SeqModel]] = {}
"""A mapping from config section to a function (config, features, lengths) that builds the model."""
