"""The models that plugins register."""

from __future__ import annotations

from collections.abc import Callable

from seqattn.config import Section
from seqattn.errors import PluginError
from seqattn.models.attention.normalizers import check_meaning
from seqattn.models.base import ModelOutput, Seq2SeqModel

PLUGIN_MODELS: dict[type[Section], Callable[..., Seq2SeqModel]] = {}
"""A mapping from config section to a function (config, features, lengths) that builds the model."""


def check_output(output: object, method: str) -> ModelOutput:
    """Return the output of a model's method, such as "Mean.forecast".

    Raises:
        PluginError: if the output is not a `ModelOutput`, or if the meaning of attention weights is
            unknown.
    """
    if isinstance(output, ModelOutput):
        for each in output.attention:
            check_meaning(each.meaning, f"{method}: AttentionMap")
        return output
    raise PluginError(
        f"{method}: must return seqattn.ModelOutput(values), where the values have the shape"
        f" (..., N, T, F); got {type(output).__name__}."
    )
