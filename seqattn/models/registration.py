"""The decorators with which a plugin registers scores and other parts of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from seqattn.config import AttentionKnobs, extension
from seqattn.errors import PluginError
from seqattn.models.attention.scores import SCORES, Score

ScoreType = TypeVar("ScoreType", bound=type[Score])


def register_score(name: str, config: type[AttentionKnobs]) -> Callable[[ScoreType], ScoreType]:
    """Return a decorator that registers a score, a subclass of `seqattn.Score`.

    Args:
        name: the value of `model.attention.score` that selects the score.
        config: the config section of the score, a subclass of `seqattn.ScoreConfig`. The decorator
            adds the key `score` to this section.

    Raises:
        PluginError: if the class is not a score, or if the name exists already.
    """

    def register(cls: ScoreType) -> ScoreType:
        check_subclass(cls, Score, "register_score", name)

        def apply() -> None:
            SCORES[config] = cls

        extension.register_section(extension.SCORE, name, config, cls.__module__, apply)
        return cls

    return register


def check_subclass(found: object, base: type, decorator: str, name: str) -> None:
    """Check the class that a plugin registers.

    Raises:
        PluginError: if the class is not a subclass of `base`, or if it lacks an abstract method.
    """
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PluginError(
            f"@seqattn.{decorator}({name!r}, ...): expected a subclass of seqattn.{base.__name__},"
            f" got {found!r}."
        )
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise PluginError(
            f"@seqattn.{decorator}({name!r}, ...): the class {found.__name__} has no method"
            f" {' and no method '.join(missing)}."
        )
