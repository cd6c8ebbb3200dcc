"""The key `plugins`, which lists files and modules with additional mechanisms."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from seqattn.config.knobs.section import FileName, Section, contradiction


class Plugin(Section):
    """A file or a module that registers additional mechanisms."""

    path: FileName | None = None
    """Path of a Python file, relative to the folder of the config."""
    module: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """Name of an importable module, instead of `path`."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 digest of the source file."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.path is None) == (self.module is None):
            raise contradiction("path", "or module is required, but not both")
        return self

    @model_serializer
    def _without_nulls(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if value is not None}


def is_file_name(text: str) -> bool:
    """Return whether the name of a plugin is the path of a file instead of the name of a module."""
    return text.endswith(".py") or "/" in text or "\\" in text


def expand_plugin(given: Any) -> Any:
    """Convert the name of a plugin to a mapping with the key `path` or `module`. Return any other
    value unchanged."""
    if isinstance(given, str):
        return {"path" if is_file_name(given) else "module": given}
    return given


Plugins = Annotated[list[Annotated[Plugin, BeforeValidator(expand_plugin)]], Field(max_length=100)]
"""A list of plugins. The text `my.py` is short for `{path: my.py}`, and the text `my.module` is
short for `{module: my.module}`."""
