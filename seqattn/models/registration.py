"""The models and the parts of models that plugins register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from seqattn.config import (
    CellConfig,
    LocationConfig,
    ModelConfig,
    NormalizerConfig,
    ScoreConfig,
    Section,
    plugins,
)
from seqattn.config.model import CELL, LOCATION, MODEL, NORMALIZER, SCORE
from seqattn.config.section import Variants
from seqattn.errors import PluginError
from seqattn.models.attention import Location, Normalizer, Score
from seqattn.models.attention.location_based import LOCATIONS
from seqattn.models.attention.normalizers import PLUGIN_NORMALIZERS, check_meaning
from seqattn.models.attention.scores import SCORES
from seqattn.models.base import ModelOutput, Seq2SeqModel
from seqattn.models.cells import PLUGIN_CELLS, Cell

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


Class = TypeVar("Class", bound=type)
Decorator = Callable[[Class], Class]


def register_score(name: str, config: type[ScoreConfig]) -> Decorator[Any]:
    """Return a decorator that registers a score, a subclass of `seqattn.Score`.

    Args:
        name: the value of `model.attention.score` that selects the score.
        config: the config section of the score, a subclass of `seqattn.ScoreConfig`. The decorator
            adds the key `score` to this section.

    Raises:
        PluginError: if the class is not a subclass of `seqattn.Score` or does not implement all
            abstract methods, or if the name or the config section is invalid or already in use.
    """
    return _decorator(SCORE, name, config, Score, SCORES)


def register_normalizer(name: str, config: type[NormalizerConfig] | None = None) -> Decorator[Any]:
    """Return a decorator that registers a normalizer, a subclass of `seqattn.Normalizer`.

    Args:
        name: the value of `model.attention.normalizer` or of `model.attention.normalizer.name` that
            selects the normalizer.
        config: the config section of the normalizer, a subclass of `seqattn.NormalizerConfig`; None
            for a normalizer without config keys.

    Raises:
        PluginError: if the class is not a subclass of `seqattn.Normalizer` or does not implement
            all abstract methods, or if the name or the config section is invalid or already in use.
    """
    section = config or _empty_section(NormalizerConfig, name)
    return _decorator(NORMALIZER, name, section, Normalizer, PLUGIN_NORMALIZERS)


def register_location(name: str, config: type[LocationConfig]) -> Decorator[Any]:
    """Return a decorator that registers a method of location-based addressing, a subclass of
    `seqattn.Location`.

    Args:
        name: the value of `model.attention.location.kind` that selects the method.
        config: the config section of the method, a subclass of `seqattn.LocationConfig`. The
            decorator adds the key `kind` to this section.

    Raises:
        PluginError: if the class is not a subclass of `seqattn.Location` or does not implement all
            abstract methods, or if the name or the config section is invalid or already in use.
    """
    return _decorator(LOCATION, name, config, Location, LOCATIONS)


def register_cell(name: str, config: type[CellConfig] | None = None) -> Decorator[Any]:
    """Return a decorator that registers a recurrent cell, a subclass of `seqattn.Cell`.

    Args:
        name: the value of `model.cell` or of `model.cell.name` that selects the cell.
        config: the config section of the cell, a subclass of `seqattn.CellConfig`; None for a cell
            without config keys.

    Raises:
        PluginError: if the class is not a subclass of `seqattn.Cell` or does not implement all
            abstract methods, or if the name or the config section is invalid or already in use.
    """
    section = config or _empty_section(CellConfig, name)
    return _decorator(CELL, name, section, Cell, PLUGIN_CELLS)


def register_model(name: str, config: type[ModelConfig]) -> Decorator[Any]:
    """Return a decorator that registers a model, a subclass of `seqattn.Seq2SeqModel`. The class is
    called with the config section, the `FeatureSpec` of the data, and the lengths of the longest
    source and the longest target (`None` if they are unknown).

    Args:
        name: the value of `model.kind` that selects the model.
        config: the config section of the model, a subclass of `seqattn.ModelConfig`. The decorator
            adds the key `kind` to this section.

    Raises:
        PluginError: if the class is not a subclass of `seqattn.Seq2SeqModel` or does not implement
            all abstract methods, or if the name or the config section is invalid or already in use.
    """
    return _decorator(MODEL, name, config, Seq2SeqModel, PLUGIN_MODELS)


def _empty_section(base: type[Section], name: str) -> Any:
    """Return a new config section without keys of its own."""
    return type(
        f"{name.title().replace('_', '')}Config", (base,), {"__doc__": f"The section of {name}."}
    )


def _decorator(
    kind: Variants, name: str, config: type[Section], base: type, registry: dict[Any, Any]
) -> Decorator[Any]:
    """Return the decorator that registers a class."""

    def register(cls: Any) -> Any:
        _check_class(cls, base, kind.noun, name)

        def apply() -> None:
            registry[config] = cls

        plugins.register_section(kind, name, config, cls.__module__, apply)
        return cls

    return register


def _check_class(found: object, base: type, noun: str, name: str) -> None:
    """Check the class that a plugin registers.

    Raises:
        PluginError: if the class is not a subclass of `base`, or if it does not implement an
            abstract method.
    """
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PluginError(
            f"@seqattn.register_{noun}({name!r}): expected a subclass of seqattn.{base.__name__},"
            f" got {found!r}."
        )
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise PluginError(
            f"@seqattn.register_{noun}({name!r}): the class {found.__name__} lacks"
            f" {', '.join(missing)}."
        )
