"""The models that plugins register."""

from __future__ import annotations

from collections.abc import Callable

from seqattn.config import Section
from seqattn.errors import PluginError
from seqattn.models.base import ModelOutput, Seq2SeqModel

PLUGIN_MODELS: dict[type[Section], Callable[..., Seq2SeqModel]] = {}
"""A mapping from config section to a function (config, features, lengths) that builds the model."""


def check_output(output: object, method: str) -> ModelOutput:
    """Return the output of a model's method, such as "Mean.forecast".

    Raises:
        PluginError: if the output is not a `ModelOutput`.
    """
    if isinstance(output, ModelOutput):
        return output
    raise PluginError(
        f"{method}: must return seqattn.ModelOutput(values), where the values have the shape"
        f" (..., N, T, F); got {type(output).__name__}."
    )
